"""Columns of many consecutive rows, chunk by chunk: NumPy batches without per-row Python for fixed shapes.

A batch inside one chunk is a view of the chunk's bytes; buffers are used again once the caller drops the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.chunk import Chunk
from lakebed.errors import FormatError, LakebedError, LimitError, StorageError
from lakebed.htypes.base import Storing
from lakebed.native import chunks as native
from lakebed.reading.bulk import cut
from lakebed.reading.columns.strings import Documents, Encoded, Lists, Strings, join
from lakebed.reading.locate import Locating
from lakebed.reading.remote.prefetch import Wanted
from lakebed.reading.samples import SampleReader
from lakebed.reading.selection import Selection
from lakebed.reading.subscripts import Index, Rows

if TYPE_CHECKING:
    from lakebed.reading.columns.scattered import ScatteredRows

Column = Any

_DENSE = 8
"""If at least this many rows of a chunk are requested, the whole chunk is read once."""

_ENCODED: Mapping[Storing, type[Encoded[Any]]] = {
    Storing.TEXT: Strings,
    Storing.JSON: Documents,
    Storing.LIST: Lists,
}


@dataclass(frozen=True, slots=True)
class ChunkRun:
    """Samples ``start`` to ``stop`` of one chunk; ``row`` is the tensor's row of the first of these samples."""

    chunk: Chunk
    start: int
    stop: int
    row: int

    @property
    def count(self) -> int:
        return self.stop - self.start


class Cursor:
    """Iterates over the chunks of one tensor in the order of rows, and keeps the current chunk in memory."""

    def __init__(self, reader: SampleReader, *, keep: bool = False) -> None:
        self.reader = reader
        self._keep = keep
        self._ordinal = -1
        self._chunk: Chunk | None = None
        self.expanded: tuple[Chunk, NDArray[Any], NDArray[np.bool_]] | None = None

    def runs(self, start: int, stop: int) -> Iterator[ChunkRun]:
        """Yield the runs that cover rows ``start`` to ``stop`` (exclusive).

        Raises
        ------
        CorruptError
            If a chunk is damaged; the error names tensor and row.
        """
        reader = self.reader
        table, codec = reader.state.table, reader.chunk_codec()
        row = start
        while row < stop:
            ordinal = int(np.searchsorted(table.ids.last, np.uint64(row)))
            first = table.first(ordinal)
            end = min(stop, int(table.ids.last[ordinal]) + 1)
            if ordinal != self._ordinal or self._chunk is None:
                self._chunk = None  # free the buffer of the old chunk for the next one
                self.expanded = None
                try:
                    self._chunk = reader.source.chunk(table, ordinal, codec, keep=self._keep)
                except (FormatError, LimitError, StorageError) as error:
                    raise reader.located(error, row) from error
                self._ordinal = ordinal
            yield ChunkRun(self._chunk, row - first, end - first, row)
            row = end


@dataclass(frozen=True, slots=True)
class _Layout:
    """Layout of a tensor's samples in its chunks.

    Attributes
    ----------
    is_special
        Whether samples are files, tiled, links, or in sequences, so that their values are not simply bytes of a chunk.
    is_fixed, is_fixed_beside_nulls
        Whether all samples have one shape, and whether all samples that are not null have one shape.
    """

    is_special: bool
    encoded: type[Encoded[Any]] | None
    is_masked: bool
    is_fixed: bool
    is_fixed_beside_nulls: bool


_layouts: WeakKeyDictionary[SampleReader, _Layout] = WeakKeyDictionary()


def _layout(reader: SampleReader) -> _Layout:
    """Return the layout of samples; kept by the reader, since each query needs it again."""
    found = _layouts.get(reader)
    if found is not None:
        return found
    meta = reader.state.meta
    is_special = (
        reader.is_link
        or reader.has_tiles
        or reader.state.sequence is not None
        or reader.storing is Storing.POLYGON
        or reader.decoder.files is not None
    )
    plain = not meta.sample_compression and not is_special
    is_masked = plain and reader.is_nullable
    is_fixed = plain and reader.is_fixed and not is_masked
    encoded = _ENCODED.get(reader.storing) if plain else None
    found = _Layout(is_special, encoded, is_masked, is_fixed, is_fixed and 0 not in meta.max_shape)
    return _layouts.setdefault(reader, found)


