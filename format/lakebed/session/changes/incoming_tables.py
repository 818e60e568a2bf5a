"""Tables and rows given by a caller -> columns by tensor: pandas, polars, PyArrow, DuckDB, NumPy, dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lakebed.errors import SampleExtendingError
from lakebed.session.row_classes import row_of
from lakebed.session.tensor_samples import TensorSamples


def columns_of_table(table: Any) -> Mapping[str, Any]:
    """Return the columns of a table, or of rows that are dictionaries or instances of a class of rows.

    Parameters
    ----------
    table
        A data frame of pandas, an object that exports Arrow (PyArrow, polars, DuckDB), an array of NumPy with named
        fields, or rows as dictionaries, dataclasses or models of Pydantic.

    Raises
    ------
    SampleExtendingError
        If ``table`` is of another type, two columns have the same name, or rows differ in their keys.
    """
    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns"):
        return _named([str(name) for name in table.columns], lambda at: table.iloc[:, at])
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        return _arrow(table)
    if isinstance(table, np.ndarray) and table.dtype.names is not None:
        return {name: table[name] for name in table.dtype.names}
    if isinstance(table, Iterable) and not isinstance(table, str | bytes | np.ndarray):
        return _of_rows(list(table))
    raise _refused(table)


def _named(names: list[str], column: Any) -> dict[str, Any]:
    double = {name for name in names if names.count(name) > 1}
    if double:
        raise SampleExtendingError(f"Cannot extend: several columns are called {min(double)!r}")
    return {name: column(at) for at, name in enumerate(names)}


def _arrow(table: Any) -> dict[str, Any]:
    """Return the columns of an object that exports Arrow; a stream is read to its end."""
    import pyarrow as pa

    try:
        if isinstance(table, pa.Table | pa.RecordBatch):
            found = table
        elif hasattr(table, "__arrow_c_stream__"):
            found = pa.RecordBatchReader.from_stream(table).read_all()
        else:
            found = pa.record_batch(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _refused(table) from error
    return _named(list(found.schema.names), found.column)


def _of_rows(rows: list[Any]) -> dict[str, list[Any]]:
    """Turn rows into columns; all rows must have the same keys."""
    if not rows:
        return {}
    plain: list[Mapping[str, Any]] = []
    for at, row in enumerate(rows):
        found = row if isinstance(row, Mapping) else row_of(row) or _of_dataset(row)
        if found is None:
            raise _refused(row, f"row {at} is of type {type(row).__name__}")
        if plain and found.keys() != plain[0].keys():
            different = set(found) ^ set(plain[0])
            raise SampleExtendingError(
                f"Cannot extend: row {at} and row 0 differ in {', '.join(sorted(map(str, different)))}; give each row "
                "the same keys, with None for what is missing"
            )
        plain.append(found)
    return {name: [row[name] for row in plain] for name in plain[0]}


def _of_dataset(row: Any) -> dict[str, Any] | None:
    """Return the samples of a dataset's row; None for other objects."""
    tensors = getattr(row, "tensors", None)
    if not isinstance(tensors, Mapping) or not all(
        isinstance(one, TensorSamples) and one.is_single for one in tensors.values()
    ):
        return None
    return {
        name: next(iter(one.links() if one.is_link else one.recorded_values()))
        for name, one in tensors.items()
    }


def _refused(table: Any, what: str | None = None) -> SampleExtendingError:
    told = what or f"this is of type {type(table).__name__}"
    return SampleExtendingError(
        "Cannot extend: rows are a dictionary from tensor names to columns, for example {'x': [1, 2]}, a data frame, "
        f"an Arrow table, or a list of dictionaries; {told}"
    )
