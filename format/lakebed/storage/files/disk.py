"""Writes, forced writes and file locks of the operating system."""

# Paths are strings throughout this package.
# ruff: noqa: PTH116, PTH120
from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import time
from array import array
from functools import partial
from typing import TYPE_CHECKING, Self

from lakebed import config
from lakebed.errors import LockedException, StorageError, TruncatedReadError
from lakebed.errors.stores import OUT_OF_FILES, storage_error
from lakebed.native import disk as native
from lakebed.runtime import clock
from lakebed.storage.base import Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from lakebed.storage.base import Buffer

# Maximum number of files that stay open between write and fsync; processes may usually open 1024.
FILES_AT_ONCE = 256
# Number of threads for forced writes: writes at the same time share one commit of the journal, but more threads than
# processors compete for its lock.
_THREADS = min(4, os.cpu_count() or 1)
_SERIAL = 3  # number of files below which a thread costs more than it saves
# Errors of network file systems that cannot sync a folder, and need not.
_NO_SYNC = frozenset((errno.EINVAL, errno.ENOTSUP, errno.EBADF))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNITS = (1_000_000_000, 10_000_000, 1_000_000, 1_000)
"""Units to which file systems round times, in nanoseconds; the coarsest rounds to even seconds."""
_WORTH = 1 << 20  # minimum size in bytes of files for which reserving the blocks saves time
STEP = 1 << 20
"""Bytes of a large file that one call writes."""
_PIECES = 512  # pieces per call; the system allows IOV_MAX (1024)
_PUBLISH_WAIT = 60.0
_PAUSE = 0.01
_FICLONE = 0x40049409
_COPY_BYTES = 1 << 22
# Errors that mean: the file system cannot share blocks, or cannot share them between these two files.
_CAN_NOT = frozenset((errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM))


def stat_of(found: os.stat_result) -> Stat:
    """Return size and identity of a file."""
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return Stat(found.st_size, etag, found.st_mtime_ns)


def later_than(present: Stat | None) -> int:
    """Return a time after that of the replaced file, because file numbers are reused and clocks can be set back."""
    now = time.time_ns()
    if present is None:
        return now
    unit = next((unit for unit in _UNITS if present.modified % unit == 0), 0)
    return max(now, present.modified + 2 * unit + 1)


