"""``lakebed repair``: say what would be done about damage and what would be lost, or do it."""

from __future__ import annotations

import sys
from typing import Any

import click

import lakebed
from lakebed.cli.output import json_option, say, say_json, with_errors
from lakebed.storage.url import parse


@click.command()
@click.argument("url")
@click.option(
    "--plan", "apply", flag_value=False, type=bool, default=False, help="Only tell what would be done."
)
@click.option(
    "--apply", "apply", flag_value=True, type=bool, help="Do it: damaged heads get sound ones beside them."
)
@json_option
@with_errors
def repair(url: str, apply: bool, as_json: bool) -> None:
    """Save what can be saved of URL after a crash of Deep Lake 3.x or damage. Exit status 1: some remains.

    For example: lakebed repair photos --apply
    """
    location = parse(url)
    if location.ref is not None:
        raise click.UsageError(f"a repair is of the whole dataset: leave out @{location.ref}")
    report = lakebed.repair(url, apply=apply)
    if as_json:
        say_json(report.to_json())
    else:
        _print(report)
    if report.remaining:
        sys.exit(1)


def _print(report: Any) -> None:
    for step in report.steps:
        say(_line(step, applied=report.applied))
    for branch, version in report.versions.items():
        if report.applied:
            say(f"branch {branch!r} is now at version {version}")
    if not report.steps:
        say(f"{report.dataset}: nothing to repair")
        return
    done = sum(step.kind != "damage" for step in report.steps)
    verb = "done" if report.applied else "to do; --apply does it"
    say(f"{report.dataset}: {done:,} repairs {verb}; {report.lost_rows:,} rows of tensors lost")


def _line(step: Any, *, applied: bool) -> str:
    if step.kind == "damage":
        return f"REMAINS: {step}"
    lost = "LOST" if step.lost_rows else "done" if applied else "plan"
    return f"{lost}: {step}"
