"""Columns of a table, read directly from chunks if samples are stored uncompressed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.htypes.base import Storing
from lakebed.query.values.columns import (
    Column,
    Mask,
    Numbers,
    Objects,
    Ragged,
    Rows,
    Texts,
    collect,
    concatenated,
    strings,
    take,
)
from lakebed.query.values.info import Info
from lakebed.reading.columns.arrow import arrow_column, taken_column
from lakebed.reading.columns.scan import ChunkRun, ColumnScan

if TYPE_CHECKING:
    from lakebed.reading.samples import SampleReader
    from lakebed.session.table import Table
    from lakebed.versions.state import TensorState

_WINDOW_BYTES = 1 << 26
_MOST_ROWS = 1 << 20
_EVEN_ROWS = 1 << 18
_GOOD_ROWS = 1 << 14
_LEAST_ROWS = 1 << 4
_FIRST_ROWS = 1 << 12
# Assumed size of a JSON value in memory. With this size, 16,384 values are decoded between two checks of the clock,
# which takes about 50 ms.
_DOCUMENT_BYTES = 1 << 12
# Duplicate row numbers are removed by a table if the range of the numbers is at most this many times their count;
# otherwise by sorting.
_SPARSE = 8

_V = TypeVar("_V")


class Lazy(Mapping[str, _V]):
    """A mapping whose values are made on first use: a dataset may have many tensors that a query does not use."""

    def __init__(self, names: Collection[str], make: Callable[[str], _V]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, _V] = {}

    def __getitem__(self, name: str) -> _V:
        if name not in self._made:
            if name not in self._names:
                raise KeyError(name)
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Facts(NamedTuple):
    """Properties of a tensor that are known before it is read.

    Attributes
    ----------
    is_plain
        True if samples are stored as uncompressed arrays.
    has_statistics
        True if chunks can have statistics: uncompressed numbers and texts.
    """

    info: Info
    dtype: np.dtype[Any] | None
    is_text: bool
    is_plain: bool
    has_statistics: bool
    row_bytes: int


_known: WeakKeyDictionary[SampleReader, dict[bool, _Facts]] = WeakKeyDictionary()


def _facts(scan: ColumnScan) -> _Facts:
    """Return the properties of a tensor, kept with its reader, which later queries of the same state reuse."""
    reader = scan.reader
    by_nulls = _known.setdefault(reader, {})
    found = by_nulls.get(scan.has_nulls)
    if found is None:
        is_even = not reader.state.meta.sample_compression and not scan.is_special
        is_text = reader.storing is Storing.TEXT and is_even
        dtype = reader.dtype
        is_array = is_even and reader.storing is Storing.ARRAY and reader.decoder.is_plain
        is_plain = is_array and dtype is not None
        has_statistics = is_text or (is_plain and dtype is not None and dtype.kind in "biuf")
        found = _Facts(_info(scan), dtype, is_text, is_plain, has_statistics, max(1, _bytes(scan)))
        by_nulls[scan.has_nulls] = found
    return found


class StoredColumn:
    """One tensor of a table."""

    def __init__(self, table: Table, name: str) -> None:
        self.table = table
        self.name = name
        self.scan = table.scan(name, keep=True)
        facts = _facts(self.scan)
        self.info, self.dtype, self.is_text, self._is_plain, self.has_statistics, self.row_bytes = facts

    @property
    def state(self) -> TensorState:
        """State of the tensor as queries read it: it includes rows that are not published yet."""
        return self.scan.reader.state

    # -- values ----------------------------------------------------------------------------------------------------

    def read(self, rows: Rows) -> Column:
        """Return rows of the tensor by number."""
        if not len(rows):
            return self._nothing()
        if isinstance(rows, range) and rows.step == 1:
            return self._range(rows.start, rows.stop)
        wanted = np.asarray(rows, np.int64)
        if len(wanted) == int(wanted[-1]) - int(wanted[0]) + 1 and bool((np.diff(wanted) == 1).all()):
            return self._range(int(wanted[0]), int(wanted[-1]) + 1)
        if self.is_text:
            found, places = distinct(wanted)
            texts = Texts(taken_column(self.scan, found, pa.string()))
            return texts if places is None else take(texts, places)
        return _column(self.scan.gathered(wanted) if self.scan.is_dense else self.scan.picked(wanted))

    def _nothing(self) -> Column:
        reader = self.scan.reader
        if reader.storing is Storing.TEXT:
            return strings([])
        if reader.storing is Storing.ARRAY and reader.dtype is not None:
            meta = reader.state.meta
            if reader.is_fixed or self.info.rank is None:
                return Numbers(np.zeros((0, *meta.max_shape), reader.dtype))
            return Ragged(np.zeros(0, reader.dtype), np.zeros((0, max(1, self.info.rank)), np.int64))
        return Objects([])

    def _range(self, start: int, stop: int) -> Column:
        if self.is_text:
            return Texts(arrow_column(self.scan, start, stop, pa.string()))
        if self._is_plain and not self.scan.is_dense:
            return self._ragged(start, stop)
        reader = self.scan.reader
        if reader.storing is Storing.ARRAY and reader.dtype is None and reader.state.sequence is None:
            rank = max(1, len(reader.state.meta.max_shape))
            return Ragged(
                np.zeros(0), np.zeros((stop - start, rank), np.int64), self.scan.null_mask(start, stop)
            )
        return _column(self.scan.column(start, stop))

    def _ragged(self, start: int, stop: int) -> Column:
        parts: list[Column] = []
        reader = self.scan.reader
        dtype, rank = reader.known_dtype(), len(reader.state.meta.max_shape)
        for run in self.scan.cursor.runs(start, stop):
            try:
                parts.append(_of_run(run, dtype, rank, self.scan.null_mask(run.row, run.row + run.count)))
            except FormatError as error:
                raise reader.located(error, run.row) from error
        return concatenated(parts)

    # -- shapes ----------------------------------------------------------------------------------------------------

    def shapes(self, rows: Rows) -> NDArray[np.uint32] | None:
        """Return the shapes of samples without reading values; None if that is impossible."""
        reader = self.scan.reader
        if reader.state.sequence is not None or reader.storing in (Storing.LIST, Storing.POLYGON):
            return None
        if reader.storing in (Storing.TEXT, Storing.JSON):
            return np.ones((len(rows), 1), np.uint32)
        if reader.is_fixed and reader.state.meta.length:
            shape = np.array(reader.state.meta.max_shape, np.uint32)
            return np.broadcast_to(shape, (len(rows), len(shape)))
        companion = self.table.companion(self.name, "shape")
        if companion is not None and companion.is_fixed and not reader.is_link:
            wanted = np.asarray(rows, np.int64)
            if not len(wanted) or int(wanted.max()) < companion.state.length:
                return companion.stacked(rows).astype(np.uint32)
        return reader.shapes(rows).astype(np.uint32)

    def facts(self, rows: Rows) -> Objects:
        """Return the recorded properties of the files of samples: dictionaries."""
        companion = self.table.companion(self.name, "info")
        if companion is None:
            return Objects([{} for _ in range(len(rows))])
        known = companion.state.length
        return Objects([companion.value(int(r)) if int(r) < known else {} for r in rows])

    def missing(self, rows: Rows) -> Mask | None:
        """Return the mask of samples that are recorded as missing (`Info.are_nulls_apart`); None if none is missing."""
        if not len(rows) or not self.scan.has_nulls:
            return None
        wanted = np.asarray(rows, np.int64)
        first = int(wanted.min())
        found = self.scan.null_mask(first, int(wanted.max()) + 1)
        return None if found is None else found[wanted - first]

    # -- windows ---------------------------------------------------------------------------------------------------

    def chunk_ends(self) -> NDArray[np.int64]:
        """Return the row at which each chunk ends; an empty array for sequences, whose chunks count items, not rows."""
        if self.state.sequence is not None:
            return np.empty(0, np.int64)
        ends: NDArray[np.int64] = self.state.table.ids.last.astype(np.int64) + 1
        return ends


def windows(
    row_bytes: int, count: int, *, is_soon: bool, ends: NDArray[np.int64] | None = None
) -> Iterator[range]:
    """Yield consecutive ranges of rows 0 to `count` that fit into memory.

    Parameters
    ----------
    is_soon
        True to begin with few rows, for a reader that may not need all rows.
    ends
        Rows at which chunks end; a range that is large enough ends at one of these. None if rows are not consecutive.
    """
    most = _EVEN_ROWS if ends is None else _MOST_ROWS
    most = max(_LEAST_ROWS, min(most, _WINDOW_BYTES // max(1, row_bytes)))
    rows = min(most, _FIRST_ROWS) if is_soon else most
    start = 0
    while start < count:
        stop = min(count, start + rows)
        if ends is not None:  # end at the end of a chunk: samples of a single chunk need no copy
            at = int(np.searchsorted(ends, start + min(rows, _GOOD_ROWS), side="left"))
            stop = min(stop, int(ends[at])) if at < len(ends) else stop
        yield range(start, stop)
        start = stop
        rows = min(most, rows * 4)


def distinct(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return the distinct rows, ascending, and the index of each row among them; no index if `rows` ascend already."""
    if bool((rows[1:] > rows[:-1]).all()):
        return rows, None
    first = int(rows.min())
    span = int(rows.max()) - first + 1
    if span > _SPARSE * len(rows):
        found, places = np.unique(rows, return_inverse=True)
        return found, places.reshape(-1).astype(np.int64, copy=False)
    inside = rows - first
    is_there = np.zeros(span, np.bool_)
    is_there[inside] = True
    return np.flatnonzero(is_there) + first, (np.cumsum(is_there) - 1)[inside]


