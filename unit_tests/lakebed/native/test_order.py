"""The permutation by a key is what is written down, and stays so."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.loaders.draws import key
from lakebed.native.order import distinct, permuted

WORD = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = (z + GOLDEN) & WORD
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & WORD
    return z ^ z >> 31


def image(x: int, n: int, chance: int) -> int:
    """The Feistel network, as the compiled module describes it."""
    a = max(math.ceil(math.sqrt(n)), 1)
    b = max(-(-n // a), 1)
    while True:
        left, right = divmod(x, b)
        for i in range(0, 16 if n < 64 else 8, 2):
            left = (left + ((mix((chance + i * GOLDEN) & WORD ^ right) >> 32) * a >> 32)) % a
            right = (right + ((mix((chance + (i + 1) * GOLDEN) & WORD ^ left) >> 32) * b >> 32)) % b
        x = left * b + right
        if x < n:
            return x


@given(n=st.integers(0, 400), chance=st.integers(0, WORD))
def test_the_images_are_those_of_the_network_that_is_written_down(n, chance):
    images = permuted(n, chance)
    assert images.dtype == np.int64
    assert images.tolist() == [image(x, n, chance) for x in range(n)]
    assert sorted(images.tolist()) == list(range(n))


def test_recorded_images():
    assert permuted(10, 0).tolist() == [1, 0, 8, 5, 4, 2, 6, 7, 9, 3]
    assert permuted(10, 1 << 63).tolist() == [2, 3, 6, 4, 8, 7, 1, 0, 5, 9]
    assert permuted(1_000_003, 7)[[0, 1, 2, 500_000, 1_000_002]].tolist() == [
        437911,
        274876,
        703617,
        402619,
        87614,
    ]


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 12, 40])
def test_each_number_and_each_pair_goes_everywhere_equally_often(n):
    runs = 4000 * min(n, 12)
    images = np.array([permuted(n, key(3, run)) for run in range(runs)])
    pairs = np.zeros((n, n, n), dtype=np.int64)  # position, image of it, image of the next
    for position in range(n):
        np.add.at(pairs[position], (images[:, position], images[:, (position + 1) % n]), 1)
    ones = pairs.sum(axis=2)
    assert abs(ones / (runs / n) - 1).max() < 5 / math.sqrt(runs / n)
    possible = pairs[:, ~np.eye(n, dtype=bool)]
    assert abs(possible / (runs / n / (n - 1)) - 1).max() < 5 / math.sqrt(runs / n / (n - 1))


@given(n=st.integers(0, 300), start=st.integers(0, WORD), chance=st.integers(0, WORD))
def test_distinct_numbers_are_those_that_are_written_down(n, start, chance):
    numbers = distinct(n, start, chance)
    assert numbers.dtype == np.uint64
    assert numbers.tolist() == [mix(mix((start + i * GOLDEN) & WORD) ^ chance) for i in range(n)]


def test_distinct_numbers_differ_within_a_sequence_and_between_sequences():
    """Wherever they start, also within each other, and their bits are as often 1 as 0."""
    sequences = [distinct(50_000, start, key) for start in (5, 5 + GOLDEN) for key in (1, 2, 1 << 63)]
    assert len(np.unique(np.concatenate(sequences[:3]))) == 150_000
    assert len(np.unique(np.concatenate([sequences[0], sequences[4], sequences[5]]))) == 150_000
    for numbers in sequences:
        ones = np.unpackbits(numbers.view(np.uint8)).mean()
        assert abs(ones - 0.5) < 0.002
        assert abs(np.corrcoef(numbers[:-1].astype(float), numbers[1:].astype(float))[0, 1]) < 0.02
