from typing import Any

import numpy as np
from numpy.typing import NDArray

def cut(
    base: NDArray[np.uint8], dtype: np.dtype[Any], offsets: NDArray[np.int64], shapes: NDArray[np.uint32]
) -> list[NDArray[Any]]: ...
