"""Items that give way to others against plain lists, and requests that point outside their buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import merge as native
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(60))

TEXTS = st.lists(st.binary(max_size=9), max_size=12)


def offsets(items: list[bytes]) -> np.ndarray:
    return np.cumsum([0, *map(len, items)], dtype=np.int64)


def picked(items: list[bytes], picks: list[int]) -> np.ndarray:
    """Some places of a list, ascending, each once."""
    return np.array(sorted({p % len(items) for p in picks}) if items else [], np.int64)


@SMALL
@given(TEXTS, st.lists(st.integers(0, 99), max_size=9), st.data())
def test_replaced_items_are_those_of_a_list(
    items: list[bytes], picks: list[int], data: st.DataObject
) -> None:
    """Items of any length give way to items of any length, and equal ones are known for such."""
    rows = picked(items, picks)
    new = data.draw(st.lists(st.binary(max_size=9), min_size=len(rows), max_size=len(rows)))
    expected = list(items)
    for row, item in zip(rows.tolist(), new, strict=True):
        expected[row] = item
    out = np.full(sum(map(len, expected)) + 2, 7, np.uint8)
    source, added = b"".join(items), b"".join(new)
    written = native.replace_items(source, offsets(items), rows, added, offsets(new), out)
    assert out[:written].tobytes() == b"".join(expected)
    assert out[written:].tolist() == [7, 7]
    assert native.same_items(source, offsets(items), rows, added, offsets(new)) is (expected == items)


@SMALL
@given(st.sampled_from([1, 3, 8, 12]), st.integers(1, 20), st.lists(st.integers(0, 99), max_size=9))
def test_put_items_are_those_of_fancy_assignment(item: int, count: int, picks: list[int]) -> None:
    """Items of one size are written where NumPy writes them."""
    rng = np.random.default_rng(count)
    source = rng.integers(0, 2, (count, item), dtype=np.uint8)
    rows = picked([b""] * count, picks)
    new = rng.integers(0, 2, (len(rows), item), dtype=np.uint8)
    expected = source.copy()
    expected[rows] = new
    out = source.copy().reshape(-1)
    same = native.same_fixed(source.tobytes(), item, rows, new.tobytes())
    native.put_fixed(out, item, rows, new.tobytes())
    assert np.array_equal(out.reshape(-1, item), expected)
    assert same is np.array_equal(expected, source)


@pytest.mark.parametrize("item", [1, 3, 8])
@pytest.mark.parametrize("row", [-1, 5, 2**40, -(2**63), 2**63 - 1])
def test_items_of_one_size_stay_inside(item: int, row: int) -> None:
    """A row outside the five there are is an IndexError."""
    rows = np.array([0, row], dtype=np.int64)
    new = np.zeros(2 * item, np.uint8)
    with pytest.raises(IndexError, match=str(row)):
        native.put_fixed(np.zeros(5 * item, np.uint8), item, rows, new)
    with pytest.raises(IndexError, match=str(row)):
        native.same_fixed(np.zeros(5 * item, np.uint8), item, rows, new)
    with pytest.raises(IndexError, match="fewer new items"):
        native.put_fixed(np.zeros(5 * item, np.uint8), item, rows, new[1:])
    with pytest.raises(IndexError, match="fewer new items"):
        native.same_fixed(np.zeros(5 * item, np.uint8), item, rows, new[1:])


GOOD = ([0, 2, 4, 6], [0, 2], [0, 1, 2], 8)


@pytest.mark.parametrize(
    ("ends", "rows", "new_ends", "room"),
    [
        ([0, 2, 4, 6], [2, 0], [0, 1, 2], 8),
        ([0, 2, 4, 6], [1, 1], [0, 1, 2], 8),
        ([0, 2, 4, 6], [0, 3], [0, 1, 2], 8),
        ([0, 2, 4, 6], [-1, 2], [0, 1, 2], 8),
        ([0, 2, 4, 6], [0, 2**40], [0, 1, 2], 8),
        ([0, 2, 4, 9], [0, 1], [0, 1, 2], 9),
        ([0, 2, -1, 6], [0, 2], [0, 1, 2], 8),
        ([0, 2, 4, 6], [0, 2], [0, 1, 3], 8),
        ([0, 2, 4, 6], [0, 2], [0, -1, 2], 8),
        ([0, 2, 4, 6], [0, 2], [0, 1], 8),
        ([0, 2, 4, 6], [0, 2], [0, 1, 2], 3),
        ([], [], [0], 8),
    ],
)
def test_items_of_any_size_stay_inside(
    ends: list[int], rows: list[int], new_ends: list[int], room: int
) -> None:
    """Rows that do not ascend, offsets outside their buffers and too little room are an IndexError."""
    assert native.replace_items(bytes(6), *arrays(*GOOD[:3]), np.zeros(GOOD[3], np.uint8)) == 4
    with pytest.raises(IndexError):
        native.replace_items(bytes(6), *arrays(ends, rows, new_ends), np.zeros(room, np.uint8))


def arrays(
    ends: list[int], rows: list[int], new_ends: list[int]
) -> tuple[np.ndarray, np.ndarray, bytes, np.ndarray]:
    return np.array(ends, np.int64), np.array(rows, np.int64), bytes(2), np.array(new_ends, np.int64)


@pytest.mark.parametrize("row", [-1, 3, 2**40])
def test_comparing_stays_inside(row: int) -> None:
    """A row outside the source is an IndexError."""
    with pytest.raises(IndexError):
        native.same_items(bytes(6), *arrays([0, 2, 4, 6], [row], [0, 1]))
