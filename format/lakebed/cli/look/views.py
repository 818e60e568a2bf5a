"""``lakebed views``: list and delete saved views, and make datasets of their rows."""

from __future__ import annotations

import sys
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.addresses import writable
from lakebed.cli.commands import command, overwrite_option
from lakebed.cli.output import tell, tell_table
from lakebed.runtime import clock


@command
@click.argument("dataset")
@click.option("-d", "--delete", metavar="ID", help="Delete this view; its rows stay in the dataset.")
@click.option(
    "--materialize",
    nargs=2,
    metavar="ID DEST",
    help="Make a dataset at DEST of the rows of this view, in its order; after a kill, the same command goes on.",
)
@overwrite_option
def views(
    dataset: str, delete: str | None, materialize: tuple[str, str] | None, overwrite: bool, as_json: bool
) -> None:
    """List the saved views of DATASET; --delete ID removes one, --materialize ID DEST makes a dataset of its rows.

    For example: lakebed views photos
    """
    if delete is not None and materialize:
        raise click.UsageError("--delete and --materialize do not go together")
    if overwrite and not materialize:
        raise click.UsageError("--overwrite needs --materialize")
    if delete is not None:
        _entry(writable(dataset), delete).delete()
        tell({"deleted": delete}, f"deleted view {delete}", as_json=as_json)
        return
    ds = lakebed.load(dataset, read_only=True)
    if not materialize:
        found = ds.get_views()
        headings = ["view", "commit", "saved", "holds", "message"]
        tell_table([e.info for e in found], headings, list(map(_row, found)), "no views yet", as_json=as_json)
        return
    name, dest = materialize
    view = _entry(ds, name).load(verbose=False)
    view.materialize(dest, overwrite=overwrite, progressbar=sys.stderr.isatty())
    made = lakebed.load(dest, read_only=True)
    tell(
        {"view": name, "path": dest, "rows": made.max_len, "tensors": len(made.tensors)},
        f"{dest}: {made.max_len} rows of view {name}, {len(made.tensors)} tensors",
        as_json=as_json,
    )


def _entry(ds: lakebed.Dataset, name: str) -> Any:
    try:
        return ds.get_view(name)
    except KeyError as error:
        known = ", ".join(entry.id for entry in ds.get_views()[:20])
        raise click.ClickException(f"there is no view {name!r}; views: {known or 'none'}") from error


def _row(entry: Any) -> list[str]:
    at = entry.get("created_at")
    return [
        entry.id,
        entry.commit_id[:12],
        f"{clock.utc(at)} UTC" if isinstance(at, int | float) else "-",
        "row numbers" if entry.virtual else "copied",
        describe.cell(entry.message or entry.tql_query or entry.query or ""),
    ]
