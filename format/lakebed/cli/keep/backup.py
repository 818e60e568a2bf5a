"""``lakebed backup``: copy new data of a dataset to its backups; delete old backups by a rule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

import lakebed
from lakebed.cli.commands import command, progress_option
from lakebed.cli.output import say, say_json


def _keep(what: str, help: str) -> Callable[..., Any]:  # noqa: A002
    return click.option(f"--keep-{what}", type=click.IntRange(min=0), default=0, metavar="N", help=help)


@command
@click.argument("src")
@click.argument("dest")
@_keep("last", "Keep the N newest backups; without any --keep, all stay.")
@_keep("daily", "Keep the newest of each of the last N days that have one.")
@_keep("weekly", "Keep the newest of each of the last N weeks that have one.")
@_keep("monthly", "Keep the newest of each of the last N months that have one.")
@click.option("--verify", is_flag=True, help="Read existing backups, and copy damaged files again.")
@click.option("--moved", is_flag=True, help="DEST has backups of this dataset at another address.")
@click.option(
    "--keep-damaged", is_flag=True, help="Back up a damaged dataset, too, as far as it can be read."
)
@progress_option
def backup(src: str, dest: str, as_json: bool, **options: Any) -> None:
    """Back up dataset SRC with all versions to DEST: only what is new, all or nothing.

    If it is killed, the same command resumes.

    For example: lakebed backup photos s3://vault/photos --keep-daily 7
    """
    made = lakebed.backup(src, dest, **options)
    if as_json:
        say_json(asdict(made))
        return
    say(
        f"{dest}: backup {made.id} of {made.commits:,} commits, {made.files:,} files, {made.bytes:,} bytes; "
        f"{made.added_files:,} files, {made.added_bytes:,} bytes were new"
    )
    if made.damaged:
        say(
            f"DAMAGED: {made.damaged:,} files of {src} were damaged or missing already; lakebed verify names them"
        )
        sys.exit(1)
