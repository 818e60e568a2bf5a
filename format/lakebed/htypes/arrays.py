"""Array htypes: little-endian C-order bytes of one dtype, ragged or fixed in shape (format.md 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block, Shapes, empty_block
from lakebed.errors import (
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
)
from lakebed.htypes.dtypes import KINDS, cast


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
        Whether the tensor takes files, too, so that text may be meant as the path of a file.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError
        If the value is not an array of numbers, or does not fit the dtype.
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
        # `value` is a tensor of PyTorch, which may have a gradient or be on a device
        value = value.detach().cpu()
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
    return isinstance(values, np.ndarray) and values.dtype.kind in KINDS and values.ndim > 0


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
