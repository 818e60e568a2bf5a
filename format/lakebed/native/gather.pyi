from typing import Any

import numpy as np
from numpy.typing import NDArray

def gather_arrays(
    values: list[Any], dtype: np.dtype[Any], ndim: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint32]] | None: ...
def copy_samples(
    sources: list[Any], starts: NDArray[np.int64], out: NDArray[np.uint8], streamed: bool
) -> None: ...
