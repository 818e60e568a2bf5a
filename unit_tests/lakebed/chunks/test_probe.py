"""One sample of a chunk found without reading the file, against the full parse."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.pack import pack
from lakebed.chunks.probe import described, probe, read_header
from lakebed.codecs.block import Block
from lakebed.errors import FormatError
from unit_tests.effort import examples
from unit_tests.lakebed.chunks.blocks import Sample, block_lists, text


class CountingFile:
    """Ranges of a chunk file; a read beyond its end fails, as a storage's does."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.reads = 0

    def __call__(self, start: int, length: int) -> bytes:
        assert 0 <= start <= start + length <= len(self.raw)
        self.reads += 1
        return self.raw[start : start + length]


@settings(max_examples=examples(60))
@given(block_lists())
def test_probe_equals_parse_for_every_sample(blocks_and_samples: tuple[list[Block], list[Sample]]) -> None:
    """Both ways to read a sample see the same bytes and shape."""
    blocks, samples = blocks_and_samples
    if not samples:
        return
    raw = b"".join(pack(blocks).pieces)
    chunk = parse_chunk(raw, len(samples))
    for i in range(len(samples)):
        place = probe(CountingFile(raw), len(raw), len(samples), i)
        assert raw[place.start : place.start + place.nbytes] == bytes(chunk.sample(i))
        assert place.shape == (None if chunk.ndim is None else chunk.shape(i))


def test_probe_reads_few_rows_of_a_large_table() -> None:
    """A table of 4,000 rows costs a binary search, not a scan."""
    block, samples = text([str(i % 37) * (i % 7) for i in range(4000)])
    raw = b"".join(pack([block]).pieces)
    for i in (0, 1, 1999, 3999):
        file = CountingFile(raw)
        place = probe(file, len(raw), 4000, i)
        assert raw[place.start : place.start + place.nbytes] == samples[i][0]
        assert file.reads < 24


def test_samples_of_a_header_without_rows_are_empty() -> None:
    """What stands for nulls of unknown rank has no bytes and no shape; a table that ends too early is damage."""
    raw = b"\x063.9.52" + struct.pack("<iii", 0, 2, 0)
    place = probe(CountingFile(raw), len(raw), 3, 2)
    assert (place.nbytes, place.shape) == (0, None)
    assert described(CountingFile(raw), len(raw)) == 0
    raw = b"\x063.9.52" + struct.pack("<iiIIiIII", 1, 2, 2, 0, 1, 2, 0, 0) + b"ab"
    assert probe(CountingFile(raw), len(raw), 3, 0).nbytes == 2
    assert described(CountingFile(raw), len(raw)) == 1
    with pytest.raises(FormatError, match="ends before sample 2"):
        probe(CountingFile(raw), len(raw), 3, 2)


@pytest.mark.parametrize(
    "tail",
    [
        struct.pack("<ii", -1, 2),
        struct.pack("<ii", 1, 300),
        struct.pack("<ii", 1, -2),
        struct.pack("<ii", 2**31 - 1, 200),
        struct.pack("<iiIIi", 1, 2, 1, 1, -1),
        struct.pack("<iiIIi", 1, 2, 1, 1, 7),
        struct.pack("<iiIIiIII", 1, 2, 1, 1, 1, 9, 0, 1),
        struct.pack("<iiIIiIII", 1, 2, 1, 1, 1, 1, 2**32 - 1, 1),
        b"",
        b"\0\0\0",
    ],
)
def test_lying_headers_are_format_errors(tail: bytes) -> None:
    """Counts and positions that leave the file are found out before anything outside it is read."""
    raw = b"\x063.9.52" + tail + b"xy"
    with pytest.raises(FormatError):
        probe(CountingFile(raw), len(raw), 2, 1)


@settings(max_examples=examples(60))
@given(block_lists())
def test_a_header_gives_every_sample(blocks_and_samples: tuple[list[Block], list[Sample]]) -> None:
    """A header that is read once places all samples as the full parse does."""
    blocks, samples = blocks_and_samples
    if not samples:
        return
    raw = b"".join(pack(blocks).pieces)
    chunk = parse_chunk(raw, len(samples))
    header = read_header(CountingFile(raw), len(raw), len(samples))
    assert header is not None
    assert header.is_unwritten == chunk.is_unwritten
    assert header.shape_table().tolist() == chunk.shapes().tolist()
    for i in range(len(samples)):
        place = header.place(i)
        assert raw[place.start : place.start + place.nbytes] == bytes(chunk.sample(i))
        assert place.shape == (None if chunk.ndim is None else chunk.shape(i))


def test_a_huge_header_is_not_read() -> None:
    """Tables of a million rows are left to the binary search; a few bytes tell so."""
    raw = b"\x01v" + struct.pack("<ii", 40_000, 2) + bytes(8 * 40_000) + struct.pack("<i", 0)
    file = CountingFile(raw)
    assert read_header(file, len(raw), 40_000) is None
    assert file.reads <= 2


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x06abc",
        b"\x01v" + struct.pack("<ii", -1, 2) + bytes(60),
        b"\x01v" + struct.pack("<ii", 1, 300) + bytes(60),
        b"\x01v" + struct.pack("<ii", 1 << 30, 2) + bytes(60),
        b"\x01v" + struct.pack("<ii", 1, 2) + struct.pack("<III", 1, 9, 0),
        b"\x01v" + struct.pack("<ii", 1, 2) + struct.pack("<IIi", 1, 0, 1) + struct.pack("<III", 9, 0, 0),
        b"\x01v" + struct.pack("<ii", 0, 2) + struct.pack("<i", 1 << 30),
    ],
)
def test_damaged_headers_are_refused(raw: bytes) -> None:
    """Counts that leave the file, and rows that do not belong to the chunk, are errors before anything is allocated."""
    with pytest.raises(FormatError, match="damaged chunk"):
        read_header(CountingFile(raw), len(raw), 1)
