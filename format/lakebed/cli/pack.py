"""``lakebed pack`` and ``lakebed unpack``: a dataset as one file, and back."""

from __future__ import annotations

import sys

import click

import lakebed
from lakebed.cli.completion import tensor_names
from lakebed.cli.output import json_option, say, say_json, with_errors

_progress = click.option("--progress/--no-progress", default=True, help="Show how far it is.")
_overwrite = click.option("--overwrite", is_flag=True, help="Replace what is there.")


@click.command()
@click.argument("dataset")
@click.argument("file")
@click.option(
    "-t",
    "--tensor",
    "tensors",
    multiple=True,
    shell_complete=tensor_names,
    help="Only this tensor or group; may be repeated.",
)
@_overwrite
@_progress
@json_option
@with_errors
def pack(
    dataset: str, file: str, tensors: tuple[str, ...], overwrite: bool, progress: bool, as_json: bool
) -> None:
    """Write DATASET with its history to one FILE, whose name ends in .lake, and which opens in place, for reading.

    For example: lakebed pack photos photos.lake
    """
    made = lakebed.pack(
        dataset,
        file,
        list(tensors) or None,
        overwrite=overwrite,
        progressbar=progress and sys.stderr.isatty(),
    )
    _tell(dataset, file, made, as_json=as_json)


@click.command()
@click.argument("file")
@click.argument("dest")
@_overwrite
@_progress
@json_option
@with_errors
def unpack(file: str, dest: str, overwrite: bool, progress: bool, as_json: bool) -> None:
    """Make a dataset that can be written of a packed one; after a kill, the same command goes on.

    For example: lakebed unpack photos.lake photos
    """
    made = lakebed.unpack(file, dest, overwrite=overwrite, progressbar=progress and sys.stderr.isatty())
    _tell(file, dest, made, as_json=as_json)


def _tell(source: str, dest: str, made: lakebed.Dataset, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {"source": source, "dataset": dest, "tensors": list(made.tensors), "commits": len(made.commits)}
        )
    else:
        say(
            f"{dest}: {len(made.tensors):,} tensors, {made.max_len:,} rows, {len(made.commits):,} commits on "
            f"{made.branch}"
        )
