"""Constants of queries: literals, and values of parameters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from lakebed.query.relations.bound import Value
from lakebed.query.values.info import ANY, JSON, NUMBER, TEXT, Info


def constant(value: Any) -> Value:
    """Return a Python value as a constant; raise `TypeError` for types that the language lacks."""
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
    """Return a date or time, converted to UTC if it has a zone, as text."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat()


def array_value(values: Sequence[Any]) -> Value:
    """Return an array literal: float32, or 64-bit numbers if float32 rounds integers or overflows.

    Raises
    ------
    TypeError
        If the values do not form an array of numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:  # the lists differ in length, or are nested too deeply
        raise TypeError(f"they do not form an array: {error}") from None
    if array.dtype.kind not in "biuf":
        raise TypeError("not all of them are numbers")
    with np.errstate(over="ignore"):
        found: np.ndarray[Any, Any] = array.astype(np.float32)
    wide = array.astype(np.float64)
    if array.dtype.kind in "iu" and not (np.all(np.abs(wide) < 1 << 53) and np.array_equal(found, wide)):
        found = array if array.dtype == np.uint64 else array.astype(np.int64)
    elif not np.array_equal(np.isfinite(found), np.isfinite(array)):
        found = wide
    return Value(found, Info("array"), None if np.array_equal(found, array) else array)


def python(value: Any) -> Any:
    """Convert an array without axes to a Python number, which takes the dtype of the other side of a comparison."""
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
