"""``x[...]``: parts of arrays and items of JSON values.

Slices are clipped as in NumPy; an index beyond the end gives a missing value.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    by_row,
    item_of,
    spread,
)

_FAR = 1 << 62
"""Larger than any sample: indices beyond it are clipped, so that they fit 64 bits."""

Fixed = int | slice | EllipsisType
Constants = Fixed | str
Part = Constants | Column


def subscript(base: Column, items: Sequence[Part]) -> Column:
    """Return a part of each sample.

    Parameters
    ----------
    items
        Numbers, slices and ``...`` for all rows; keys of JSON values; or columns of numbers, lists of numbers and
        masks, which differ by row.

    Raises
    ------
    QueryError
        If a sample has fewer axes than there are items.
    """
    fixed: list[Fixed] = [item for item in items if isinstance(item, Fixed)]
    found: Column | None = None
    if len(fixed) == len(items):
        if isinstance(base, Numbers):
            return _of_even(base, fixed)
        if isinstance(base, Ragged):
            found = _of_uneven(base, fixed)
    elif len(items) == 1 and isinstance(items[0], Ragged) and isinstance(base, Ragged):
        found = _masked(base, items[0])
    if found is not None:
        return found
    dynamic = [item for item in items if not isinstance(item, Constants)]

    def part(value: Any, *given: Any) -> Any:
        remaining = iter(given)
        return _part(value, [item if isinstance(item, Constants) else next(remaining) for item in items])

    return by_row(len(base), part, [base, *dynamic], "[]")


def _part(value: Any, keys: list[Any]) -> Any:
    """Return a part of one value, None if it has no such part."""
    if value is None:
        return None
    if isinstance(value, dict | list | str) or (isinstance(value, np.ndarray) and isinstance(keys[0], str)):
        for key in keys:
            value = _item(value, key)
        return value
    if not isinstance(value, np.ndarray):
        return None
    index = tuple(_index(key) for key in keys)
    if sum(1 for key in index if key is not Ellipsis) > value.ndim:
        if value.size == 0:
            return None
        raise QueryError(f"a sample of {value.ndim} axes has no {len(index)} indices", kind="rank")
    try:
        return value[index]
    except IndexError as error:
        if any(isinstance(key, np.ndarray) and key.dtype == np.bool_ for key in index):
            raise QueryError(f"the mask does not fit: {error}", kind="shape") from error
        return None


def _index(key: Any) -> Any:
    if isinstance(key, np.ndarray):
        if key.dtype.kind == "f":
            if not np.array_equal(key, np.trunc(key)):
                raise QueryError("an index is a whole number", kind="type")
            key = np.clip(key, -_FAR, _FAR).astype(np.int64)
        if key.dtype == np.bool_:
            return key
        return int(key) if key.ndim == 0 else key.astype(np.int64)
    if isinstance(key, float):
        return int(key)
    return key


def _item(value: Any, key: Any) -> Any:
    if isinstance(key, np.ndarray) and key.size == 1:
        key = int(key.reshape(()))
    if isinstance(value, dict):
        return value.get(key) if isinstance(key, str) else None
    if isinstance(value, list | str) and isinstance(key, int) and not isinstance(key, bool):
        return item_of(value, key) if -len(value) <= key < len(value) else None
    if isinstance(value, list | str) and isinstance(key, slice):
        return value[key]
    return None


# -- arrays of one shape ---------------------------------------------------------------------------------------------


def _of_even(base: Numbers, items: Sequence[Fixed]) -> Column:
    shape = base.values.shape[1:]
    index = full(items, len(shape))
    for axis, item in enumerate(index):
        if isinstance(item, int) and not -shape[axis] <= item < shape[axis]:
            return Numbers(np.zeros(len(base), base.values.dtype), np.ones(len(base), np.bool_))
    return Numbers(base.values[(slice(None), *index)], base.missing)


def full(items: Sequence[Fixed], rank: int) -> list[int | slice]:
    """Replace ``...`` by full slices; raise an error if there are more items than axes."""
    given = [item for item in items if item is not Ellipsis]
    if len(given) > rank:
        raise QueryError(f"{len(given)} indices for samples of {rank} axes", kind="rank")
    found: list[int | slice] = []
    for item in items:
        if isinstance(item, EllipsisType):
            found.extend([slice(None)] * (rank - len(given)))
        else:
            found.append(item)
    return found


# -- arrays of many shapes -------------------------------------------------------------------------------------------


def trailing(column: Ragged) -> tuple[int, ...] | None:
    """Return the extents after the first axis if all samples with values share them, else None."""
    rest = column.shapes[:, 1:]
    if not len(rest):
        return (1,) * int(rest.shape[1])
    if not (rest == rest[0]).all():
        held = rest[column.sizes > 0]
        rest = held if len(held) else rest[:1]
    extents: tuple[int, ...] = tuple(rest[0].tolist())
    return extents if (rest == rest[0]).all() else None


def _of_uneven(base: Ragged, items: Sequence[Fixed]) -> Column | None:
    """Return parts of samples that differ in their first axis only; None for other samples."""
    extents = trailing(base)
    index = full(items, base.shapes.shape[1])
    if extents is None or 0 in extents:
        return None
    whole = base.flat.reshape(-1, *extents)
    for axis, item in enumerate(index[1:]):
        if isinstance(item, int) and not -extents[axis] <= item < extents[axis]:
            return Numbers(np.zeros(len(base), whole.dtype), np.ones(len(base), np.bool_))
    whole = whole[(slice(None), *index[1:])]
    lengths = _lengths(base)
    first = index[0]
    if isinstance(first, int):
        return _picked(whole, lengths, first)
    if first != slice(None):
        starts, counts = _spans(first, lengths)
        begins = np.cumsum(lengths) - lengths
        steps = spread(np.zeros_like(counts), counts) * (1 if first.step is None else first.step)
        whole = whole[np.repeat(begins + starts, counts) + steps]
        lengths = counts
    shapes = np.empty((len(base), whole.ndim), np.int64)
    shapes[:, 0] = lengths
    shapes[:, 1:] = whole.shape[1:]
    return Ragged(whole.reshape(-1), shapes, base.missing)


def _lengths(column: Ragged) -> NDArray[np.int64]:
    """Return the length of each sample's first axis; a shape such as (5, 0) counts as 0 beside samples with values."""
    lengths = column.shapes[:, 0]
    inner = len(column.flat) // max(1, int(lengths.sum()))
    if inner and int(lengths.sum()) * inner == len(column.flat):
        return lengths
    return np.where(column.sizes > 0, lengths, 0)


