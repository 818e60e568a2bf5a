"""Arrow tables -> data frames of pandas and polars, and relations of DuckDB; nothing is rounded on the way.

Arrow                            pandas
integers, booleans               NumPy dtypes if no value is null, else pandas' nullable dtypes (Int64, boolean)
floats                           NumPy dtypes; NaN where null
dictionaries                     Categorical
timestamps, durations            datetime64 and timedelta64 in their units, NaT where null
samples of several axes          an array in each row; None if null
strings, lists, dates, bytes     as pandas reads them: None (or NaN) where null
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lakebed.errors import InvalidInputError, ModuleNotInstalledException

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray

_NULLABLE = {
    "bool": "BooleanDtype",
    **{f"int{bits}": f"Int{bits}Dtype" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}Dtype" for bits in (8, 16, 32, 64)},
}


def needed(name: str, method: str) -> Any:
    """Import the package ``name`` for a method that needs it.

    Raises
    ------
    ModuleNotInstalledException
        If the package is not installed; the error says how to install it.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ModuleNotInstalledException(
            f"{method}() needs {name}, which is not installed: pip install {name}"
        ) from error


def to_pandas(table: pa.Table, arrays: Container[str] = ()) -> pd.DataFrame:
    """Return a data frame of pandas.

    Parameters
    ----------
    arrays
        Columns whose samples of several axes become one array each; in other columns lists of lists stay lists.
    """
    import pyarrow as pa

    pandas = needed("pandas", "to_pandas")
    table = table.unify_dictionaries()
    stacked = {
        name: found
        for name in table.column_names
        if name in arrays and (found := whole_arrays(table[name], pa)) is not None
    }
    if stacked:
        rest = _flat_to_pandas(table.drop_columns(list(stacked)), pandas)
        whole = {name: stacked[name] if name in stacked else rest[name] for name in table.column_names}
        return cast("pd.DataFrame", pandas.DataFrame(whole, columns=table.column_names, copy=False))
    return _flat_to_pandas(table, pandas)


def whole_arrays(column: pa.ChunkedArray, pa: Any) -> NDArray[np.object_] | None:
    """Convert lists of lists of numbers to an array of arrays; the array holds None for a row that is null.

    Return None for other columns, and if lists inside a sample differ in length, so that no array can hold the sample.
    """
    found = np.empty(len(column), object)
    inner: set[tuple[int, ...]] = set()  # lengths of the axes after the first one
    empty: list[int] = []
    row = 0
    for chunk in column.chunks:
        levels: list[tuple[Any, int]] = []
        values = chunk
        while pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
            if levels and values.null_count:
                return None
            is_fixed = pa.types.is_fixed_size_list(values.type)
            levels.append(
                (values.type.list_size, values.offset) if is_fixed else (values.offsets.to_numpy(), -1)
            )
            values = values.values
        is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        if len(levels) < 2 or values.null_count or not (is_number or pa.types.is_boolean(values.type)):
            return None
        flat = values.to_numpy(zero_copy_only=False)
        for i, is_there in enumerate(chunk.is_valid().to_pylist()):
            if is_there:
                sample = _sample(levels, flat, i)
                if sample is None:
                    return None
                found[row] = sample
                if len(sample):
                    inner.add(sample.shape[1:])
                else:
                    empty.append(row)
            row += 1
    if not len(column.chunks):
        return None
    # An empty sample has only its first axis: take the lengths of the other axes from the other samples.
    if len(inner) == 1:
        for at in empty:
            found[at] = found[at].reshape((0, *next(iter(inner))))
    return found


def _sample(levels: list[tuple[Any, int]], flat: NDArray[Any], row: int) -> NDArray[Any] | None:
    """Copy one list of lists to an array; return None if lists in it differ in length."""
    start, stop, shape = row, row + 1, []
    for step, offset in levels:
        if offset >= 0:
            start, stop, extent = (start + offset) * step, (stop + offset) * step, step
        else:
            ends = step[start : stop + 1]
            lengths = np.diff(ends)
            if len(lengths) and (lengths != lengths[0]).any():
                return None
            extent = int(lengths[0]) if len(lengths) else 0
            start, stop = int(ends[0]), int(ends[-1])
        shape.append(extent)
    return flat[start:stop].reshape(shape).copy()


