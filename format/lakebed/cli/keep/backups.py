"""``lakebed backups``: list the backups at a place, or read them all, and exit with status 1 if anything is damaged."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click

import lakebed
from lakebed.cli.commands import command, progress_option
from lakebed.cli.output import say, say_json, say_some


@command
@click.argument("dest")
@click.option("--verify", is_flag=True, help="Read everything, and compare it with its checksums.")
@progress_option
def backups(dest: str, verify: bool, progressbar: bool, as_json: bool) -> None:
    """List the backups at DEST, the oldest first. With --verify, exit status 1 means damage.

    For example: lakebed backups s3://vault/photos
    """
    if verify:
        _verify(dest, progressbar=progressbar, as_json=as_json)
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


def _verify(dest: str, *, progressbar: bool, as_json: bool) -> None:
    findings = lakebed.verify_backups(dest, progressbar=progressbar)
    if as_json:
        say_json(findings.to_json())
    else:
        say_some("DAMAGED:", findings.damage)
        verdict = "no damage" if findings.is_sound else f"{len(findings.damage):,} damaged files"
        say(
            f"{dest}: {verdict} in {len(findings.points):,} backups, {findings.objects:,} contents, "
            f"{findings.bytes:,} bytes"
        )
    if not findings.is_sound:
        sys.exit(1)
