"""Reading of the selected rows by columns: NumPy batches and Arrow streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, InvalidOperationError
from lakebed.reading.columns.scan import ColumnScan
from lakebed.reading.remote.prefetch import prefetch
from lakebed.reading.subscripts import Rows
from lakebed.session.schema import approximate_size
from lakebed.session.table import Table

if TYPE_CHECKING:
    from lakebed.reading.columns.shown import ShownColumn

Batch = dict[str, Any]

# Maximum numbers of rows and of bytes that are read at a time if rows are not consecutive.
_MOST_ROWS = 1 << 16
_MOST_BYTES = 1 << 26


def row_window(rows: Rows) -> tuple[int, int] | None:
    """Return (start, stop) if the rows are consecutive, else None."""
    if isinstance(rows, range) and (rows.step == 1 or len(rows) <= 1):
        return (rows[0], rows[-1] + 1) if len(rows) else (0, 0)
    return None


def _length(scans: Mapping[str, ColumnScan]) -> int:
    return min((scan.reader.state.length for scan in scans.values()), default=0)


def _rows_of(table: Table, scans: Mapping[str, ColumnScan]) -> Rows:
    """Return the selected rows that all scans have; rows that another thread added later are left out."""
    length = _length(scans)
    return table.index.rows(length) if length else table.shared_rows()


def read_columns(table: Table, start: int, stop: int) -> dict[str, Any]:
    """Return rows ``start`` to ``stop`` (exclusive) of tensors as Arrow arrays; see ``Dataset.read_columns``."""
    from lakebed.reading.columns.arrow import arrow_column, arrow_type

    scans = table.scans(keep=True)
    _check_rows(scans, start, stop - 1, stop - start)
    with _ahead(scans, start, stop):
        return {
            name: arrow_column(scan, start, stop, arrow_type(scan.reader)) for name, scan in scans.items()
        }


def take_rows(table: Table, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return rows of tensors as Arrow arrays in the given order; see ``Dataset.take_rows``."""
    from lakebed.reading.columns.arrow import arrow_type, number_array, taken_column

    given = row_numbers(rows)
    wanted, order = given, None
    if not bool((given[1:] > given[:-1]).all()):
        wanted, order = np.unique(given, return_inverse=True)
    scans = table.scans()
    _check_rows(scans, *((int(wanted[0]), int(wanted[-1])) if len(wanted) else (0, 0)), len(wanted))
    with prefetch([part for scan in scans.values() for part in scan.wanted(wanted)]):
        found = {name: taken_column(scan, wanted, arrow_type(scan.reader)) for name, scan in scans.items()}
    if order is None:
        return found
    import pyarrow as pa

    places = number_array(order.astype(np.int64), pa.int64())
    return {name: array.take(places) for name, array in found.items()}


def row_numbers(rows: Any) -> NDArray[np.int64]:
    """Return row numbers as int64.

    Raises
    ------
    InvalidInputError
        If ``rows`` are not row numbers.
    """
    found = np.asarray(rows)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise InvalidInputError(
            f"rows are a one-dimensional array of row numbers, not {found.dtype} {found.shape}"
        )
    return found.astype(np.int64, copy=False)


def ascending(rows: Any) -> NDArray[np.int64]:
    """Return row numbers as int64.

    Raises
    ------
    InvalidInputError
        If ``rows`` are not row numbers, do not ascend, or repeat a number.
    """
    found = row_numbers(rows)
    if not bool((found[1:] > found[:-1]).all()):
        raise InvalidInputError("the rows must ascend, each once; sort them, for example with numpy.unique")
    return found


def _check_rows(scans: Mapping[str, ColumnScan], first: int, last: int, count: int) -> None:
    length = _length(scans)
    if count < 0 or (count and not 0 <= first <= last < length):
        raise IndexError(f"rows {first} to {last} are out of range: the shortest of the tensors has {length}")


