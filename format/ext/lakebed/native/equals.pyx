"""Equal integers: consecutive numbers for distinct keys, the rows of each key, and pairs of rows, for groups and joins.

Keys in a narrow range are looked up in an array, other keys in a hash table with open addressing. Both number the keys
in the order of their first appearance, so the seed of the hash changes no result; it prevents keys that an attacker
chose from colliding. Tests in unit_tests/lakebed/native compare the results with NumPy.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

cdef extern from "lakebed/native/stream_copy.h" nogil:
    void prefetch_line(const uint8_t *place)

cdef enum:
    SPARSE = 8  # maximum number of array entries per key; a larger array would be mostly empty
    LEAST_SPAN = 65536
    FIRST_BITS = 12
    AHEAD = 16  # number of keys whose slots are prefetched before they are read
    PIECE = 1048576  # number of keys, or pairs, between two calls of `tick`


cdef struct Slot:
    int64_t key
    int64_t number  # from 1; 0 for an empty slot


cdef struct Table:
    int64_t* array  # number of key - `low`, from 1; NULL if a hash table is used
    Slot* slots
    uint64_t low, span, seed
    int64_t count
    int bits


cdef inline uint64_t place(const Table* table, int64_t key) noexcept nogil:
    cdef uint64_t z = <uint64_t> key ^ table.seed
    z = (z ^ (z >> 33)) * <uint64_t> 0xFF51AFD7ED558CCD
    z = (z ^ (z >> 33)) * (table.seed | 1)
    return (z ^ (z >> 29)) * <uint64_t> 0xC4CEB9FE1A85EC53 >> (64 - table.bits)


cdef inline Slot* slot_of(const Table* table, int64_t key) noexcept nogil:
    """Return the slot of a key, or the empty slot for it; the table is never full."""
    cdef uint64_t mask = (<uint64_t> 1 << table.bits) - 1, at = place(table, key)
    while table.slots[at].number != 0 and table.slots[at].key != key:
        at = (at + 1) & mask
    return &table.slots[at]


cdef int prepare(Table* table, const int64_t* keys, Py_ssize_t n, uint64_t seed) noexcept nogil:
    """Make an empty table for keys; return -1 if memory is short."""
    cdef int64_t low = keys[0], high = keys[0]
    cdef Py_ssize_t i
    table.array, table.slots, table.count, table.seed, table.bits = NULL, NULL, 0, seed, FIRST_BITS
    for i in range(1, n):
        low = keys[i] if keys[i] < low else low
        high = keys[i] if keys[i] > high else high
    table.low, table.span = <uint64_t> low, <uint64_t> high - <uint64_t> low
    if table.span < LEAST_SPAN or table.span // SPARSE < <uint64_t> n:
        table.array = <int64_t*> calloc(<size_t> table.span + 1, sizeof(int64_t))
        return 0 if table.array != NULL else -1
    table.slots = <Slot*> calloc(<size_t> 1 << table.bits, sizeof(Slot))
    return 0 if table.slots != NULL else -1


cdef int grow(Table* table) noexcept nogil:
    """Double the number of slots; return -1 if memory is short."""
    cdef Slot* old = table.slots
    cdef size_t size = <size_t> 1 << table.bits, i
    cdef Slot* made = <Slot*> calloc(size * 2, sizeof(Slot))
    if made == NULL:
        return -1
    table.slots = made
    table.bits += 1
    for i in range(size):
        if old[i].number:
            slot_of(table, old[i].key)[0] = old[i]
    free(old)
    return 0


cdef int number(Table* table, const int64_t* keys, Py_ssize_t n, int64_t* numbers) noexcept nogil:
    """Number keys from 0 in the order of their first appearance; return -1 if memory is short."""
    cdef Py_ssize_t i
    cdef int64_t* known
    cdef Slot* slot
    if table.array != NULL:
        for i in range(n):
            known = &table.array[<uint64_t> keys[i] - table.low]
            if known[0] == 0:
                table.count += 1
                known[0] = table.count
            numbers[i] = known[0] - 1
        return 0
    for i in range(n):
        if i + AHEAD < n:
            prefetch_line(<const uint8_t*> &table.slots[place(table, keys[i + AHEAD])])
        slot = slot_of(table, keys[i])
        if slot.number == 0:
            table.count += 1
            slot.key, slot.number = keys[i], table.count
            numbers[i] = table.count - 1
            if table.count * 2 > <int64_t> 1 << table.bits and grow(table) < 0:
                return -1
        else:
            numbers[i] = slot.number - 1
    return 0


cdef void find(const Table* table, const int64_t* keys, Py_ssize_t n, int64_t* numbers) noexcept nogil:
    """Write the number of each key into ``numbers``, -1 for a key without a number."""
    cdef Py_ssize_t i
    cdef uint64_t at
    if table.array != NULL:
        for i in range(n):
            at = <uint64_t> keys[i] - table.low
            numbers[i] = table.array[at] - 1 if at <= table.span else -1
        return
    for i in range(n):
        if i + AHEAD < n:
            prefetch_line(<const uint8_t*> &table.slots[place(table, keys[i + AHEAD])])
        numbers[i] = slot_of(table, keys[i]).number - 1


cdef int number_all(Table* table, const int64_t[::1] keys, int64_t[::1] numbers, object tick) except -2:
    """Number keys, and call ``tick`` after each piece; return -1 if memory is short."""
    cdef Py_ssize_t n = keys.shape[0], at = 0, size
    cdef int told = 0
    while at < n and told == 0:
        size = min(<Py_ssize_t> PIECE, n - at)
        with nogil:
            told = number(table, &keys[at], size, &numbers[at])
        at += size
        if tick is not None:
            tick()
    return told


def numbered(const int64_t[::1] keys, uint64_t seed, tick=None):
    """Number keys from 0 in the order of their first appearance.

    Parameters
    ----------
    seed
        Any number that the author of the keys does not know.
    tick
        Function that is called repeatedly; its error ends the call.

    Returns
    -------
    The number of each row, int64; and the first row of each number, int64.

    Raises
    ------
    MemoryError
        If memory is short.
    """
    cdef Py_ssize_t n = keys.shape[0], i
    cdef Table table
    cdef int64_t next_one = 0
    cdef int told
    out = np.empty(n, np.int64)
    if n == 0:
        return out, np.empty(0, np.int64)
    cdef int64_t[::1] numbers = out
    with nogil:
        told = prepare(&table, &keys[0], n, seed)
    try:
        if told == 0:
            told = number_all(&table, keys, numbers, tick)
    finally:
        free(table.array)
        free(table.slots)
    if told < 0:
        raise MemoryError()
    found = np.empty(table.count, np.int64)
    cdef int64_t[::1] firsts = found
    with nogil:
        for i in range(n):
            if numbers[i] == next_one:
                firsts[next_one] = i
                next_one += 1
                if next_one == table.count:
                    break
    return out, found


def matched(const int64_t[::1] keys, const int64_t[::1] asked, uint64_t seed, tick=None):
    """Number keys as :func:`numbered` does, and look up other keys; `seed` and `tick` as in :func:`numbered`.

    Returns
    -------
    The number of each row of ``keys``, int64; the number of each row of ``asked``, int64, -1 if ``keys`` lack it; and
    the number of distinct keys.

    Raises
    ------
    MemoryError
        If memory is short.
    """
    cdef Py_ssize_t n = keys.shape[0], m = asked.shape[0], at = 0, size
    cdef Table table
    cdef int told
    out, found = np.empty(n, np.int64), np.full(m, -1, np.int64)
    if n == 0:
        return out, found, 0
    cdef int64_t[::1] numbers = out, answers = found
    with nogil:
        told = prepare(&table, &keys[0], n, seed)
    try:
        if told == 0:
            told = number_all(&table, keys, numbers, tick)
        while told == 0 and at < m:
            size = min(<Py_ssize_t> PIECE, m - at)
            with nogil:
                find(&table, &asked[at], size, &answers[at])
            at += size
            if tick is not None:
                tick()
    finally:
        free(table.array)
        free(table.slots)
    if told < 0:
        raise MemoryError()
    return out, found, table.count


def gathered(const int64_t[::1] numbers, int64_t count, tick=None):
    """Return the rows sorted by their number, without rows whose number is negative.

    Parameters
    ----------
    tick
        Function that is called repeatedly; its error ends the call.

    Returns
    -------
    The rows, int64; and the start of the rows of each number, followed by the end: int64, shape (count + 1,).

    Raises
    ------
    IndexError
        If a number is not below ``count``.
    """
    cdef Py_ssize_t n = numbers.shape[0], i, begin = 0, end
    cdef int64_t high = -1, at, total = 0
    if count < 0:
        raise IndexError(f"{count} numbers")
    bounds = np.zeros(count + 2, np.int64)
    cdef int64_t[::1] ends = bounds
    with nogil:
        for i in range(n):
            high = numbers[i] if numbers[i] > high else high
    if high >= count:
        raise IndexError(f"number {high} is not below {count}")
    with nogil:
        # Count number x in ends[x + 2]: ends[x + 1] then moves from the start of x to its end while rows are written.
        for i in range(n):
            if numbers[i] >= 0:
                ends[numbers[i] + 2] += 1
        for i in range(2, count + 2):
            ends[i] += ends[i - 1]
        total = ends[count + 1]
    out = np.empty(total, np.int64)
    cdef int64_t[::1] rows = out
    while begin < n:
        end = min(n, begin + PIECE)
        if tick is not None:
            tick()
        with nogil:
            for i in range(begin, end):
                if numbers[i] >= 0:
                    at = ends[numbers[i] + 1]
                    rows[at] = i
                    ends[numbers[i] + 1] = at + 1
        begin = end
    return out, bounds[: count + 1]


cdef int64_t pair_count(const int64_t[::1] numbers, Py_ssize_t rows, const int64_t[::1] ends) except -1:
    """Return the number of pairs; refuse numbers and ends that are out of range."""
    cdef Py_ssize_t i, n = numbers.shape[0]
    cdef int64_t total = 0, most = ends.shape[0] - 1, x
    for i in range(ends.shape[0]):
        if ends[i] < (ends[i - 1] if i else 0) or ends[i] > rows:
            raise IndexError(f"end {i} is outside of {rows} rows, or less than the previous end")
    for i in range(n):
        x = numbers[i]
        if x < 0:
            continue
        if x >= most:
            raise IndexError(f"row {i} has the number {x}, which is not below {most}")
        total += ends[x + 1] - ends[x]
    return total


def count_pairs(const int64_t[::1] numbers, const int64_t[::1] rows, const int64_t[::1] ends):
    """Return the number of pairs that :func:`pairs` makes.

    Raises
    ------
    IndexError
        If a number is not below ``len(ends) - 1``, or ``ends`` exceed the rows.
    """
    return pair_count(numbers, rows.shape[0], ends)


def pairs(const int64_t[::1] numbers, const int64_t[::1] rows, const int64_t[::1] ends, tick=None):
    """Pair each row with all rows of its number in a result of :func:`gathered`.

    Parameters
    ----------
    numbers
        Number of each row; rows with a negative number have no partner.
    rows, ends
        The result of :func:`gathered`.
    tick
        Function that is called repeatedly; its error ends the call.

    Returns
    -------
    The row of ``numbers``, ascending, and the other row of each pair: int64 both.

    Raises
    ------
    IndexError
        If a number is not below ``len(ends) - 1``, or ``ends`` exceed the rows.
    """
    cdef Py_ssize_t i = 0, n = numbers.shape[0]
    cdef int64_t total = pair_count(numbers, rows.shape[0], ends), x, j = -1, stop, end, at = 0
    left, right = np.empty(total, np.int64), np.empty(total, np.int64)
    cdef int64_t[::1] lefts = left, rights = right
    while i < n:
        end = at + PIECE
        with nogil:
            while i < n and at < end:
                x = numbers[i]
                if x < 0:
                    i += 1
                    continue
                if j < 0:  # otherwise the previous piece ended within the pairs of this row
                    j = ends[x]
                stop = min(ends[x + 1], j + end - at)
                while j < stop:
                    lefts[at] = i
                    rights[at] = rows[j]
                    at += 1
                    j += 1
                if j == ends[x + 1]:
                    i += 1
                    j = -1
        if tick is not None:
            tick()
    return left, right
