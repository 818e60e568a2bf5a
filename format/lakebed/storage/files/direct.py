"""Writes and reads of files that bypass the cache of the operating system (`O_DIRECT`, open(2)).

For bytes that are not read again soon, such as those of a rewritten dataset: the cache keeps the data that readers
need, and the processor does not copy pages that only wait for the disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

from lakebed.native import disk as native
from lakebed.storage.files.disk import steps, write_all
from lakebed.storage.files.page_buffers import buffers

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK = 4096
"""Unit of offsets, lengths and addresses in bytes; no disk needs a larger one."""
_WORTH = 1 << 18  # smaller files are read as fast through the cache
_KEPT = 0.5  # if at least this share of a file is cached, reading through the cache is as fast
_DIRECT: int = getattr(os, "O_DIRECT", 0)


def write_uncached(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views, none of them empty, into an empty file, bypassing the cache if the file system supports it.

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
            # The file system accepts the flag, but not blocks of this size.
            _turn(fd, on=False)
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            write_all(fd, views)


def read_uncached(fd: int, into: memoryview) -> int:
    """Read the start of a file into a byte view if the cache does not hold it; return the number of bytes.

    The file must be positioned at its beginning. Then it is positioned after the read bytes, and the caller reads the
    remaining bytes through the cache.

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
    """Fill ``into`` through an aligned buffer, or less if the file ends; return the number of bytes read."""
    done, size = 0, into.nbytes
    while done < size and not done % BLOCK:
        try:
            got = min(os.preadv(fd, [buffer], done), size - done)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            break  # the file system accepts the flag, but not blocks of this size
        if not got:
            break
        into[done : done + got] = buffer[:got]
        done += got
    return done


def _write_blocks(fd: int, views: Sequence[memoryview], buffer: memoryview, size: int) -> None:
    """Write through an aligned buffer; the last block is padded, and the padding cut off again."""
    for number, step in enumerate(steps(views, len(buffer))):
        filled = native.fill(buffer, step)
        _write_at(fd, buffer[: -(-filled // BLOCK) * BLOCK], number * len(buffer))
    os.ftruncate(fd, size)


def _write_at(fd: int, data: memoryview, at: int) -> None:
    """Write at an offset, in as many calls as necessary."""
    while data:
        done = os.pwrite(fd, data, at)
        if not done:
            raise OSError(errno.EIO, "nothing was written")
        if done % BLOCK:
            _turn(fd, on=False)  # switch direct writes off, because the rest begins inside of a block
        at, data = at + done, data[done:]


def _turn(fd: int, *, on: bool) -> bool:
    """Turn the bypass of the cache on or off; tell whether the file system supports it."""
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
