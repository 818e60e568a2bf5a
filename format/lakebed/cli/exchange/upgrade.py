"""``lakebed upgrade``: a complete copy of a dataset of Deep Lake 2, 3 or 4 in this library's format."""

from __future__ import annotations

import sys

import click

import lakebed
from lakebed.cli.commands import command, overwrite_option, progress_option
from lakebed.cli.output import say, say_json


@command
@click.argument("src")
@click.argument("dest", required=False)
@overwrite_option
@progress_option
def upgrade(src: str, dest: str | None, overwrite: bool, progressbar: bool, as_json: bool) -> None:
    """Copy a dataset of Deep Lake 2, 3 or 4 from SRC to DEST, with checksums, and verify the copy.

    SRC stays as it is, for programs that still use it. Datasets of Deep Lake 2 and 3 keep all versions, branches and
    tags; of Deep Lake 4, whose own package is needed, the last version is copied. Without DEST, the command describes
    SRC. If it is killed, run it again to resume. Exit status 1: some rows could not be copied, or the copy is damaged.

    For example: lakebed upgrade old-photos photos
    """
    report = lakebed.import_from(
        "deeplake", src, dest, dry_run=dest is None, overwrite=overwrite, progressbar=progressbar
    )
    damage = [] if dest is None else list(dict.fromkeys(map(str, lakebed.verify(dest).damage)))
    if as_json:
        say_json({**report.to_dict(), "damage": damage})
    else:
        say(str(report))
        for one in damage:
            say(f"DAMAGE: {one}")
        if dest is None:
            say("nothing was written: lakebed upgrade SRC DEST makes a copy with checksums")
        elif not damage:
            say(f"{dest}: verified")
    sys.exit(1 if damage or report.skipped else 0)
