"""Files without a name (`O_TMPFILE`, Linux), which hold the content of an object until its key is known.

The files are on the disk of their folder and disappear with the process, or when nothing refers to them.
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
from lakebed.runtime.failures import OnFailure

MOST = 64
"""Maximum number of nameless files per process, which needs its usual 1,000 descriptors for other purposes, too."""

_FLAGS = os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_TMPFILE", 0)
# Errors that mean that a file without a name cannot get this name: it had a name before, is on another disk, or may not
# be linked.
NO_LINK = frozenset(
    (errno.EEXIST, errno.EXDEV, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)
)


class EarlyFile:
    """A file without a name of the process that created it; forked children only read it.

    Parameters
    ----------
    fd
        Descriptor of the empty file, which is closed, and the file removed, with this object.
    folder
        Future folder of the file, for errors.
    """

    __slots__ = ("_fd", "_folder", "_is_named", "_owned", "_pid")

    def __init__(self, fd: int, folder: str) -> None:
        self._owned = native.Descriptor(fd)
        self._fd, self._folder, self._pid = fd, folder, os.getpid()
        self._is_named = False

    @property
    def is_mine(self) -> bool:
        """True if this process may write to the file."""
        return self._pid == os.getpid()

    def write(self, at: int, view: memoryview) -> None:
        """Write bytes at an offset.

        Raises
        ------
        StorageError
            If the operating system fails.
        """
        try:
            while view and (done := os.pwrite(self._fd, view, at)):
                at, view = at + done, view[done:]
        except OSError as error:
            raise storage_error(error, "write", self._folder) from error
        if view:
            raise storage_error(OSError(errno.EIO, "nothing was written"), "write", self._folder)

    def read(self, at: int, length: int) -> bytearray:
        """Read exactly `length` bytes from an offset.

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
        """Map the first bytes of the file, which are read from the cache of the operating system.

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
        """Give the file its only name, and return another descriptor for the caller.

        Raises
        ------
        FileExistsError
            If a file of that name exists.
        FileNotFoundError
            If the folder is missing.
        OSError
            With an error number of `NO_LINK` if the file cannot get that name; with another number if the system fails.
        """
        if self._is_named or not self.is_mine:
            raise OSError(errno.EXDEV, "the file had a name already, or belongs to another process")
        fd = os.dup(self._fd)
        with OnFailure(os.close, fd):
            try:
                # With src_dir_fd, Python calls linkat(2), which follows the symbolic link in /proc.
                os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)
            except FileNotFoundError as error:
                if os.path.lexists(os.path.dirname(path)):
                    raise OSError(errno.EXDEV, "the file cannot get a name") from error
                raise
        self._is_named = True
        return fd


def early_file(folder: str, size: int) -> EarlyFile | None:
    """Create a file without a name for about `size` bytes in a folder; None if the system does not support it."""
    if native.Descriptor.held() >= MOST or not _has_early_files():
        return None
    try:
        fd = os.open(folder, _FLAGS, 0o666)
    except OSError:
        return None  # ordinary writing works, or reports the same error
    if native.reserve(fd, size):
        os.close(fd)
        return None
    return EarlyFile(fd, folder)


@cache
def _has_early_files() -> bool:
    """Tell whether this system supports files without a name, and can name them later."""
    return hasattr(os, "O_TMPFILE") and os.path.lexists("/proc/self/fd")
