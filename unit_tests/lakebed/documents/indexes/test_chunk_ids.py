"""The chunk-id encoder against a list of chunks, one entry per sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.indexes.chunk_ids import ChunkIds, Span, chunk_name
from lakebed.errors import FormatError, LimitError

PREFIX = bytes.fromhex("06 332e392e3532 08")
ID = st.integers(1, 2**64 - 1)
# (ids, samples): one chunk of several samples, or the tiles of one sample
CHUNKS = st.lists(
    st.tuples(st.lists(ID, min_size=1, max_size=1), st.integers(1, 5))
    | st.tuples(st.lists(ID, min_size=2, max_size=4), st.just(1)),
    max_size=8,
)


def build(chunks: list[tuple[list[int], int]]) -> ChunkIds:
    ids = [id_ for part, _ in chunks for id_ in part]
    return ChunkIds.from_counts(ids, [m for part, n in chunks for m in [n, *[0] * (len(part) - 1)]])


def test_golden_bytes() -> None:
    """The example of format.md 4.2."""
    data = PREFIX + bytes.fromhex("46 43 50 41 4c 3a b3 44  01 00 00 00 00 00 00 00")
    index = ChunkIds.from_bytes(data)
    assert index.ids.tolist() == [0x44B33A4C41504346]
    assert index.count == 2
    assert chunk_name(index.ids[0]) == "44b33a4c41504346"
    assert index.to_bytes() == data
    assert ChunkIds.empty().to_bytes() == PREFIX
    assert ChunkIds.from_bytes(PREFIX).count == 0


def test_names_have_no_leading_zeros() -> None:
    """format.md 4.2."""
    assert chunk_name(0x03073A0E44B14A5A) == "3073a0e44b14a5a"


def test_narrow_items_of_old_writers() -> None:
    """Four bytes by the width byte, or by a version before 2.7.6, which has none; both are rewritten wide."""
    rows = bytes.fromhex("05000000 02000000 07000000 03000000")
    for head in (PREFIX[:-1] + b"\x04", b"\x052.7.5", b"\x052.0.0"):
        index = ChunkIds.from_bytes(head + rows)
        assert index.ids.tolist() == [5, 7]
        assert index.last.tolist() == [2, 3]
        assert index.ids.dtype == np.uint64
        assert ChunkIds.from_bytes(index.to_bytes()) == index
    assert ChunkIds.from_bytes(b"\x052.7.6\x04" + rows) == index
    assert ChunkIds.from_bytes(PREFIX[:-1] + b"\x04") == ChunkIds.empty()  # all samples popped, by 3.9.52


@given(CHUNKS)
def test_locates_every_sample(chunks: list[tuple[list[int], int]]) -> None:
    """Row, number of rows and position are those of a plain walk."""
    index = build(chunks)
    expected, row = [], 0
    for ids, n in chunks:
        expected += [Span(row, len(ids), position) for position in range(n)]
        row += len(ids)
    assert index.count == len(expected)
    assert len(index) == row
    assert [index.locate(i) for i in range(index.count)] == expected
    assert index.counts.tolist() == [m for ids, n in chunks for m in [n, *[0] * (len(ids) - 1)]]
    for outside in (-1, index.count, 2**70):
        with pytest.raises(IndexError):
            index.locate(outside)


@given(CHUNKS)
def test_round_trip(chunks: list[tuple[list[int], int]]) -> None:
    """Parsing what was written gives the same rows."""
    index = build(chunks)
    assert ChunkIds.from_bytes(index.to_bytes()) == index


def test_ids_use_all_64_bits() -> None:
    """Neither sign nor float rounding gets in the way."""
    index = ChunkIds.from_counts([2**64 - 1, 2**63 + 1], [1, 1])
    assert [chunk_name(id_) for id_ in index.ids] == ["f" * 16, "8000000000000001"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        PREFIX[:3],
        PREFIX[:-1],
        PREFIX + b"\0",
        PREFIX + bytes(15),
        PREFIX[:-1] + b"\x05",
        b"\x03abc\x08",
        PREFIX + (1).to_bytes(8, "little") + (5).to_bytes(8, "little") + bytes(16),
        PREFIX + (1).to_bytes(8, "little") + b"\xff" * 8,
    ],
)
def test_damaged_files(data: bytes) -> None:
    """Half rows, unknown widths and versions, indices that shrink or are beyond every limit."""
    with pytest.raises(FormatError):
        ChunkIds.from_bytes(data)


@given(st.binary(max_size=80), st.booleans())
def test_random_bytes(data: bytes, prefix: bool) -> None:
    """Nothing but FormatError comes out, and what is read can be asked for its samples."""
    try:
        index = ChunkIds.from_bytes(PREFIX + data if prefix else data)
    except (FormatError, LimitError):
        return
    if index.count:
        index.locate(0)
        index.locate(index.count - 1)
