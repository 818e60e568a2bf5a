"""``lakebed restore``: a dataset with all its versions again from a backup."""

from __future__ import annotations

import re
import sys

import click

import lakebed
from lakebed.cli.output import json_option, say, say_json, with_errors

# Ids have twelve characters, POSIX seconds fewer.
_SECONDS = re.compile(r"\d{9,11}")


@click.command()
@click.argument("backup")
@click.argument("dest")
@click.option(
    "--at",
    metavar="ID|TIME",
    help="Which backup: its id, or the last of that time (2026-11-21, '2026-11-21 09:30' UTC); the newest if left out.",
)
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@json_option
@with_errors
def restore(backup: str, dest: str, at: str | None, overwrite: bool, progress: bool, as_json: bool) -> None:
    """Make a dataset at DEST from the backups at BACKUP, byte for byte; after a kill, the same command goes on.

    For example: lakebed restore s3://vault/photos photos --at 2026-11-21
    """
    made = lakebed.restore(
        backup,
        dest,
        at=float(at) if at is not None and _SECONDS.fullmatch(at) else at,
        overwrite=overwrite,
        progressbar=progress and sys.stderr.isatty(),
    )
    if as_json:
        say_json(
            {"backup": backup, "dataset": dest, "tensors": list(made.tensors), "commits": len(made.commits)}
        )
    else:
        say(
            f"{dest}: {len(made.tensors):,} tensors, {made.max_len:,} rows, {len(made.commits):,} commits on "
            f"{made.branch}"
        )
