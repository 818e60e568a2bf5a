"""Equal integers get equal numbers, in the order in which they appear; the oracle is NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.native import equals

CLOSE = st.integers(-50, 50)
FAR = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.lists(CLOSE, max_size=60) | st.lists(FAR | CLOSE | st.sampled_from([0, 1 << 40]), max_size=60)
SEEDS = st.integers(0, (1 << 64) - 1)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@given(keys=KEYS, seed=SEEDS)
def test_keys_are_numbered_as_they_appear(keys, seed):
    numbers, firsts = equals.numbered(array(keys), seed)
    seen = list(dict.fromkeys(keys))
    assert numbers.tolist() == [seen.index(key) for key in keys]
    assert firsts.tolist() == [keys.index(key) for key in seen]


@given(keys=KEYS, asked=KEYS, seed=SEEDS)
def test_keys_are_found_among_others(keys, asked, seed):
    numbers, found, count = equals.matched(array(keys), array(asked), seed)
    assert numbers.tolist() == equals.numbered(array(keys), seed)[0].tolist()
    seen = list(dict.fromkeys(keys))
    assert count == len(seen)
    assert found.tolist() == [seen.index(key) if key in seen else -1 for key in asked]


@pytest.mark.parametrize("factor", [1, 3, 1 << 40])
@pytest.mark.parametrize("different", [10, 3_000, 100_000])
def test_tables_grow(factor, different):
    """Keys beside each other, with gaps, and far apart; few and more than a hash table begins with."""
    keys = np.random.default_rng(1).integers(0, different, 150_000) * factor - 7
    numbers, firsts = equals.numbered(keys, 0x123456789ABCDEF)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    assert np.array_equal(firsts, np.sort(first))
    assert np.array_equal(numbers, np.argsort(np.argsort(first))[inverse])


def test_keys_that_share_low_and_high_bits_are_as_fast():
    """Multiples of a large power of two, and keys that differ in low bits only, are spread all the same."""
    for shift in (0, 20, 40, 44):
        keys = np.arange(1 << 19, dtype=np.int64) << shift
        keys[0] = -(1 << 62)
        numbers, _ = equals.numbered(keys, 5)
        assert np.array_equal(numbers, np.arange(len(keys)))


@given(numbers=st.lists(st.integers(-2, 9), max_size=80), more=st.integers(0, 3))
def test_rows_of_a_number_lie_side_by_side(numbers, more):
    count = max(numbers, default=-1) + 1 + more
    rows, ends = equals.gathered(array(numbers), max(0, count))
    kept = np.flatnonzero(array(numbers) >= 0)
    assert np.array_equal(rows, kept[np.argsort(array(numbers)[kept], kind="stable")])
    assert np.diff(ends).tolist() == [numbers.count(n) for n in range(max(0, count))]


@given(lefts=st.lists(st.integers(-1, 5), max_size=30), rights=st.lists(st.integers(-1, 5), max_size=30))
def test_pairs_are_those_of_two_loops(lefts, rights):
    rows, ends = equals.gathered(array(rights), 6)
    first, second = equals.pairs(array(lefts), rows, ends)
    expected = [(i, j) for i, a in enumerate(lefts) for j, b in enumerate(rights) if a == b >= 0]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected
    assert equals.count_pairs(array(lefts), rows, ends) == len(expected)


def test_what_leads_outside_is_refused():
    with pytest.raises(IndexError, match="not below 3"):
        equals.gathered(array([0, 3]), 3)
    with pytest.raises(IndexError, match="not below 2"):
        equals.pairs(array([0, 2]), array([0, 1]), array([0, 1, 2]))
    with pytest.raises(IndexError, match="end 2"):
        equals.pairs(array([0]), array([0, 1]), array([0, 1, 3]))
