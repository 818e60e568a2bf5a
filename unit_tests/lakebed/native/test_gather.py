"""Copying many samples against NumPy's own indexing, and requests that point outside their buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import chunks as native
from lakebed.native import gather
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(60))


@SMALL
@given(
    st.sampled_from([1, 2, 3, 4, 8, 16, 24]), st.integers(1, 30), st.lists(st.integers(0, 999), max_size=40)
)
def test_gather_fixed_is_fancy_indexing(item: int, count: int, picks: list[int]) -> None:
    """Items of any size, in any order and repeatedly, as `source[rows]` gives them."""
    source = np.random.default_rng(count).integers(0, 256, (count, item), dtype=np.uint8)
    rows = np.array([p % count for p in picks], dtype=np.int64)
    out = np.zeros(len(rows) * item + 3, dtype=np.uint8)
    native.gather_fixed(source.tobytes(), item, rows, out)
    assert np.array_equal(out[: len(rows) * item].reshape(-1, item), source[rows])
    assert not out[len(rows) * item :].any()


@pytest.mark.parametrize("item", [1, 3, 8])
@pytest.mark.parametrize("row", [-1, 5, 2**40, -(2**63), 2**63 - 1])
def test_gather_fixed_stays_inside(item: int, row: int) -> None:
    """A row outside the five of the source is an IndexError, also after good ones."""
    rows = np.array([0, 4, row], dtype=np.int64)
    with pytest.raises(IndexError, match=str(row)):
        native.gather_fixed(bytes(5 * item + item // 2), item, rows, np.empty(3 * item, np.uint8))


def test_gather_fixed_needs_room_and_something_to_do() -> None:
    """A short destination is refused; items of no bytes, and no rows, need nothing."""
    rows = np.array([0, 1, 2], dtype=np.int64)
    with pytest.raises(IndexError, match="too short"):
        native.gather_fixed(bytes(24), 8, rows, np.empty(23, np.uint8))
    with pytest.raises(IndexError):
        native.gather_fixed(b"", 8, rows, np.empty(24, np.uint8))
    native.gather_fixed(b"", 0, rows, np.empty(0, np.uint8))
    native.gather_fixed(b"", 8, rows[:0], np.empty(0, np.uint8))


@SMALL
@given(st.lists(st.binary(max_size=6), min_size=1, max_size=20), st.lists(st.integers(0, 99), max_size=30))
def test_gather_variable_is_a_join_of_slices(items: list[bytes], picks: list[int]) -> None:
    """Items of differing lengths end up back to back, and their total is returned."""
    offsets = np.cumsum([0, *map(len, items)], dtype=np.int64)
    rows = np.array([p % len(items) for p in picks], dtype=np.int64)
    expected = b"".join(items[r] for r in rows)
    out = bytearray(len(expected))
    assert native.gather_variable(b"".join(items), offsets, rows, out) == len(expected)
    assert bytes(out) == expected


@pytest.mark.parametrize(
    ("offsets", "rows"),
    [
        ([0, 4, 8], [2]),
        ([0, 4, 8], [-1]),
        ([0, 4, 9], [1]),
        ([0, 5, 4], [1]),
        ([-2, 4, 8], [0]),
        ([0, 8, 2**62], [1]),
        ([0, 4, 8], [0, 1, 0]),
        ([0], [0]),
    ],
)
def test_gather_variable_stays_inside(offsets: list[int], rows: list[int]) -> None:
    """Offsets that leave the 8 bytes of source, go back, or overflow the 8 bytes of room are IndexErrors."""
    with pytest.raises(IndexError):
        native.gather_variable(bytes(8), np.array(offsets, np.int64), np.array(rows, np.int64), bytearray(8))


@SMALL
@given(st.lists(st.booleans(), max_size=40), st.sampled_from([1, 2, 4, 8, 12]))
def test_scatter_fixed_fills_the_present_slots(present: list[bool], item: int) -> None:
    """Items go to the slots that are present, in order; zeros to the others."""
    mask = np.array(present, dtype=bool)
    source = np.random.default_rng(item).integers(1, 256, (int(mask.sum()), item), dtype=np.uint8)
    expected = np.zeros((len(mask), item), dtype=np.uint8)
    expected[mask] = source
    out = np.full(len(mask) * item, 255, dtype=np.uint8)
    native.scatter_fixed(source.tobytes(), item, mask.view(np.uint8), out)
    assert np.array_equal(out.reshape(-1, item), expected)


@pytest.mark.parametrize("items", [0, 1, 3])
def test_scatter_fixed_wants_exactly_one_item_per_slot(items: int) -> None:
    """Too few or too many items for the two present slots are an IndexError."""
    with pytest.raises(IndexError, match="2 slots"):
        native.scatter_fixed(bytes(4 * items), 4, np.array([1, 0, 1], np.uint8), np.empty(12, np.uint8))


def test_scatter_fixed_needs_room() -> None:
    """A short destination is refused."""
    with pytest.raises(IndexError, match="too short"):
        native.scatter_fixed(bytes(4), 4, np.array([1, 0], np.uint8), np.empty(7, np.uint8))
    native.scatter_fixed(b"", 4, np.empty(0, np.uint8), np.empty(0, np.uint8))


def test_read_only_destinations_are_refused() -> None:
    """Nothing writes through a buffer that must not change."""
    with pytest.raises(BufferError):
        native.gather_fixed(bytes(8), 8, np.array([0]), bytes(8))


def test_copying_the_bytes_of_an_array() -> None:
    """Of any contiguous array, to the start of a buffer; one that is too short is left alone."""
    for size in (0, 1, 63, 64, 129, 1000):
        source, out = np.arange(size, dtype=np.int16), np.full(2048, 7, np.uint8)
        gather.copy_bytes(out, source)
        assert out.tobytes() == source.tobytes() + b"\7" * (2048 - 2 * size)
    out = np.zeros(3, np.uint8)
    with pytest.raises(ValueError, match="4 bytes do not fit into 3"):
        gather.copy_bytes(out, np.ones((2, 2), np.uint8))
    assert not out.any()
    with pytest.raises((BufferError, ValueError)):
        gather.copy_bytes(out, np.ones(6, np.uint8)[::2])
