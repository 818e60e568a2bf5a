"""``x[...]``: parts of arrays, items of JSON values.

A slice is cut to what is there, as in NumPy; a number beyond the end gives a missing value.
"""

from __future__ import annotations

from collections.abc import Sequence
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

# No sample has so many items: a number beyond is as good as this one, and has 64 bits.
_FAR = 1 << 62

Fixed = int | slice | EllipsisType
Part = Fixed | str | Column


def subscript(base: Column, items: Sequence[Part]) -> Column:
    """Return a part of each sample.

    Parameters
    ----------
    items
        Numbers, slices and ``...`` that are the same for all rows; keys of JSON values; or columns: numbers, lists of
        numbers, and masks that differ by row.

    Raises
    ------
    QueryError
        If a sample has fewer axes than there are items.
    """
    fixed: list[Fixed] = [item for item in items if isinstance(item, int | slice | EllipsisType)]
    if len(fixed) == len(items):
        if isinstance(base, Numbers):
            return _of_even(base, fixed)
        if isinstance(base, Ragged):
            found = _of_uneven(base, fixed)
            if found is not None:
                return found
    elif len(items) == 1 and isinstance(items[0], Ragged) and isinstance(base, Ragged):
        found = _masked(base, items[0])
        if found is not None:
            return found
    dynamic = [item for item in items if not isinstance(item, int | slice | EllipsisType | str)]

    def part(value: Any, *given: Any) -> Any:
        remaining = iter(given)
        keys = [
            item if isinstance(item, int | slice | EllipsisType | str) else next(remaining) for item in items
        ]
        return _part(value, keys)

    return by_row(len(base), part, [base, *dynamic], "[]")


def _part(value: Any, keys: list[Any]) -> Any:
    """Return a part of one value; None where there is none."""
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
    """Return an item for each of the first axes, without ``...``.

    Raises
    ------
    QueryError
        If there are more items than axes.
    """
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
    """Return the extents behind the first axis if all samples with values have the same, else None."""
    shapes = column.shapes
    if shapes.shape[1] == 1:
        return ()
    if not len(shapes):
        return (1,) * int(shapes.shape[1] - 1)
    rest = shapes[:, 1:]
    if bool((rest == rest[0]).all()):
        return tuple(int(extent) for extent in rest[0])
    held = rest[column.sizes > 0]
    if not len(held):
        held = rest[:1]
    return tuple(int(extent) for extent in held[0]) if bool((held == held[0]).all()) else None


def _of_uneven(base: Ragged, items: Sequence[Fixed]) -> Column | None:
    """Return parts of samples that differ in their first axis only; None for others."""
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
    """Return how many items of the first axis the values of each sample fill.

    Of samples without values, the first axis may count what the others lack.
    """
    lengths = column.shapes[:, 0]
    inner = len(column.flat) // max(1, int(lengths.sum()))
    if inner and int(lengths.sum()) * inner == len(column.flat):
        return lengths
    return np.where(column.sizes > 0, lengths, 0)


def _picked(whole: NDArray[Any], lengths: NDArray[np.int64], item: int) -> Column:
    """Return one item of each sample; missing where there are fewer."""
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
    """Return first place and number of items that a slice selects, for each length."""
    known, inverse = np.unique(lengths, return_inverse=True)
    found = [range(*item.indices(int(length))) for length in known.tolist()]
    starts = np.array([span.start for span in found], np.int64)
    counts = np.array([len(span) for span in found], np.int64)
    return starts[inverse], counts[inverse]


def _masked(base: Ragged, mask: Ragged) -> Column | None:
    """Return the items that a mask over the first axis selects; None if it is none, or does not fit."""
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
    """Return the shape of each sample, uint32; (1,) for texts and JSON values, whatever they hold."""
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
    if isinstance(value, list):
        value = _array_of(value)
    return np.array(np.shape(value) if isinstance(value, np.ndarray) else (1,), np.uint32)


def _array_of(value: list[Any]) -> Any:
    try:
        array = np.asarray(value)
    except ValueError:
        return np.zeros(len(value))
    return array if array.dtype.kind in "biufc" else np.zeros(len(value))
