"""``lakebed views``: list and delete saved views, and make datasets of their rows."""

from __future__ import annotations

import sys
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.opening import writable
from lakebed.cli.output import json_option, say, say_json, say_lines, with_errors
from lakebed.runtime import clock


@click.command()
@click.argument("dataset")
@click.option("-d", "--delete", metavar="ID", help="Delete this view; its rows stay in the dataset.")
@click.option(
    "--materialize",
    nargs=2,
    metavar="ID DEST",
    help="Make a dataset at DEST of the rows of this view, in its order; after a kill, the same command goes on.",
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST.")
@json_option
@with_errors
def views(
    dataset: str, delete: str | None, materialize: tuple[str, str] | None, overwrite: bool, as_json: bool
) -> None:
    """List the saved views of DATASET; --delete ID removes one, --materialize ID DEST makes a dataset of its rows.

    For example: lakebed views photos
    """
    if delete is not None and materialize:
        raise click.UsageError("--delete and --materialize do not go together")
    if overwrite and not materialize:
        raise click.UsageError("--overwrite goes with --materialize")
    if delete is not None:
        ds = writable(dataset)
        _entry(ds, delete).delete()
        if as_json:
            say_json({"deleted": delete})
        else:
            say(f"deleted view {delete}")
        return
    ds = lakebed.load(dataset, read_only=True)
    if not materialize:
        _list(ds, as_json=as_json)
        return
    name, dest = materialize
    found = _entry(ds, name).load(verbose=False)
    found.materialize(dest, overwrite=overwrite, progressbar=sys.stderr.isatty())
    made = lakebed.load(dest, read_only=True)
    if as_json:
        say_json({"view": name, "path": dest, "rows": made.max_len, "tensors": len(made.tensors)})
    else:
        say(f"{dest}: {made.max_len} rows of view {name}, {len(made.tensors)} tensors")


def _entry(ds: lakebed.Dataset, name: str) -> Any:
    try:
        return ds.get_view(name)
    except KeyError as error:
        there = ", ".join(entry.id for entry in ds.get_views()[:20])
        raise click.ClickException(f"there is no view {name!r}; views: {there or 'none'}") from error


def _list(ds: lakebed.Dataset, *, as_json: bool) -> None:
    found = ds.get_views()
    if as_json:
        say_json([entry.info for entry in found])
    elif not found:
        say("no views yet", err=True)
    else:
        rows = [
            [
                entry.id,
                entry.commit_id[:12],
                _saved(entry),
                "row numbers" if entry.virtual else "copied",
                describe.cell(entry.message or entry.tql_query or entry.query or ""),
            ]
            for entry in found
        ]
        say_lines(describe.table(["view", "commit", "saved", "holds", "message"], rows))


def _saved(entry: Any) -> str:
    at = entry.get("created_at")
    return f"{clock.utc(at)} UTC" if isinstance(at, int | float) else "-"
