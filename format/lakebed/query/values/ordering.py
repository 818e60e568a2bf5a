"""ORDER BY: missing values come last, NaN before them.

Rows with equal keys keep their order if the last key is ascending; if it is descending, they come in reverse order,
as the language defines it. JSON values are ordered null, texts, numbers, unless the query says NULLS LAST.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.native import equals
from lakebed.query.values.columns import Column, Constant, Mask, Numbers, Objects, Texts, scalars
from lakebed.query.values.limits import stretches, tick

Ranks = NDArray[Any]

_AT_ONCE = 1 << 18
"""Maximum number of rows of one sort, during which the clock is not checked."""

_SAMPLES, _DEALT = 1024, 64
"""Larger sorts are partitioned: number of rows sampled to choose the bounds, and approximate number of bounds."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of ORDER BY; `nulls` is ``first``, ``last`` or empty."""

    column: Column
    is_descending: bool
    nulls: str


def ordered(keys: Sequence[Key], count: int | None = None) -> NDArray[np.int64]:
    """Return the positions of rows in order.

    Parameters
    ----------
    count
        Number of rows to return, from the start of the order; None for all.

    Raises
    ------
    QueryError
        If a key is an array.
    """
    found: NDArray[np.int64] | None = None
    if len(keys) == 1 and count is not None:
        found = _best(keys[0], count)
        if found is not None:
            return found
    ranks: list[Ranks] = []
    for key in keys:
        values, classes = _ranked(key)
        # lexsort sorts by its last key first.
        ranks = [values, classes, *ranks] if classes is not None else [values, *ranks]
    total = len(ranks[0])
    if len(ranks) == 1:
        found = _counted(ranks[0][:: -1 if keys[0].is_descending else 1])
        if found is not None and keys[0].is_descending:
            found = total - 1 - found
    if found is None:
        if keys[-1].is_descending:
            ranks = [-np.arange(total), *ranks]
        found = _sorted(ranks, np.arange(total))
    return found if count is None else found[:count]


def _sorted(ranks: Sequence[Ranks], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows sorted by the last of several ranks, ties by the rank before it, and so on.

    Many rows are partitioned first, by sampled values, so that no single sort takes long.
    """
    tick()
    count = len(rows)
    if count <= _AT_ONCE or not ranks:
        return rows[np.lexsort([rank[rows] for rank in ranks])] if ranks else rows
    values = ranks[-1][rows]
    edges = np.unique(values[:: count // _SAMPLES])
    edges = edges[:: len(edges) // _DEALT + 1]
    tick()
    places = np.searchsorted(edges, values)
    tick()
    is_edge = edges[np.minimum(places, len(edges) - 1)] == values
    members, ends = equals.gathered(2 * places + is_edge, 2 * len(edges) + 1, tick)
    found: list[NDArray[np.int64]] = []
    for number in range(len(ends) - 1):
        some = rows[members[ends[number] : ends[number + 1]]]
        if number % 2:
            found.append(_sorted(ranks[:-1], some))
        elif len(some) * 8 > count * 7:  # nearly all rows are in one part, so partitioning would not help
            found.append(some[np.lexsort([rank[some] for rank in ranks])])
        elif len(some):
            found.append(_sorted(ranks, some))
    return np.concatenate(found)


def _counted(values: Ranks) -> NDArray[np.int64] | None:
    """Return the stable order of integers from a small range, by counting; None if sorting is faster."""
    if values.dtype.kind not in "iu" or not len(values):
        return None
    low, high = values.min(), values.max()
    span = int(high) - int(low) + 1
    if span > len(values):
        return None
    # The difference is correct modulo 2**64, even if int64 overflows.
    return equals.gathered(values.astype(np.int64) - low.astype(np.int64), span, tick)[0]


def _best(key: Key, count: int) -> NDArray[np.int64] | None:
    """Return the first rows of an order by numbers without sorting all rows; None if that is not faster."""
    column = key.column
    if not isinstance(column, Numbers) or column.missing is not None or column.values[:1].size != 1:
        return None
    values = column.values.reshape(-1)
    if count <= 0 or count * 8 > len(values) or values.dtype.kind not in "iuf":
        return None
    if values.dtype.kind == "f" and np.isnan(values).any():
        return None
    place = len(values) - count if key.is_descending else count - 1
    edge = np.partition(values, place)[place]
    near = np.flatnonzero(values >= edge if key.is_descending else values <= edge)
    chosen = values[near]
    order = np.argsort(chosen, kind="stable")
    return near[order[::-1] if key.is_descending else order][:count].astype(np.int64)


def _ranked(key: Key) -> tuple[Ranks, NDArray[np.int8] | None]:
    """Return numbers that ascend in the order of the key, and classes that decide before the numbers do."""
    values, gone = _numbers(key.column)
    odd = np.isnan(values) if values.dtype.kind == "f" else None
    odd = odd if odd is not None and odd.any() else None
    if odd is not None:
        values = np.where(odd, 0, values)
    if key.is_descending:
        # ~ reverses the order like -, but cannot overflow.
        values = ~values if values.dtype.kind in "iu" else -values
    first = key.nulls == "first"
    if not key.nulls and isinstance(key.column, Objects):
        first = not key.is_descending  # null counts as the smallest JSON value
    if gone is None and odd is None:
        return values, None
    classes = np.zeros(len(values), np.int8)
    if odd is not None:
        classes[odd] = 1
    if gone is not None:
        classes[gone] = -1 if first else 2
        values = np.where(gone, values.dtype.type(0), values)
    return values, classes


def _numbers(column: Column) -> tuple[Ranks, Mask | None]:
    """Return numbers in the order of the values, and the mask of missing ones."""
    if isinstance(column, Constant):
        return np.zeros(column.count, np.int64), None
    if isinstance(column, Texts):
        return _texts(column.array)
    if isinstance(column, Objects):
        return _documents(column.items)
    found = scalars(column)
    if found is None:
        raise QueryError("ORDER BY needs one number, text or JSON value per row, not an array", kind="type")
    values, gone = found
    return values.astype(np.int8) if values.dtype == np.bool_ else values, gone


def _texts(array: pa.Array) -> tuple[Ranks, Mask | None]:
    encoded = pc.dictionary_encode(array)
    tick()
    places = pc.sort_indices(encoded.dictionary).to_numpy()
    rank = np.zeros(len(places) + 1, np.int64)
    rank[places] = np.arange(len(places))
    codes = encoded.indices.fill_null(len(places)).to_numpy(zero_copy_only=False)
    return rank[codes], Texts(array).missing


def _documents(values: Sequence[Any]) -> tuple[Ranks, Mask | None]:
    keys: list[tuple[int, Any] | None] = []
    for value in (values[i] for stretch in stretches(len(values)) for i in stretch):
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.reshape(()).item()
        if value is None:
            keys.append(None)
        elif isinstance(value, str):
            keys.append((0, value))
        elif isinstance(value, int | float):
            keys.append((1, value))
        else:
            raise QueryError("ORDER BY needs one number, text or JSON value per row, not a list", kind="type")
    known = sorted({key for key in keys if key is not None})
    places = {key: i for i, key in enumerate(known)}
    gone = np.fromiter((key is None for key in keys), np.bool_, len(keys))
    ranks = np.fromiter((0 if key is None else places[key] for key in keys), np.int64, len(keys))
    return ranks, gone if gone.any() else None
