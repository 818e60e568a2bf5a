"""``lakebed backups``: list the backups at a place, or read them all, and end with status 1 if anything is damaged."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click

import lakebed
from lakebed.cli.output import json_option, say, say_json, with_errors

_SHOWN = 20


@click.command()
@click.argument("dest")
@click.option("--verify", is_flag=True, help="Read everything, and compare it with its checksums.")
@click.option("--progress/--no-progress", default=True, help="Show how far it is.")
@json_option
@with_errors
def backups(dest: str, verify: bool, progress: bool, as_json: bool) -> None:
    """List the backups at DEST, the oldest first. With --verify, exit status 1 means damage.

    For example: lakebed backups s3://vault/photos
    """
    if verify:
        _verify(dest, shown=progress and sys.stderr.isatty(), as_json=as_json)
        return
    found = lakebed.backups(dest)
    if as_json:
        say_json([asdict(point) for point in found])
        return
    for point in found:
        damaged = f", {point.damaged:,} damaged" if point.damaged else ""
        say(
            f"{point.id}  {datetime.fromtimestamp(point.time, UTC):%Y-%m-%d %H:%M:%S}  {point.commits:,} commits, "
            f"{point.files:,} files, {point.bytes:,} bytes, {point.added_bytes:,} new{damaged}  {point.source}"
        )


def _verify(dest: str, *, shown: bool, as_json: bool) -> None:
    findings = lakebed.verify_backups(dest, progressbar=shown)
    if as_json:
        say_json(findings.to_json())
    else:
        for damage in findings.damage[:_SHOWN]:
            say(f"DAMAGED: {damage}")
        if len(findings.damage) > _SHOWN:
            say(f"DAMAGED: {len(findings.damage) - _SHOWN:,} more; --json lists all")
        verdict = "no damage" if findings.is_sound else f"{len(findings.damage):,} damaged files"
        say(
            f"{dest}: {verdict} in {len(findings.points):,} backups, {findings.objects:,} contents, "
            f"{findings.bytes:,} bytes"
        )
    if not findings.is_sound:
        sys.exit(1)
