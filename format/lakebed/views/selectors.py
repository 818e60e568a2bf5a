"""Conversion of selectors of rows and of parts of samples to JSON and back (format.md 12). Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import DatasetViewSavingError, FormatError
from lakebed.reading.subscripts import Index, RowSelector

MOST_LISTED = 10_000
"""Maximum number of rows that the entry of a view lists; the data of the view lists all rows."""


def axes_of(index: Index, rows: NDArray[np.uint64]) -> list[Any] | None:
    """Return the selectors of an index for the entry of a view; None if the rows are too many to list."""
    first = index.chain[0] if len(index.chain) == 1 else None
    if not index.chain:
        head: Any = _of_slice(slice(None))
    elif isinstance(first, slice):
        head = _of_slice(first)
    elif index.is_single:
        head = int(rows[0])
    elif len(rows) > MOST_LISTED:
        return None
    else:
        head = rows.tolist()
    return [head, *inside_of(index)]


def inside_of(index: Index) -> list[Any]:
    """Return the selectors of parts of samples.

    Raises
    ------
    DatasetViewSavingError
        If the selectors cannot be stored.
    """
    if len(index.inside) > 1:
        raise DatasetViewSavingError(
            "samples are indexed twice, which cannot be stored: index them in one step, as in ds[rows, 0:2]"
        )
    return [_of(item) for subscript in index.inside for item in subscript]


def _of(item: Any) -> Any:
    if isinstance(item, slice):
        return _of_slice(item)
    found = np.asarray(item)
    if found.ndim < 2 and found.dtype.kind in "iu" and item is not Ellipsis:
        return found.tolist()
    raise DatasetViewSavingError(
        f"{item!r} in the index of samples cannot be stored: views keep numbers, lists of them, and slices"
    )


def _of_slice(item: slice) -> dict[str, int | None]:
    try:
        found = [None if n is None else n.__index__() for n in (item.start, item.stop, item.step)]
    except AttributeError:
        raise DatasetViewSavingError(f"{item!r} is not a slice of whole numbers") from None
    return dict(zip(("start", "stop", "step"), found, strict=True))


def index_of(rows: NDArray[np.uint64], *, is_single: bool, inside: Any, pad: bool = False) -> Index:
    """Return the index that selects stored rows and parts of samples.

    Parameters
    ----------
    pad
        True if tensors may end before some rows: the index then lists the rows, and such tensors have empty samples.

    Raises
    ------
    FormatError
        If a selector is invalid, or ``is_single`` is true and ``rows`` does not have exactly one row.
    """
    if is_single and len(rows) != 1:
        raise FormatError(f"a view of one row lists {len(rows)} row numbers")
    chain: RowSelector = int(rows[0]) if is_single else tuple(rows.tolist()) if pad else _selector(rows)
    return Index((chain,), () if not inside else (tuple(_parsed(inside)),))


def _selector(rows: NDArray[np.uint64]) -> RowSelector:
    """Return rows as the fastest kind of selector: a slice if they are consecutive, else a tuple."""
    if len(rows) and (np.diff(rows.astype(np.int64)) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return tuple(rows.tolist())


def _parsed(inside: Any) -> list[Any]:
    if not isinstance(inside, list):
        raise FormatError(f"sub-sample-index is {inside!r:.60}, not a list")
    return [_item(item) for item in inside]


def _item(item: Any) -> Any:
    if type(item) is int:
        return item
    if isinstance(item, list) and all(type(n) is int for n in item):
        return item
    if isinstance(item, dict) and item.keys() <= {"start", "stop", "step"}:
        ends = [item.get(name) for name in ("start", "stop", "step")]
        if all(n is None or type(n) is int for n in ends) and ends[2] != 0:
            return slice(*ends)
    raise FormatError(f"sub-sample-index has {item!r:.60}, which selects nothing")
