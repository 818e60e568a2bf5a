"""Which rows a call of ``pop`` names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidKeyTypeError


def checked_rows(index: object, length: int, what: str) -> NDArray[np.int64]:
    """Return the rows to remove: int64, ascending.

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
        chosen = range(length)[index]
        return np.sort(np.arange(chosen.start, chosen.stop, chosen.step, dtype=np.int64))
    if isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "iu":
        return _checked(index.astype(np.int64), length, what)
    items = index.tolist() if isinstance(index, np.ndarray) else index
    items = [items] if hasattr(items, "__index__") else items
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        raise InvalidKeyTypeError(
            f"{index!r} names no rows to pop; give a row number, a list of them or a slice"
        )
    numbers = [_row(item) for item in items]
    try:
        rows = np.array(numbers, dtype=np.int64)
    except OverflowError as error:
        row = max(numbers, key=abs)
        raise IndexError(f"Index {row} is out of range: there are {length} samples.") from error
    return _checked(rows, length, what)


def _checked(rows: NDArray[np.int64], length: int, what: str) -> NDArray[np.int64]:
    is_ascending = bool((rows[1:] > rows[:-1]).all())
    found = rows if is_ascending else np.unique(rows)
    if len(found) < len(rows):
        raise ValueError("Duplicate indices are not allowed.")
    if len(found) and length == 0:
        raise IndexError(f"Can't pop from empty {what}.")
    if len(found) and found[0] < 0:
        raise IndexError("Pop doesn't support negative indices.")
    if len(found) and found[-1] >= length:
        longest = "The longest tensor has" if what == "dataset" else "The tensor has"
        row = rows[rows >= length][0]
        raise IndexError(f"Index {row} is out of range. {longest} {length} samples.")
    return found


def _row(item: object) -> int:
    if not hasattr(item, "__index__") or isinstance(item, bool):
        raise InvalidKeyTypeError(f"{item!r} is no row number")
    return int(item.__index__())
