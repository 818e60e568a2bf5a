"""``lakebed repair``: say what would be done about damage and what would be lost, or do it."""

from __future__ import annotations

import sys

import click

from lakebed.cli.output import say, say_json
from lakebed.maintenance.plan import RepairReport, Step
from lakebed.maintenance.repair import repair as mend
from lakebed.storage.url import open_storage, parse


def repair(url: str, *, apply: bool, as_json: bool) -> None:
    """Repair the dataset at an address, or print the plan; exit with 1 if damage remains."""
    location = parse(url)
    if location.ref is not None:
        raise click.UsageError(f"a repair is of the whole dataset: leave out @{location.ref}")
    report = mend(open_storage(location), apply=apply)
    if as_json:
        say_json(report.to_json())
    else:
        _print(report)
    if report.remaining:
        sys.exit(1)


def _print(report: RepairReport) -> None:
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


def _line(step: Step, *, applied: bool) -> str:
    if step.kind == "damage":
        return f"REMAINS: {step}"
    lost = "LOST" if step.lost_rows else "done" if applied else "plan"
    return f"{lost}: {step}"
