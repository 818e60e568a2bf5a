"""Files written and read past the cache of the operating system (`O_DIRECT`, open(2)).

For bytes that are not read soon, as those of a dataset that is rewritten, and for those that are read once: the
cache keeps what readers need, and the processor does not fill pages that only wait for the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

from lakebed.native import disk as native
from lakebed.storage.disk import write_all
from lakebed.storage.page_buffers import buffers

if TYPE_CHECKING:
    from collections.abc import Sequence


BLOCK = 4096
"""Bytes that places, lengths and addresses are multiples of; no disk asks for more."""
_WORTH = 1 << 18  # bytes of a file below which the cache is as good
_KEPT = 0.5  # part of a file in the cache from which on it is as good to read it from there
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def write_uncached(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views, none of them empty, back to back into an empty file, past the cache where its file system can.

    Raises
    ------
    OSError
        If the operating system fails.
    """
    size = sum(view.nbytes for view in views)
    if size < _WORTH:
        write_all(fd, views)
        return
    with buffers.lent() as buffer:
        if buffer is None or not _turn(fd, on=True):
            write_all(fd, views)
            return
        try:
            _write_blocks(fd, views, buffer, size)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # The file system takes the flag, but not these blocks.
            _turn(fd, on=False)
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, views)


def read_uncached(fd: int, into: memoryview) -> int:
    """Read the start of a file into a byte view, if the cache does not have it; return how many bytes were read.

    What is not read goes through the cache as well as anywhere; the file stands where what is missing begins.

    Raises
    ------
    OSError
        If the operating system fails.
    """
    if into.nbytes < _WORTH or native.resident(fd, into.nbytes) > _KEPT:
        return 0
    with buffers.lent() as buffer:
        if buffer is None or not _turn(fd, on=True):
            return 0
        done = _read_blocks(fd, into, buffer)
        _turn(fd, on=False)
        os.lseek(fd, done, os.SEEK_SET)
        return done


def _read_blocks(fd: int, into: memoryview, buffer: memoryview) -> int:
    """Read by way of an aligned buffer as far as the file goes; return how far that was."""
    done, size = 0, into.nbytes
    while done < size and not done % BLOCK:
        try:
            got = min(os.preadv(fd, [buffer], done), size - done)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            break  # the file system takes the flag, but not these blocks
        if not got:
            break
        into[done : done + got] = buffer[:got]
        done += got
    return done


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
