"""Forced writes and file locks of the operating system, with its errors put into our words."""

# Paths are strings throughout this package.
# ruff: noqa: PTH116, PTH120
from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import threading
import time
from array import array
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lakebed import config
from lakebed.errors import (
    LakebedError,
    LockedException,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageReadOnlyError,
    UnsafePathError,
)
from lakebed.native import disk as native
from lakebed.storage.base import Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence


FILES_AT_ONCE = 256  # files kept open between write and fsync; the usual limit is 1024
# Forced writes of several files share one commit of the journal; more threads than processors only spin on its lock.
_THREADS = min(4, os.cpu_count() or 1)
_SERIAL = 3  # fewer files than this are not worth a thread
# Some network file systems cannot sync a folder and need not.
_NO_SYNC = frozenset((errno.EINVAL, errno.ENOTSUP, errno.EBADF))
OUT_OF_FILES = frozenset((errno.EMFILE, errno.ENFILE))
# The two behind the first are what ext4 and XFS say of their own tables; Linux alone has the last.
_FAILING = frozenset((errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_UNITS = (1_000_000_000, 10_000_000, 1_000_000, 1_000)
"""Nanoseconds that file systems round their times to; the coarsest keeps every other second."""
_WORTH = 1 << 20  # bytes of a file from which on it is worth a call to reserve its blocks
STEP = 1 << 20
"""Bytes of a large file that are written by one call."""
_PIECES = 512  # at most IOV_MAX (1024)
_PUBLISH_WAIT = 60.0
_PAUSE = 0.01
_FICLONE = 0x40049409
_COPY_BYTES = 1 << 22
# What file systems say that do not share blocks, or not between these two files.
_CAN_NOT = frozenset((errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM))


def storage_error(error: OSError, doing: str, path: str) -> LakebedError:
    """Error of the tree for an error of the operating system; ours pass through."""
    if isinstance(error, LakebedError):
        return error
    number = error.errno
    reason = f"cannot {doing} {path}: {error.strerror or error}"
    if number in (errno.ENOSPC, errno.EDQUOT):
        return StorageFullError(f"{reason}; free some space and try again", errno=number)
    if number in (errno.EACCES, errno.EPERM):
        return StoragePermissionError(f"{reason}; ask for access, or use another place", errno=number)
    if number == errno.EROFS:
        return StorageReadOnlyError(f"{reason}; open for reading, or mount it writable", errno=number)
    if number == errno.ELOOP:
        return UnsafePathError(f"{reason}; replace the symbolic link by the file it points to", errno=number)
    if number in OUT_OF_FILES:
        return StorageError(f"{reason}; close files or raise the limit (ulimit -n)", errno=number)
    if number == errno.ENAMETOOLONG:
        return StorageError(f"{reason}; use shorter names", errno=number)
    if number == errno.ENOLCK:
        return StorageError(
            f"{reason}; this file system has no locks: mount it with them (NFS: lockd), or write to a local disk",
            errno=number,
        )
    if number in _FAILING:
        return StorageError(f"{reason}; the disk or its connection fails: check it (dmesg)", errno=number)
    return StorageError(f"{reason}; check the disk", errno=number)


def stat_of(found: os.stat_result) -> Stat:
    """Size and identity of a file."""
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return Stat(found.st_size, etag, found.st_mtime_ns)


def later_than(present: Stat | None) -> int:
    """Time for what replaces a file, later than its own: file numbers are reused, and clocks go backwards."""
    now = time.time_ns()
    if present is None:
        return now
    unit = next((unit for unit in _UNITS if present.modified % unit == 0), 0)
    return max(now, present.modified + 2 * unit + 1)


def write_all(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views back to back, however many calls that takes."""
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


def write_file(fd: int, views: Sequence[memoryview]) -> None:
    """Write byte views back to back into an empty file, of which the file system hears the length before.

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
        _write_in_steps(fd, views, is_slow=2 * native.slow_bytes(list(views)) > size)
        return
    write_all(fd, views)


def _write_in_steps(fd: int, views: Sequence[memoryview], *, is_slow: bool) -> None:
    """Write byte views back to back into an empty file, in steps that end at multiples of their length.

    For each step the system takes runs of memory of up to its length. For those of 2 MiB, which are rare once a machine
    has run for a while, Linux moves other pages away.

    Parameters
    ----------
    is_slow
        Whether they go by way of a buffer in which each byte lies as in a page of the file. Processors copy slowly to
        where a target lies a few bytes beyond its source, modulo 4096, as a NumPy array does behind the header of a
        chunk; the kernel copies fastest from such a buffer, and the copy into it does not mind places.
    """
    from lakebed.storage.page_buffers import buffers

    with buffers.lent() if is_slow else contextlib.nullcontext() as buffer:
        for step in _steps(views):
            if buffer is None:
                write_all(fd, step)
                continue
            write_all(fd, [buffer[: native.fill(buffer, step)]])


def _steps(views: Sequence[memoryview]) -> Iterator[list[memoryview]]:
    """Cut byte views at multiples of a step, counted from the first byte of all."""
    step: list[memoryview] = []
    room = STEP
    for view in views:
        at = 0
        while at < view.nbytes:
            part = view[at : at + room]
            step.append(part)
            at += part.nbytes
            room -= part.nbytes
            if not room:
                yield step
                step, room = [], STEP
    if step:
        yield step


def clone(source: int, target: int, size: int) -> None:
    """Let an empty open file hold the bytes of another: shared blocks, else a copy by the kernel, else one by us.

    Raises
    ------
    OSError
        If the operating system fails for another reason than that it cannot do it so.
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
        view = memoryview(part)
        while view:
            done = os.pwrite(target, view, at)
            at, view = at + done, view[done:]


def flush_files(opened: list[int], harmless: Container[int] = (), *, are_forced: bool = False) -> None:
    """Force open files to disk and close them; the list is emptied, also when one of them fails.

    `config.FSYNC` off leaves out the forcing, and so does `are_forced`: they are on the disk already.

    Raises
    ------
    OSError
        If the operating system fails with a number that is not in `harmless`.
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
            except OSError as error:  # where network file systems tell that the disk is full
                errors.append(error)

    if len(files) < _SERIAL or not forces:
        flush(files)
    else:
        # Threads of this call only: nothing is left behind for a fork to trip over.
        shares = [files[i::_THREADS] for i in range(min(_THREADS, len(files)))]
        threads: list[threading.Thread] = []
        for share in shares[1:]:
            thread = threading.Thread(target=flush, args=(share,), daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # At the exit of the interpreter, where the last rows may be published, no thread starts any more.
                flush(share)
            else:
                threads.append(thread)
        flush(shares[0])
        for thread in threads:
            thread.join()
    for error in errors:
        if error.errno not in harmless:
            raise error


class OpenFiles:
    """Files that are open until they are forced to disk together: as many at a time as the process may have.

    Parameters
    ----------
    harmless
        Error numbers of fsync(2) that mean nothing.
    at_once
        Forces the whole disk on which they are, if that may pay, and tells whether it did. Only for files that were
        opened before they were written to: of such a call's errors those count that came up since.
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
        """Call what opens a file, and keep its descriptor; where there are too many, those before it go to disk first.

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
        """Close the file opened last without forcing it."""
        os.close(self._opened.pop())

    def flush(self) -> bool:
        """Force all to disk and close them; see :func:`flush_files`.

        Returns
        -------
        bool
            Whether everything else that was on that disk before was forced, too: other files, and all folders.
        """
        is_whole = self._at_once is not None and self._at_once(array("i", self._opened))
        flush_files(self._opened, self._harmless, are_forced=is_whole)
        return is_whole

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._opened:
            with contextlib.suppress(OSError):  # the error under way matters more
                self.close_last()


def flush_folders(folders: Iterable[str]) -> None:
    """Force the entries of folders to disk; a folder that is gone needs none.

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
    """Force the folders above one to disk, as far as this user may: another process may have just made them."""
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        with contextlib.suppress(StorageError):
            flush_folders([folder])


class LockedFile:
    """A file that is locked for this process alone: until it is let go of, or nothing refers to it any more."""

    __slots__ = ("_file",)

    def __init__(self, path: str) -> None:
        # The interpreter closes it when it is lost; a finalizer of ours could swallow a Ctrl-C.
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
            If another process has it.
        """
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self) -> None:
        """Give the lock back, also where a child that another thread forked meanwhile has the file open too."""
        if not self._file.closed:
            with contextlib.suppress(OSError):
                fcntl.flock(self.fd, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        """Close the file; the lock stays as long as another process, this one's parent, has it open."""
        self._file.close()


def _create(path: str, _: int) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)


def lock_file(path: str) -> LockedFile | None:
    """Open and lock a file for this process alone; None if another process holds it.

    The lock ends when the file is closed or the process ends, in whatever way.

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
            # If the dataset was deleted since the open, so was this file: a lock on it excludes no other process.
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
    """Hold a lock file for a short step, waiting for others that do the same.

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
                    f"{path} has been locked for {wait:.0f} s by another process that is publishing;"
                    " end that process if it hangs, then try again"
                )
            from lakebed.runtime.jitter import JITTER

            # With jitter, so that no process always comes too late; one that has waited for long looks more often.
            time.sleep(JITTER.random() * _PAUSE / (1 + 4 * waited))
        yield
    finally:
        if file is not None:
            file.unlock()


_boot: list[bytes] = []


def boot_id() -> bytes:
    """Return 16 bytes that processes share which run under the same kernel since it started, in containers as well.

    All zero where the system does not tell.
    """
    if not _boot:
        try:
            text = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
            found = bytes.fromhex(text.strip().replace("-", ""))
        except (OSError, ValueError):
            found = b""
        _boot.append(found if len(found) == 16 else bytes(16))
    return _boot[0]