def _flat_to_pandas(table: pa.Table, pandas: Any) -> pd.DataFrame:
    """Return a data frame of columns without arrays of several axes."""
    gapped = [
        field.name for field in table.schema if str(field.type) in _NULLABLE and table[field.name].null_count
    ]
    if not gapped:
        return cast("pd.DataFrame", table.to_pandas())

    def nullable(kind: Any) -> Any:
        return getattr(pandas, _NULLABLE[str(kind)])()

    apart = table.select(gapped).to_pandas(types_mapper=nullable)
    rest = table.drop_columns(gapped).to_pandas()
    whole = {name: apart[name] if name in gapped else rest[name] for name in table.column_names}
    return cast("pd.DataFrame", pandas.DataFrame(whole, columns=table.column_names, copy=False))


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a data frame of polars."""
    return cast("pl.DataFrame", needed("polars", "to_polars").DataFrame(table))


def to_duckdb(
    rows: Any, names: Iterable[str], connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyRelation:
    """Return a relation of DuckDB over some columns of a source of Arrow data; each query reads the data again."""
    module = needed("duckdb", "to_duckdb")
    where: Any = module if connection is None else connection
    relation: duckdb.DuckDBPyRelation = where.from_arrow(rows).project(", ".join(map(quoted, names)))
    return relation


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def row_numbers(table: Any, name: str, length: int) -> list[int]:
    """Return the row numbers that a column of a table holds.

    Parameters
    ----------
    table
        A relation of DuckDB, a source of Arrow data, or a data frame of pandas.
    length
        Rows of the dataset.

    Raises
    ------
    InvalidInputError
        If the table has no such column, or the column holds other values than row numbers below `length`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    hint = "make the relation by ds.to_duckdb(row_ids=True), and name that column after SELECT"
    names = getattr(table, "columns", None) if hasattr(table, "project") else None
    if names is not None and name in names:
        table = table.project(f'"{name}"')  # a relation of DuckDB then computes only this column
    if not hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__arrow_c_array__"):
        raise InvalidInputError(
            f"a view can be made from a relation or a table, not from {type(table).__name__}"
        )
    found = pa.table(table)
    if name not in found.column_names:
        raise InvalidInputError(
            f"the table has no column {name!r} of row numbers, only {', '.join(found.column_names)}: {hint}"
        )
    if found.column_names.count(name) > 1:
        raise InvalidInputError(
            f"the table has several columns {name!r}: name the one of this dataset with AS, and pass row_ids="
        )
    column = found.column(name)
    if not pa.types.is_integer(column.type):
        raise InvalidInputError(f"column {name!r} holds {column.type}, not row numbers: {hint}")
    if column.null_count:
        raise InvalidInputError(
            f"column {name!r} has {column.null_count:,} rows without a number, as outer joins make them: "
            f"leave them out by WHERE {name} IS NOT NULL"
        )
    if len(column):
        low, high = (value.as_py() for value in pc.min_max(column).values())
        if low < 0 or high >= length:
            raise InvalidInputError(
                f"column {name!r} names row {low if low < 0 else high}, and the dataset has {length:,} rows"
            )
    numbers: list[int] = column.to_pylist()
    return numbers


class _Row(dict[str, Any]):
    """A row whose values are attributes, too."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__iter__":
            return None  # from 3.1 on, pandas makes no columns of dataclasses that have it
        return self[name] if name in self else super().__getattribute__(name)


def _row_class(names: Sequence[str]) -> type[_Row]:
    """Return a dataclass for rows, since pandas puts objects of other classes into a single column."""
    from dataclasses import fields, make_dataclass

    places = [f"_{at}" for at in range(len(names))]
    found = make_dataclass("Row", places, bases=(_Row,), init=False, repr=False, eq=False)
    for field, name in zip(fields(found), names, strict=True):
        field.name = name
    return found


def array_of_rows(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> NDArray[Any]:
    """Return rows as an array of objects, shape (rows,), which ``pandas.DataFrame`` splits into columns."""
    listed = [*map(_row_class(names), rows)]
    found = np.empty(len(listed), object)
    found[:] = listed
    return found