class Batches:
    """Batches of columns over the rows of a table; each iteration starts again."""

    def __init__(self, table: Table, batch_size: int, *, datetimes: bool = False) -> None:
        if batch_size < 1:
            raise InvalidInputError(f"batch_size is {batch_size}; it must be at least 1")
        if table.index.inside:
            raise InvalidOperationError("batches are made of whole rows; drop the subscripts inside samples")
        self._table = table
        self._batch_size = batch_size
        self._datetimes = datetimes

    def __len__(self) -> int:
        """Return the number of batches."""
        return (len(self._table.shared_rows()) + self._batch_size - 1) // self._batch_size

    def __iter__(self) -> Iterator[Batch]:
        scans = self._table.scans()
        if not self._datetimes:
            yield from self._plain(scans)
            return
        from lakebed.reading.columns.filled import as_moments, moments_dtype

        infos = {name: scan.reader.state.info.get("logical_type") for name, scan in scans.items()}
        dtypes = {name: dtype for name, info in infos.items() if (dtype := moments_dtype(info)) is not None}
        for batch in self._plain(scans):
            yield {
                name: as_moments(column, dtypes[name]) if name in dtypes else column
                for name, column in batch.items()
            }

    def _plain(self, scans: Mapping[str, ColumnScan]) -> Iterator[Batch]:
        rows = _rows_of(self._table, scans)
        window = row_window(rows)
        size = self._batch_size
        if window is None:
            yield from self._scattered(scans, np.asarray(rows, np.int64))
            return
        start, stop = window
        with _ahead(scans, start, stop):
            for first in range(start, stop, size):
                last = min(first + size, stop)
                yield {name: scan.column(first, last) for name, scan in scans.items()}

    def _scattered(self, scans: Mapping[str, ColumnScan], rows: NDArray[np.int64]) -> Iterator[Batch]:
        """Yield batches of rows that are not consecutive.

        Samples of one shape are copied from memory-mapped files. Numbers of other shapes, and text, are read for many
        batches at a time, so that each chunk is read once for all these batches.
        """
        size = self._batch_size
        direct = {name: found for name, scan in scans.items() if (found := scan.scattered(rows)) is not None}
        dense = {name: scan for name, scan in scans.items() if scan.is_dense and name not in direct}
        step = size * max(1, _window_rows(dense) // size)
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            window = _window(dense, part) if dense else {}
            for at in range(0, len(part), size):
                some = part[at : at + size]
                yield {
                    name: window[name][at : at + size]
                    if name in window
                    else direct[name].take(some)
                    if name in direct
                    else scan.picked(some)
                    for name, scan in scans.items()
                }


def _window(scans: Mapping[str, ColumnScan], rows: NDArray[np.int64]) -> Batch:
    """Return rows of tensors of numbers and text in the given order; each chunk is read once."""
    order = np.argsort(rows, kind="stable")
    far = [scan for scan in scans.values() if scan.reader.source.remote is not None]
    with prefetch([one for scan in far for one in scan.wanted(rows[order])]):
        return {name: scan.gathered(rows, order) for name, scan in scans.items()}


def _window_rows(scans: Mapping[str, ColumnScan]) -> int:
    """Return the number of rows of tensors of numbers and text to read at a time."""
    states = [scan.reader.state for scan in scans.values()]
    row = sum(approximate_size(state) / max(1, state.length) for state in states)
    return int(min(_MOST_ROWS, _MOST_BYTES / max(1.0, row)))


def _ahead(scans: Mapping[str, ColumnScan], start: int, stop: int) -> AbstractContextManager[object]:
    """Return a context in which consecutive rows of all columns are read ahead, if the storage is remote."""
    return prefetch([wanted for scan in scans.values() for wanted in scan.wanted(range(start, stop))])


ROW_ID = "row_id"
"""Name of the column that holds each row's number in the whole dataset."""


def arrow_stream(table: Table, *, labels: bool = False, files: bool = False, row_ids: bool = False) -> Any:
    """Return the rows of a table as a ``pyarrow.RecordBatchReader``.

    Parameters
    ----------
    labels
        Return class labels as dictionary columns with their names instead of numbers.
    files
        Return files as their bytes and links as their addresses instead of arrays.
    row_ids
        Add the column ``row_id``: the number of each row in the whole dataset, int64.

    Raises
    ------
    InvalidOperationError
        If parts of samples are selected.
    """
    import pyarrow as pa

    from lakebed.reading.columns.shown import ShownColumn

    if table.index.inside:
        raise InvalidOperationError(
            "an Arrow stream is made of whole rows; drop the subscripts inside samples"
        )
    scans = table.scans()
    columns = {name: ShownColumn.of(scan, labels=labels, files=files) for name, scan in scans.items()}
    schema = pa.schema([pa.field(name, column.kind) for name, column in columns.items()])
    rows = _rows_of(table, scans)
    window = row_window(rows)
    batches = (
        _picked_batches(columns, schema, rows)
        if window is None
        else _batches_ahead(scans, columns, schema, *window)
    )
    if row_ids:
        schema = schema.append(pa.field(ROW_ID, pa.int64()))
        batches = _numbered(batches, schema, rows)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _numbered(batches: Iterator[Any], schema: Any, rows: Rows) -> Iterator[Any]:
    """Yield record batches with a column of row numbers added."""
    import pyarrow as pa

    start = 0
    for batch in batches:
        numbers = np.asarray(rows[start : start + len(batch)], dtype=np.int64)
        start += len(batch)
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers)], schema=schema)


@dataclass(frozen=True)
class ArrowRows:
    """Rows that every consumer of Arrow data can read, any number of times.

    Parameters
    ----------
    labels, files, row_ids
        As for :func:`arrow_stream`.
    """

    table: Table
    labels: bool = False
    files: bool = False
    row_ids: bool = False

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream."""
        stream = arrow_stream(self.table, labels=self.labels, files=self.files, row_ids=self.row_ids)
        return stream.__arrow_c_stream__(requested_schema)


def _batches_ahead(
    scans: Mapping[str, ColumnScan], columns: Mapping[str, ShownColumn], schema: Any, start: int, stop: int
) -> Iterator[Any]:
    """Yield record batches of consecutive rows."""
    import pyarrow as pa

    size = _batch_rows(columns)
    with _ahead(scans, start, stop):
        for first in range(start, stop, size):
            last = min(first + size, stop)
            arrays = [column.column(first, last) for column in columns.values()]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _picked_batches(columns: Mapping[str, ShownColumn], schema: Any, rows: Rows) -> Iterator[Any]:
    """Yield record batches of rows that are not consecutive; each batch reads a chunk once."""
    import pyarrow as pa

    wanted, size = np.asarray(rows, dtype=np.int64), _batch_rows(columns)
    for first in range(0, len(wanted), size):
        part = wanted[first : first + size]
        yield pa.RecordBatch.from_arrays([column.taken(part) for column in columns.values()], schema=schema)


def _batch_rows(columns: Mapping[str, ShownColumn]) -> int:
    from lakebed.reading.columns.arrow import BATCH_ROWS
    from lakebed.reading.columns.shown import FILE_ROWS

    return FILE_ROWS if any(column.how == "files" for column in columns.values()) else BATCH_ROWS
