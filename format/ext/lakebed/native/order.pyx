"""Permutations and random numbers computed from a key, and the samples of an epoch by position (lakebed.loaders.order).

The permutation of 0 ... n - 1 is a Feistel network over pairs (l, r) with l < a, r < b, for the smallest near-square:
a = ceil(sqrt(n)), b = ceil(n / a); number x is l * b + r. An even round i adds scale(mix(key + i * GOLDEN ^ r), a) to
l, modulo a; an odd round likewise adds to r. There are 8 rounds, or 16 for n below 64, because one round mixes little
if a side has two or three values. scale(h, a) is (h >> 32) * a >> 32; GOLDEN and mix are those of SplitMix64
(lakebed.loaders.draws). A result of n or more passes through the network again until it is below n (Black and Rogaway
2002).

If the keys of the rounds differed in low bits only, each round would be a rearrangement of the previous one, and
permutations of a hundred numbers would deviate by 10 % from uniform. Tests in unit_tests/lakebed/native compare with
plain Python, and with recorded values, so that the functions never change their results.
"""

from libc.math cimport ceil, sqrt
from libc.stdint cimport int64_t, uint64_t

import numpy as np

cdef enum:
    ROUNDS = 8
    ROUNDS_OF_FEW = 16
    FEW = 64


cdef uint64_t GOLDEN = <uint64_t> 0x9E3779B97F4A7C15


cdef inline uint64_t mix(uint64_t z) noexcept nogil:
    z += GOLDEN
    z = (z ^ (z >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t> 0x94D049BB133111EB
    return z ^ (z >> 31)


cdef struct Network:
    int64_t n, a, b
    uint64_t key
    int rounds


cdef inline void prepare(Network* network, int64_t n, uint64_t key) noexcept nogil:
    network.n = n
    network.a = <int64_t> ceil(sqrt(<double> n))
    if network.a < 1:
        network.a = 1
    network.b = (n + network.a - 1) // network.a
    if network.b < 1:
        network.b = 1
    network.key = key
    network.rounds = ROUNDS_OF_FEW if n < FEW else ROUNDS


cdef inline int64_t image(const Network* network, int64_t x) noexcept nogil:
    cdef int64_t left, right
    cdef uint64_t a = <uint64_t> network.a, b = <uint64_t> network.b
    cdef uint64_t key
    cdef int i
    while True:
        left = x // network.b
        right = x - left * network.b
        key = network.key
        for i in range(0, network.rounds, 2):
            left += <int64_t> (((mix(key ^ <uint64_t> right) >> 32) * a) >> 32)
            if left >= network.a:
                left -= network.a
            right += <int64_t> (((mix((key + GOLDEN) ^ <uint64_t> left) >> 32) * b) >> 32)
            if right >= network.b:
                right -= network.b
            key += 2 * GOLDEN
        x = left * network.b + right
        if x < network.n:
            return x


cdef inline Py_ssize_t last_not_above(const int64_t[::1] ends, Py_ssize_t low, Py_ssize_t high, int64_t x) noexcept nogil:
    """Return the last i of low <= i < high with ends[i] <= x, which holds for i = low."""
    cdef Py_ssize_t half
    while high - low > 1:
        half = (low + high) >> 1
        if ends[half] <= x:
            low = half
        else:
            high = half
    return low


cdef inline Py_ssize_t near(
    const int64_t[::1] ends, Py_ssize_t low, Py_ssize_t high, double slope, int64_t x
) noexcept nogil:
    """Return the same as `last_not_above`; begin the search where i would be if ends rose evenly by 1 / slope."""
    cdef Py_ssize_t middle = low + <Py_ssize_t> (<double> (x - ends[low]) * slope), step = 8
    if middle >= high:
        middle = high - 1
    if ends[middle] <= x:
        low = middle
        while low + step < high and ends[low + step] <= x:
            low += step
            step *= 2
        return last_not_above(ends, low, low + step if low + step < high else high, x)
    while middle - step > low and ends[middle - step] > x:
        middle -= step
        step *= 2
    return last_not_above(ends, middle - step if middle - step > low else low, middle, x)


def permuted(int64_t n, uint64_t key):
    """Return the images of 0 ... n - 1 under the permutation of a key: int64, shape (n,)."""
    out = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] images = out
    cdef Network network
    cdef int64_t x
    prepare(&network, n, key)
    with nogil:
        for x in range(n):
            images[x] = image(&network, x)
    return out


def distinct(Py_ssize_t n, uint64_t start, uint64_t key):
    """Return distinct numbers that look random: uint64, shape (n,).

    Number i is mix(mix(start + i * GOLDEN) ^ key): mix maps distinct numbers to distinct numbers, and sequences with
    two keys have common numbers only by chance, wherever the sequences start.
    """
    out = np.empty(n, dtype=np.uint64)
    cdef uint64_t[::1] numbers = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            numbers[i] = mix(mix(start) ^ key)
            start += GOLDEN
    return out


def samples_at(
    const int64_t[::1] positions,
    Py_ssize_t lanes,
    const int64_t[::1] blocks,
    const uint64_t[::1] keys,
    const int64_t[::1] places,
    const int64_t[::1] starts,
    const int64_t[::1] slots,
    const int64_t[::1] first,
):
    """Return the samples at some positions of an epoch.

    Parameters
    ----------
    positions
        Positions in the epoch, below the number of samples.
    lanes
        Number of lanes, which are consecutive parts of the sequence of samples; position p of the epoch is number
        p div lanes of lane p mod lanes.
    blocks
        Start of each block of the sequence, followed by the length of the sequence: shape (blocks + 1,).
    keys
        Key of the permutation of each block; empty if samples are not permuted.
    places
        Number of the span of the sequence in which each block begins: shape (blocks + 1,).
    starts
        Start of each span in the sequence, followed by the length of the sequence: shape (spans + 1,).
    slots
        For each span in the order of the sequence, its number in ``first``.
    first
        First sample of each span, a run of consecutive samples.

    Returns
    -------
    int64, shape (positions,).
    """
    cdef Py_ssize_t n = positions.shape[0], m = blocks.shape[0] - 1, i, block, place
    cdef int64_t total = blocks[m], x, short_, longer, lane
    cdef bint mixed = keys.shape[0] > 0
    cdef double slope = <double> slots.shape[0] / total if total else 0
    cdef Network network
    out = np.empty(n, dtype=np.int64)
    held = np.full(lanes, -1, dtype=np.int64)  # the last block of each lane, where the next search begins
    cdef int64_t[::1] samples = out
    cdef int64_t[::1] current = held
    short_ = total // lanes
    longer = total - short_ * lanes
    with nogil:
        network.n = network.a = network.b = 1
        network.key = 0
        for i in range(n):
            x = positions[i]
            lane = x % lanes
            x = lane * short_ + (lane if lane < longer else longer) + x // lanes
            block = current[lane]
            if block < 0 or not blocks[block] <= x < blocks[block + 1]:
                block = last_not_above(blocks, 0, m, x)
                current[lane] = block
            if mixed:
                if network.key != keys[block] or network.n != blocks[block + 1] - blocks[block]:
                    prepare(&network, blocks[block + 1] - blocks[block], keys[block])
                x = blocks[block] + image(&network, x - blocks[block])
            place = near(starts, places[block], places[block + 1] + 1, slope, x)
            samples[i] = first[slots[place]] + (x - starts[place])
    return out
