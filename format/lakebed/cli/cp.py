"""``lakebed cp``: a dataset with its history, or what one version of it holds, to another place."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

import lakebed
from lakebed.cli.output import say, say_json
from lakebed.storage.url import parse


def cp(
    src: str,
    dest: str,
    tensors: Sequence[str] | None,
    *,
    flat: bool,
    overwrite: bool,
    progressbar: bool,
    as_json: bool,
) -> None:
    """Copy a dataset, and say what the copy is."""
    ref = parse(src, existing=True).ref
    if ref is not None and not flat:
        raise click.UsageError(
            f"{src} is the address of a version: copy what it holds with --flat, or the whole dataset without @{ref}"
        )
    ds = lakebed.load(src, read_only=True)
    shown = progressbar and sys.stderr.isatty()
    if flat:
        made = ds.copy(dest, tensors=tensors, overwrite=overwrite, progressbar=shown)
    else:
        made = ds.deepcopy(dest, tensors, overwrite=overwrite, progressbar=shown)
    if as_json:
        told = {"source": src, "dataset": dest, "tensors": list(made.tensors), "commits": len(made.commits)}
        say_json(told)
    else:
        history = "without history" if flat else f"{len(made.commits):,} commits on {made.branch}"
        say(f"{dest}: {len(made.tensors):,} tensors, {made.max_len:,} rows, {history}")
