"""Codes of values, for groups, joins and DISTINCT: integers that are equal where the values are."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.native import equals
from lakebed.query.values.columns import (
    Column,
    Constant,
    Mask,
    Numbers,
    Objects,
    Ragged,
    Texts,
    concatenated,
    either,
    rows,
    scalars,
    take,
)
from lakebed.query.values.exact import represented
from lakebed.query.values.limits import stretches, tick

Codes = NDArray[np.int64]

_SEED = secrets.randbits(64)
"""Seed of the hash tables, so that nobody can choose keys that collide; results do not depend on it."""


def codes(column: Column, *, refuse_arrays: bool) -> Codes:
    """Return a code for each row, -1 for missing values.

    Parameters
    ----------
    refuse_arrays
        Raise an error for rows with several numbers.

    Raises
    ------
    QueryError
        If a row has several numbers, and `refuse_arrays` is true.
    """
    if isinstance(column, Constant):
        return np.zeros(column.count, np.int64)
    if isinstance(column, Texts):
        return _integers(pc.dictionary_encode(column.array).indices)
    found = scalars(column)
    if found is not None:
        values, missing = _numbered(found[0]), found[1]
        return values if missing is None else np.where(missing, -1, values)
    if refuse_arrays and isinstance(column, Numbers | Ragged):
        raise QueryError("a key is one number, text or JSON value per row, not an array", kind="type")
    return _hashed(column)


def _integers(array: pa.Array) -> Codes:
    """Return an Arrow array of integers, -1 for null."""
    return array.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _numbered(values: NDArray[Any]) -> Codes:
    words = _words(values)
    if words is None:
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return equals.numbered(words, _SEED, tick)[0]


def _words(values: NDArray[Any]) -> Codes | None:
    """Return integers that are equal where the numbers are (NaN equals NaN); None if 64 bits cannot hold them."""
    if values.dtype.kind in "biu":
        # A bijection modulo 2**64, so equality is kept.
        return np.ascontiguousarray(values).astype(np.int64, copy=False)
    if values.dtype.kind != "f" or values.dtype.itemsize > 8:
        return None
    floats = values.astype(np.float64) + 0.0  # adding 0.0 turns -0.0 into 0.0
    odd = np.isnan(floats)
    if odd.any():
        floats[odd] = np.nan
    return floats.view(np.int64)


def _hashed(column: Column) -> Codes:
    known: dict[Hashable, int] = {}
    found = np.empty(len(column), np.int64)
    for stretch in stretches(len(column)):
        some = take(column, np.arange(stretch.start, stretch.stop, dtype=np.int64))
        for i, value in zip(stretch, rows(some), strict=True):
            found[i] = -1 if value is None else known.setdefault(hashable(value), len(known))
    return found


def hashable(value: Any) -> Hashable:
    """Return a dictionary key that is equal for equal values."""
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
    """Combine several codes of each row into one."""
    whole = parts[0]
    for part in parts[1:]:
        high, _ = equals.numbered(whole, _SEED, tick)
        low, firsts = equals.numbered(part, _SEED, tick)
        whole = high * len(firsts) + low
    return whole


def groups(keys: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows sorted by group, and the start of each group, followed by the end.

    Groups are in the order of their first rows.
    """
    numbers, firsts = equals.numbered(keys, _SEED, tick)
    return equals.gathered(numbers, len(firsts), tick)


def firsts(keys: Codes) -> NDArray[np.int64]:
    """Return the first row of each key, in order."""
    return equals.numbered(keys, _SEED, tick)[1]


def pairs(
    left: Sequence[Column], right: Sequence[Column], hold: Callable[[int], None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of rows with equal keys, by left row, then by right row; missing keys equal nothing.

    Parameters
    ----------
    hold
        Counts the bytes of the pairs before they are made.
    """
    numbers, others, count = _matched(left[0], right[0])
    for one, other in zip(left[1:], right[1:], strict=True):
        low, low_others, low_count = _matched(one, other)
        first = np.where((numbers < 0) | (low < 0), -1, numbers * low_count + low)
        second = np.where((others < 0) | (low_others < 0), -1, others * low_count + low_others)
        numbers, others, count = _found(first, second, first < 0, second < 0)
    rows, ends = equals.gathered(others, count, tick)
    hold(16 * equals.count_pairs(numbers, rows, ends))
    return equals.pairs(numbers, rows, ends, tick)


def _matched(left: Column, right: Column) -> tuple[Codes, Codes, int]:
    """Return the codes of both sides and their number; missing keys and left keys without an equal right key get -1."""
    is_text = [isinstance(side, Texts) for side in (left, right)]
    has_objects = isinstance(left, Objects) or isinstance(right, Objects)
    if is_text[0] != is_text[1] and not has_objects and len(left) and len(right):
        raise QueryError("a join pairs text with text, and numbers with numbers", kind="type")
    if not len(left) or not len(right):
        codes(left if len(left) else right, refuse_arrays=True)
        return np.full(len(left), -1, np.int64), np.full(len(right), -1, np.int64), 0
    if isinstance(left, Texts) and isinstance(right, Texts):
        return _matched_texts(left, right)
    one, other = scalars(left), scalars(right)
    if one is not None and other is not None:
        sides = _words_alike(one[0], other[0])
        if sides is not None:
            (first, first_odd), (second, second_odd) = sides
            return _found(first, second, either(one[1], first_odd), either(other[1], second_odd))
    both = codes(concatenated([left, right]), refuse_arrays=True)
    first, second = both[: len(left)], both[len(left) :]
    return _found(first, second, first < 0, second < 0)


def _matched_texts(left: Texts, right: Texts) -> tuple[Codes, Codes, int]:
    tick()
    known = pc.dictionary_encode(right.array)
    tick()
    asked = pc.dictionary_encode(left.array)
    tick()
    places = _integers(pc.index_in(asked.dictionary, value_set=known.dictionary))
    tick()
    # Null has the index -1, which selects the appended -1.
    numbers = np.append(places, -1)[_integers(asked.indices)]
    return numbers, _integers(known.indices), len(known.dictionary)


_Words = tuple[Codes, Mask | None]


def _words_alike(left: NDArray[Any], right: NDArray[Any]) -> tuple[_Words, _Words] | None:
    """Return integers that are equal where numbers of two types are, and masks of numbers that the other type lacks."""
    if "f" in (left.dtype.kind, right.dtype.kind) and left.dtype.kind != right.dtype.kind:
        if left.dtype.kind == "f":
            found = _words_alike(right, left)
            return None if found is None else (found[1], found[0])
        if left.dtype.kind not in "biu":
            return None
        dtype = np.dtype(np.uint8) if left.dtype == np.bool_ else left.dtype
        whole, known = represented(right, dtype)
        odd: list[Mask | None] = [None, ~known]
        right = whole
    else:
        odd = [None, None]
        for number, (own, other) in enumerate(((left, right), (right, left))):
            if own.dtype == np.uint64 and other.dtype != np.uint64:
                odd[number] = own > np.uint64(np.iinfo(np.int64).max)
                odd[1 - number] = None if other.dtype.kind != "i" else other < 0
    first, second = _words(left), _words(right)
    return None if first is None or second is None else ((first, odd[0]), (second, odd[1]))


def _found(
    left: Codes, right: Codes, left_gone: Mask | None = None, right_gone: Mask | None = None
) -> tuple[Codes, Codes, int]:
    others, numbers, count = equals.matched(right, left, _SEED, tick)
    if left_gone is not None:
        numbers[left_gone] = -1
    if right_gone is not None:
        others[right_gone] = -1
    return numbers, others, count
