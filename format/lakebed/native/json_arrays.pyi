from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FAULTS: dict[int, str]

class JsonTextError(ValueError):
    at: int
    what: str
    def __init__(self, at: int, what: str) -> None: ...

class ArrayScanner:
    is_over: bool
    shapes: list[tuple[tuple[str, ...], bytes] | None]
    members: list[list[int]]
    def __new__(cls, data: Any, at: int, wanted: Sequence[str] = ()) -> Self: ...
    @property
    def at(self) -> int: ...
    def next(
        self, most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...

def value_span(data: Any, at: int) -> tuple[int, int]: ...
def values(data: Any, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[Any]: ...
def columns(
    data: Any,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    shapes: NDArray[np.int64],
    members: NDArray[np.int64],
    kinds: bytes,
) -> tuple[list[Any], NDArray[np.bool_]]: ...
