"""Steps of reading a selection: values to arrays, subscripts of values, rows to the form that is read fastest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.htypes.base import Storing
from lakebed.reading.subscripts import Rows

Subscript = tuple[Any, ...]


def object_array(value: Any, storing: Storing) -> NDArray[Any]:
    """Return one text or JSON value as an array of one item; a list as an array of its items."""
    if isinstance(value, str) and storing is Storing.TEXT:
        return np.array([value])
    if storing is Storing.LIST and value is not None:
        array = np.empty(len(value), dtype=object)
        array[:] = value
        return array
    array = np.empty(1, dtype=object)
    array[0] = value
    return array


def within(value: Any, inside: tuple[Subscript, ...]) -> Any:
    """Apply subscripts to a value; to a list or text, which has one axis, apply them one after the other."""
    for subscript in inside:
        if isinstance(value, np.ndarray):
            found: Any = value[subscript]
            value = found if isinstance(found, np.ndarray) or value.dtype == object else np.asarray(found)
            continue
        for item in subscript:
            value = value if item is Ellipsis else value[item]
    return value


def ints(rows: Rows) -> list[int]:
    """Return row numbers as Python integers."""
    return [int(row) for row in rows]


def as_rows(rows: Rows | Sequence[int]) -> Rows:
    """Return row numbers as a range or an array."""
    return rows if isinstance(rows, range | np.ndarray) else np.array(rows, dtype=np.int64)


def run_of(flat: list[int]) -> Sequence[int]:
    """Convert consecutive numbers to a range, which is read without a search per row."""
    if flat and flat[-1] - flat[0] == len(flat) - 1 and flat == list(range(flat[0], flat[-1] + 1)):
        return range(flat[0], flat[-1] + 1)
    return flat


def shifted(
    inner: NDArray[Any], subscript: Any, window: tuple[slice, ...], shape: tuple[int, ...]
) -> NDArray[Any]:
    """Apply a subscript relative to the sample's origin to a window of the sample."""
    items = list(subscript) if isinstance(subscript, tuple) else [subscript]
    if Ellipsis in [item for item in items if not isinstance(item, np.ndarray)]:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    moved = []
    for axis, item in enumerate(items):
        offset, extent = window[axis].start, shape[axis]
        if isinstance(item, slice):
            positions = range(*item.indices(extent))
            low = positions[0] - offset if positions else 0
            stop = (positions[-1] - offset + positions.step // abs(positions.step)) if positions else 0
            moved.append(slice(low, stop if stop >= 0 else None, positions.step))
            continue
        chosen = np.asarray(item)
        chosen = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64) % extent
        moved.append(chosen - offset if chosen.ndim else int(chosen) - offset)
    found: NDArray[Any] = inner[tuple(moved)]
    return found
