from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Bytes: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]

def same_fixed(source: _Bytes, item: int, rows: NDArray[np.int64], new: _Bytes) -> bool: ...
def put_fixed(out: _Bytes, item: int, rows: NDArray[np.int64], new: _Bytes) -> None: ...
def same_items(
    source: _Bytes,
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    new: _Bytes,
    new_offsets: NDArray[np.int64],
) -> bool: ...
def replace_items(
    source: _Bytes,
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    new: _Bytes,
    new_offsets: NDArray[np.int64],
    out: _Bytes,
) -> int: ...
