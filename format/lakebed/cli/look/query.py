"""``lakebed query``: rows that fulfil conditions, and columns computed from them."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.addresses import as_of_option, opened
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json, say_lines, table

SHOWN = 50
"""Rows that are printed for people."""

rows_option = click.option(
    "-n", "--rows", type=int, help=f"How many rows at most; {SHOWN} for people, all for programs."
)
csv_option = click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="Print CSV; control characters are shown escaped, which --json and --parquet keep.",
)
parquet_option = click.option("--parquet", metavar="FILE", help="Write the rows as a Parquet file.")


@command
@click.argument("url")
@click.argument("query_string", metavar="QUERY")
@rows_option
@csv_option
@click.option("--count", is_flag=True, help="Print how many rows there are, and nothing of them.")
@click.option("--explain", is_flag=True, help="Print how the query would be answered.")
@click.option("--analyze", is_flag=True, help="Answer it, and print how, and what that took.")
@parquet_option
@click.option("--save", metavar="URL", help="Store the rows as a dataset.")
@click.option("--timeout", type=float, help="Seconds after which it gives up.")
@click.option(
    "-p", "--parameter", "parameters", multiple=True, help="Value of a ? in the query; may be repeated."
)
@click.option(
    "--param",
    "named",
    metavar="NAME=VALUE",
    multiple=True,
    help='Value of $NAME in the query: a number, null, true, false, [a, list] or "a text" in JSON, else text as it is; '
    "may be repeated.",
)
@as_of_option
def query(
    url: str,
    query_string: str,
    rows: int | None,
    as_csv: bool,
    count: bool,
    explain: bool,
    analyze: bool,
    parquet: str | None,
    save: str | None,
    timeout: float | None,
    parameters: tuple[str, ...],
    named: tuple[str, ...],
    as_of: str | None,
    as_json: bool,
) -> None:
    """Answer QUERY, in the tensor query language, about URL[@branch, @commit or @tag].

    For example: lakebed query photos "SELECT * WHERE kind = 'wren' ORDER BY wingspan LIMIT 5"
    """
    ds = opened(url, as_of)
    values: list[Any] | dict[str, Any] = [_value(text) for text in parameters]
    if named:
        if parameters:
            raise click.UsageError("-p is for ?, and --param for $name: a query uses only one of the two")
        values = dict(map(_pair, named))
    if explain or analyze:
        steps = ds.explain(query_string, values, analyze=analyze)
        if as_json:
            say_json({"steps": steps.splitlines()})
        else:
            say_lines(steps)
        return
    found = ds.query(query_string, parameters=values, timeout=timeout)
    if count:
        say(str(len(found)))
        return
    if parquet is not None or save is not None:
        _store(found, parquet, save)
        return
    names = list(found.tensors)
    records = _records(found)
    if rows is not None or not (as_json or as_csv):
        records = itertools.islice(records, SHOWN if rows is None else rows)
    if as_json:
        for record in records:
            say_json(record, indent=None)
    elif as_csv:
        print_csv(names, ([record[name] for name in names] for record in records))
    else:
        _print_table(names, list(records), len(found))


def _value(text: str) -> Any:
    """Return a parameter as a number if it is one, else as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _pair(text: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--param")
    if value[:1] in ("[", "{", '"') or value in ("null", "true", "false"):
        try:
            return name, json.loads(value)
        except ValueError as error:
            raise click.BadParameter(
                f"the value of {name!r} is not JSON: {error}", param_hint="--param"
            ) from None
    return name, _value(value)


def _records(found: Any) -> Iterator[dict[str, Any]]:
    rows = found.rows() if isinstance(found, lakebed.Dataset) else found.shown_rows()
    for record in rows:
        yield {name: describe.plain(value) for name, value in record.items()}


def print_csv(names: list[str], rows: Iterable[list[Any]]) -> None:
    """Print a heading and rows as CSV."""

    def line(values: list[Any]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(values)
        return text.getvalue()

    say(line(names))
    for row in rows:
        say(line(row))


def _print_table(names: list[str], records: list[dict[str, Any]], total: int) -> None:
    cells = [[describe.cell(record[name]) for name in names] for record in records]
    say_lines(table(names, cells))
    more = f", {len(records)} of them shown" if len(records) < total else ""
    say(f"{total:,} rows{more}")


def _store(found: Any, parquet: str | None, save: str | None) -> None:
    if parquet is not None:
        import pyarrow.parquet as pq

        pq.write_table(found.to_arrow(), parquet)
        say(f"{len(found):,} rows are in {parquet}")
    if save is not None:
        if isinstance(found, lakebed.Dataset):
            lakebed.copy(found, save, progressbar=False)
        else:
            found.materialize(save)
        say(f"{len(found):,} rows are in {save}")
