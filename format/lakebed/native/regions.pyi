from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Room: TypeAlias = NDArray[np.uint8] | NDArray[np.float32]
_Rooms: TypeAlias = _Room | list[_Room] | list[NDArray[np.uint8]] | list[NDArray[np.float32]]

DONE: int
BOX: int
OTHER: int
DAMAGED: int
ENDS: int
MEMORY: int
LIBRARY: int
PLAIN: int
SSE41: int
AVX2: int
BEST: int

def bind(path: str) -> None: ...
def decode_regions(
    files: list[Any],
    shapes: NDArray[np.uint32],
    boxes: NDArray[np.int32],
    out: _Rooms,
    resized: NDArray[np.int32] | None = None,
    offsets: NDArray[np.int32] | None = None,
    flips: NDArray[np.uint8] | None = None,
    *,
    factors: NDArray[np.float32] | None = None,
    planar: bool = False,
    scaled: bool = True,
    variant: int = -1,
) -> NDArray[np.uint8]: ...
def resize_regions(
    images: list[NDArray[np.uint8]],
    boxes: NDArray[np.int32],
    out: _Rooms,
    resized: NDArray[np.int32] | None = None,
    offsets: NDArray[np.int32] | None = None,
    flips: NDArray[np.uint8] | None = None,
    *,
    factors: NDArray[np.float32] | None = None,
    planar: bool = False,
    variant: int = -1,
) -> NDArray[np.uint8]: ...
