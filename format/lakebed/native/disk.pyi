from array import array

import numpy as np
from numpy.typing import NDArray

def fsync_all(descriptors: array[int], errors: array[int]) -> None: ...
def resident(fd: int, size: int) -> float: ...
def read_files(
    paths: list[bytes], buffer: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[int, int]: ...
