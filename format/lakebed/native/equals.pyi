from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

_Tick: TypeAlias = Callable[[], object] | None

def numbered(
    keys: NDArray[np.int64], seed: int, tick: _Tick = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def matched(
    keys: NDArray[np.int64], asked: NDArray[np.int64], seed: int, tick: _Tick = None
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]: ...
def gathered(
    numbers: NDArray[np.int64], count: int, tick: _Tick = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def count_pairs(numbers: NDArray[np.int64], rows: NDArray[np.int64], ends: NDArray[np.int64]) -> int: ...
def pairs(
    numbers: NDArray[np.int64], rows: NDArray[np.int64], ends: NDArray[np.int64], tick: _Tick = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