def _picked(whole: NDArray[Any], lengths: NDArray[np.int64], item: int) -> Column:
    """Return one item of each sample, missing in shorter samples."""
    item = max(-_FAR, min(item, _FAR))
    inside = np.full(len(lengths), item) if item >= 0 else lengths + item
    gone = (inside < 0) | (inside >= lengths)
    begins = np.cumsum(lengths) - lengths
    if not len(whole):
        values = np.zeros((len(lengths), *whole.shape[1:]), whole.dtype)
    else:
        values = whole[np.where(gone, 0, begins + inside)]
    return Numbers(values, gone if gone.any() else None)


def _spans(item: slice, lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each length, the index of the first item that a slice selects, and the number of selected items."""
    known, inverse = np.unique(lengths, return_inverse=True)
    found = [range(*item.indices(int(length))) for length in known.tolist()]
    starts = np.array([span.start for span in found], np.int64)
    counts = np.array([len(span) for span in found], np.int64)
    return starts[inverse], counts[inverse]


def _masked(base: Ragged, mask: Ragged) -> Column | None:
    """Return the items that a mask over the first axis selects; None for other subscripts, or if it does not fit."""
    extents = trailing(base)
    if mask.flat.dtype != np.bool_ or mask.shapes.shape[1] != 1 or extents is None or 0 in extents:
        return None
    lengths = _lengths(base)
    if not np.array_equal(lengths, mask.sizes):
        return None
    kept = np.zeros(len(mask.flat) + 1, np.int64)
    np.cumsum(mask.flat, out=kept[1:])
    shapes = base.shapes.copy()
    shapes[:, 1:] = extents
    shapes[:, 0] = kept[mask.offsets[1:]] - kept[mask.offsets[:-1]]
    return Ragged(base.flat.reshape(-1, *extents)[mask.flat].reshape(-1), shapes, base.missing)


def shape_of(column: Column) -> Column:
    """Return the shape of each sample, uint32; (1,) for texts and JSON values."""
    if isinstance(column, Texts):
        return Numbers(np.ones((len(column), 1), np.uint32))
    if isinstance(column, Objects):
        return by_row(len(column), _shape, [column], "SHAPE")
    if isinstance(column, Constant):
        return Constant(_shape(column.value), column.count)
    if isinstance(column, Ragged):
        return Numbers(column.shapes.astype(np.uint32))
    shape = np.array(column.values.shape[1:], np.uint32)
    table = np.broadcast_to(shape, (len(column), len(shape)))
    if column.missing is not None:
        table = np.where(column.missing[:, None], 0, table).astype(np.uint32)
    return Numbers(table)


def _shape(value: Any) -> NDArray[np.uint32]:
    shape: tuple[int, ...] = np.shape(value) if isinstance(value, np.ndarray) else (1,)
    if isinstance(value, list):
        shape = (len(value),)
        with suppress(ValueError):  # the lists may differ in length
            array = np.asarray(value)
            shape = array.shape if array.dtype.kind in "biufc" else shape
    return np.array(shape, np.uint32)
