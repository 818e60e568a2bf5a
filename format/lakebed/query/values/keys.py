"""Values as numbers that are equal where the values are: what groups, joins and DISTINCT compare."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
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
    stretches,
    take,
    tick,
)
from lakebed.query.values.exact import represented

Codes = NDArray[np.int64]

_SEED = secrets.randbits(64)
"""So that nobody can choose keys that fall into one place of a hash table; results do not depend on it."""


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
        values = _numbered(column.values.reshape(-1))
        return values if column.missing is None else np.where(column.missing, -1, values)
    if isinstance(column, Ragged) and bool((column.sizes <= 1).all()):
        values = np.full(len(column), -1, np.int64)
        values[column.sizes == 1] = _numbered(column.flat)
        return values
    if scalars and (isinstance(column, Numbers | Ragged) and len(column)):
        raise QueryError("a key is one number, text or JSON value per row, not an array", kind="type")
    return _hashed(column)


def _numbered(values: NDArray[Any]) -> Codes:
    words = _words(values)
    if words is None:
        return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return equals.numbered(words, _SEED, tick)[0]


def _words(values: NDArray[Any]) -> Codes | None:
    """Return numbers as integers that are equal where they are, all NaN among themselves; None if there are none."""
    if values.dtype.kind in "biu":
        return np.ascontiguousarray(values).astype(np.int64, copy=False)  # modulo 2**64
    if values.dtype.kind != "f" or values.dtype.itemsize > 8:
        return None
    floats = values.astype(np.float64) + 0.0  # -0 becomes 0
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
        high, _ = equals.numbered(whole, _SEED, tick)
        low, firsts = equals.numbered(part, _SEED, tick)
        whole = high * len(firsts) + low
    return whole


def groups(keys: Codes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of all groups, in the order in which their keys first appear, and where each group begins."""
    numbers, firsts = equals.numbered(keys, _SEED, tick)
    return equals.gathered(numbers, len(firsts), tick)


def firsts(keys: Codes) -> NDArray[np.int64]:
    """Return the first row of each key, in order."""
    return equals.numbered(keys, _SEED, tick)[1]


def pairs(
    left: Sequence[Column], right: Sequence[Column], hold: Callable[[int], None]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the pairs of rows whose keys are equal, by left row, then by right row; what is missing equals nothing.

    Parameters
    ----------
    hold
        Takes note of the bytes of the pairs, before there are any.
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
    """Number the keys of the right side, and find those of the left among them; -1 is none, or none that is equal."""
    is_text = [isinstance(side, Texts) for side in (left, right)]
    has_objects = isinstance(left, Objects) or isinstance(right, Objects)
    if is_text[0] != is_text[1] and not has_objects and len(left) and len(right):
        raise QueryError("a join pairs text with text, and numbers with numbers", kind="type")
    if not len(left) or not len(right):
        codes(left if len(left) else right, scalars=True)
        return np.full(len(left), -1, np.int64), np.full(len(right), -1, np.int64), 0
    if isinstance(left, Texts) and isinstance(right, Texts):
        return _matched_texts(left, right)
    one, other = _scalars(left), _scalars(right)
    if one is not None and other is not None:
        sides = _words_alike(one[0], other[0])
        if sides is not None:
            (first, first_odd), (second, second_odd) = sides
            return _found(first, second, either(one[1], first_odd), either(other[1], second_odd))
    both = codes(concatenated([left, right]), scalars=True)
    first, second = both[: len(left)], both[len(left) :]
    return _found(first, second, first < 0, second < 0)


def _matched_texts(left: Texts, right: Texts) -> tuple[Codes, Codes, int]:
    tick()
    known = pc.dictionary_encode(right.array)
    tick()
    asked = pc.dictionary_encode(left.array)
    tick()
    places = pc.index_in(asked.dictionary, value_set=known.dictionary).fill_null(-1)
    tick()
    found = np.append(places.to_numpy(zero_copy_only=False), -1).astype(
        np.int64
    )  # the last is that of no text
    numbers = found[asked.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    others = known.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers, others, len(known.dictionary)


def _scalars(column: Column) -> tuple[NDArray[Any], Mask | None] | None:
    """Return the one number of each row, and where there is none; None of other columns."""
    if isinstance(column, Ragged):
        if bool((column.sizes > 1).any()):
            return None
        gone = column.sizes == 0
        values = np.zeros(len(column), column.flat.dtype)
        values[~gone] = column.flat
        return values, gone
    if not isinstance(column, Numbers) or column.values[:1].size != 1:
        return None
    return column.values.reshape(-1), column.missing


_Words = tuple[Codes, Mask | None]


def _words_alike(left: NDArray[Any], right: NDArray[Any]) -> tuple[_Words, _Words] | None:
    """Return numbers of two types as integers that are equal where they are, and where one equals no other."""
    if "f" in (left.dtype.kind, right.dtype.kind) and left.dtype.kind != right.dtype.kind:
        if left.dtype.kind == "f":
            found = _words_alike(right, left)
            return None if found is None else (found[1], found[0])
        if left.dtype.kind not in "biu":
            return None
        dtype = np.dtype(np.uint8) if left.dtype == np.bool_ else left.dtype
        whole, known = represented(right, dtype)
        sides = _words(left), _words(whole)
        return None if sides[0] is None or sides[1] is None else ((sides[0], None), (sides[1], ~known))
    first, second = _words(left), _words(right)
    if first is None or second is None:
        return None
    odd: list[Mask | None] = [None, None]
    for number, (own, other) in enumerate(((left, right), (right, left))):
        if own.dtype == np.uint64 and other.dtype != np.uint64:
            odd[number] = own > np.uint64(np.iinfo(np.int64).max)
            odd[1 - number] = None if other.dtype.kind != "i" else other < 0
    return (first, odd[0]), (second, odd[1])


def _found(
    left: Codes, right: Codes, left_gone: Mask | None = None, right_gone: Mask | None = None
) -> tuple[Codes, Codes, int]:
    others, numbers, count = equals.matched(right, left, _SEED, tick)
    if left_gone is not None:
        numbers[left_gone] = -1
    if right_gone is not None:
        others[right_gone] = -1
    return numbers, others, count
