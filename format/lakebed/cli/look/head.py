"""``lakebed head``: the first rows of a dataset."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

import click

import lakebed
from lakebed.cli import describe
from lakebed.cli.addresses import as_of_option, opened
from lakebed.cli.cells import Damage, cell
from lakebed.cli.commands import json_option, tensor_option, with_errors
from lakebed.cli.look.pictures import write_pictures
from lakebed.cli.output import say, say_json, say_lines, table
from lakebed.runtime.printable import printable

_WIDEST = 40
_WIDEST_LINE = 200
_NAMED = 8


@click.command()
@click.argument("url")
@click.option("-n", "--rows", type=click.IntRange(0), default=10, show_default=True, help="How many rows.")
@tensor_option("Only this tensor; may be repeated.")
@click.option("--vertical", is_flag=True, help="Each row as a block, with a line for each tensor.")
@click.option(
    "--images", metavar="DIR", help="Write the pictures of these rows into DIR, as they are stored."
)
@click.option("--overwrite", is_flag=True, help="Replace files that are in DIR.")
@as_of_option
@json_option
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Print JSON for programs, a line for each row.")
@with_errors
def head(
    url: str,
    rows: int,
    tensors: tuple[str, ...],
    vertical: bool,
    images: str | None,
    overwrite: bool,
    as_of: str | None,
    as_json: bool,
    as_jsonl: bool,
) -> None:
    """Show the first rows of URL[@branch, @commit or @tag].

    Pictures are shown as their kind, shape and size, labels by their names, other arrays of more than a few numbers by
    dtype and shape. Programs get all values: --json prints one list of rows, --jsonl a row on each line.

    A damaged sample is shown as damaged, in JSON as null, with the reason on standard error and exit status 1.

    For example: lakebed head photos:val -n 3 -t label
    """
    if overwrite and images is None:
        raise click.UsageError("--overwrite needs --images")
    if as_json and as_jsonl:
        raise click.UsageError("choose --json or --jsonl, not both")
    ds = opened(url, as_of)
    names = list(tensors) or list(ds.tensors)
    damage = Damage()
    if images is not None:
        written = write_pictures(ds, rows, names, images, damage, overwrite=overwrite)
        if as_json:
            say_json(written)
        for path in written if as_jsonl else ():
            say_json(path, indent=None)
        if not as_json and not as_jsonl:
            say(f"{len(written):,} files written to {images}")
    elif as_json or as_jsonl:
        records = describe.records(ds, rows, tensors or None, damage)
        if as_json:
            say_json(records)
        for record in records if as_jsonl else ():
            say_json(record, indent=None)
    else:
        _show({name: ds[name] for name in names}, rows, damage, vertical=vertical, all_of_them=bool(tensors))
    for reason in damage.reasons:
        say(f"damaged: {reason}", err=True)
    if damage.reasons:
        sys.exit(1)


def _show(
    chosen: Mapping[str, lakebed.Tensor], rows: int, damage: Damage, *, vertical: bool, all_of_them: bool
) -> None:
    """Print rows for people."""
    count = min(rows, max((len(tensor) for tensor in chosen.values()), default=0))
    if vertical:
        say_lines(_blocks(chosen, count, damage))
        return
    columns = _columns(chosen, count, None if all_of_them else _width(), damage)
    lines = [list(row) for row in zip(*columns.values(), strict=True)] if count else []
    say_lines(table(list(columns), lines))
    left = [name for name in chosen if name not in columns]
    if left:
        told = ", ".join(left[:_NAMED]) + (", ..." if len(left) > _NAMED else "")
        say(f"... and {len(left):,} more tensors: {told}; use -t NAME or --vertical")


def _width() -> int | None:
    """Return the width of the terminal; None if the output goes to a file or a program."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return None
    return shutil.get_terminal_size().columns


def _columns(
    tensors: Mapping[str, lakebed.Tensor], count: int, width: int | None, damage: Damage
) -> dict[str, list[str]]:
    """Return the cells of the first tensors: as many as fit side by side, but at least one."""
    found: dict[str, list[str]] = {}
    used = 0
    for name, tensor in tensors.items():
        cells = [
            cell(tensor, name, row, _WIDEST, damage) if row < len(tensor) else "" for row in range(count)
        ]
        used += max(map(len, [printable(name), *cells])) + (2 if found else 0)
        if width is not None and used > width and found:
            break
        found[name] = cells
    return found


def _blocks(tensors: Mapping[str, lakebed.Tensor], count: int, damage: Damage) -> str:
    """Format each row as a block of lines."""
    wide = max((len(printable(name)) for name in tensors), default=0)
    room = max(20, (_width() or _WIDEST_LINE) - wide - 4)
    lines: list[str] = []
    for row in range(count):
        lines.append(f"row {row}")
        for name, tensor in tensors.items():
            text = cell(tensor, name, row, room, damage) if row < len(tensor) else ""
            lines.append(f"  {printable(name):{wide}}  {text}".rstrip())
    return "\n".join(lines)
