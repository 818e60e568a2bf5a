"""Rows of Python -> columns: of Arrow where all values of a key are of one type, others as they are.

values                                        column
integers; integers and floats; booleans       Arrow's numbers, if no digit is lost
text, dates, times, decimals, bytes           Arrow's
lists and arrays of numbers, one axis         lists; of one length where all are as long
arrays of several axes                        apart, as arrays
dictionaries, anything mixed                  apart, as JSON
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np

from lakebed.errors import IngestionError
from lakebed.importers.columns import plain_value
from lakebed.writing.encode.missing_values import plain_rows

_TOLD = (bool, int, float, str, bytes, date, time, timedelta, Decimal, UUID)
"""What JSON holds, or a text says in full."""


@dataclass
class PythonColumns:
    """Columns of rows.

    Parameters
    ----------
    count
        How many rows there are.
    names
        Keys in order.
    arrow
        Columns of Arrow by key.
    apart
        The others, and, in `documents`, which of them are JSON.
    """

    count: int
    names: Sequence[str]
    arrow: dict[str, Any] = field(default_factory=dict)
    apart: dict[str, Sequence[Any]] = field(default_factory=dict)
    documents: set[str] = field(default_factory=set)


def columns_of_rows(
    rows: Iterable[Mapping[str, Any]], documents: Sequence[str] = (), embeddings: Sequence[str] = ()
) -> PythonColumns:
    """Return the columns of rows.

    Parameters
    ----------
    documents, embeddings
        Keys that are JSON, and whose integers are floats.

    Raises
    ------
    IngestionError
        If a row is no dictionary, or a key no text.
    """
    listed = list(rows)
    names: dict[str, None] = {}
    for at, row in enumerate(listed):
        if not isinstance(row, Mapping):
            raise IngestionError(f"rows are dictionaries, row {at} is of type {type(row).__name__}")
        for key in row:
            if not isinstance(key, str):
                raise IngestionError(f"row {at} has the key {key!r}; keys are names of tensors")
        names |= dict.fromkeys(row)
    found = PythonColumns(len(listed), list(names))
    for name in names:
        values, _ = plain_rows([row.get(name) for row in listed])
        there = [value for value in values if value is not None]
        if all(isinstance(value, np.ndarray) and value.ndim > 1 for value in there) and there:
            found.apart[name] = list(values)
            continue
        column = None if name in documents else _arrow(list(values), there, is_vector=name in embeddings)
        if column is None:
            found.documents.add(name)
            found.apart[name] = [_document(value, name, row) for row, value in enumerate(values)]
        else:
            found.arrow[name] = column
    return found


def _arrow(values: list[Any], there: list[Any], *, is_vector: bool) -> Any:
    """Return values as a column of Arrow; None if they are no such."""
    import pyarrow as pa

    if any(isinstance(value, Mapping | set) for value in there):
        return None
    lists = [value for value in there if isinstance(value, list | tuple | np.ndarray)]
    if lists and (len(lists) < len(there) or not all(map(_is_numbers, lists))):
        return None
    try:
        column = pa.array(values)
        if is_vector and lists and pa.types.is_integer(column.type.value_type):
            column = column.cast(pa.list_(pa.float64()))
        lengths = {len(value) for value in lists}
        if len(lengths) == 1 and pa.types.is_list(column.type):
            column = column.cast(pa.list_(column.type.value_type, lengths.pop()))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return column


def _is_numbers(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "biuf"
    return all(isinstance(one, int | float | np.number | np.bool_) for one in value)


def _document(value: Any, name: str, row: int) -> Any:
    """Return a value as JSON has it.

    Raises
    ------
    IngestionError
        If it holds an object of which JSON could only keep what `str` says.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _document(one, name, row) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_document(one, name, row) for one in value]
    if value is None or isinstance(value, _TOLD):
        return plain_value(value)
    raise IngestionError(
        f"row {row}: {name!r} is of type {type(value).__name__}, from which no type of tensor follows. Create the "
        "tensors with ds.create_tensor, and add the rows with ds.extend(rows)"
    )
