"""Numbers of different types side by side, none of them rounded.

NumPy turns 64-bit integers into floats where these meet, and int64 beside uint64 as well: beyond 2**53 different
numbers become equal. The oracle is Python, whose numbers compare as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError

Mask = NDArray[np.bool_]

_WIDE = 8


def may_round(left: Any, right: Any) -> bool:
    """Whether NumPy would round one of two operands, numbers or arrays of them, before it compares them."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        kinds = left.dtype.kind + right.dtype.kind
        if kinds in ("if", "uf"):
            return bool(left.dtype.itemsize == _WIDE)
        if kinds in ("fi", "fu"):
            return bool(right.dtype.itemsize == _WIDE)
        return kinds in ("iu", "ui") and _WIDE in (left.dtype.itemsize, right.dtype.itemsize)
    if isinstance(left, np.ndarray):
        return _rounds_number(left.dtype, right)
    return isinstance(right, np.ndarray) and _rounds_number(right.dtype, left)


def _rounds_number(dtype: np.dtype[Any], number: Any) -> bool:
    """Whether a number of Python, which takes the type of the array beside it, is another one there."""
    if isinstance(number, int) and dtype.kind == "f":
        return abs(number) > 1 << (np.finfo(dtype).nmant + 1)
    return (
        isinstance(number, float)
        and dtype.kind in "iu"
        and dtype.itemsize == _WIDE
        and abs(number) >= 2.0**53
    )


def compared(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compare numbers as they are; NaN is unequal to all.

    Parameters
    ----------
    function
        ``operator.lt`` or another comparison.
    """
    if _is_float(right) and not _is_float(left):
        mirrored = _order(np.asarray(right), np.asarray(left))
        found = function(-mirrored, 0)
    else:
        found = function(_order(np.asarray(left), np.asarray(right)), 0)
    if _is_float(left) or _is_float(right):
        odd = np.isnan(np.asarray(left if _is_float(left) else right, np.float64))
        return np.where(odd, bool(function(np.nan, 0)), found)
    return found


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")


def _order(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int8]:
    """Return -1, 0 or 1 where the left number is less, equal or more; `right` holds integers."""
    if right.dtype.kind not in "iu":  # an integer of Python beyond 64 bits, with which it compares as it is
        number = int(right)
        signs = [(value > number) - (value < number) for value in left.reshape(-1).tolist()]
        return np.array(signs, np.int8).reshape(left.shape)
    if left.dtype.kind != "f":
        less, more = _below(left, right), _below(right, left)
        return more.astype(np.int8) - less.astype(np.int8)
    floats = left.astype(np.float64)
    rounded = right.astype(np.float64)
    found = (floats > rounded).astype(np.int8) - (floats < rounded).astype(np.int8)
    # Rounding keeps the order, but for what it makes equal: there the float is a whole number.
    floats, rounded, whole = np.broadcast_arrays(floats, rounded, right)
    near = (floats == rounded) & (np.abs(floats) >= 2.0**53)
    if near.any():
        found = np.broadcast_to(found, near.shape).copy()
        end = float(np.iinfo(whole.dtype).max)  # rounded to the number behind the largest integer of 64 bits
        is_over = floats[near] >= end
        integers = np.where(is_over, 0.0, floats[near]).astype(whole.dtype)
        more = is_over | (integers > whole[near])
        found[near] = more.astype(np.int8) - (~more & (integers < whole[near])).astype(np.int8)
    return found


def _below(left: NDArray[Any], right: NDArray[Any]) -> Mask:
    """Tell where integers are less than others; an unsigned one is never below zero."""
    if left.dtype.kind == right.dtype.kind:
        return np.asarray(left < right)
    if left.dtype.kind == "i":
        return np.asarray((left < 0) | (left.astype(np.uint64) < right))
    return np.asarray((right >= 0) & (left < right.astype(np.uint64)))


def represented(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], Mask]:
    """Return numbers as those of another type, and which of them that type has: the others are any number.

    Parameters
    ----------
    values, dtype
        Booleans, integers or floats; booleans are 0 and 1.
    """
    if values.dtype == dtype:
        return values, np.ones(values.shape, np.bool_)
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    if dtype == np.bool_:
        known = (values == 0) | (values == 1)
        return values == 1, np.asarray(known)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            found = values.astype(dtype)
        if values.dtype.kind == "f":
            return found, np.asarray((found == values) | np.isnan(values))
        back, known = _whole(found.astype(np.float64), values.dtype)
        return found, known & (back == values)
    if values.dtype.kind == "f":
        return _whole(values.astype(np.float64), dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    own = np.iinfo(values.dtype)
    known = np.ones(values.shape, np.bool_)
    if own.min < low:
        known &= values >= low
    if own.max > high:
        known &= values <= values.dtype.type(high)
    return values.astype(dtype), known


def _whole(floats: NDArray[np.float64], dtype: np.dtype[Any]) -> tuple[NDArray[Any], Mask]:
    bounds = np.iinfo(dtype)
    # The largest integer of 64 bits is no float64, but the one behind it is.
    known = (np.trunc(floats) == floats) & (floats >= float(bounds.min)) & (floats < float(bounds.max + 1))
    return np.where(known, floats, 0.0).astype(dtype), known


def joint(arrays: Sequence[NDArray[Any]]) -> np.dtype[Any]:
    """Return the dtype of one column that holds the numbers of several.

    Raises
    ------
    QueryError
        If they are integers that none of 64 bits holds side by side.
    """
    dtypes = {array.dtype for array in arrays}
    found = np.result_type(*dtypes)
    if found.kind != "f" or not all(dtype.kind in "biu" for dtype in dtypes):
        return found
    # Of int64 and uint64 NumPy makes floats.
    if all(array.dtype != np.uint64 or not array.size or int(array.max()) < 1 << 63 for array in arrays):
        return np.dtype(np.int64)
    if all(array.dtype.kind != "i" or not array.size or int(array.min()) >= 0 for array in arrays):
        return np.dtype(np.uint64)
    raise no_column()


def no_column() -> QueryError:
    """Return the error for integers that have no type in common."""
    return QueryError(
        "negative integers and such beyond 2**63 - 1 make no column of 64-bit integers: CAST(x AS float64), or AS text",
        kind="type",
    )
