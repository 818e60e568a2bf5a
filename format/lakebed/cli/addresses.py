"""Datasets and their parts in arguments: ``SRC``, ``SRC@v1``, ``SRC[0:100]``, ``SRC[3,5,8]``, ``SRC@v1:train[:10]``."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import click

import lakebed
from lakebed.errors import LockedWarning
from lakebed.storage.url import parse

as_of_option = click.option(
    "--as-of",
    metavar="TIME",
    help="The newest commit of that time: 2026-11-21, '2026-11-21 09:30' (UTC), or seconds.",
)

_SECONDS = re.compile(r"-?\d{9,}(\.\d+)?")
_ROWS = re.compile(r"(.+)\[([^\[\]]*)\]")
_SPLIT = re.compile(r"(.+):([^:/\\@\[\]]+)")
_INTEGER = re.compile(r"\s*([+-]?[0-9]+)?\s*")


@dataclass(frozen=True)
class Part:
    """An address, and the rows to take from the dataset.

    Parameters
    ----------
    address
        Address of the dataset.
    split
        Name of a split; None for the whole dataset.
    rows
        Rows of the split or dataset; None for all rows.
    """

    address: str
    split: str | None = None
    rows: slice | list[int] | None = None

    @property
    def is_whole(self) -> bool:
        """True if nothing is selected."""
        return self.split is None and self.rows is None

    def of(self, ds: lakebed.Dataset) -> lakebed.Dataset:
        """Return the view of the selected rows.

        Raises
        ------
        click.UsageError
            If the split does not exist.
        """
        if self.split is not None:
            splits = ds.splits
            if self.split not in splits:
                raise click.UsageError(
                    f"{self.address} has no split {self.split!r}; splits: {', '.join(splits) or 'none'}"
                )
            ds = splits[self.split]
        return ds if self.rows is None else ds[self.rows]


def parsed(text: str) -> Part:
    """Parse an argument; if the whole text is the address of a dataset, no rows or split are taken from it.

    Raises
    ------
    click.UsageError
        If the text in brackets names no rows.
    """
    rows, split, rest = None, None, text
    found = _ROWS.fullmatch(rest)
    if found and not _is_dataset(rest):
        rest, rows = found[1], _rows(found[2])
    found = _SPLIT.fullmatch(rest)
    if found and not _is_dataset(rest):
        rest, split = found[1], found[2]
    return Part(rest, split, rows)


def _is_dataset(text: str) -> bool:
    location = parse(text, existing=True)
    return location.ref is None and lakebed.exists(location)


def _rows(text: str) -> slice | list[int]:
    parts = text.split(":")
    matched = [_INTEGER.fullmatch(part) for part in parts]
    if 2 <= len(parts) <= 3 and all(matched):
        return slice(*(int(m[1]) if m and m[1] else None for m in matched))
    numbers = [_INTEGER.fullmatch(part) for part in text.split(",")]
    if all(m and m[1] for m in numbers):
        return [int(m[1]) for m in numbers if m]
    raise click.UsageError(f"rows must be [START:STOP], [START:STOP:STEP] or [3,5,8], not [{text}]")


def opened(url: str, as_of: str | None = None) -> lakebed.Dataset:
    """Open a dataset, or the part of it that an argument names, for reading."""
    part = parsed(url)
    return part.of(lakebed.load(part.address, read_only=True, as_of=moment(as_of)))


def writable(url: str) -> lakebed.Dataset:
    """Open a dataset to change its branches or tags, which does not disturb another writer of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LockedWarning)
        return lakebed.load(url)


def moment(text: str | None) -> float | str | None:
    """Return the time that ``--as-of`` means: nine digits or more are POSIX seconds, anything else is ISO text."""
    return float(text) if text is not None and _SECONDS.fullmatch(text) else text
