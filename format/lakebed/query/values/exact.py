"""Comparisons of numbers of different types without rounding.

In comparisons with floats, NumPy converts 64-bit integers to floats, and so it does for int64 with uint64. Different
numbers beyond 2**53 then become equal. Tests compare with Python, which compares numbers exactly.
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
    """Return whether NumPy would round one of two operands, numbers or arrays, before comparing them."""
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
    """Return whether a Python number changes when it is converted to the dtype of the array to compare it with."""
    if isinstance(number, int) and dtype.kind == "f":
        return abs(number) > 1 << (np.finfo(dtype).nmant + 1)
    return (
        isinstance(number, float)
        and dtype.kind in "iu"
        and dtype.itemsize == _WIDE
        and abs(number) >= 2.0**53
    )


def compared(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compare numbers exactly; NaN is unequal to all numbers.

    Parameters
    ----------
    function
        ``operator.lt`` or another comparison.
    """
    left, right = np.asarray(left), np.asarray(right)
    if right.dtype.kind == "f" and left.dtype.kind != "f":
        found = function(-_order(right, left), 0)
    else:
        found = function(_order(left, right), 0)
    floats = left if left.dtype.kind == "f" else right
    if floats.dtype.kind == "f":
        return np.where(np.isnan(floats), bool(function(np.nan, 0)), found)
    return found


def _order(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int8]:
    """Return -1, 0 or 1 where the left number is less, equal or more; `right` holds integers."""
    if right.dtype.kind not in "iu":  # `right` is a Python integer beyond 64 bits
        number = int(right)
        signs = [(value > number) - (value < number) for value in left.reshape(-1).tolist()]
        return np.array(signs, np.int8).reshape(left.shape)
    if left.dtype.kind != "f":
        less, more = _below(left, right), _below(right, left)
        return more.astype(np.int8) - less.astype(np.int8)
    floats = left.astype(np.float64)
    rounded = right.astype(np.float64)
    found = (floats > rounded).astype(np.int8) - (floats < rounded).astype(np.int8)
    # Rounding keeps the order, except that different numbers may become equal; in that case the float is a whole
    # number.
    floats, rounded, whole = np.broadcast_arrays(floats, rounded, right)
    near = (floats == rounded) & (np.abs(floats) >= 2.0**53)
    if near.any():
        found = np.broadcast_to(found, near.shape).copy()
        end = float(np.iinfo(whole.dtype).max)  # float64 rounds this up to the first number that is too large
        is_over = floats[near] >= end
        integers = np.where(is_over, 0.0, floats[near]).astype(whole.dtype)
        more = is_over | (integers > whole[near])
        found[near] = more.astype(np.int8) - (~more & (integers < whole[near])).astype(np.int8)
    return found


def _below(left: NDArray[Any], right: NDArray[Any]) -> Mask:
    """Compare integers of any two types by ``<``."""
    if left.dtype.kind == right.dtype.kind:
        return np.asarray(left < right)
    if left.dtype.kind == "i":
        return np.asarray((left < 0) | (left.astype(np.uint64) < right))
    return np.asarray((right >= 0) & (left < right.astype(np.uint64)))


def represented(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], Mask]:
    """Convert numbers to another type, and return a mask of the numbers that it can hold; other results are arbitrary.

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
    # float64 cannot represent the largest 64-bit integer, but it can represent the next one.
    known = (np.trunc(floats) == floats) & (floats >= float(bounds.min)) & (floats < float(bounds.max + 1))
    return np.where(known, floats, 0.0).astype(dtype), known


def joint(arrays: Sequence[NDArray[Any]]) -> np.dtype[Any]:
    """Return the dtype of a column that holds the numbers of several arrays.

    Raises
    ------
    QueryError
        If no 64-bit type holds all of their integers.
    """
    dtypes = {array.dtype for array in arrays}
    found = np.result_type(*dtypes)
    if found.kind != "f" or not all(dtype.kind in "biu" for dtype in dtypes):
        return found
    # NumPy would convert int64 and uint64 to float64.
    if all(array.dtype != np.uint64 or not array.size or int(array.max()) < 1 << 63 for array in arrays):
        return np.dtype(np.int64)
    if all(array.dtype.kind != "i" or not array.size or int(array.min()) >= 0 for array in arrays):
        return np.dtype(np.uint64)
    raise no_column()


def no_column() -> QueryError:
    """Return the error for integers that no 64-bit type can hold together."""
    return QueryError(
        "negative integers and integers beyond 2**63 - 1 fit no common 64-bit type: CAST(x AS float64), or AS text",
        kind="type",
    )
