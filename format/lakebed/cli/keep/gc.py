"""``lakebed gc``: remove files that no version of a dataset needs any more, or list them."""

from __future__ import annotations

import re

import click

import lakebed
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json, say_some

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """Seconds, or a number followed by s, m, h or d."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        found = _DURATION.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no duration; write 90, 90s, 15m, 1h or 7d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


@command
@click.argument("url")
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option(
    "--grace",
    type=Duration(),
    default=None,
    help="Time for which everything is kept after its last use: 90s, 15m, 1h (the default), 7d.",
)
def gc(url: str, dry_run: bool, grace: float | None, as_json: bool) -> None:
    """Remove from URL what no branch, tag, commit, saved view or reader needs. Writers and readers may continue.

    For example: lakebed gc photos --dry-run
    """
    report = lakebed.gc(url, grace=grace, dry_run=dry_run)
    if as_json:
        say_json(report.to_json())
        return
    removed = "would remove" if report.dry_run else "removed"
    say_some(removed, report.removed)
    say_some("kept", report.kept)
    say(f"{report.dataset}: {removed} {report.files:,} files, {report.bytes:,} bytes")
