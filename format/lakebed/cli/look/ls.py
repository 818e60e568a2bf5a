"""``lakebed ls``: the datasets at and below a place."""

from __future__ import annotations

import sys
from typing import Any

import click

from lakebed.cli import describe
from lakebed.cli.commands import command
from lakebed.cli.output import say, say_json, say_lines
from lakebed.dataset.listing import Walk, datasets
from lakebed.runtime import clock
from lakebed.storage.url import parse

_QUIET_SECONDS = 2.0
_INTERRUPTED = 130  # the status by which shells report SIGINT


class _Told(Walk):
    """A walk that reports its progress on standard error if it takes long."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root
        self._next = clock.monotonic() + _QUIET_SECONDS

    def enter(self, where: str) -> None:
        """Count a folder or key, and report it from time to time."""
        super().enter(where)
        if clock.monotonic() >= self._next:
            self._next = clock.monotonic() + _QUIET_SECONDS
            what = "keys" if "://" in self._root and not self._root.startswith("file:") else "folders"
            say(
                f"looking through {self._root}: {self.looked:,} {what} so far, at {where}; Ctrl-C stops",
                err=True,
            )


@command
@click.argument("url", default=".")
def ls(url: str, as_json: bool) -> None:
    """List the datasets at and below a folder or a prefix of a bucket, and the streams that syncs fill them from.

    If the main branch of a dataset is empty, the branch with the last commit is shown. Exit status 1: some datasets
    cannot be opened; their lines say why.

    For example: lakebed ls s3://my-lake
    """
    walk, found, is_whole = _Told(url), list[dict[str, Any]](), True
    try:
        for entry in datasets(parse(url), url, walk):
            found.append(entry)
    except KeyboardInterrupt:
        is_whole = False
    if as_json:
        say_json(found)
    elif found:
        say_lines(describe.lake_text(found))
    elif is_whole:
        say(f"no datasets in {url}", err=True)
    if walk.refused:
        say(f"{len(walk.refused):,} folders can not be read, {walk.refused[0]} is the first", err=True)
    if not is_whole:
        say(f"stopped after {walk.looked:,}: the list is not complete", err=True)
        sys.exit(_INTERRUPTED)
    if any(entry["error"] for entry in found):
        sys.exit(1)
