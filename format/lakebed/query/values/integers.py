"""Sums, differences, products and remainders of integers of any width: exact, or an error.

operands                                     result
without uint64                               int64
uint64 with a signed type, or a difference   int64; uint64 if a result is beyond 2**63 - 1 and none is negative
uint64 with unsigned types                   uint64

A single number, as in ``x + 1``, is unsigned unless it is negative.

NumPy wraps results that do not fit, and joins int64 and uint64 to floats. SQL engines raise an error, and so does this
module. Tests compare with Python's integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.values.exact import no_column

Integers = NDArray[Any]

_LOWEST, _HIGHEST, _LARGEST = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1

_FAR = 2.0**62
"""Results whose float64 value is below this limit fit int64, however they were rounded."""

_SIGNS: dict[np.ufunc, str] = {np.add: "+", np.subtract: "-", np.multiply: "*"}


def computed(function: np.ufunc, left: Integers, right: Integers) -> Integers:
    """Add, subtract or multiply two arrays of integers or booleans.

    Parameters
    ----------
    function
        ``np.add``, ``np.subtract`` or ``np.multiply``.

    Returns
    -------
    int64 or uint64; see the module.

    Raises
    ------
    QueryError
        If a result needs more than 64 bits, or some results are negative and others beyond ``2**63 - 1``.
    """
    low, high = _reach(function, _bounds(left), _bounds(right))
    is_wide = np.uint64 in (left.dtype, right.dtype)
    is_unsigned = is_wide and function is not np.subtract and _is_unsigned(left) and _is_unsigned(right)
    # An unsafe cast keeps the low 64 bits, so the result is right if it fits.
    if is_unsigned and high <= _LARGEST:
        return np.asarray(function(left, right, dtype=np.uint64, casting="unsafe"))
    if not is_unsigned and low >= _LOWEST and high <= _HIGHEST:
        return np.asarray(function(left, right, dtype=np.int64, casting="unsafe"))
    return _careful(function, left, right, is_unsigned=is_unsigned)


def negated(values: Integers) -> Integers:
    """Return the negatives of integers or booleans as int64, or uint64 for -2**63."""
    return computed(np.subtract, np.zeros((), np.int64), values)


def absolute(values: Integers) -> Integers:
    """Return the absolute values of signed integers, in an unsigned dtype if the signed one cannot hold a result."""
    found: Integers = np.abs(values)
    # The absolute value of the lowest number overflows to itself; its bits, read as unsigned, are the right result.
    return found.view(f"u{values.dtype.itemsize}") if values.size and int(found.min()) < 0 else found


def remainder(left: Integers, right: Integers) -> Integers:
    """Return the remainders of divisions, with the sign of the divisor as in Python; no divisor may be zero."""
    if np.result_type(left.dtype, right.dtype).kind != "f":
        dtype = np.result_type(left.dtype, right.dtype)
        return np.asarray(np.mod(left, right, dtype=np.int64 if dtype == np.bool_ else dtype))
    left, right = np.broadcast_arrays(left, right)
    below = right < 0
    apart = np.mod(_distance(left), _distance(right))  # remainder of the absolute values
    flips = (apart != 0) & ((left < 0) != below)
    apart = np.where(flips, _distance(right) - apart, apart)
    # A negative divisor is an int64, and a remainder is smaller than its divisor, so int64 holds it.
    if below.any():
        return np.where(below, -apart.astype(np.int64), apart.astype(np.int64))
    return apart if right.dtype == np.uint64 else apart.astype(np.int64)


def _distance(values: Integers) -> Integers:
    """Return absolute values as uint64."""
    return values if values.dtype == np.uint64 else np.abs(values.astype(np.int64)).view(np.uint64)


def total(values: Integers, axis: Any = None) -> Integers:
    """Sum along one axis, some, or all."""
    if values.dtype.itemsize < _WIDE or _is_small(values, values.size):
        return np.asarray(np.sum(values, axis=axis))
    high, low = _halves(values)
    return _joined(np.sum(high, axis=axis), np.sum(low, axis=axis), values.dtype)


def totals(values: Integers, starts: NDArray[np.int64]) -> Integers:
    """Sum consecutive runs that begin at `starts`, none of them empty; see ``np.add.reduceat``."""
    if values.dtype.itemsize < _WIDE:
        values = values.astype(np.sum(np.empty(0, values.dtype)).dtype)
    if _is_small(values, len(values)):
        return np.asarray(np.add.reduceat(values, starts))
    high, low = _halves(values)
    return _joined(np.add.reduceat(high, starts), np.add.reduceat(low, starts), values.dtype)


def product(values: Integers, axis: Any = None) -> Integers:
    """Multiply along one axis, some, or all."""
    if np.all(np.abs(np.prod(values, axis=axis, dtype=np.float64)) < _FAR):
        return np.asarray(np.prod(values, axis=axis))
    return _fitting(np.asarray(np.prod(values.astype(object), axis=axis)), values.dtype, "PROD")


def products(values: Integers, starts: NDArray[np.int64]) -> Integers:
    """Multiply consecutive runs that begin at `starts`, none of them empty; see ``np.multiply.reduceat``."""
    dtype = np.sum(np.empty(0, values.dtype)).dtype
    if np.all(np.abs(np.multiply.reduceat(values.astype(np.float64), starts)) < _FAR):
        return np.asarray(np.multiply.reduceat(values.astype(dtype), starts))
    return _fitting(np.multiply.reduceat(values.astype(object), starts), dtype, "PROD")


_WIDE = 8


def _is_unsigned(values: Integers) -> bool:
    """Return whether no value can be negative, by the dtype or, for a single number, by its value."""
    return values.dtype.kind in "bu" or (values.ndim == 0 and bool(values >= 0))


def _bounds(values: Integers) -> tuple[int, int]:
    """Return bounds of the values; for a narrow dtype the bounds of the dtype."""
    if values.dtype == np.bool_:
        return 0, 1
    if values.dtype.itemsize < _WIDE and values.ndim:
        return int(np.iinfo(values.dtype).min), int(np.iinfo(values.dtype).max)
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def _reach(function: np.ufunc, first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Return bounds of the results of an operation, from the bounds of its operands."""
    if function is np.add:
        return first[0] + second[0], first[1] + second[1]
    if function is np.subtract:
        return first[0] - second[1], first[1] - second[0]
    ends = [a * b for a in first for b in second]
    return min(ends), max(ends)


