"""Files that are written before they have a name: an object's content, until it is known under which key it goes.

They lie on the disk of their folder (`O_TMPFILE`, Linux), and are gone with the process, or when nobody refers to them.
"""

# Paths are strings: pathlib costs more than the calls of the operating system themselves.
# ruff: noqa: PTH120
from __future__ import annotations

import errno
import mmap
import os
from functools import cache

from lakebed.errors import TruncatedReadError
from lakebed.errors.stores import storage_error
from lakebed.native import disk as native

MOST = 64
"""Files of a process that wait for their names: the program needs descriptors, too, and has some 1,000."""

_FLAGS = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
# What is said of a file that cannot get a name here: it had one, it lies on another disk, or links are not allowed.
NO_LINK = frozenset(
    (errno.EEXIST, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
)


class EarlyFile:
    """A file without a name, of the process that made it: a child that is forked only reads from it.

    Parameters
    ----------
    fd
        Descriptor of the empty file, which is closed with this object: without a name it is gone then.
    folder
        Where it will be, for errors.
    """

    __slots__ = ("_fd", "_folder", "_is_named", "_owned", "_pid")

    def __init__(self, fd: int, folder: str) -> None:
        self._owned = native.Descriptor(fd)
        self._fd, self._folder, self._pid = fd, folder, os.getpid()
        self._is_named = False

    @property
    def is_mine(self) -> bool:
        """Whether this process may write to it."""
        return self._pid == os.getpid()

    def write(self, at: int, view: memoryview) -> None:
        """Write bytes at a place.

        Raises
        ------
        StorageError
            If the operating system fails.
        """
        try:
            done = os.pwrite(self._fd, view, at)
            while 0 < done < view.nbytes:
                at, view = at + done, view[done:]
                done = os.pwrite(self._fd, view, at)
        except OSError as error:
            raise storage_error(error, "write", self._folder) from error
        if not done:
            nothing = OSError(errno.EIO, "nothing was written")
            raise storage_error(nothing, "write", self._folder)

    def read(self, at: int, length: int) -> bytearray:
        """Read exactly so many bytes from a place.

        Raises
        ------
        StorageError
            If the operating system fails.
        TruncatedReadError
            If the file is shorter.
        """
        found, done = bytearray(length), 0
        view = memoryview(found)
        try:
            while done < length:
                got = os.preadv(self._fd, [view[done:]], at + done)
                if not got:
                    raise TruncatedReadError(f"a file in {self._folder} that has no name yet ended too early")
                done += got
        except OSError as error:
            raise storage_error(error, "read", self._folder) from error
        return found

    def map(self, length: int) -> memoryview:
        """Return its first bytes, to be read where they lie in the cache of the operating system.

        Raises
        ------
        StorageError
            If the operating system fails.
        """
        try:
            return memoryview(mmap.mmap(self._fd, length, prot=mmap.PROT_READ))
        except (OSError, ValueError) as error:
            failed = error if isinstance(error, OSError) else OSError(errno.EIO, str(error))
            raise storage_error(failed, "map", self._folder) from error

    def link(self, path: str) -> int:
        """Give it a name, its only one ever, and return a descriptor of its own for the caller.

        Raises
        ------
        FileExistsError
            If there is a file of that name.
        FileNotFoundError
            If the folder is missing.
        OSError
            With a number of `NO_LINK` if it cannot be named there; with others if the operating system fails.
        """
        if self._is_named or not self.is_mine:
            raise OSError(errno.EXDEV, "the file has had a name, or is that of another process")
        fd = os.dup(self._fd)
        try:
            # The folder given only makes Python take linkat(2), which follows the link of /proc.
            os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
        except FileNotFoundError as error:
            os.close(fd)
            if os.path.lexists(os.path.dirname(path)):
                raise OSError(errno.EXDEV, "the file cannot get a name") from error
            raise
        except BaseException:
            os.close(fd)
            raise
        self._is_named = True
        return fd


def early_file(folder: str, size: int) -> EarlyFile | None:
    """Make a file without a name in a folder, for about so many bytes; None where that cannot be done."""
    if native.Descriptor.held() >= MOST or not _has_early_files():
        return None
    try:
        fd = os.open(folder, _FLAGS, 0o666)
    except OSError:
        return None  # the ordinary way works, or meets the same error and tells it
    if native.reserve(fd, size):
        os.close(fd)
        return None
    return EarlyFile(fd, folder)


@cache
def _has_early_files() -> bool:
    """Whether this system knows such files, and how to name them."""
    return hasattr(os, "O_TMPFILE") and os.path.lexists("/proc/self/fd")
