"""``lakebed sql``: statements in the SQL of DuckDB about datasets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.commands import command
from lakebed.cli.look.query import SHOWN, csv_option, parquet_option, print_csv, rows_option
from lakebed.cli.output import say, say_json, say_lines, table
from lakebed.errors import LakebedError, QueryError

if TYPE_CHECKING:
    import duckdb


@command
@click.argument("statement")
@rows_option
@csv_option
@parquet_option
def sql(statement: str, rows: int | None, as_csv: bool, parquet: str | None, as_json: bool) -> None:
    """Answer STATEMENT, in the SQL of DuckDB, about datasets: FROM lake('URL[@branch, @commit or @tag]').

    For example: lakebed sql "SELECT kind, count(*) FROM lake('photos') GROUP BY kind"
    """
    try:
        found = lakebed.sql(statement)
        if found is None:
            return
        if parquet is not None:
            found.write_parquet(parquet)
            say(f"the rows are in {parquet}")
            return
        names, records = list(found.columns), _records(found)
        if as_json:
            for record in itertools.islice(records, rows):
                say_json(dict(zip(names, record, strict=True)), indent=None)
        elif as_csv:
            print_csv(names, itertools.islice(records, rows))
        else:
            _print_table(names, records, SHOWN if rows is None else rows)
    except LakebedError:  # also raised if DuckDB is not installed
        raise
    except _errors() as error:
        raise QueryError(str(error)) from error


def _errors() -> tuple[type[Exception], ...]:
    import duckdb
    import pyarrow as pa

    return duckdb.Error, pa.ArrowException


def _records(found: duckdb.DuckDBPyRelation) -> Iterator[list[Any]]:
    import pyarrow as pa

    for batch in pa.RecordBatchReader.from_stream(found):
        columns = [column.to_pylist() for column in batch.columns]
        yield from ([_plain(value) for value in record] for record in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """Return a value as JSON; decimals, intervals and similar types become texts."""
    found = describe.plain(value)
    if isinstance(found, Decimal) and found.as_tuple().exponent == 0:
        return int(found)  # a sum of integers is a Decimal
    return found if found is None or isinstance(found, bool | int | float | str | list | dict) else str(found)


def _print_table(names: list[str], records: Iterator[list[Any]], most: int) -> None:
    cells = [[describe.cell(value) for value in record] for record in itertools.islice(records, most)]
    say_lines(table(names, cells))
    has_more = next(records, None) is not None
    say(f"the first {len(cells):,} rows" if has_more else f"{len(cells):,} rows")
