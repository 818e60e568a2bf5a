"""``lakebed pack`` and ``lakebed unpack``: a dataset as one file, and back."""

from __future__ import annotations

import click

import lakebed
from lakebed.cli.commands import command, progress_option, tensor_option
from lakebed.cli.describe import tell_made

_overwrite = click.option("--overwrite", is_flag=True, help="Replace what is there.")


@command
@click.argument("dataset")
@click.argument("file")
@tensor_option()
@_overwrite
@progress_option
def pack(
    dataset: str, file: str, tensors: tuple[str, ...], overwrite: bool, progressbar: bool, as_json: bool
) -> None:
    """Write DATASET with its history to one FILE, whose name ends in .lake, and which opens in place, for reading.

    For example: lakebed pack photos photos.lake
    """
    made = lakebed.pack(dataset, file, list(tensors) or None, overwrite=overwrite, progressbar=progressbar)
    tell_made(made, file, {"source": dataset}, as_json=as_json)


@command
@click.argument("file")
@click.argument("dest")
@_overwrite
@progress_option
def unpack(file: str, dest: str, overwrite: bool, progressbar: bool, as_json: bool) -> None:
    """Make a writable dataset from a packed one; if it is killed, the same command resumes.

    For example: lakebed unpack photos.lake photos
    """
    made = lakebed.unpack(file, dest, overwrite=overwrite, progressbar=progressbar)
    tell_made(made, dest, {"source": file}, as_json=as_json)