class ColumnScan:
    """Reads consecutive rows of one tensor as columns.

    Parameters
    ----------
    reader
        The tensor.
    nulls
        The tensor's null companion, if it has one.
    keep
        Put chunks into the cache, for readers of neighbouring samples.
    """

    def __init__(self, reader: SampleReader, nulls: SampleReader | None, *, keep: bool = False) -> None:
        self.reader = reader
        self.cursor = Cursor(reader, keep=keep)
        self._nulls = None if nulls is None else Cursor(nulls, keep=keep)
        self._sliceable: NDArray[Any] | Encoded[Any] | None = None
        self._first = self._end = 0
        layout = _layout(reader)
        self.is_special, self._encoded, self._is_masked = layout.is_special, layout.encoded, layout.is_masked
        self._is_fixed = layout.is_fixed if nulls is None else layout.is_fixed_beside_nulls

    @property
    def has_nulls(self) -> bool:
        """Return whether a companion records which rows are null."""
        return self._nulls is not None

    def wanted(self, rows: Rows) -> list[Wanted]:
        """Return the rows to read ahead."""
        if self.reader.is_link or self.reader.state.sequence is not None:
            return []
        whole = not self.is_special and isinstance(rows, range) and rows.step == 1
        found = [Wanted(self.reader, rows, whole)]
        if self._nulls is not None and isinstance(rows, range):
            known = self._nulls.reader.state.length
            found.append(Wanted(self._nulls.reader, range(rows.start, min(rows.stop, known)), whole=True))
        return found

    def wanted_chunks(self, runs: Sequence[range]) -> list[Wanted]:
        """Return the chunks of some runs of rows, for reading them ahead as a whole."""
        if self.is_special:
            return []
        readers = [self.reader] if self._nulls is None else [self.reader, self._nulls.reader]
        found = []
        for reader in readers:
            last = reader.state.table.ids.last
            edges = np.array([(run.start, run.stop - 1) for run in runs if len(run)], np.uint64).reshape(
                -1, 2
            )
            firsts, lasts = np.searchsorted(last, edges).T.tolist()
            parts = [
                np.arange(first, min(stop + 1, len(last))) for first, stop in zip(firsts, lasts, strict=True)
            ]
            chunks = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
            found.append(Wanted(reader, last[chunks].astype(np.int64), whole=True))
        return found

    def null_mask(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        """Return a mask of null rows, or None if no row is null; rows beyond the companion's end are not null."""
        if self._nulls is None:
            return None
        stop_known = min(stop, self._nulls.reader.state.length)
        parts = [
            _fixed(run, (1,), np.dtype(np.bool_)).reshape(-1) for run in self._nulls.runs(start, stop_known)
        ]
        parts.append(np.zeros(stop - max(start, stop_known), dtype=np.bool_))
        mask = np.concatenate(parts)
        return mask if mask.any() else None

    def column(self, start: int, stop: int) -> Column:
        """Return rows ``start`` to ``stop``: an ndarray, a MaskedArray if some numbers are null, Encoded, or a list."""
        if self._first <= start and stop <= self._end and self._sliceable is not None:
            return self._sliceable[start - self._first : stop - self._first]
        if self.is_special:
            return self.picked(range(start, stop))
        if stop <= start:
            return self._slow(start, stop)
        if self._encoded is not None:
            return self._encoded_column(self._encoded, start, stop)
        if self._is_fixed:
            return self._fixed_column(start, stop)
        if self._is_masked:
            return self._masked_column(start, stop)
        return self._slow(start, stop)

    def _encoded_column(self, kind: type[Encoded[Any]], start: int, stop: int) -> Encoded[Any]:
        parts: list[Encoded[Any]] = []
        self._sliceable = None  # return the buffer of the last chunk to the pool
        for run in self.cursor.runs(start, stop):
            try:
                whole = kind(run.chunk.data, run.chunk.offsets())
            except (FormatError, LimitError) as error:
                raise self._located(error, run.row) from error
            parts.append(whole.cut(run.start, run.stop))
            if self._nulls is None:
                self._keep(whole, run)
        return join(parts, self.reader.source.pool.take).with_nulls(self.null_mask(start, stop))

    def _keep(self, whole: NDArray[Any] | Encoded[Any], run: ChunkRun) -> None:
        """Keep the values of a whole chunk, so that later columns inside the chunk are slices of them."""
        self._sliceable = whole
        self._first = run.row - run.start
        self._end = self._first + len(whole)

    def _slow(self, start: int, stop: int) -> Column:
        values: list[Any] = []
        mask = self.null_mask(start, stop) if stop > start else None
        if mask is not None and mask.all():  # a tensor of nulls may have neither dtype nor rank yet
            return [None] * len(mask)
        if stop > start:
            for run in self.cursor.runs(start, stop):
                values.extend(self._run_values(run))
        if self.reader.is_nullable:
            values = [value if value.size else None for value in values]
        if mask is not None:
            for i in np.flatnonzero(mask).tolist():
                values[i] = None
        if self.reader.is_fixed and values and all(value is not None for value in values):
            return np.stack(values)
        return values

    def _run_values(self, run: ChunkRun) -> Iterator[Any]:
        reader = self.reader
        if reader.decoder.is_plain and reader.dtype is not None and not run.chunk.is_unwritten:
            with Locating(reader, run.row):
                if run.chunk.ndim is not None:
                    yield from cut(run.chunk, run.start, run.stop, reader.dtype, reader.source.pool.take)
                    return
        for i in range(run.start, run.stop):
            with Locating(reader, run.row + i - run.start):
                value = reader.decode(*reader.stored(run.chunk, i))
            yield value

    def picked(self, rows: Rows) -> Column:
        """Return rows in any order: an ndarray if all samples have one shape, else a list."""
        reader = self.reader
        if reader.is_fixed and reader.state.sequence is None and self._nulls is None:
            return reader.stacked(rows)
        if self._is_masked and len(rows):
            samples = list(reader.listed(rows))
            gone = np.array([sample.size == 0 for sample in samples], np.bool_).reshape(-1, 1)
            found = np.zeros(gone.shape, reader.known_dtype())
            found[~gone] = [sample[0] for sample in samples if sample.size]
            return np.ma.MaskedArray(found, mask=gone)
        wanted = np.asarray(rows).tolist() if self._nulls is not None else []
        nulls = [i for i, row in enumerate(wanted) if self.null_mask(row, row + 1) is not None]
        if nulls and len(nulls) == len(wanted):
            return [None] * len(nulls)
        if reader.state.sequence is None and reader.storing is Storing.ARRAY:
            values: list[Any] = list(reader.listed(rows))
            if reader.is_nullable:  # in a column of single numbers, an empty sample is a null
                values = [value if value.size else None for value in values]
        else:
            index = Index((tuple(np.asarray(rows).tolist()),))
            values = list(Selection(reader, index, lambda _: None).values())
        for i in nulls:
            values[i] = None
        is_even = reader.is_fixed and reader.state.sequence is None and type(None) not in map(type, values)
        return np.stack(values) if values and is_even else values

    @property
    def is_dense(self) -> bool:
        """Return whether chunks hold the samples uncompressed, so that one gather copies many rows of a chunk."""
        return self._is_fixed or self._is_masked or self._encoded is not None

    def scattered(self, rows: NDArray[np.int64]) -> ScatteredRows | None:
        """Return a reader of these rows, some at a time, from mapped files; None if :meth:`gathered` is better."""
        if not self._is_fixed:
            return None
        from lakebed.reading.columns.scattered import scattered

        return scattered(self.reader, rows, _DENSE)

    def gathered(self, rows: NDArray[np.int64], order: NDArray[np.int64] | None = None) -> Column:
        """Return any rows in the given order; a chunk with many of these rows is read once.

        Parameters
        ----------
        order
            Order that sorts the rows, as ``numpy.argsort`` returns it, if it is known.
        """
        if not len(rows) or not self.is_dense:
            return self.picked(rows)
        if order is None:
            order, cuts = self._by_chunk(rows)
            wanted = rows if order is None else rows[order]
        else:
            wanted = rows[order]
            cuts = np.flatnonzero(np.diff(self.reader.locate(wanted)[0])) + 1
        if len(rows) < _DENSE * (len(cuts) + 1):
            return self.picked(rows)
        if order is None:
            return self._of_chunk(rows)
        ends = [0, *cuts.tolist(), len(rows)]
        pieces = [wanted[a:b] for a, b in pairwise(ends)]
        if self._encoded is not None:
            return self._gathered_texts(pieces, order)
        found: NDArray[Any] | None = None
        gone = np.zeros(len(rows), np.bool_) if self._is_masked else None
        for places, piece in zip(np.split(order, cuts), pieces, strict=True):
            first = int(piece.min())
            column = self.column(first, int(piece.max()) + 1)
            inside = piece - first
            if found is None:
                found = np.empty((len(rows), *column.shape[1:]), column.dtype)
            if gone is not None:
                gone[places] = column.mask[inside, 0]
                column = column.data
            found[places] = np.take(column, inside, axis=0)
        if found is None or gone is None:
            return found
        return np.ma.MaskedArray(found, mask=gone.reshape(-1, 1))

    def _by_chunk(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
        """Return the order that groups rows by chunk (None for one chunk), and the positions where chunks change."""
        chunks = self.reader.locate(rows)[0]
        first, last = int(chunks.min()), int(chunks.max())
        if first == last:
            return None, np.zeros(0, np.int64)
        if last - first > len(rows):  # most of these chunks do not contain any of the rows
            order = np.argsort(chunks, kind="stable")
            return order, np.flatnonzero(np.diff(chunks[order])) + 1
        from lakebed.native import equals

        order, ends = equals.gathered(chunks - first, last - first + 1)
        return order, np.unique(ends)[1:-1]

    def _of_chunk(self, rows: NDArray[np.int64]) -> Column:
        """Return rows of one chunk, in the order given."""
        first = int(rows.min())
        column, inside = self.column(first, int(rows.max()) + 1), rows - first
        if isinstance(column, Encoded):
            nulls = None if column.nulls is None else column.nulls[inside]
            return _picked_texts(column.with_nulls(None), inside).with_nulls(nulls)
        if isinstance(column, np.ma.MaskedArray):
            return np.ma.MaskedArray(
                np.take(column.data, inside, axis=0), mask=np.take(column.mask, inside, axis=0)
            )
        return np.take(column, inside, axis=0)

    def _gathered_texts(self, pieces: list[NDArray[np.int64]], order: NDArray[np.int64]) -> Encoded[Any]:
        """Join the bytes of the pieces, then put the samples into the requested order."""
        parts, masks = [], []
        for piece in pieces:
            first = int(piece.min())
            column = self.column(first, int(piece.max()) + 1)
            inside = piece - first
            masks.append(np.zeros(len(piece), np.bool_) if column.nulls is None else column.nulls[inside])
            parts.append(_picked_texts(column.with_nulls(None), inside))
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        whole = _picked_texts(join(parts, self.reader.source.pool.take), inverse)
        nulls = np.empty(len(order), np.bool_)
        nulls[order] = np.concatenate(masks)
        return whole.with_nulls(nulls)

    def _fixed_column(self, start: int, stop: int) -> NDArray[Any]:
        shape, dtype = tuple(self.reader.state.meta.max_shape), self.reader.known_dtype()
        shape_bytes = dtype.itemsize * math.prod(shape)
        parts = []
        self._sliceable = None  # return the buffer of the last chunk to the pool
        try:
            for run in self.cursor.runs(start, stop):
                whole = _fixed(ChunkRun(run.chunk, 0, run.chunk.count, 0), shape, dtype)
                parts.append(whole[run.start : run.stop])
                if whole.flags.writeable:
                    self._keep(whole, run)
        except (FormatError, LimitError) as error:
            raise self._located(error, start) from error
        if len(parts) == 1 and parts[0].flags.writeable:
            return parts[0]
        # Copying into a used buffer is several times faster than copying into fresh memory.
        out = self.reader.source.pool.take((stop - start) * shape_bytes).view(dtype)
        return np.concatenate(parts, out=out.reshape(stop - start, *shape))

    def _masked_column(self, start: int, stop: int) -> np.ma.MaskedArray[Any, Any]:
        values, masks = [], []
        try:
            for run in self.cursor.runs(start, stop):
                chunk_values, absent = self._expanded(run.chunk)
                values.append(chunk_values[run.start : run.stop])
                masks.append(absent[run.start : run.stop])
        except (FormatError, LimitError) as error:
            raise self._located(error, start) from error
        joined = values[0] if len(values) == 1 else np.concatenate(values)
        mask = masks[0] if len(masks) == 1 else np.concatenate(masks)
        return np.ma.MaskedArray(joined.reshape(-1, 1), mask=mask.reshape(-1, 1))

    def _expanded(self, chunk: Chunk) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        cached = self.cursor.expanded
        if cached is None or cached[0] is not chunk:
            cached = (chunk, *expand_absent(chunk, self.reader.known_dtype()))
            self.cursor.expanded = cached
        return cached[1], cached[2]

    def _located(self, error: FormatError | LimitError, row: int) -> LakebedError:
        return self.reader.located(error, row)


def _picked_texts(column: Encoded[Any], rows: NDArray[np.int64]) -> Encoded[Any]:
    """Return only some rows of a column, with their bytes copied back to back."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.diff(column.offsets)[rows], out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    native.gather_variable(column.data, np.ascontiguousarray(column.offsets), rows, out)
    return type(column)(out.data, offsets)


def _fixed(run: ChunkRun, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    item = dtype.itemsize * math.prod(shape)
    chunk = run.chunk
    if chunk.is_unwritten or item == 0:
        return np.zeros((run.count, *shape), dtype=dtype)
    if chunk.uniform is None or chunk.uniform[1] != item:
        raise FormatError("the shapes of the chunk's samples differ from the one in the tensor's metadata")
    return np.frombuffer(chunk.data[run.start * item : run.stop * item], dtype=dtype).reshape(
        run.count, *shape
    )


def expand_absent(chunk: Chunk, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return a number for each row of a chunk, 0 if the sample is empty; and a mask, True where a sample is empty.

    Raises
    ------
    FormatError
        If a sample is neither one number nor empty.
    """
    sizes = np.diff(chunk.offsets())
    absent = sizes == 0
    if not np.all(absent | (sizes == dtype.itemsize)):
        raise FormatError("the chunk holds samples that are neither one number nor empty")
    out = np.empty(chunk.count, dtype=dtype)
    native.scatter_fixed(chunk.data, dtype.itemsize, (~absent).view(np.uint8), out.view(np.uint8))
    return out, absent
