"""``lakebed ls``: the datasets at and below a place."""

from __future__ import annotations

import sys

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.output import json_option, say, say_json, say_lines, with_errors


@click.command()
@click.argument("url", default=".")
@json_option
@with_errors
def ls(url: str, as_json: bool) -> None:
    """List the datasets at and below a folder or a prefix of a bucket, and the streams that syncs fill them from.

    Exit status 1: some can not be opened; their lines say why.
    """
    found = lakebed.ls(url)
    if as_json:
        say_json(found)
    elif not found:
        say(f"no datasets in {url}", err=True)
    else:
        say_lines(describe.lake_text(found))
    if any(entry["error"] for entry in found):
        sys.exit(1)
