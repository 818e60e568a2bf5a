"""Array htypes: little-endian C-order bytes of one dtype, ragged or fixed in shape (FORMAT.md 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block, Shapes, empty_block
from lakebed.errors import (
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
    TensorMetaInvalidHtypeOverwriteValue,
)

_KINDS = "biufcmM"
"""Numbers, and the dates and times that NumPy counts in whole units."""
_LARGEST = 16
_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "datetime64[us]", "timedelta64[us]"),
)


def array_dtype(name: Any) -> np.dtype[Any]:
    """Return the little-endian NumPy dtype that a user or a tensor_meta names.

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
    if dtype.kind not in _KINDS or dtype.itemsize > _LARGEST:
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
        return " Dates and times need no dtype: they are known by the first that is appended"
    if word in ("object", "dict", "list"):
        return " Values of Python have htype='json' or 'list'"
    near = get_close_matches(word, _NAMES, 1)
    return f" Did you mean {near[0]!r}?" if near and near[0] != word else ""


def cast(
    values: NDArray[Any], dtype: np.dtype[Any] | None, *, literal: bool, by_value: bool = True
) -> NDArray[Any]:
    """Convert values to the tensor's dtype: exactly, or floats to a narrower float, which rounds them.

    Parameters
    ----------
    values
        Array of any numeric dtype.
    dtype
        Target, or None to keep the dtype of the values.
    literal
        The values were Python numbers, which have no width.
    by_value
        Numbers of any width fit if each of them does; otherwise the dtype of an array must be safe to cast, because
        the meaning of a pixel depends on it.

    Raises
    ------
    TensorDtypeMismatchError
        If the values do not fit: too large, floats into integers, an integer that a float dtype would round.
    """
    if values.dtype.kind not in _KINDS or values.dtype.itemsize > _LARGEST:
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
        # Compared there and back, because NumPy may compare two dtypes in a third one that rounds both.
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
    return f"{lost.reshape(-1)[0]} does not fit {dtype.name}"


def _no_numbers(values: NDArray[Any], dtype: np.dtype[Any] | None) -> str:
    """Describe an array without numbers that can be stored."""
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


def block_of_array(array: NDArray[Any]) -> Block:
    """Encode samples stacked along the first axis; scalars get shape (1,)."""
    array = np.ascontiguousarray(array)
    shape = array.shape[1:] or (1,)
    size = array.dtype.itemsize
    for extent in shape:
        size *= extent
    data = array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")
    return Block(data, len(array), size, shape)


def _check_rank(shape: tuple[int, ...], ndim: int | None) -> None:
    if ndim is not None and len(shape) != ndim:
        raise TensorInvalidSampleShapeError(
            f"the samples of this tensor have {ndim} dimension(s), this one has {len(shape)}: {shape}"
        )


def _without_rounding(array: NDArray[Any], value: Any) -> NDArray[Any]:
    """Return Python integers as integers if NumPy made them floats, because some are above 2**63."""
    if array.dtype != np.float64 or not array.size or not float(array.max()) >= 2.0**63:
        return array
    if any(type(item) is not int for item in np.asarray(value, dtype=object).flat):
        return array
    # NumPy 1.26 wraps negative integers around and only warns.
    if float(array.min()) < 0:
        raise TensorDtypeMismatchError("the integers do not all fit into one integer dtype")
    try:
        return np.asarray(value, dtype=np.uint64)
    except OverflowError as error:
        raise TensorDtypeMismatchError("the integers do not all fit into one integer dtype") from error


