"""``lakebed repair``: repair damage, or list what a repair would do and lose."""

from __future__ import annotations

import sys
from typing import Any

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json
from lakebed.storage.url import parse


@command
@click.argument("url")
@click.option(
    "--plan", "apply", flag_value=False, type=bool, default=False, help="Only list what would be done."
)
@click.option(
    "--apply", "apply", flag_value=True, type=bool, help="Repair: write a sound head beside each damaged one."
)
def repair(url: str, apply: bool, as_json: bool) -> None:
    """Save what can be saved of URL after a crash of Deep Lake 3.x or damage. Exit status 1: some damage remains.

    For example: lakebed repair photos --apply
    """
    location = parse(url)
    if location.ref is not None:
        raise click.UsageError(f"a repair concerns the whole dataset: leave out @{location.ref}")
    report = lakebed.repair(url, apply=apply)
    if as_json:
        say_json(report.to_json())
    else:
        _print(report)
    if report.remaining:
        sys.exit(1)


def _print(report: Any) -> None:
    for step in report.steps:
        state = "LOST" if step.lost_rows else "done" if report.applied else "plan"
        say(f"{'REMAINS' if step.kind == 'damage' else state}: {step}")
    for branch, version in report.versions.items() if report.applied else ():
        say(f"branch {branch!r} is now at version {version}")
    if not report.steps:
        say(f"{report.dataset}: nothing to repair")
        return
    done = sum(step.kind != "damage" for step in report.steps)
    verb = "done" if report.applied else "to do; --apply does it"
    say(f"{report.dataset}: {done:,} repairs {verb}; {report.lost_rows:,} rows of tensors lost")
