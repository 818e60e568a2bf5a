"""``lakebed gc``: remove what no version of a dataset needs any more, or say what that would be."""

from __future__ import annotations

import re
from typing import Any

import click

import lakebed
from lakebed.cli.output import json_option, say, say_json, with_errors

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_SHOWN = 20


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """Seconds, or a number with s, m, h or d behind."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no duration; write 90, 90s, 15m, 1h or 7d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


@click.command()
@click.argument("url")
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@click.option(
    "--grace",
    type=Duration(),
    default=None,
    help="How long everything stays after it was last in use: 90s, 15m, 1h (the default), 7d.",
)
@json_option
@with_errors
def gc(url: str, dry_run: bool, grace: float | None, as_json: bool) -> None:
    """Remove from URL what no branch, tag, commit, saved view or reader needs. Writers and readers may go on.

    For example: lakebed gc photos --dry-run
    """
    report = lakebed.gc(url, grace=grace, dry_run=dry_run)
    if as_json:
        say_json(report.to_json())
    else:
        _print(report)


def _print(report: Any) -> None:
    _print_some("would remove" if report.dry_run else "removed", [str(item) for item in report.removed])
    _print_some("kept", [str(item) for item in report.kept])
    would = "would remove" if report.dry_run else "removed"
    say(f"{report.dataset}: {would} {report.files:,} files, {report.bytes:,} bytes")


def _print_some(what: str, lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        say(f"{what} {line}")
    if len(lines) > _SHOWN:
        say(f"{what} {len(lines) - _SHOWN:,} more; --json lists all")