def _careful(function: np.ufunc, left: Integers, right: Integers, *, is_unsigned: bool) -> Integers:
    """Compute results; a result that may not fit is computed with Python's integers."""
    left, right = np.broadcast_arrays(left, right)
    # These results are correct modulo 2**64 even if they overflow.
    found = np.asarray(function(left.astype(np.uint64), right.astype(np.uint64)))
    far = np.abs(function(left.astype(np.float64), right.astype(np.float64))) >= _FAR
    beyond = False
    if far.any():
        exact = function(left[far].astype(object), right[far].astype(object))
        _check(exact, _SIGNS[function])
        beyond = max(exact) > _HIGHEST
        if beyond and (min(exact) < 0 or bool((found.view(np.int64)[~far] < 0).any())):
            raise no_column()
    return found if beyond or is_unsigned else found.view(np.int64)


def _check(exact: NDArray[np.object_], name: str) -> None:
    for value in exact.reshape(-1).tolist():
        if not _LOWEST <= value <= _LARGEST:
            raise QueryError(
                f"the result {value} of {name} has more than 64 bits; CAST(x AS float) of its operands rounds instead",
                kind="runtime",
            )


def _fitting(exact: NDArray[np.object_], dtype: np.dtype[Any], name: str) -> Integers:
    """Convert Python's integers to int64, or to uint64 if a value requires it or `dtype` is unsigned."""
    _check(exact, name)
    values = exact.reshape(-1).tolist()
    if min(values) < 0:
        if max(values) > _HIGHEST:
            raise no_column()
        return exact.astype(np.int64)
    return exact.astype(np.uint64 if max(values) > _HIGHEST or dtype.kind == "u" else np.int64)


def _is_small(values: Integers, count: int) -> bool:
    low, high = _bounds(values)
    return count * max(-low, high) <= _HIGHEST


def _halves(values: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split 64-bit integers into their upper half and the lower one, which is never negative."""
    return (values >> 32).astype(np.int64), (values & 0xFFFFFFFF).astype(np.int64)


def _joined(high: Any, low: Any, dtype: np.dtype[Any]) -> Integers:
    """Return the sums of 64-bit integers from the sums of their upper and of their lower halves."""
    high, low = np.asarray(high + (low >> 32)), np.asarray(low & 0xFFFFFFFF)
    limit = 1 << (32 if dtype.kind == "u" else 31)
    if not high.size or (int(high.max()) < limit and int(high.min()) >= -limit):
        return np.asarray((high << 32) | low).view(dtype)
    exact = np.asarray(high, object) * (1 << 32) + np.asarray(low, object)
    return _fitting(np.asarray(exact, object), dtype, "SUM")
