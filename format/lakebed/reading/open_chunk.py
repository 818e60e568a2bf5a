"""State of reading one chunk file: its size, its checksums, the positions of its samples, and the data read so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.probe import ChunkHeader, SamplePlace
from lakebed.documents.layouts import Layout, Words
from lakebed.documents.manifest import BLOCK
from lakebed.versions.chunk_table import ChunkTable

Bytes = bytes | memoryview


class ByteRange(NamedTuple):
    """Bytes ``start`` to ``stop`` of a file."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


class OpenChunk:
    """A chunk file that is read by range: its mapping or verified blocks, and its header once that was read.

    Parameters
    ----------
    size
        Bytes of the file; 0 if unknown.
    sums
        Checksum of each block; empty if unknown.
    is_settled
        Whether it never changes again, because it is in no folder that a Deep Lake 3.x writer changes.

    Attributes
    ----------
    mapped
        The whole file, if it could be mapped.
    blocks
        Verified data. The key of a block is its number; the key of a sample that was read alone is the bitwise
        complement of the sample's number.
    """

    __slots__ = (
        "_layout",
        "_told",
        "blocks",
        "header",
        "header_read",
        "is_open",
        "is_settled",
        "key",
        "mapped",
        "seen",
        "size",
        "sums",
    )

    def __init__(self, key: str, size: int, sums: NDArray[np.uint64], *, is_settled: bool) -> None:
        self.key = key
        self.size = size
        self.sums = sums
        self.is_settled = is_settled
        self.mapped: memoryview | None = None
        self.seen = bytearray(len(sums))
        self.blocks: dict[int, memoryview] = {}
        self.header: ChunkHeader | None = None
        self.header_read = False
        self._layout: Layout | None = None
        self._told: tuple[ChunkTable, int] | None = None
        # True while the source knows this chunk; when it is False, callers must get the chunk from the source again.
        self.is_open = True

    @property
    def layout(self) -> Layout | None:
        """Layout of the chunk's samples, as far as it is known without reading the header; None if unknown."""
        told = self._told
        if self._layout is None and told is not None:
            table, row = told
            words = table.layout(row)
            if len(words):
                self.lay_out(words, table.samples(row))
            self._told = None
        return self._layout

    def lay_out(self, words: Words, count: int) -> None:
        """Set the layout of the ``count`` samples of the chunk."""
        self._layout = Layout(words, count, self.size)

    def told_by(self, table: ChunkTable, row: int) -> None:
        """Set the table and its row from which the layout is read when it is first needed."""
        self._told = table, row

    def starts(self) -> Sequence[int] | None:
        """Return the start of each sample in the file and the end of the last; None if not known yet."""
        if self.header is not None:
            return self.header.offsets
        return None if self.layout is None else self.layout.starts

    def known_place(self, sample: int) -> SamplePlace | None:
        """Return position and shape of a sample; None unless both are known without a request."""
        if self.header is not None:
            return self.header.place(sample)
        shape = None if self.layout is None else self.layout.shape(sample)
        if self.layout is None or shape is None:
            return None
        start, stop = self.layout.span(sample, sample + 1)
        return SamplePlace(start, stop - start, shape)

    @property
    def has_sample_sums(self) -> bool:
        """Return whether single samples can be verified without reading their whole blocks."""
        return self.layout is not None and self.layout.sums is not None

    def is_blocks(self, span: ByteRange) -> bool:
        """Return whether a range consists of whole blocks."""
        return span.start % BLOCK == 0 and (span.stop % BLOCK == 0 or span.stop == self.size)

    def blocks_of(self, start: int, stop: int) -> ByteRange:
        """Return the range widened to whole blocks."""
        return ByteRange(start // BLOCK * BLOCK, min(-(-stop // BLOCK) * BLOCK, self.size))


def described(table: ChunkTable, row: int, heads: frozenset[str], key: str | None = None) -> OpenChunk:
    """Return the chunk of a row as its table describes it."""
    table, row = table.page(row)
    size, is_settled = table.size(row), table.folder(row)[0] not in heads
    chunk = OpenChunk(key or table.key(row), size, table.sums(row), is_settled=is_settled)
    if table.places.known_layouts is not None:
        chunk.told_by(table, row)
    return chunk
