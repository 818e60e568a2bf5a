"""``lakebed restore``: a dataset with all its versions from a backup."""

from __future__ import annotations

import re

import click

import lakebed
from lakebed.cli.commands import command, overwrite_option, progress_option
from lakebed.cli.describe import tell_made

# Ids have twelve characters; POSIX seconds have fewer.
_SECONDS = re.compile(r"\d{9,11}")


@command
@click.argument("backup")
@click.argument("dest")
@click.option(
    "--at",
    metavar="ID|TIME",
    help="Id of a backup, or a time (2026-11-21, '2026-11-21 09:30' UTC) for the last one then; by default the newest.",
)
@overwrite_option
@progress_option
def restore(
    backup: str, dest: str, at: str | None, overwrite: bool, progressbar: bool, as_json: bool
) -> None:
    """Make a dataset at DEST from the backups at BACKUP, byte for byte; if it is killed, the same command resumes.

    For example: lakebed restore s3://vault/photos photos --at 2026-11-21
    """
    when = float(at) if at is not None and _SECONDS.fullmatch(at) else at
    made = lakebed.restore(backup, dest, at=when, overwrite=overwrite, progressbar=progressbar)
    tell_made(made, dest, {"backup": backup}, as_json=as_json)
