"""Values as numbers that are equal where the values are: what groups, joins and DISTINCT compare."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.columns import Column, Constant, Numbers, Objects, Ragged, Texts, rows

Codes = NDArray[np.int64]


def codes(column: Column, *, scalars: bool) -> Codes:
    """Return a number for each row: equal where values are, -1 where there is none.

    Parameters
    ----------
    scalars
        Refuse arrays.

    Raises
    ------
    QueryError
        If a row has several numbers, and `scalars` is true.
    """
    if isinstance(column, Constant):
        return np.zeros(column.count, np.int64)
    if isinstance(column, Texts):
        encoded = pc.dictionary_encode(column.array)
        found: Codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found
    if isinstance(column, Numbers) and column.values[:1].size == 1:
        values = column.values.reshape(-1)
        _, inverse = np.unique(values, return_inverse=True)
        numbered = inverse.reshape(-1).astype(np.int64)
        return numbered if column.missing is None else np.where(column.missing, -1, numbered)
    if isinstance(column, Ragged) and bool((column.sizes <= 1).all()):
        numbered = np.full(len(column), -1, np.int64)
        numbered[column.sizes == 1] = np.unique(column.flat, return_inverse=True)[1].reshape(-1)
        return numbered
    if scalars and (isinstance(column, Numbers | Ragged) and len(column)):
        raise QueryError("a key is one number, text or JSON value per row, not an array", kind="type")
    return _hashed(rows(column))


def _hashed(values: Sequence[Any]) -> Codes:
    known: dict[Hashable, int] = {}
    found = np.empty(len(values), np.int64)
    for i, value in enumerate(values):
        found[i] = -1 if value is None else known.setdefault(hashable(value), len(known))
    return found


def hashable(value: Any) -> Hashable:
    """Return what is equal for equal values, and can be the key of a dictionary."""
    if isinstance(value, np.ndarray):
        if value.size == 1:
            return hashable(value.reshape(()).item())
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, list | dict):
        return json.dumps(value, sort_keys=True, default=str)
    if isinstance(value, float) and value != value:
        return "NaN", None
    return value if isinstance(value, Hashable) else repr(value)


def joined(parts: Sequence[Codes]) -> Codes:
    """Return one number for several of a row."""
    whole = parts[0]
    for part in parts[1:]:
        _, low = np.unique(part, return_inverse=True)
        _, high = np.unique(whole, return_inverse=True)
        whole = high.reshape(-1).astype(np.int64) * (int(low.max(initial=0)) + 1) + low.reshape(-1)
    return whole


def groups(keys: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of all groups, in the order in which their keys first appear, and where each group begins."""
    if not len(keys):
        return np.zeros(0, np.int64), np.zeros(1, np.int64)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    group = place[inverse.reshape(-1)]
    members = np.argsort(group, kind="stable")
    ends = np.zeros(len(first) + 1, np.int64)
    np.cumsum(np.bincount(group, minlength=len(first)), out=ends[1:])
    return members, ends


def firsts(keys: Codes) -> NDArray[np.int64]:
    """Return the first row of each key, in order."""
    return np.sort(np.unique(keys, return_index=True)[1]).astype(np.int64)


def pairs(
    left: Sequence[Column], right: Sequence[Column], hold: Callable[[int], None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of rows whose keys are equal, by left row, then by right row; what is missing equals nothing.

    Parameters
    ----------
    hold
        Takes note of the bytes that they take, before they are made.
    """
    first, second = _common(left, right)
    order = np.argsort(second, kind="stable")
    ordered = second[order]
    starts, stops = np.searchsorted(ordered, first, "left"), np.searchsorted(ordered, first, "right")
    counts = np.where(first < 0, 0, stops - starts)
    hold(16 * int(counts.sum()))
    lefts = np.repeat(np.arange(len(first), dtype=np.int64), counts)
    from lakebed.query.columns import spread

    return lefts, order[spread(starts.astype(np.int64), counts.astype(np.int64))]


def _common(left: Sequence[Column], right: Sequence[Column]) -> tuple[Codes, Codes]:
    """Return keys of two sides that are equal where their values are."""
    from lakebed.query.columns import concatenated

    parts: list[Codes] = []
    gone = np.zeros(0, np.bool_)
    for one, other in zip(left, right, strict=True):
        is_text = [isinstance(side, Texts) for side in (one, other)]
        is_object = [isinstance(side, Objects) for side in (one, other)]
        if is_text[0] != is_text[1] and not any(is_object) and len(one) and len(other):
            raise QueryError("a join pairs text with text, and numbers with numbers", kind="type")
        whole = codes(
            concatenated([one, other]) if len(one) and len(other) else (one if len(one) else other),
            scalars=True,
        )
        parts.append(whole)
        gone = whole < 0 if not len(gone) else gone | (whole < 0)
    whole = joined(parts)
    whole = np.where(gone, -1, whole)
    count = len(left[0])
    if count and len(right[0]):
        return whole[:count], whole[count:]
    return (whole, np.zeros(0, np.int64)) if count else (np.zeros(0, np.int64), whole)
