"""Sequence, credentials, pad and tile encoders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.indexes.creds_index import CredsIndex
from lakebed.documents.indexes.pad_index import PadIndex
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.errors import FormatError, LimitError

PREFIX = bytes.fromhex("06 332e392e3532")
LENGTHS = st.lists(st.integers(0, 3), max_size=12)
Parse = Callable[[bytes], object]
PARSERS: list[Parse] = [
    CredsIndex.from_bytes,
    PadIndex.from_bytes,
    SequenceIndex.from_bytes,
    TileIndex.from_bytes,
]


def u32(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def u64(*numbers: int) -> bytes:
    return np.array(numbers, "<u8").tobytes()


# -- sequences ----------------------------------------------------------------------------------------------


def test_sequence_golden_bytes() -> None:
    """The examples of format.md 4.4 and 15.7."""
    data = bytes.fromhex("06 332e392e3532 02000000 00000000 00000000 00000000 02000000 01000000")
    index = SequenceIndex.from_bytes(data)
    assert index.lengths.tolist() == [2, 0]
    assert index.to_bytes() == data
    rows = PREFIX + u32(2, 0, 0, 0, 2, 1, 1, 2, 2, 0, 3, 3, 2, 3, 4)
    assert SequenceIndex.from_lengths([2, 0, 1, 0, 2]).to_bytes() == rows


@given(LENGTHS, LENGTHS)
def test_sequences_cover_their_items(first: list[int], more: list[int]) -> None:
    """Spans follow each other without gaps; adding sequences is the same as having them from the start."""
    index = SequenceIndex.from_lengths(first).extend(more)
    lengths = first + more
    assert index == SequenceIndex.from_lengths(lengths)
    assert index.to_bytes() == SequenceIndex.from_lengths(lengths).to_bytes()
    assert SequenceIndex.from_bytes(index.to_bytes()) == index
    assert index.lengths.tolist() == lengths
    assert (index.count, index.total) == (len(lengths), sum(lengths))
    end = 0
    for i, n in enumerate(lengths):
        assert index.span(i) == (end, end + n)
        end += n
    for outside in (-1, len(lengths)):
        with pytest.raises(IndexError):
            index.span(outside)


@pytest.mark.parametrize(
    "rows",
    [
        u32(2, 0),
        u32(2, 1, 0),
        u32(2, 0, 0, 1, 3, 1),
        u32(2, 0, 1, 1, 4, 1),
        u32(2, 0, 1, 1, 4, 0),
        u32(1) + b"\0",
    ],
)
def test_damaged_sequences(rows: bytes) -> None:
    """Half rows, rows that start elsewhere than the one before ends, last indices that do not grow."""
    with pytest.raises(FormatError):
        SequenceIndex.from_bytes(PREFIX + rows)


def test_too_many_items_for_the_format() -> None:
    """Thirty-two bits are the format's limit, and it is an error instead of a wrong number."""
    with pytest.raises(LimitError, match="sequence_index"):
        SequenceIndex.from_lengths([2**31, 2**31, 1]).to_bytes()


# -- credentials --------------------------------------------------------------------------------------------


def test_creds_golden_bytes() -> None:
    """The example of format.md 15.7."""
    data = bytes.fromhex(
        "06 332e392e3532 00000000 00000000 02000000 02000000 01000000 03000000 00000000 04000000"
    )
    index = CredsIndex.from_bytes(data)
    assert [index.code(i) for i in range(index.count)] == [0, 2, 2, 1, 0]
    assert index.to_bytes() == data
    assert CredsIndex.from_codes([0, 2, 2, 1, 0]) == index
    with pytest.raises(IndexError):
        index.code(5)


@given(LENGTHS)
def test_creds_round_trip(codes: list[int]) -> None:
    """Equal neighbours share a row."""
    index = CredsIndex.from_bytes(CredsIndex.from_codes(codes).to_bytes())
    assert [index.code(i) for i in range(index.count)] == codes
    assert not (index.codes[1:] == index.codes[:-1]).any()


@given(LENGTHS, st.data())
def test_creds_of_neighbouring_samples(codes: list[int], data: st.DataObject) -> None:
    """Those of a slice, also of one that reaches behind the end."""
    first = data.draw(st.integers(0, len(codes)))
    stop = data.draw(st.integers(first, len(codes) + 3))
    assert CredsIndex.from_codes(codes).between(first, stop).tolist() == codes[first:stop]


# -- padding ------------------------------------------------------------------------------------------------


