"""Constants of queries: literals, and values of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from lakebed.query.binding.bound import ANY, JSON, NUMBER, TEXT, Info, Value


def constant(value: Any) -> Value:
    """Return a constant.

    Raises
    ------
    TypeError
        If the language has no such values.
    """
    if isinstance(value, np.datetime64):
        value = None if np.isnat(value) else str(value.astype("datetime64[us]"))
    if isinstance(value, date):
        value = None if value != value else _iso(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, set | frozenset | range):
        value = list(value)
    if value is None or isinstance(value, bool | int | float):
        return Value(value, NUMBER if value is not None else ANY)
    if isinstance(value, str):
        return Value(value, TEXT)
    if not isinstance(value, list | tuple | dict | np.ndarray | bytes) and hasattr(value, "__array__"):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf":
            return Value(value, Info("array", value.dtype, value.ndim))
        value = value.tolist()
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, str | date) for item in value):
            return Value([_iso(item) if isinstance(item, date) else item for item in value], JSON)
        return array_value(list(value))
    if isinstance(value, dict):
        return Value(value, JSON)
    raise TypeError(f"a query has no values of type {type(value).__name__}")


def _iso(value: date) -> str:
    """Return a date, or a time, in UTC if it says where, as the text that stands for it in queries."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat()


def array_value(values: Sequence[Any]) -> Value:
    """Return an array literal: its numbers as :func:`literal_array` has them, and as they were where these are rounded.

    Raises
    ------
    TypeError
        If they make no array of numbers.
    """
    found = literal_array(values)
    exact = np.asarray(values)
    return Value(found, Info("array"), None if np.array_equal(found, exact) else exact)


def literal_array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return numbers as float32, or as numbers of 64 bits if float32 does not hold integers, or has no room."""
    try:
        array = np.asarray(values)
    except (
        ValueError
    ) as error:  # lists of different lengths, or more lists in each other than an array has axes
        raise TypeError(f"they make no array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError("not all of them are numbers")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    exact = array.astype(np.float64)
    if array.dtype.kind in "iu" and not (np.all(np.abs(exact) < 1 << 53) and np.array_equal(narrow, exact)):
        return array if array.dtype == np.uint64 else array.astype(np.int64)
    return narrow if np.array_equal(np.isfinite(narrow), np.isfinite(array)) else array.astype(np.float64)


def python(value: Any) -> Any:
    """Return arrays without axes as numbers of Python, which take the type of what they are compared with."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value
