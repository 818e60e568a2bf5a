"""``lakebed statistics``: store statistics of chunks, for the queries of programs that may only read."""

from __future__ import annotations

import click

from lakebed.cli.addresses import writable
from lakebed.cli.commands import command
from lakebed.cli.output import tell_table


@command
@click.argument("dataset")
@click.argument("tensors", nargs=-1)
def statistics(dataset: str, tensors: tuple[str, ...], as_json: bool) -> None:
    """Store statistics of the chunks of DATASET, for the queries of programs that may only read it.

    Queries then read only chunks in which a condition may be true. Statistics cover all numbers and texts, or those of
    TENSORS; chunks with statistics are not read again.

    For example: lakebed statistics photos
    """
    found = writable(dataset).update_statistics(list(tensors) or None, progressbar=not as_json)
    tell_table(
        [told._asdict() for told in found],
        ["tensor", "chunks", "with statistics"],
        [[told.tensor, f"{told.chunks:,}", f"{told.known:,}"] for told in found],
        "no tensor of numbers or texts",
        as_json=as_json,
    )
