"""``lakebed upgrade``: a dataset of Deep Lake 2, 3 or 4 as one in which everything works, at another place."""

from __future__ import annotations

import sys

import click

import lakebed
from lakebed.cli.output import json_option, say, say_json, with_errors


@click.command()
@click.argument("src")
@click.argument("dest", required=False)
@click.option("--overwrite", is_flag=True, help="Replace a dataset at DEST.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@json_option
@with_errors
def upgrade(src: str, dest: str | None, overwrite: bool, progress: bool, as_json: bool) -> None:
    """Copy a dataset of Deep Lake 2, 3 or 4 from SRC to DEST, with checksums, and verify the copy.

    SRC stays as it is, for programs that still use it. Datasets of Deep Lake 2 and 3 keep all versions, branches and
    tags; of Deep Lake 4, which its own package opens, the last version comes in. Without DEST, what SRC is and holds is
    told. After a kill, the same command goes on. Exit status 1: some rows could not be copied, or the copy is damaged.

    For example: lakebed upgrade old-photos photos
    """
    shown = progress and sys.stderr.isatty()
    report = lakebed.import_from(
        "deeplake", src, dest, dry_run=dest is None, overwrite=overwrite, progressbar=shown
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
