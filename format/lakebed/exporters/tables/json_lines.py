"""JSON lines: a file for each split, an object for each row. Nulls are null, classes their names, times ISO text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from lakebed.exporters.core.plan import ExportPlan, Piece, Written, read_rows
from lakebed.exporters.core.target import Target
from lakebed.exporters.tables.delimited import planned, write_files

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset


def plan(ds: Dataset, *, tensors: Sequence[str] = ()) -> ExportPlan:
    """Plan a member for each tensor that is not an image or other file.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; by default all but files and masks.
    """
    return planned(ds, tensors)


def write(view: Dataset, piece: Piece, context: Sequence[str], target: Target) -> Written:
    """Make the lines of some rows; leave out those that cannot be read, or have infinite numbers, which JSON lacks."""
    del target

    def read(some: Dataset, _: int) -> list[Any]:
        return list(some._rows_of(list(context)))  # noqa: SLF001

    rows, skipped = read_rows(view, piece, read)
    lost = {number for number, _ in skipped}
    lines = []
    for number, row in zip([one for one in piece.rows if one not in lost], rows, strict=True):
        try:
            lines.append(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n")
        except ValueError:
            skipped.append((int(number), "JSON has no infinite numbers"))
    return Written(rows=len(lines), skipped=sorted(skipped), result="".join(lines).encode())


def finish(results: Sequence[tuple[Piece, bytes]], context: Sequence[str], target: Target) -> None:
    """Write a file for each split."""
    del context
    write_files(results, ".jsonl", target)


def _plain(value: Any) -> Any:
    """Return a value as JSON: NaN as null, arrays as lists, dates and times as ISO text."""
    if value is None or isinstance(value, str | int | float):
        return None if isinstance(value, float) and isnan(value) else value
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
