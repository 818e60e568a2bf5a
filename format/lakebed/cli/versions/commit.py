"""``lakebed commit``: make a version of the present state of a dataset."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.output import tell


@command
@click.argument("url")
@click.option("-m", "--message", help="What changed, and why.")
@click.option("--allow-empty", is_flag=True, help="Also if nothing changed.")
def commit(url: str, message: str | None, allow_empty: bool, as_json: bool) -> None:
    """Make a commit of what changed in URL[@branch].

    For example: lakebed commit photos -m "labels of Tuesday"
    """
    ds = lakebed.load(url, read_only=False)
    made = ds.commit(message, allow_empty=allow_empty)
    tell({"branch": ds.branch, "commit": made}, f"commit {made} on {ds.branch}", as_json=as_json)
