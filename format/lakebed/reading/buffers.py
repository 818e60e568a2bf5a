"""Writable buffers that are reused once no view of them exists."""

from __future__ import annotations

import sys
import threading

import numpy as np
from numpy.typing import NDArray

_PAGE = 1 << 16

_ONE = [np.empty(1, dtype=np.uint8)]
# Reference count of a buffer that only a list refers to, measured as in `take`, because it differs between Python
# releases.
_UNUSED = sys.getrefcount(_ONE[0])


class BufferPool:
    """Pool of buffers that are reused once their content was dropped.

    The first access to new memory costs more than reading data into used memory, so a scan whose caller drops the
    batches reuses a few buffers. A buffer is free when only the pool refers to it; every view or memoryview of a buffer
    refers to the buffer, too.

    Parameters
    ----------
    keep
        Maximum number of buffers to keep.
    keep_bytes
        Maximum number of bytes to keep; a larger request gets memory of its own.
    """

    def __init__(self, keep: int = 64, keep_bytes: int = 1 << 28) -> None:
        self._buffers: list[NDArray[np.uint8]] = []
        self._keep = keep
        self._keep_bytes = keep_bytes
        self._mutex = threading.Lock()

    def begin_in_child(self) -> None:
        """Replace the lock in a forked child: the thread that may have held it exists only in the parent."""
        self._mutex = threading.Lock()

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return ``size`` bytes with undefined content: uint8, shape (size,)."""
        if size > self._keep_bytes:
            return self.made(size)
        with self._mutex:
            # Loop by index: a loop variable, or enumerate() itself, would hold a reference to the buffer.
            for i in range(len(self._buffers)):
                fits = size <= len(self._buffers[i]) <= 4 * size + _PAGE
                if fits and sys.getrefcount(self._buffers[i]) == _UNUSED:
                    return self._buffers[i][:size]
            made = self.made(max(_PAGE, -(-size // _PAGE) * _PAGE))
            self._make_room(len(made))
            self._buffers.append(made)
            return made[:size]

    def made(self, size: int) -> NDArray[np.uint8]:
        """Return new memory: uint8, shape (size,)."""
        return np.empty(size, dtype=np.uint8)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """Return an array with undefined content."""
        items = 1
        for extent in shape:
            items *= extent
        return self.take(items * dtype.itemsize).view(dtype).reshape(shape)

    @property
    def held(self) -> int:
        """Number of bytes that the pool holds."""
        return sum(map(len, self._buffers))

    def _make_room(self, size: int) -> None:
        held = self.held
        while self._buffers and (len(self._buffers) >= self._keep or held + size > self._keep_bytes):
            held -= len(self._buffers[0])
            del self._buffers[0]
