"""Conversion between NumPy and Arrow arrays without pandas.

`pyarrow.array` and `to_numpy` import pandas wherever it is installed: half a second and 50 MB for each sync.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def as_arrow(values: NDArray[Any], *, absent: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return numbers or booleans as an Arrow array, which keeps the memory of numbers.

    Parameters
    ----------
    values : ndarray, shape (rows,)
        Numbers or booleans.
    absent : bool, shape (rows,)
        Rows that are null.
    """
    data = _bits(values) if values.dtype == np.bool_ else pa.py_buffer(np.ascontiguousarray(values))
    there = None if absent is None or not absent.any() else _bits(~absent)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [there, data])


def present(array: pa.Array) -> NDArray[np.bool_]:
    """Return True for the rows that are not null."""
    validity = array.buffers()[0]
    if array.null_count == 0 or validity is None:
        return np.full(len(array), array.null_count == 0)
    stop = array.offset + len(array)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=stop, bitorder="little")
    return bits[array.offset :].view(np.bool_)


def numbers_of(array: pa.Array) -> NDArray[Any]:
    """Return the numbers of an array, shape (rows,), without a copy; nulls give arbitrary numbers."""
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].view(np.bool_)
    dtype = _dtype_of(array.type)
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _dtype_of(kind: pa.DataType) -> np.dtype[Any]:
    """Return the dtype of numbers and moments; pyarrow's own function imports pandas, which may be missing."""
    if pa.types.is_timestamp(kind):
        return np.dtype(f"M8[{kind.unit}]")
    name = str(kind)
    return np.dtype({"halffloat": "float16", "float": "float32", "double": "float64"}.get(name, name))


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
