"""``lakebed cp``: a dataset with its history, or what one version of it holds, to another place."""

from __future__ import annotations

import sys

import click

import lakebed
from lakebed.cli.completion import tensor_names
from lakebed.cli.output import json_option, say, say_json, with_errors
from lakebed.cli.parts import parsed
from lakebed.storage.url import parse


@click.command()
@click.argument("src")
@click.argument("dest")
@click.option(
    "-t",
    "--tensor",
    "tensors",
    multiple=True,
    shell_complete=tensor_names,
    help="Only this tensor or group; may be repeated.",
)
@click.option(
    "--flat", is_flag=True, help="What the dataset holds now, or at SRC@VERSION, without its history."
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@json_option
@with_errors
def cp(
    src: str,
    dest: str,
    tensors: tuple[str, ...],
    flat: bool,
    overwrite: bool,
    progress: bool,
    as_json: bool,
) -> None:
    """Copy a dataset with its history from SRC to DEST; after a kill, the same command goes on.

    SRC[0:100], SRC[3,5,8] and SRC:train copy these rows, or this split, as they are now or at SRC@VERSION, and nothing
    else.

    For example: lakebed cp 'photos@v1:train[0:1000]' sample
    """
    part = parsed(src)
    ref = parse(part.address, existing=True).ref
    flat = flat or not part.is_whole
    if ref is not None and not flat:
        raise click.UsageError(
            f"{src} is the address of a version: copy what it holds with --flat, or the whole dataset without @{ref}"
        )
    ds = part.of(lakebed.load(part.address, read_only=True))
    chosen = list(tensors) or None
    shown = progress and sys.stderr.isatty()
    if flat:
        made = ds.copy(dest, tensors=chosen, overwrite=overwrite, progressbar=shown)
    else:
        made = ds.deepcopy(dest, chosen, overwrite=overwrite, progressbar=shown)
    if as_json:
        told = {"source": src, "dataset": dest, "tensors": list(made.tensors), "commits": len(made.commits)}
        say_json(told)
    else:
        history = "without history" if flat else f"{len(made.commits):,} commits on {made.branch}"
        say(f"{dest}: {len(made.tensors):,} tensors, {made.max_len:,} rows, {history}")
