"""JSON lines: a file for each split, an object for each row. Nulls are null, classes their names, times ISO text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import lakebed
from lakebed.exporters.core.plan import ExportPlan, Piece, Written
from lakebed.exporters.core.target import Target
from lakebed.exporters.tables.delimited import chosen_columns, recognise, write_files

_ROWS = 16_384


def plan(ds: lakebed.Dataset, *, tensors: Sequence[str] = ()) -> ExportPlan:
    """Plan a member for each tensor that is no image or other file.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all but files and masks.
    """
    problems: list[tuple[str, str]] = []
    names = chosen_columns(ds, tensors, problems)
    found = f"{ds.min_len:,} rows of {len(names)} columns"
    return ExportPlan(found, {name: name for name in names}, names, piece_rows=_ROWS, problems=problems)


def write(view: lakebed.Dataset, piece: Piece, context: Sequence[str], target: Target) -> Written:
    """Make the lines of some rows; a row with an infinite number is left out, since JSON has none."""
    del target
    lines, skipped = [], []
    for number, row in zip(piece.rows, view._rows_of(list(context)), strict=True):  # noqa: SLF001
        try:
            lines.append(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n")
        except ValueError:
            skipped.append((int(number), "JSON has no infinite numbers"))
    return Written(rows=len(lines), skipped=skipped, result="".join(lines).encode())


def finish(results: Sequence[tuple[Piece, bytes]], context: Sequence[str], target: Target) -> None:
    """Write a file for each split."""
    del context
    write_files(results, ".jsonl", target)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN as null, arrays as lists, dates and times as ISO text."""
    if value is None or isinstance(value, str | int | float):
        return None if isinstance(value, float) and isnan(value) else value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


__all__ = ["finish", "plan", "recognise", "write"]
