"""Rows as dictionaries: columns are read by chunks, and converted to Python values in batches of some thousand rows.

tensor                      value
single numbers              int, float, bool; None for a null
class labels                their names, or the numbers if the tensor has no class names
dates and times             date, datetime, time, timedelta; the number if Python cannot represent the value
arrays, files, links        an array; None for a null
text, json, list            str, JSON values, lists; None for a null
sequences                   a list of the above
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from lakebed.htypes.base import Storing
from lakebed.reading.columns.scan import ColumnScan
from lakebed.reading.columns.strings import Encoded
from lakebed.reading.samples import SampleReader
from lakebed.reading.selection import Selection
from lakebed.session.columns import Batches
from lakebed.session.schema import approximate_size
from lakebed.session.table import Table
from lakebed.versions.state import TensorState

_MOST_ROWS = 4096
_MOST_BYTES = 1 << 25

Values = Callable[[Any], list[Any]]


def row_values(table: Table, *, labels: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table.

    Parameters
    ----------
    labels
        Return the names of class labels instead of their numbers.
    """
    names = tuple(table.names)
    if table.index.is_single:
        if names:
            yield {name: _one(table, name, labels=labels) for name in names}
        return
    scans = table.scans()
    if not names:
        return
    readers = [scans[name].reader for name in names]
    convert = [_values_of(reader, labels=labels) for reader in readers]
    for batch in Batches(table, _rows_at_once(scans)):
        columns = [values(batch[name]) for name, values in zip(names, convert, strict=True)]
        for row in zip(*columns, strict=True):
            yield dict(zip(names, row, strict=True))


def _one(table: Table, name: str, *, labels: bool) -> Any:
    """Return the value of a single row."""
    reader = table.reader(name)
    value = next(Selection(reader, table.index, lambda kind: table.companion(name, kind)).values())
    return _values_of(reader, labels=labels)([value])[0]


def value_of(selection: Selection) -> Any:
    """Return the value of one sample, or of a part of a sample, as in the table above; labels stay numbers."""
    reader, index = selection.reader, selection.index
    if index.inside:
        value = next(selection.values())
        return value[()] if isinstance(value, np.ndarray) else value
    return _values_of(reader, labels=False)([next(selection.values())])[0]


def _rows_at_once(scans: Mapping[str, ColumnScan]) -> int:
    """Return the number of rows whose values are held in memory at a time."""
    total = 0.0
    for scan in scans.values():
        state, dtype = scan.reader.state, scan.reader.dtype
        if dtype is not None and scan.reader.storing is Storing.ARRAY:
            total += dtype.itemsize * prod(state.meta.max_shape)
        else:
            total += approximate_size(state) / max(1, state.length)
    return int(max(1, min(_MOST_ROWS, _MOST_BYTES / max(1.0, total))))


def _values_of(reader: SampleReader, *, labels: bool) -> Values:
    if reader.state.sequence is not None:
        return list
    words = words_of(reader.state) if labels else None
    if words is not None:
        return lambda column: [_named(value, words) for value in _plain(column, is_scalar=reader.is_scalar)]
    moments = moments_of(reader) if reader.is_scalar else None
    if moments is not None:
        return moments
    is_scalar = reader.is_scalar and reader.storing is Storing.ARRAY
    return lambda column: _plain(column, is_scalar=is_scalar)


def words_of(state: TensorState) -> list[str] | None:
    """Return the names of the classes; None if the tensor has none."""
    names = state.info.get("class_names") if state.meta.htype == "class_label" else None
    return [str(name) for name in names] if isinstance(names, list | tuple) and names else None


def _plain(column: Any, *, is_scalar: bool) -> list[Any]:
    if isinstance(column, Encoded):
        return column.to_list()
    if not is_scalar:
        return list(column)
    if isinstance(column, np.ndarray):
        return list(column.reshape(-1).tolist())
    return [None if value is None or not np.size(value) else np.asarray(value).item() for value in column]


def _named(value: Any, words: list[str]) -> Any:
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return [_named(one, words) for one in value.tolist()]
    if isinstance(value, list):
        return [_named(one, words) for one in value]
    return words[value] if 0 <= value < len(words) else str(value)


def moments_of(reader: SampleReader) -> Values | None:
    """Return the function that turns a column of numbers into dates and times; None if they are plain numbers."""
    if reader.state.info.get("logical_type") is None:
        return None
    import pyarrow as pa

    from lakebed.reading.columns.arrow import arrow_type

    kind = arrow_type(reader)
    if not pa.types.is_temporal(kind):
        return None
    width = pa.int32() if kind.bit_width == 32 else pa.int64()

    def values(column: Any) -> list[Any]:
        numbers = _plain(column, is_scalar=True)
        moments = pa.array(numbers, width).cast(kind)
        try:
            return list(moments.to_pylist())
        except (OverflowError, ValueError):  # Python has no dates beyond the year 9999
            return [_moment(one, number) for one, number in zip(moments, numbers, strict=True)]

    return values


def _moment(moment: Any, number: int | None) -> Any:
    try:
        return moment.as_py()
    except (OverflowError, ValueError):
        return number
