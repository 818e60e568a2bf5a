"""``lakebed statistics``: note what chunks are like, for the queries of those who may only read."""

from __future__ import annotations

import click

from lakebed.cli import describe
from lakebed.cli.opening import writable
from lakebed.cli.output import json_option, say, say_json, say_lines, with_errors


@click.command()
@click.argument("dataset")
@click.argument("tensors", nargs=-1)
@json_option
@with_errors
def statistics(dataset: str, tensors: tuple[str, ...], as_json: bool) -> None:
    """Note what the chunks of DATASET hold, for the queries of those who may only read it.

    They then read only chunks that a condition may be true in. All numbers and texts, or those of TENSORS; chunks that
    something is known of are not read again.

    For example: lakebed statistics photos
    """
    found = writable(dataset).update_statistics(list(tensors) or None, progressbar=not as_json)
    if as_json:
        say_json([told._asdict() for told in found])
    elif not found:
        say("no tensor of numbers or texts", err=True)
    else:
        rows = [[told.tensor, f"{told.chunks:,}", f"{told.known:,}"] for told in found]
        say_lines(describe.table(["tensor", "chunks", "with statistics"], rows))
