"""``lakebed verify``: say what is damaged in a dataset, and end with status 1 if anything is."""

from __future__ import annotations

import sys

from lakebed.cli.output import say, say_json
from lakebed.maintenance.check import UNUSED, Damage, Findings
from lakebed.maintenance.verify import verify as check
from lakebed.storage.url import open_storage, parse


def verify(url: str, *, deep: bool, as_json: bool) -> None:
    """Check the dataset at an address, or one version of it, print what was found, and exit with 1 on damage."""
    location = parse(url, existing=True)
    findings = check(open_storage(location), location.ref, deep=deep)
    if as_json:
        say_json(findings.to_json())
    else:
        _print(findings)
    if not findings.is_sound:
        sys.exit(1)


def _print(findings: Findings) -> None:
    unused = [note for note in findings.notes if note.message == UNUSED]
    if unused:
        say(f"note: {len(unused):,} folders are {UNUSED}")
    notes = [note for note in findings.notes if note.message != UNUSED]
    for kind, found in (("note", notes), ("DAMAGED", findings.damage)):
        for line in _merged(found):
            say(f"{kind}: {line}")
    counts = f"{findings.versions:,} versions, {findings.tensors:,} tensors, {findings.chunks:,} chunk files"
    if findings.deep:
        counts += f", {findings.samples:,} samples"
    verdict = "no damage" if findings.is_sound else f"{len(findings.damage):,} damaged places"
    say(f"{findings.dataset}: {verdict} in {counts}")


def _merged(found: list[Damage]) -> list[str]:
    """Return what to print: the same line once, as later versions repeat what they share with earlier ones."""
    return list(dict.fromkeys(map(str, found)))
