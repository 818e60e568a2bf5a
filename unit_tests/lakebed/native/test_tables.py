"""Row tables of chunks against plain NumPy: emitting, checking and searching them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed.native import chunks as native
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(60))


def merged(table: NDArray[Any]) -> list[int]:
    """Oracle: index of the last row of every run of equal neighbours."""
    return [i for i in range(len(table)) if i + 1 == len(table) or not np.array_equal(table[i], table[i + 1])]


@SMALL
@given(st.integers(0, 5), st.data())
def test_shape_rows_merge_equal_neighbours(ndim: int, data: st.DataObject) -> None:
    """One row per run of equal shapes, its last column the run's last sample; also for rank 0 and no samples."""
    rows = data.draw(st.lists(st.lists(st.integers(0, 2), min_size=ndim, max_size=ndim), max_size=40))
    shapes = np.array(rows, dtype=np.uint32).reshape(len(rows), ndim)
    ends = merged(shapes)
    expected = np.column_stack([shapes[ends], np.array(ends, dtype=np.uint32)]).astype(np.uint32)
    assert np.array_equal(native.shape_rows(shapes), expected.reshape(len(ends), ndim + 1))


@SMALL
@given(st.lists(st.sampled_from([0, 0, 1, 7, 4_000_000]), max_size=60))
def test_position_rows_merge_equal_sizes(sizes: list[int]) -> None:
    """One row per run of equal sizes with the byte at which the run starts."""
    table = np.array(sizes, dtype=np.uint32)
    starts = np.concatenate([[0], np.cumsum(table, dtype=np.uint64)])
    ends = merged(table.reshape(-1, 1))
    begins = [0, *(e + 1 for e in ends[:-1])]
    expected = [[sizes[e], int(starts[b]), e] for e, b in zip(ends, begins, strict=False)]
    assert native.position_rows(table).tolist() == expected


@pytest.mark.parametrize("sizes", [[2**32 - 1, 1], [2**31, 2**31, 0], [2**32 - 1] * 5])
def test_position_rows_refuse_more_than_positions_can_hold(sizes: list[int]) -> None:
    """Data beyond 4 GiB is an error, not a position that wrapped around."""
    with pytest.raises(OverflowError):
        native.position_rows(np.array(sizes, dtype=np.uint32))


def test_position_rows_take_all_that_positions_can_hold() -> None:
    """The largest chunk that 32-bit positions can describe is described."""
    assert native.position_rows(np.array([2**32 - 1], dtype=np.uint32)).tolist() == [[2**32 - 1, 0, 0]]


@SMALL
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(1, 4), st.integers(0, 5))
def test_last_column_is_the_end_of_a_rising_table(steps: list[int], columns: int, offset: int) -> None:
    """A strictly rising last column gives its last value; any other table is refused."""
    last = np.cumsum(steps, dtype=np.int64)
    table = np.full((len(steps), columns), 9, dtype=np.uint32)
    table[:, -1] = last
    raw = b"\xff" * offset + table.tobytes()
    if all(s > 0 for s in steps[1:]):
        expected = int(last[-1]) if steps else -1
        assert native.last_column(raw, offset, len(steps), columns) == expected
    else:
        with pytest.raises(ValueError, match="covers no sample"):
            native.last_column(raw, offset, len(steps), columns)


@pytest.mark.parametrize(
    ("at", "rows", "columns"),
    [(1, 2, 3), (0, 3, 3), (-4, 1, 1), (0, -1, 3), (0, 1, 0), (25, 1, 1), (0, 2**40, 3), (2**62, 1, 1)],
)
def test_last_column_stays_inside_its_buffer(at: int, rows: int, columns: int) -> None:
    """A table that would leave the buffer is refused before it is read."""
    with pytest.raises(ValueError, match="leaves the buffer"):
        native.last_column(bytes(24), at, rows, columns)


@SMALL
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=20),
    st.lists(st.integers(0, 99), max_size=40),
    st.booleans(),
)
def test_locate_rows_finds_chunk_and_place(counts: list[int], picks: list[int], in_order: bool) -> None:
    """Each row is found in the first entry that reaches it, in whatever order the rows come."""
    last = (np.cumsum(counts) - 1).astype(np.uint64)
    total = sum(counts)
    rows = np.array([p % total for p in (sorted(picks) if in_order else picks)], dtype=np.int64)
    ordinal, local = np.full(len(rows), -7, np.int64), np.full(len(rows), -7, np.int64)
    native.locate_rows(last, rows, ordinal, local)
    expected = np.searchsorted(last.astype(np.int64), rows)
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    assert np.array_equal(ordinal, expected)
    assert np.array_equal(local, rows - firsts[expected])


def test_locate_rows_gives_the_first_tile() -> None:
    """Rows that repeat the previous last index are further tiles: a sample is in the first of them."""
    last = np.array([0, 1, 1, 1, 3], dtype=np.uint64)
    ordinal, local = np.empty(4, np.int64), np.empty(4, np.int64)
    native.locate_rows(last, np.array([3, 1, 0, 2]), ordinal, local)
    assert ordinal.tolist() == [4, 1, 0, 4]
    assert local.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("rows", [[5], [-1], [0, 4, 5], [2**62], [-(2**63)]])
def test_locate_rows_refuses_rows_that_are_not_there(rows: list[int]) -> None:
    """A negative row, or one beyond the table, is an IndexError that names it."""
    out = np.empty(len(rows), np.int64)
    with pytest.raises(IndexError, match=str(rows[-1])):
        native.locate_rows(np.array([1, 4], np.uint64), np.array(rows, np.int64), out, out.copy())


def test_locate_rows_refuses_an_empty_table_and_short_answers() -> None:
    """No table has no rows, and the answers must have room."""
    one, none = np.zeros(1, np.int64), np.zeros(0, np.int64)
    with pytest.raises(IndexError):
        native.locate_rows(np.empty(0, np.uint64), one, one.copy(), one.copy())
    with pytest.raises(IndexError, match="too short"):
        native.locate_rows(np.array([4], np.uint64), one, none, one)
    native.locate_rows(np.empty(0, np.uint64), none, none, none)
