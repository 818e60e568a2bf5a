"""Arrow tables -> data frames of pandas and polars, and relations of DuckDB; nothing is rounded on the way.

Arrow                            pandas
integers, booleans               NumPy's where no value is null, else pandas' own nullable ones (Int64, boolean)
floats                           NumPy's; NaN where null
dictionaries                     Categorical
timestamps, durations            datetime64 and timedelta64 in their units, NaT where null
strings, lists, dates, bytes     as pandas reads them: None (or NaN) where null
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from lakebed.errors import InvalidInputError, ModuleNotInstalledException

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_NULLABLE = {
    "bool": "BooleanDtype",
    **{f"int{bits}": f"Int{bits}Dtype" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UInt{bits}Dtype" for bits in (8, 16, 32, 64)},
}


def needed(name: str, method: str) -> Any:
    """Import a package of tables.

    Raises
    ------
    ModuleNotInstalledException
        If it is not installed; the error says how to install it.
    """
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise ModuleNotInstalledException(
            f"{method}() needs {name}, which is not installed: pip install {name}"
        ) from error


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a data frame of pandas."""
    pandas = needed("pandas", "to_pandas")
    table = table.unify_dictionaries()
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


def to_duckdb(rows: Any, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Return a relation of DuckDB over what hands out Arrow; queries read it anew."""
    module = needed("duckdb", "to_duckdb")
    where: Any = module if connection is None else connection
    relation: duckdb.DuckDBPyRelation = where.from_arrow(rows)
    return relation


def row_numbers(table: Any, name: str, length: int) -> list[int]:
    """Return the row numbers that a column of a table holds.

    Parameters
    ----------
    table
        A relation of DuckDB, or whatever hands out Arrow, or a data frame of pandas.
    length
        Rows of the dataset.

    Raises
    ------
    InvalidInputError
        If there is no such column, or it holds others than numbers from 0 to `length`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    hint = "make the relation by ds.to_duckdb(row_ids=True), and name that column behind SELECT"
    names = getattr(table, "columns", None) if hasattr(table, "project") else None
    if names is not None and name in names:
        table = table.project(f'"{name}"')  # a relation of DuckDB: the other columns are not computed
    if not hasattr(table, "__arrow_c_stream__") and not hasattr(table, "__arrow_c_array__"):
        raise InvalidInputError(f"a view is made of a relation or a table, not of {type(table).__name__}")
    found = pa.table(table)
    if name not in found.column_names:
        raise InvalidInputError(
            f"the table has no column {name!r} of row numbers, but {', '.join(found.column_names)}: {hint}"
        )
    if found.column_names.count(name) > 1:
        raise InvalidInputError(
            f"the table has several columns {name!r}: name the one of this dataset with AS, and pass row_ids="
        )
    column = found.column(name)
    if not pa.types.is_integer(column.type):
        raise InvalidInputError(f"column {name!r} holds {column.type}, no row numbers: {hint}")
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
