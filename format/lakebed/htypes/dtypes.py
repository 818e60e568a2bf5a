"""Dtypes of arrays: which can be stored, and whether values fit the dtype of their tensor (format.md 5.3)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import TensorDtypeMismatchError, TensorMetaInvalidHtypeOverwriteValue

KINDS = "biufcmM"
"""Kinds of dtypes that array tensors store: numbers, and the dates and times that NumPy counts in whole units."""
_LARGEST = 16
_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "datetime64[us]", "timedelta64[us]"),
)


def array_dtype(name: Any) -> np.dtype[Any]:
    """Return the little-endian NumPy dtype for a name given by a user or a tensor_meta.

    Raises
    ------
    TensorMetaInvalidHtypeOverwriteValue
        If arrays of that dtype cannot be stored.
    """
    try:
        dtype = np.dtype(name)
    except TypeError as error:
        raise TensorMetaInvalidHtypeOverwriteValue(
            f"Invalid value {name!r} for tensor meta key 'dtype'. Datatype must be supported by numpy.{_advice(name)}"
        ) from error
    if dtype.kind not in KINDS or dtype.itemsize > _LARGEST:
        raise TensorMetaInvalidHtypeOverwriteValue(
            f"Invalid value {str(name)!r} for tensor meta key 'dtype'. Arrays are of bool, int, uint, float, complex, "
            f"datetime64 or timedelta64 numbers.{_advice(name)}"
        )
    little: np.dtype[Any] = dtype.newbyteorder("<")
    return little


def _advice(name: Any) -> str:
    word = str(getattr(name, "__name__", name)).lower()
    if word in ("str", "string", "text", "unicode"):
        return " Texts have htype='text', and no dtype"
    if word in ("date", "datetime", "timestamp", "time"):
        return " Dates and times need no dtype: the first value that is appended decides"
    if word in ("object", "dict", "list"):
        return " Values of Python have htype='json' or 'list'"
    near = get_close_matches(word, _NAMES, 1)
    return f" Did you mean {near[0]!r}?" if near and near[0] != word else ""


def cast(
    values: NDArray[Any], dtype: np.dtype[Any] | None, *, literal: bool, by_value: bool = True
) -> NDArray[Any]:
    """Convert values to the tensor's dtype: exactly, except that floats may be rounded to a narrower float.

    Parameters
    ----------
    values
        Array of any numeric dtype.
    dtype
        Target, or None to keep the dtype of the values.
    literal
        Whether the values were Python numbers, which have no width.
    by_value
        Whether numbers of any width fit if each single number fits. Otherwise the dtype of an array must be safe to
        cast, because the meaning of a pixel depends on its dtype.

    Raises
    ------
    TensorDtypeMismatchError
        If the values do not fit: too large, floats into integers, an integer that a float dtype would round.
    """
    if values.dtype.kind not in KINDS or values.dtype.itemsize > _LARGEST:
        raise TensorDtypeMismatchError(_no_numbers(values, dtype))
    if dtype is None or values.dtype == dtype:
        return values.astype(values.dtype.newbyteorder("<"), copy=False)
    if values.size == 0 or np.can_cast(values.dtype, dtype, "safe"):
        return values.astype(dtype)
    if literal or by_value:
        found = _fitted(values, dtype)
        if found is not None:
            return found
    raise TensorDtypeMismatchError(_misfit(values, dtype))


def _fitted(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Convert numbers one by one; None if one does not fit."""
    given, wanted = values.dtype.kind, dtype.kind
    if given in "iu" and wanted in "iuf":
        return values.astype(dtype) if _whole_numbers_fit(values, dtype) else None
    if given not in "iuf" or wanted not in "fc":
        return None
    with np.errstate(over="ignore"):
        narrow = values.astype(dtype)
    return narrow if np.array_equal(np.isinf(narrow), np.isinf(values)) else None


def _misfit(values: NDArray[Any], dtype: np.dtype[Any]) -> str:
    """Explain why numbers are refused; advise a conversion only if it keeps or rounds each value."""
    expected = f"Dtype was expected to be '{dtype.name}' instead it was '{values.dtype.name}'"
    if values.dtype.kind not in "biuf" or dtype.kind not in "biuf":
        return expected
    with np.errstate(all="ignore"):
        converted = values.astype(dtype)
        # Compare in both dtypes, because NumPy may compare two dtypes in a third one that rounds both values.
        same = (converted == values) & (converted.astype(values.dtype) == values)
        if dtype.kind == "f":
            same |= np.isnan(converted) & np.isnan(values)
    if same.all():
        return f"{expected}. All values fit: convert them with .astype({dtype.name!r})"
    rounds = values.dtype.kind == "f" and dtype.kind == "f"
    lost = values[np.isinf(converted) != np.isinf(values)] if rounds else values[~same]
    if not lost.size:
        first = values[~same].reshape(-1)[0]
        return (
            f"{expected}, which would round {first}. If that is meant, convert with .astype({dtype.name!r})"
        )
    hint = (
        "; what is missing is None or pandas.NA: frame.convert_dtypes() has it"
        if np.isnan(lost).any()
        else ""
    )
    return f"{lost.reshape(-1)[0]} does not fit {dtype.name}{hint}"


def _no_numbers(values: NDArray[Any], dtype: np.dtype[Any] | None) -> str:
    """Explain why an array is refused that has no numbers, or a number that cannot be stored."""
    holds = "numbers" if dtype is None else dtype.name
    if values.dtype.kind in "US":
        return f"the tensor holds {holds}, not text"
    if values.dtype.kind == "O":
        odd = {type(v).__name__: None for v in values.flat if not isinstance(v, int | float | np.number)}
        if "NoneType" in odd:
            return f"the tensor holds {holds}, and an array of them has no place for None; use NaN, or htype='list'"
        if odd:
            return f"the tensor holds {holds}, not {next(iter(odd))}"
        first = next((value for value in values.flat if isinstance(value, int)), None)
        if first is not None:
            beyond = next((v for v in values.flat if isinstance(v, int) and not -(2**63) <= v < 2**64), first)
            return f"{beyond} does not fit {'64 bits' if dtype is None else dtype.name}"
    return f"values of dtype {values.dtype} can not be stored in an array tensor"


def _whole_numbers_fit(values: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether an integer or float dtype holds each of these integers exactly."""
    if dtype.kind == "f":
        high = 2 ** (np.finfo(dtype).nmant + 1)
        low = -high
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return bool(low <= int(values.min()) and int(values.max()) <= high)
