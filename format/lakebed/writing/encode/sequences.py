"""Rows of sequences -> flat samples and how many of them each row has (FORMAT.md 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.sample import Sample
from lakebed.errors import TensorDtypeMismatchError
from lakebed.writing.encode.encoded import Samples


def flattened(rows: Samples) -> tuple[Samples, NDArray[np.int64]]:
    """Put the items of all sequences into one column.

    Parameters
    ----------
    rows
        Array of shape (rows, items, ...), or sequences: lists, tuples or arrays of items; None is an empty one.

    Returns
    -------
    The items, and their number per row: int64, shape (rows,).

    Raises
    ------
    TensorDtypeMismatchError
        If a row is no sequence.
    """
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        if rows.ndim < 2:
            raise TensorDtypeMismatchError(
                "a row of a sequence tensor is a list or an array of items, not a number"
            )
        counts = np.full(len(rows), rows.shape[1], dtype=np.int64)
        return rows.reshape(-1, *rows.shape[2:]), counts
    lists = [_items(row) for row in rows]
    counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    filled = [items for items in lists if len(items)]
    arrays = [items for items in filled if isinstance(items, np.ndarray) and items.dtype.kind != "O"]
    if arrays and len(arrays) == len(filled):
        first = arrays[0]
        if all(a.dtype == first.dtype and a.shape[1:] == first.shape[1:] for a in arrays):
            return np.concatenate(arrays), counts
    return [item for items in lists for item in items], counts


def _items(row: Any) -> Sequence[Any] | NDArray[Any]:
    if row is None:
        return ()
    if isinstance(row, np.ndarray) and row.ndim:
        return row
    if isinstance(row, list | tuple):
        return row
    if isinstance(row, str | bytes | Mapping | Sample) or not hasattr(row, "__len__"):
        raise TensorDtypeMismatchError(
            f"a row of a sequence tensor is a list or an array of items, not {type(row).__name__}: {row!r:.60}"
        )
    array = getattr(row, "__array__", None)
    return list(row) if array is None else np.asarray(row)