def _of_run(run: ChunkRun, dtype: np.dtype[Any], rank: int, mask: NDArray[np.bool_] | None) -> Ragged:
    """Return the samples of a chunk as views of its bytes."""
    chunk = run.chunk
    if chunk.ndim is None:
        return Ragged(np.zeros(0, dtype), np.zeros((run.count, max(1, rank)), np.int64), mask)
    shapes = chunk.shapes()[run.start : run.stop].astype(np.int64)
    offsets = chunk.offsets()
    begin, end = int(offsets[run.start]), int(offsets[run.stop])
    if chunk.is_unwritten:
        flat = np.zeros(int(np.prod(shapes, axis=1).sum()), dtype)
    else:
        if (end - begin) % dtype.itemsize:
            raise FormatError("the chunk's bytes do not match the shapes of its samples")
        flat = np.frombuffer(chunk.data[begin:end], dtype)
    found = Ragged(flat, shapes, mask)
    if not chunk.is_unwritten:
        told = offsets[run.start : run.stop + 1]
        if not np.array_equal(found.offsets * dtype.itemsize, told - begin if begin else told):
            raise FormatError("the chunk's bytes do not match the shapes of its samples")
    return found


def _column(values: Any) -> Column:
    """Convert the result of a scan of a tensor to a column."""
    if isinstance(values, np.ma.MaskedArray):
        mask = np.asarray(np.ma.getmaskarray(values).reshape(len(values), -1).any(axis=1))
        return Numbers(np.asarray(values.data), mask if mask.any() else None)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
        return Numbers(values)
    return collect([_stacked(value) for value in values])


