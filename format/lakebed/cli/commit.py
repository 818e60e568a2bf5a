"""``lakebed commit``: what a dataset holds now becomes a version."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.output import json_option, say, say_json, with_errors


@click.command()
@click.argument("url")
@click.option("-m", "--message", help="What changed, and why.")
@click.option("--allow-empty", is_flag=True, help="Also if nothing changed.")
@json_option
@with_errors
def commit(url: str, message: str | None, allow_empty: bool, as_json: bool) -> None:
    """Make a commit of what changed in URL[@branch].

    For example: lakebed commit photos -m "labels of Tuesday"
    """
    ds = lakebed.load(url, read_only=False)
    made = ds.commit(message, allow_empty=allow_empty)
    if as_json:
        say_json({"branch": ds.branch, "commit": made})
    else:
        say(f"commit {made} on {ds.branch}")