def test_pad_golden_bytes() -> None:
    """The example of format.md 15.7."""
    data = bytes.fromhex("06 332e392e3532 02000000 03000000 05000000 07000000")
    index = PadIndex.from_bytes(data)
    assert [i for i in range(9) if i in index] == [2, 5, 6]
    assert index.to_bytes() == data
    assert PadIndex.from_bytes(PREFIX).to_bytes() == PREFIX
    assert 0 not in PadIndex.from_bytes(PREFIX)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=12))
def test_padding_round_trip(bounds: list[int]) -> None:
    """All bounds survive, and membership is that of their ranges."""
    index = PadIndex.from_bytes(PREFIX + u32(*bounds))
    assert index.bounds.tolist() == bounds
    assert PadIndex.from_bytes(index.to_bytes()) == index
    ranges = [range(start, end) for start, end in zip(bounds[::2], bounds[1::2], strict=False)]
    for i in {0, *bounds, *(bound + 1 for bound in bounds)}:
        assert (i in index) == any(i in found for found in ranges)


@pytest.mark.parametrize(
    ("rows", "padding"),
    [
        (u32(0, 0, 2, 3), [2]),
        (u32(0, 1, 1, 3, 7), [0, 1, 2]),
        (u32(3, 2, 4, 5), [4]),
    ],
)
def test_padding_as_pops_leave_it(rows: bytes, padding: list[int]) -> None:
    """Empty and half ranges, which 3.9.52 writes after removing padded samples, hold nothing and survive."""
    index = PadIndex.from_bytes(PREFIX + rows)
    assert [i for i in range(9) if i in index] == padding
    assert index.to_bytes() == PREFIX + rows
    with pytest.raises(FormatError):
        PadIndex.from_bytes(PREFIX + rows + b"\0")


# -- tiles --------------------------------------------------------------------------------------------------


def test_tile_golden_bytes() -> None:
    """The example of format.md 4.3, and the file of a tensor without tiles."""
    data = PREFIX + u64(1, 2, 1, 50, 60, 25, 30)
    index = TileIndex.from_bytes(data)
    assert index.entries == {1: ((50, 60), (25, 30))}
    assert index.to_bytes() == data
    assert TileIndex.from_entries(index.entries) == index
    assert TileIndex.empty().to_bytes() == PREFIX + bytes(8)
    assert len(TileIndex.from_bytes(PREFIX + bytes(8))) == 0
    assert TileIndex.from_bytes(data + b"trailing") == index


def test_tiles_of_old_writers() -> None:
    """Without a version the numbers are big-endian."""
    old = np.array([1, 2, 1, 50, 60, 25, 30], ">u8").tobytes()
    assert TileIndex.from_bytes(old).entries == {1: ((50, 60), (25, 30))}
    assert len(TileIndex.from_bytes(bytes(8))) == 0


GRID = st.tuples(st.integers(0, 2**10), st.integers(0, 2**10))
TILE = st.tuples(st.integers(1, 2**40), st.integers(1, 2**40))


@given(st.dictionaries(st.integers(0, 2**40), st.tuples(GRID, TILE), max_size=4))
def test_tiles_round_trip(grids: dict[int, tuple[tuple[int, int], tuple[int, int]]]) -> None:
    """All shapes survive."""
    entries = {i: ((grid[0] * tile[0], grid[1] * tile[1]), tile) for i, (grid, tile) in grids.items()}
    assert TileIndex.from_bytes(TileIndex.from_entries(entries).to_bytes()).entries == entries


def test_too_many_tiles() -> None:
    """A few bytes that promise a grid of billions of tiles are refused before anybody lists them."""
    for shape in ((2**40, 2**40), (2**20 + 1, 1)):
        with pytest.raises(LimitError, match="MAX_TILES"):
            TileIndex.from_bytes(TileIndex.from_entries({0: (shape, (1, 1))}).to_bytes())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        u64(1),
        u64(1, 2),
        u64(1, 2, 1, 50, 60, 25),
        u64(2**61, 2),
        u64(1, 2**61),
        u64(1, 2, 1, 50, 60, 0, 30),
        u64(2**64 - 1, 2**64 - 1),
    ],
)
def test_damaged_tiles(body: bytes) -> None:
    """Counts are checked against the bytes before anything is allocated; a tile has an extent."""
    with pytest.raises(FormatError):
        TileIndex.from_bytes(PREFIX + body)


# -- all ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parse", PARSERS)
@given(data=st.binary(max_size=70), prefix=st.booleans())
def test_random_bytes(parse: Parse, data: bytes, prefix: bool) -> None:
    """Nothing but our errors comes out."""
    with contextlib.suppress(FormatError, LimitError):
        parse(PREFIX + data if prefix else data)
