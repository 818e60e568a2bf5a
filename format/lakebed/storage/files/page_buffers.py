"""Page-aligned buffers between memory and a file."""

from __future__ import annotations

import contextlib
import mmap
import threading
from typing import TYPE_CHECKING

from lakebed.runtime import process_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUFFER = 1 << 22
_MOST = 4  # number of buffers; a thread works without a buffer if all are in use


class _Buffers:
    """Aligned buffers, made on first use and used again.

    Their memory is shared with forked children: the disk may be filling a buffer while a thread forks, and with memory
    that is copied on write either process could get the data (open(2), notes on O_DIRECT). Children begin without
    buffers.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all buffers, as in a child."""
        self._slots = threading.Semaphore(_MOST)
        self._free: list[mmap.mmap] = []

    @contextlib.contextmanager
    def lent(self) -> Iterator[memoryview | None]:
        """Lend a buffer; None if all are in use."""
        slots, free = self._slots, self._free
        if not slots.acquire(blocking=False):
            yield None
            return
        try:
            try:
                buffer = free.pop()
            except IndexError:
                buffer = mmap.mmap(-1, _BUFFER)
            try:
                yield memoryview(buffer)
            finally:
                free.append(buffer)
        finally:
            slots.release()


buffers = _Buffers()
process_hooks.after_fork(buffers.forget)
