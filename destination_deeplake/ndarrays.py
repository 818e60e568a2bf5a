"""NumPy arrays -> Arrow arrays without pandas.

`pyarrow.array` imports pandas for them wherever it is installed: half a second and 50 MB for each sync.
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


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
