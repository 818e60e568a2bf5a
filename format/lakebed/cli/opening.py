"""How commands open datasets."""

from __future__ import annotations

import re
import warnings

import click

import lakebed
from lakebed.cli.parts import parsed
from lakebed.errors import LockedWarning

as_of_option = click.option(
    "--as-of",
    metavar="TIME",
    help="The newest commit of that time: 2026-11-21, '2026-11-21 09:30' (UTC), or seconds.",
)

_SECONDS = re.compile(r"-?\d{9,}(\.\d+)?")


def opened(url: str, as_of: str | None = None) -> lakebed.Dataset:
    """Open a dataset, or the part of it that the argument of a command names, for reading."""
    part = parsed(url)
    return part.of(lakebed.load(part.address, read_only=True, as_of=moment(as_of)))


def writable(url: str) -> lakebed.Dataset:
    """Open a dataset to change its branches or tags, which does not disturb whoever writes rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LockedWarning)
        return lakebed.load(url)


def moment(text: str | None) -> float | str | None:
    """Return what ``--as-of`` says: nine digits or more are POSIX seconds, anything else is ISO text."""
    return float(text) if text is not None and _SECONDS.fullmatch(text) else text