def _stacked(value: Any) -> Any:
    """Return a list of arrays of one shape, such as a sequence, as one array."""
    if not isinstance(value, list) or not value or not all(isinstance(item, np.ndarray) for item in value):
        return value
    return np.stack(value) if len({item.shape for item in value}) == 1 else value


def _info(scan: ColumnScan) -> Info:
    reader = scan.reader
    state, meta = reader.state, reader.state.meta
    info = state.info
    names = info.get("class_names") if reader.htype.name == "class_label" else None
    kind = {Storing.TEXT: "text", Storing.JSON: "json", Storing.LIST: "json"}.get(reader.storing, "array")
    if reader.storing is Storing.POLYGON:
        kind = "any"
    is_sequence = state.sequence is not None
    given = info.get("coords")
    coords = given if isinstance(given, dict) else {}
    return Info(
        kind="any" if is_sequence and kind != "array" else kind,
        dtype=reader.dtype,
        rank=len(meta.max_shape) + is_sequence if meta.max_shape else None,
        class_names=tuple(map(str, names)) if names else None,
        htype=reader.htype.name,
        coords=str(coords.get("mode") or "LTWH").upper(),
        unit=str(coords.get("type") or "").lower(),
        logical=str(info.get("logical_type") or ""),
        cost=_cost(scan),
        # For single numbers an empty sample means null, and JSON and lists may hold nulls that other programs wrote:
        # such nulls are not recorded separately.
        are_nulls_apart=not reader.is_nullable and reader.storing not in (Storing.JSON, Storing.LIST),
    )


def _bytes(scan: ColumnScan) -> int:
    """Return the approximate size of a row in memory."""
    reader = scan.reader
    meta = reader.state.meta
    if reader.storing in (Storing.JSON, Storing.LIST):
        return _DOCUMENT_BYTES
    if reader.storing is not Storing.ARRAY or reader.dtype is None:
        return 64
    length = 1 if reader.state.sequence is None else 8
    return int(math.prod(meta.max_shape) * reader.dtype.itemsize) * length


def _cost(scan: ColumnScan) -> float:
    """Return the relative cost of reading a row."""
    reader = scan.reader
    if reader.is_link:
        return 100_000.0
    weight = _bytes(scan) / 8
    if reader.decoder.files is not None:
        return 100.0 + weight * 10
    if reader.storing in (Storing.JSON, Storing.LIST):
        return 200.0
    return 10.0 if reader.storing is Storing.TEXT else max(1.0, weight)
