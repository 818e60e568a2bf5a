"""Files written past the cache of the operating system (`O_DIRECT`, open(2)).

For bytes that nobody is about to read, as those of a dataset that is rewritten: the cache keeps what readers need, and
the processor does not fill pages that only wait for the disk.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from typing import TYPE_CHECKING

from lakebed.storage.disk import write_all

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK = 4096
"""Bytes that places, lengths and addresses are multiples of; no disk asks for more."""
_BUFFER = 1 << 22
_WORTH = 1 << 20  # bytes of a file below which the cache is as good
_DIRECT: int = getattr(os, "O_DIRECT", 0)

# Whoever does not get it at once, such as a child forked while it was held, writes through the cache.
_lock = threading.Lock()
_buffers: list[mmap.mmap] = []


def write_uncached(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views, none of them empty, back to back into an empty file, past the cache where its file system can.

    Raises
    ------
    OSError
        If the operating system fails.
    """
    size = sum(view.nbytes for view in views)
    if size < _WORTH or not _lock.acquire(blocking=False):
        write_all(fd, views)
        return
    try:
        if not _turn(fd, on=True):
            write_all(fd, views)
            return
        if not _buffers:
            # A shared one, as Python makes them, would have the bytes of a forked child in it, too.
            _buffers.append(mmap.mmap(-1, _BUFFER, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        try:
            _write_blocks(fd, views, memoryview(_buffers[0]), size)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The file system takes the flag, but not these blocks.
            _turn(fd, on=False)
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, views)
    finally:
        _lock.release()


def _write_blocks(fd: int, views: Sequence[memoryview], buffer: memoryview, size: int) -> None:
    """Write by way of an aligned buffer; the last block is filled up, and cut off again."""
    used = at = 0
    for view in views:
        taken = 0
        while taken < view.nbytes:
            step = min(view.nbytes - taken, len(buffer) - used)
            buffer[used : used + step] = view[taken : taken + step]
            taken += step
            used += step
            if used == len(buffer):
                _write_at(fd, buffer, at)
                at += used
                used = 0
    if used:
        _write_at(fd, buffer[: -(-used // BLOCK) * BLOCK], at)
    os.ftruncate(fd, size)


def _write_at(fd: int, data: memoryview, at: int) -> None:
    """Write at a place, however many calls that takes."""
    while data:
        done = os.pwrite(fd, data, at)
        if not done:
            raise OSError(errno.EIO, "nothing was written")
        if done % BLOCK:
            _turn(fd, on=False)  # what is left begins in the middle of a block
        at, data = at + done, data[done:]


def _turn(fd: int, *, on: bool) -> bool:
    """Let writes to a file go past the cache or not; tell whether its file system does that."""
    if not _DIRECT:
        return False
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | _DIRECT if on else flags & ~_DIRECT)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True
