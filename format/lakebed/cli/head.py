"""``lakebed head``: the first rows of a dataset."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.opening import as_of_option, moment
from lakebed.cli.output import json_option, say_json, say_lines, with_errors


@click.command()
@click.argument("url")
@click.option("-n", "--rows", default=10, show_default=True, help="How many rows.")
@click.option("-t", "--tensor", "tensors", multiple=True, help="Only this tensor; may be repeated.")
@as_of_option
@json_option
@with_errors
def head(url: str, rows: int, tensors: tuple[str, ...], as_of: str | None, as_json: bool) -> None:
    """Show the first rows of URL[@branch, @commit or @tag]."""
    ds = lakebed.load(url, read_only=True, as_of=moment(as_of))
    records = describe.records(ds, rows, tensors or None)
    if as_json:
        for record in records:
            say_json(record, indent=None)
        return
    names = list(tensors) or list(ds.tensors)
    cells = [[describe.cell(record[name]) for name in names] for record in records]
    say_lines(describe.table(names, cells))