def write_all(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views back to back, in as many calls as necessary."""
    for first in range(0, len(views), _PIECES):
        group = list(views[first : first + _PIECES])
        while group:
            done = os.writev(fd, group)
            if not done:
                raise OSError(errno.EIO, "nothing was written")
            while group and done >= group[0].nbytes:
                done -= group.pop(0).nbytes
            if done:
                group[0] = group[0][done:]


def read_at(fd: int, start: int, length: int, path: str) -> bytes:
    """Read exactly this range of a file, in several calls if necessary, since one call returns at most 2 GiB.

    Raises
    ------
    StorageError
        If the operating system fails, or the file ends earlier (TruncatedReadError).
    """
    found = b""
    try:
        while True:
            part = os.pread(fd, length, start)
            if not found and len(part) == length:
                return part
            found += part
            start, length = start + len(part), length - len(part)
            if not length:
                return found
            if not part:
                raise TruncatedReadError(f"{path} ended at byte {start} while it was read")
    except OSError as error:
        raise storage_error(error, "read", path) from error


def write_at(fd: int, data: Buffer, at: int) -> None:
    """Write bytes at an offset, in as many calls as necessary."""
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        at, view = at + done, view[done:]


def write_file(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views back to back into an empty file, after telling the file system its length.

    Raises
    ------
    OSError
        If the operating system fails.
    """
    size = sum(view.nbytes for view in views)
    if size >= _WORTH:
        problem = native.reserve(fd, size)
        if problem:
            raise OSError(problem, os.strerror(problem))
        if 2 * native.slow_bytes(list(views)) > size:
            _write_from_pages(fd, views)
            return
    write_all(fd, views)


def _write_from_pages(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views from a buffer in which each byte has the offset in its page that it will have in the file.

    A direct copy is slow, because processors copy slowly if the target is a few bytes beyond the source, modulo 4096:
    in a file, a NumPy array comes after the header of its chunk. The copy into the buffer is fast.
    """
    from lakebed.storage.files.page_buffers import buffers

    with buffers.lent() as buffer:
        for step in steps(views, STEP):
            write_all(fd, step if buffer is None else [buffer[: native.fill(buffer, step)]])


def steps(views: Sequence[memoryview], size: int) -> Iterator[list[memoryview]]:
    """Cut byte views at multiples of a size, counted from the first byte."""
    step: list[memoryview] = []
    room = size
    for view in views:
        at = 0
        while at < view.nbytes:
            part = view[at : at + room]
            step.append(part)
            at += part.nbytes
            room -= part.nbytes
            if not room:
                yield step
                step, room = [], size
    if step:
        yield step


def clone(source: int, target: int, size: int) -> None:
    """Give an empty open file the content of another: by shared blocks, by the kernel, or by reads and writes.

    Raises
    ------
    OSError
        If the operating system fails.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno not in _CAN_NOT:
            raise
    else:
        return
    at = 0
    try:
        while at < size and (done := os.copy_file_range(source, target, size - at, at, at)):
            at += done
    except OSError as error:
        if error.errno not in _CAN_NOT:
            raise
    while at < size:
        part = os.pread(source, min(size - at, _COPY_BYTES), at)
        if not part:
            raise OSError(errno.EIO, "the file ended while it was copied")
        write_at(target, part, at)
        at += len(part)


def flush_files(opened: list[int], harmless: Container[int] = (), *, are_forced: bool = False) -> None:
    """Force open files to disk and close them; the list is emptied even if a file fails.

    Files are only closed if `config.FSYNC` is off, or with `are_forced`, if they are on the disk already.

    Raises
    ------
    OSError
        If the operating system fails with a number outside of `harmless`.
    """
    files = opened[:]
    opened.clear()
    errors: list[OSError] = []
    forces = config.FSYNC and not are_forced

    def flush(share: list[int]) -> None:
        if forces:
            failed = array("i", bytes(4 * len(share)))
            native.fsync_all(array("i", share), failed)
            errors.extend(OSError(number, os.strerror(number)) for number in failed if number)
        for fd in share:
            try:
                os.close(fd)
            except OSError as error:  # network file systems report here that the disk is full
                errors.append(error)

    if len(files) < _SERIAL or not forces:
        flush(files)
    else:
        from lakebed.storage.concurrently import concurrently

        concurrently([partial(flush, files[i::_THREADS]) for i in range(min(_THREADS, len(files)))])
    for error in errors:
        if error.errno not in harmless:
            raise error


class OpenFiles:
    """Files that stay open until they are forced to disk together, within the limit of open files per process.

    Parameters
    ----------
    harmless
        Error numbers of fsync(2) that do not matter.
    at_once
        Function that forces the whole disk of the files if that may be faster, and returns whether it did. The files
        must have been opened before they were written: the system reports only errors since the opening.
    """

    def __init__(
        self, harmless: Container[int] = (), *, at_once: Callable[[array[int]], bool] | None = None
    ) -> None:
        self._opened: list[int] = []
        self._harmless = harmless
        self._at_once = at_once

    @property
    def count(self) -> int:
        """Number of files that are open."""
        return len(self._opened)

    def take(self, descriptors: Iterable[int]) -> None:
        """Keep descriptors of files that were opened elsewhere."""
        self._opened.extend(descriptors)

    def open(self, opener: Callable[[], int]) -> int:
        """Open a file and keep its descriptor; if too many files are open, earlier ones are forced to disk first.

        Raises
        ------
        OSError
            If the operating system fails.
        """
        if len(self._opened) >= FILES_AT_ONCE:
            self.flush()
        try:
            fd = opener()
        except OSError as error:
            if error.errno not in OUT_OF_FILES or not self._opened:
                raise
            self.flush()
            fd = opener()
        self._opened.append(fd)
        return fd

    def close_last(self) -> None:
        """Close the file that was opened last, without forcing it."""
        os.close(self._opened.pop())

    def flush(self) -> bool:
        """Force all files to disk and close them; see :func:`flush_files`.

        Returns
        -------
        bool
            Whether all files and folders of the disk were forced, not only these.
        """
        is_whole = self._at_once is not None and self._at_once(array("i", self._opened))
        flush_files(self._opened, self._harmless, are_forced=is_whole)
        return is_whole

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._opened:
            with contextlib.suppress(OSError):  # an error that is already being raised matters more
                self.close_last()


def flush_folders(folders: Iterable[str]) -> None:
    """Force the entries of folders to disk; skip folders that do not exist.

    Raises
    ------
    StorageError
        If the operating system fails.
    """
    folder = ""
    if not config.FSYNC:
        return
    try:
        with OpenFiles(_NO_SYNC) as opened:
            for folder in folders:
                with contextlib.suppress(FileNotFoundError):
                    opened.open(partial(os.open, folder, _FOLDER))
            opened.flush()
    except OSError as error:
        raise storage_error(error, "sync", folder) from error


def flush_above(folder: str) -> None:
    """Force the folders above a folder to disk, as far as permitted: another process may have just created them."""
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        with contextlib.suppress(StorageError):
            flush_folders([folder])


class LockedFile:
    """A file that is locked for this process alone, until it is closed or garbage."""

    __slots__ = ("_file",)

    def __init__(self, path: str) -> None:
        # Let the interpreter close the file: a finalizer in Python could swallow a Ctrl-C.
        self._file = io.FileIO(path, "r+", opener=_create)

    @property
    def fd(self) -> int:
        """The descriptor of the open file."""
        return self._file.fileno()

    def lock(self) -> None:
        """Take the lock.

        Raises
        ------
        BlockingIOError
            If another process holds it.
        """
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self) -> None:
        """Release the lock, even if a child that another thread forked meanwhile has the file open, too."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                fcntl.flock(self.fd, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        """Close the file; if a parent process has it open, the lock stays."""
        self._file.close()


def _create(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)


def lock_file(path: str) -> LockedFile | None:
    """Open and lock a file for this process alone; None if another process holds it.

    The lock ends when the file is closed or the process ends in any way.

    Raises
    ------
    StorageError
        If the file cannot be created.
    """
    while True:
        try:
            file = LockedFile(path)
        except OSError as error:
            raise storage_error(error, "lock", path) from error
        try:
            file.lock()
            # If the dataset was deleted in the meantime, this lock file is deleted, too, and locking it excludes no
            # other process.
            if os.path.samestat(os.fstat(file.fd), os.stat(path)):
                return file
        except BlockingIOError:
            file.close()
            return None
        except FileNotFoundError:
            pass
        except OSError as error:
            file.close()
            raise storage_error(error, "lock", path) from error
        file.close()


@contextlib.contextmanager
def exclusive(path: str, wait: float = _PUBLISH_WAIT) -> Iterator[None]:
    """Hold a lock file for a short step, and wait for other processes that do so.

    Raises
    ------
    LockedException
        If another process holds it for longer than `wait` seconds.
    """
    began = time.monotonic()
    file = None
    try:
        while (file := lock_file(path)) is None:
            waited = time.monotonic() - began
            if waited > wait:
                raise LockedException(
                    f"{path} has been locked for {wait:.0f} s by another process;"
                    " end that process if it hangs, then try again"
                )
            # Pause for a random time, so that no process loses every race; processes that have waited long pause for
            # a shorter time.
            time.sleep(clock.chance().random() * _PAUSE / (1 + 4 * waited))
        yield
    finally:
        if file is not None:
            file.unlock()
