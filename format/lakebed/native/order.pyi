import numpy as np
from numpy.typing import NDArray

def permuted(n: int, key: int) -> NDArray[np.int64]: ...
def distinct(n: int, start: int, key: int) -> NDArray[np.uint64]: ...
def samples_at(
    positions: NDArray[np.int64],
    lanes: int,
    blocks: NDArray[np.int64],
    keys: NDArray[np.uint64],
    places: NDArray[np.int64],
    starts: NDArray[np.int64],
    slots: NDArray[np.int64],
    first: NDArray[np.int64],
) -> NDArray[np.int64]: ...
