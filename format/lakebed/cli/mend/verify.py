"""``lakebed verify``: list the damage in a dataset, and exit with status 1 if any is found."""

from __future__ import annotations

import sys
from typing import Any

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json

_UNUSED = "not part of the history"
"""Beginning of the notes on folders that belong to no version; since many may exist, they are printed as one line."""


@command
@click.argument("url")
@click.option("--deep", is_flag=True, help="Also decode every sample.")
def verify(url: str, deep: bool, as_json: bool) -> None:
    """Check URL, or only URL[@branch or @commit]: documents, chunks, checksums. Exit status 1 means damage.

    For example: lakebed verify photos@v1 --deep
    """
    findings = lakebed.verify(url, deep=deep)
    if as_json:
        say_json(findings.to_json())
    else:
        _print(findings)
    if not findings.is_sound:
        sys.exit(1)


def _print(findings: Any) -> None:
    unused = [note for note in findings.notes if note.message.startswith(_UNUSED)]
    if unused:
        folders = "1 folder is" if len(unused) == 1 else f"{len(unused):,} folders are"
        say(f"note: {folders} {unused[0].message}")
    notes = [note for note in findings.notes if note not in unused]
    for kind, found in (("note", notes), ("DAMAGED", findings.damage)):
        # Versions share chunks, so the same finding may occur several times.
        for line in dict.fromkeys(map(str, found)):
            say(f"{kind}: {line}")
    counts = f"{findings.versions:,} versions, {findings.tensors:,} tensors, {findings.chunks:,} chunk files"
    if findings.deep:
        counts += f", {findings.samples:,} samples"
    verdict = "no damage" if findings.is_sound else f"{len(findings.damage):,} damaged places"
    say(f"{findings.dataset}: {verdict} in {counts}")