def as_sample(
    value: Any, dtype: np.dtype[Any] | None, *, by_value: bool = True, of_files: bool = False
) -> NDArray[Any]:
    """Return one value (array, number, nested list, anything that NumPy converts) as an array of the dtype.

    Numbers get the shape (1,). Python truth values alone do not make a dtype: they become int64, as in 3.9.52.

    Parameters
    ----------
    of_files
        The tensor takes files, too: a path may be meant as one.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError
        If the value is no array of numbers, or does not fit the dtype.
    """
    if isinstance(value, str | bytes | bytearray | memoryview | dict | set | frozenset | PathLike):
        if of_files:
            raise TensorDtypeMismatchError(
                f"Cannot serialize sample of type {type(value)}. To append data from a file, pass lakebed.read(path)"
            )
        holds = "numbers" if dtype is None else dtype.name
        raise TensorDtypeMismatchError(
            f"the tensor holds {holds}, not {'text' if isinstance(value, str) else type(value).__name__}"
        )
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()  # a tensor of torch with a gradient, or on a device
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise TensorInvalidSampleShapeError(
            f"a nested list must be rectangular to be one array: {error}"
        ) from error
    if not hasattr(value, "dtype"):
        array = _without_rounding(array, value)
        if dtype is None and array.dtype == np.bool_:
            array = array.astype(np.int64)
    # A single NumPy number counts as a Python number.
    literal = not hasattr(value, "dtype") or array.size == 1
    if literal and array.size == 0 and dtype is not None:
        array = array.astype(dtype)
    return np.atleast_1d(cast(array, dtype, literal=literal, by_value=by_value))


def is_numeric(values: Any) -> bool:
    """Return whether values are an array of numbers with at least one axis."""
    return isinstance(values, np.ndarray) and values.dtype.kind in _KINDS and values.ndim > 0


def stacked_numbers(values: Any, kinds: set[type] | None = None) -> NDArray[Any] | None:
    """Return Python numbers as an array of shape (samples,), truth values as int64; None for other values.

    Parameters
    ----------
    kinds
        Types of the values, if they are known already.
    """
    if isinstance(values, np.ndarray) or not values:
        return None
    if not _are_numbers(set(map(type, values)) if kinds is None else kinds):
        return None
    array = _without_rounding(np.asarray(values), values)
    return array.astype(np.int64) if array.dtype == np.bool_ else array


def encode_samples(
    values: Sequence[Any] | NDArray[Any], dtype: np.dtype[Any] | None, ndim: int | None
) -> tuple[Block, np.dtype[Any] | None]:
    """Encode samples given one by one or stacked along the first axis.

    Parameters
    ----------
    values
        ndarray (first axis = samples) or a sequence of arrays, numbers, nested lists or None.
    dtype
        The tensor's dtype; None lets the first non-empty sample decide.
    ndim
        The tensor's rank; None while unknown.

    Returns
    -------
    The block and its dtype (None if all samples are empty and no dtype was known).

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError
        If a value fits neither dtype nor rank.
    """
    numbers = stacked_numbers(values)
    if numbers is not None:
        values = cast(numbers, dtype, literal=True)
    if is_numeric(values):
        block = block_of_array(cast(values, dtype, literal=False))  # type: ignore[arg-type]  # an array
        _check_rank(block.shapes, ndim)  # type: ignore[arg-type]  # a stacked block has one shape
        return block, dtype or values.dtype.newbyteorder("<")  # type: ignore[union-attr]
    parts: list[bytes] = []
    shapes: list[tuple[int, ...] | None] = []
    for value in values:
        if value is None:
            parts.append(b"")
            shapes.append(None)
            continue
        sample = as_sample(value, dtype)
        dtype = sample.dtype
        _check_rank(sample.shape, ndim)
        ndim = sample.ndim
        parts.append(sample.tobytes())
        shapes.append(sample.shape)
    if ndim is None:
        return empty_block(len(parts), None), dtype
    table: Shapes = np.array([s if s is not None else (0,) * ndim for s in shapes], dtype=np.uint32)
    sizes = np.fromiter(map(len, parts), dtype=np.uint32, count=len(parts))
    return Block(
        memoryview(b"".join(parts)), len(parts), sizes, np.asarray(table).reshape(len(parts), ndim)
    ), dtype


def _are_numbers(kinds: set[type]) -> bool:
    return bool(kinds) and (kinds <= {int, float} or kinds == {bool})
