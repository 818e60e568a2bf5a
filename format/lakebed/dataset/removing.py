"""Which rows a call of ``pop`` names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lakebed.errors import InvalidKeyTypeError


def checked_rows(index: object, length: int, what: str) -> list[int]:
    """Return the rows to remove, ascending.

    Parameters
    ----------
    index
        A row number, several, a slice, or None for the last row.
    length
        Number of rows of the longest tensor concerned.
    what
        What loses them, for messages: ``tensor`` or ``dataset``.

    Raises
    ------
    IndexError
        If there is no such row, or a number is negative.
    ValueError
        If a row is named twice.
    InvalidKeyTypeError
        If the index names no rows.
    """
    if index is None:
        index = [max(length - 1, 0)]
    if isinstance(index, slice):
        return sorted(range(length)[index])
    items = index.tolist() if isinstance(index, np.ndarray) else index
    items = [items] if hasattr(items, "__index__") else items
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        raise InvalidKeyTypeError(
            f"{index!r} names no rows to pop; give a row number, a list of them or a slice"
        )
    rows = [_row(item) for item in items]
    if len(set(rows)) < len(rows):
        raise ValueError("Duplicate indices are not allowed.")
    if rows and length == 0:
        raise IndexError(f"Can't pop from empty {what}.")
    for row in rows:
        if row < 0:
            raise IndexError("Pop doesn't support negative indices.")
        if row >= length:
            longest = "The longest tensor has" if what == "dataset" else "The tensor has"
            raise IndexError(f"Index {row} is out of range. {longest} {length} samples.")
    return sorted(rows)


def _row(item: object) -> int:
    if not hasattr(item, "__index__") or isinstance(item, bool):
        raise InvalidKeyTypeError(f"{item!r} is no row number")
    return int(item.__index__())
