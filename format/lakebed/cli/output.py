"""Printing: the only module of the command that writes to the terminal; it escapes all content of datasets."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import click

from lakebed.runtime.printable import printable

_COLOUR = re.compile("(\x1b\\[(?:0|9[34])m)")
"""Colours of the headings that ``Dataset.diff`` prints."""

_SHOWN = 20


def say(text: str = "", *, err: bool = False) -> None:
    """Print one line for people."""
    click.echo(printable(text), err=err)


def say_lines(text: str) -> None:
    """Print text that is laid out in lines, such as a table."""
    click.echo(printable(text, lines=True))


def say_error(text: str) -> None:
    """Print lines on standard error."""
    click.echo(printable(text, lines=True), err=True, nl=False)


def say_coloured(text: str) -> None:
    """Print text whose headings the library has coloured; click drops the colours if the output is not a terminal."""
    parts = _COLOUR.split(text)
    parts[::2] = [printable(part, lines=True) for part in parts[::2]]
    click.echo("".join(parts), nl=False)


def say_json(found: Any, *, indent: int | None = 2) -> None:
    """Print JSON for programs, in ASCII; parsing it gives the same values back."""
    click.echo(json.dumps(found, indent=indent).replace("\x7f", "\\u007f"))


def tell(found: Any, text: str, *, as_json: bool) -> None:
    """Print a result: as JSON for programs, or as one line for people."""
    if as_json:
        say_json(found)
    else:
        say(text)


def say_some(what: str, found: Sequence[object]) -> None:
    """Print the first items, a line each, and the number of other items."""
    for one in found[:_SHOWN]:
        say(f"{what} {one}")
    if len(found) > _SHOWN:
        say(f"{what} {len(found) - _SHOWN:,} more; --json lists all")


def tell_table(
    found: Any, headings: Sequence[str], rows: Sequence[Sequence[str]], nothing: str, *, as_json: bool
) -> None:
    """Print a list: as JSON for programs, as a table for people, or `nothing` if it is empty."""
    if as_json:
        say_json(found)
    elif not rows:
        say(nothing, err=True)
    else:
        say_lines(table(headings, rows))


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: set[int] | None = None) -> str:
    """Format rows in columns; ``right`` names the columns to align on the right."""
    headings, *rows = [list(map(printable, row)) for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        cells = [
            c.rjust(w) if i in (right or ()) else c.ljust(w)
            for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(headings), line(["-" * w for w in widths]), *(line(row) for row in rows)])
