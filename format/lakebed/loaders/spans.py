"""Rows -> spans: runs of neighbouring samples of about half a megabyte; each span is read and shuffled as a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakebed.loaders.order import Spans
from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Rows
from lakebed.versions.chunk_table import ChunkTable

SPAN_BYTES = 1 << 19
"""Approximate stored bytes of a span: its transfer takes longer than the request, and a window has many spans."""

# Assumed size of samples of unknown size, such as linked files, in bytes.
_UNKNOWN = 1 << 18


@dataclass(frozen=True, slots=True)
class SpanTable:
    """The spans of a selection of rows.

    Parameters
    ----------
    rows
        The selected rows; the rows of span ``i`` are ``rows[starts[i] : starts[i + 1]]``.
    starts
        Position of the first row of each span, and the end of the last span: int64, shape (spans + 1,).
    sizes
        Sizes of the spans, for the order.
    """

    rows: Rows
    starts: NDArray[np.int64]
    sizes: Spans

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def total(self) -> int:
        """Approximate number of stored bytes."""
        return int(self.sizes.nbytes.sum())

    def nbytes_of(self, span: int) -> int:
        """Return the approximate number of stored bytes of a span."""
        return int(self.sizes.nbytes[span])

    def find(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the spans of positions in the selection, and the positions inside them."""
        spans = np.searchsorted(self.starts, positions, side="right") - 1
        return spans, positions - self.starts[spans]

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row numbers at positions in the selection."""
        if isinstance(self.rows, range):
            return positions * self.rows.step + self.rows.start
        return np.asarray(self.rows[positions], dtype=np.int64)

    def rows_of(self, span: int) -> Rows:
        """Return the rows of a span."""
        return self.rows[int(self.starts[span]) : int(self.starts[span + 1])]


@dataclass(frozen=True, slots=True)
class Chunked:
    """The chunks of one tensor: the last row of each, and its stored bytes."""

    last: NDArray[np.int64]
    nbytes: NDArray[np.int64]
    is_whole: bool
    """Whether chunks must be read as a whole, because they are compressed."""

    @property
    def total(self) -> int:
        return int(self.nbytes.sum())


def chunked(reader: SampleReader, table: ChunkTable) -> Chunked:
    """Return the chunks of a tensor, or of a page of it; if they are unknown, pieces of equal size."""
    state = reader.state
    length = state.length
    sizes = table.places.sizes.astype(np.int64)
    last = table.ids.last.astype(np.int64)
    counts = np.diff(last, prepend=-1)
    value = None if reader.dtype is None else reader.dtype.itemsize * int(np.prod(state.meta.max_shape))
    unknown = sizes == 0
    # If no manifest has the stored size of a chunk, estimate it by the size of its values.
    if unknown.any():
        sizes = np.where(unknown, np.maximum(counts, 1) * max(1, _UNKNOWN if value is None else value), sizes)
    # Compressed chunks are decompressed in memory, where they are as large as their values.
    if reader.chunk_codec() is not None and value is not None:
        sizes = np.maximum(sizes, counts * value)
    if reader.is_link or state.sequence is not None:
        size = _UNKNOWN * length if reader.is_link else int(sizes.sum())
        pieces = max(1, min(length, size // SPAN_BYTES))
        ends = np.linspace(0, length, pieces + 1).astype(np.int64)[1:] - 1
        return Chunked(ends, np.full(pieces, size // pieces, np.int64), is_whole=True)
    # The tiles of a sample have the same last row; count them as one chunk.
    if len(last) and np.any(last[1:] == last[:-1]):
        ends = np.append(np.flatnonzero(last[1:] != last[:-1]), len(last) - 1)
        sizes = np.add.reduceat(sizes, np.append(0, ends[:-1] + 1))
        last = last[ends]
    return Chunked(last, sizes, is_whole=reader.chunk_codec() is not None)


def measured(reader: SampleReader) -> tuple[float, int]:
    """Return the bytes and samples of a tensor; a tensor in pages is measured by its first page."""
    table = reader.state.table
    part = (
        table if reader.is_link or reader.state.sequence is not None or not len(table) else table.page(0)[0]
    )
    found = chunked(reader, part)
    samples = int(found.last[-1]) + 1 if len(found.last) else 0
    return (
        (found.total, samples)
        if part is table
        else (found.total / max(1, samples) * table.count, table.count)
    )


def span_table(readers: Mapping[str, SampleReader], rows: Rows, *, single: bool = False) -> SpanTable:
    """Cut a selection into spans along the chunks of the tensor that has the most bytes.

    Parameters
    ----------
    readers
        The tensors that are read span by span; if none is given, all rows are one span.
    rows
        The selected rows: in the requested order, or sorted if they will be shuffled.
    single
        Make each row a span of its own.
    """
    found = [chunked(reader, reader.state.table) for reader in readers.values()]
    if not found or not len(rows):
        count = len(rows)
        sizes = Spans(*(np.array([value], np.int64)[: min(1, count)] for value in (count, max(1, count), 0)))
        return SpanTable(rows, np.array([0, count][: 1 + min(1, count)], np.int64), sizes)
    primary = max(found, key=lambda cut: cut.total)
    edges, of_chunk = edges_of(primary)
    per_row = sum(cut.total / max(1, int(cut.last[-1]) + 1) for cut in found if len(cut.last))
    if single:
        numbers = np.asarray(rows, dtype=np.int64)
        chunk = np.searchsorted(primary.last, numbers)
        ones = np.ones(len(numbers), np.int64)
        sizes = Spans(ones, np.full(len(numbers), max(1, int(per_row)), np.int64), chunk.astype(np.int64))
        return SpanTable(rows, np.arange(len(numbers) + 1, dtype=np.int64), sizes)
    return _grouped(rows, edges, of_chunk, per_row)


def edges_of(cut: Chunked) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each span of a whole tensor, and the number of its chunk."""
    counts = np.diff(cut.last, prepend=-1)
    pieces = np.ones(len(counts), np.int64)
    if not cut.is_whole:
        pieces = np.clip(np.rint(cut.nbytes / SPAN_BYTES).astype(np.int64), 1, np.maximum(1, counts))
    chunk = np.repeat(np.arange(len(counts)), pieces)
    first = np.repeat(cut.last + 1 - counts, pieces)
    nth = np.arange(len(chunk)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return first + nth * np.repeat(counts, pieces) // np.repeat(pieces, pieces), chunk


def single_rows(readers: Mapping[str, SampleReader], rows: NDArray[np.int64]) -> SpanTable:
    """Return a selection of which each row is a span of its own, without reading the whole chunk index."""
    per_row = sum(total / max(1, samples) for total, samples in map(measured, readers.values()))
    nbytes = np.full(len(rows), max(1, int(per_row)), np.int64)
    sizes = Spans(np.ones(len(rows), np.int64), nbytes, np.arange(len(rows)))
    return SpanTable(rows, np.arange(len(rows) + 1), sizes)


def _grouped(rows: Rows, edges: NDArray[np.int64], of_chunk: NDArray[np.int64], per_row: float) -> SpanTable:
    # If the rows are 0, 1, 2, ..., the edges of chunks are the starts of spans.
    if isinstance(rows, range) and rows == range(rows.stop):
        inside = int(np.searchsorted(edges, rows.stop))
        starts, chunk = np.append(edges[:inside], rows.stop), of_chunk[:inside]
    else:
        wanted = np.asarray(rows, dtype=np.int64)
        span = np.searchsorted(edges, wanted, side="right") - 1
        change = np.flatnonzero(span[1:] != span[:-1]) + 1
        starts = np.concatenate([[0], change, [len(wanted)]]).astype(np.int64)
        chunk = of_chunk[span[starts[:-1]]]
    count = np.diff(starts)
    nbytes = np.maximum(1, count * per_row).astype(np.int64)
    return SpanTable(rows, starts, Spans(count, nbytes, chunk))


def runs(rows: Rows) -> Sequence[tuple[int, int]]:
    """Return the runs (first, stop) of consecutive row numbers."""
    if isinstance(rows, range) and rows.step == 1:
        return [(rows.start, rows.stop)] if len(rows) else []
    wanted = np.asarray(rows, dtype=np.int64)
    cuts = np.flatnonzero(np.diff(wanted) != 1) + 1
    firsts, stops = wanted[np.append(0, cuts)], wanted[np.append(cuts - 1, len(wanted) - 1)] + 1
    return list(zip(firsts.tolist(), stops.tolist(), strict=True))
