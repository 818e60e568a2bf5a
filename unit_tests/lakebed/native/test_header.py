"""Chunk headers against struct, and whatever a damaged or hostile file may promise."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import chunks as native
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(60))


def header(version: bytes, rows: int, columns: int, positions: int, data: bytes = b"") -> bytes:
    """A chunk whose tables are zeros."""
    shape_table = struct.pack("<ii", rows, columns) + bytes(4 * rows * columns)
    return (
        bytes([len(version)])
        + version
        + shape_table
        + struct.pack("<i", positions)
        + bytes(12 * positions)
        + data
    )


@SMALL
@given(st.binary(max_size=9), st.integers(0, 4), st.integers(1, 5), st.integers(0, 4), st.binary(max_size=9))
def test_parse_header_finds_the_tables(
    version: bytes, rows: int, columns: int, positions: int, data: bytes
) -> None:
    """All seven numbers are those that the layout of format.md 5.1 gives."""
    buffer = header(version, rows, columns, positions, data)
    end = 1 + len(version)
    positions_at = end + 8 + 4 * rows * columns + 4
    expected = (end, rows, columns, end + 8, positions, positions_at, positions_at + 12 * positions)
    assert native.parse_header(buffer) == expected
    assert native.parse_header(memoryview(bytearray(buffer))) == expected
    assert len(buffer) - expected[6] == len(data)


def test_every_truncation_of_a_header_is_refused() -> None:
    """However much of the header is missing, the answer is a ValueError."""
    whole = header(b"3.9.52", 2, 3, 2)
    native.parse_header(whole)
    for end in range(len(whole)):
        with pytest.raises(ValueError, match=r"end|fit|empty"):
            native.parse_header(whole[:end])


BIG = 2**31 - 1


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(-1, 3), (1, -1), (BIG, 3), (BIG, 256), (1, 257), (1, 0), (2, 2**30), (-(2**31), -(2**31)), (BIG, BIG)],
)
def test_lying_shape_counts_are_refused(rows: int, columns: int) -> None:
    """Counts that are negative, absurd or larger than the file are refused without any arithmetic going wrong."""
    lie = b"\x063.9.52" + struct.pack("<ii", rows, columns) + bytes(60)
    with pytest.raises(ValueError, match="shape table"):
        native.parse_header(lie)


@pytest.mark.parametrize("positions", [-1, -(2**31), 2, 6, BIG])
def test_lying_position_counts_are_refused(positions: int) -> None:
    """The position table must fit into what is left of the file."""
    lie = b"\x063.9.52" + struct.pack("<iiIIi", 1, 2, 1, 0, positions) + bytes(23)
    with pytest.raises(ValueError, match="position table"):
        native.parse_header(lie)


@SMALL
@given(st.binary(max_size=80))
def test_any_bytes_parse_or_are_refused(raw: bytes) -> None:
    """Offsets of whatever does parse lie inside the buffer."""
    try:
        _, rows, columns, shapes_at, positions, positions_at, data_at = native.parse_header(raw)
    except ValueError:
        return
    assert 0 < shapes_at <= shapes_at + 4 * rows * columns + 4 == positions_at
    assert positions_at + 12 * positions == data_at <= len(raw)


def positions_of(sizes: list[int]) -> bytes:
    """Position rows of samples of these sizes."""
    return native.position_rows(np.array(sizes, dtype=np.uint32)).tobytes()


@SMALL
@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 3), st.sampled_from([np.int32, np.int64]))
def test_expand_positions_is_a_running_sum(
    sizes: list[int], empty: int, kind: type[np.signedinteger]
) -> None:
    """Rows become offsets; samples beyond the last row are empty ones at the end; both widths agree."""
    table = positions_of(sizes)
    out = np.full(len(sizes) + empty + 1, -5, dtype=kind)
    native.expand_positions(table, 0, len(table) // 12, len(sizes) + empty, sum(sizes), out)
    assert out.tolist() == [0, *np.cumsum([*sizes, *[0] * empty]).tolist()]


def test_expand_positions_reads_at_an_offset() -> None:
    """The table may lie anywhere in the buffer, as it does in a chunk file."""
    out = np.empty(3, np.int64)
    native.expand_positions(b"head" + positions_of([2, 5]) + b"tail", 4, 2, 2, 7, out)
    assert out.tolist() == [0, 2, 7]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([(2, 0, 1), (2, 4, 1)], "covers no sample"),
        ([(2, 0, 1), (2, 4, 0)], "goes back"),
        ([(2, 0, 1), (2, 5, 3)], "leaves a gap"),
        ([(2, 1, 3)], "does not start at 0"),
        ([(2, 0, 4)], "covers more samples than there are"),
        ([(3, 0, 3)], "points beyond the data"),
        ([(2**32 - 1, 0, 3)], "points far beyond the data"),
        ([(2, 0, 2**32 - 1)], "covers four thousand million samples"),
        ([(8, 0, 0), (2**32 - 8, 8, 1), (0, 0, 3)], "wraps around"),
    ],
)
def test_expand_positions_refuses_a_damaged_table(rows: list[tuple[int, int, int]], why: str) -> None:
    """Four samples in eight bytes of data: a table that says anything else is refused."""
    raw = np.array(rows, dtype=np.uint32).tobytes()
    with pytest.raises(ValueError, match="position row"):
        native.expand_positions(raw, 0, len(rows), 4, 8, np.empty(5, np.int64))


def test_expand_positions_checks_its_arguments() -> None:
    """A table outside the buffer, an answer of the wrong length and data too large for 32 bits are refused."""
    raw, out = positions_of([1, 2]), np.empty(3, np.int64)
    for at, rows, count, answer in [
        (0, 3, 2, out),
        (1, 2, 2, out),
        (-1, 1, 2, out),
        (0, 2, 3, out),
        (0, -1, 2, out),
    ]:
        with pytest.raises(ValueError, match=r"leaves the buffer|one place more"):
            native.expand_positions(raw, at, rows, count, 3, answer)
    with pytest.raises(ValueError, match="32-bit"):
        native.expand_positions(raw, 0, 2, 2, 2**31, np.empty(3, np.int32))
    native.expand_positions(b"", 0, 0, 0, 0, np.empty(1, np.int64))
