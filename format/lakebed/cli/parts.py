"""A part of a dataset as a command names it: ``SRC[0:100]``, ``SRC[3,5,8]``, ``SRC:train``, ``SRC@v1:train[:10]``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

import lakebed
from lakebed.storage.url import parse

_ROWS = re.compile(r"(.+)\[([^\[\]]*)\]")
_SPLIT = re.compile(r"(.+):([^:/\\@\[\]]+)")
_INTEGER = re.compile(r"\s*([+-]?[0-9]+)?\s*")


@dataclass(frozen=True)
class Part:
    """An address, and which rows of it are meant.

    Parameters
    ----------
    address
        Of the dataset.
    split
        Name of a split; None is all.
    rows
        What is selected of that; None is all.
    """

    address: str
    split: str | None = None
    rows: slice | list[int] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is selected."""
        return self.split is None and self.rows is None

    def of(self, ds: lakebed.Dataset) -> lakebed.Dataset:
        """Return the view of these rows.

        Raises
        ------
        click.UsageError
            If there is no such split.
        """
        if self.split is not None:
            there = ds.splits
            if self.split not in there:
                raise click.UsageError(
                    f"{self.address} has no split {self.split!r}; splits: {', '.join(there) or 'none'}"
                )
            ds = there[self.split]
        return ds if self.rows is None else ds[self.rows]


def parsed(text: str) -> Part:
    """Return what an argument names; where a dataset has the whole text as its address, that.

    Raises
    ------
    click.UsageError
        If what stands in brackets are no rows.
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
    raise click.UsageError(f"rows are [START:STOP], [START:STOP:STEP] or [3,5,8], not [{text}]")
