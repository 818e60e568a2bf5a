"""Reader leases: a reader of a version holds one of its files shared, and no file that is held is removed.

Nothing is written, so they work in folders that can only be read. On local files a lease is a shared lock of the
operating system (``flock``), which a forked child shares with its parent and which ends with the last process that has
it, in whatever way; in memory it is an entry in a table. Other storages have none: there only time protects readers.
"""

# Paths are strings throughout this package.
from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from lakebed.errors import KeyNotFound
from lakebed.errors.stores import storage_error
from lakebed.runtime import process_hooks
from lakebed.storage.base import check_key, innermost, traits_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakebed.storage.base import Storage

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# File systems that have no such locks, or none for files that are open for reading only.
_NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.EBADF, errno.ENOSYS))
_GONE = (FileNotFoundError, NotADirectoryError)
_close = os.close


class Lease(Protocol):
    """Right to read until it is released, or forgotten."""

    def release(self) -> None:
        """Let the file go; releasing twice is no error."""


class _FileLease:
    """A descriptor with a shared lock; closing it in a forked child leaves the parent's lock alone."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def release(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            _close(fd)

    def __del__(self) -> None:
        # At the end of the interpreter names of modules may be gone; the descriptor goes with the process then. An
        # interrupt may have cut off `__init__`.
        if hasattr(self, "_fd") and _close is not None:
            self.release()


class _Holders:
    """How many readers hold each object in memory; -1 while it is being removed."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._held: dict[tuple[str, str], int] = {}
        self._mutex = threading.Lock()

    def share(self, slot: tuple[str, str]) -> bool:
        with self._mutex:
            count = self._held.get(slot, 0)
            if count >= 0:
                self._held[slot] = count + 1
            return count >= 0

    def leave(self, slot: tuple[str, str]) -> None:
        with self._mutex:
            count = self._held.pop(slot, 0)
            if count > 1:
                self._held[slot] = count - 1

    def claim(self, slot: tuple[str, str]) -> bool:
        with self._mutex:
            return self._held.setdefault(slot, -1) == -1


_holders = _Holders()
process_hooks.new_lock_after_fork(_holders, "_mutex")


class _MemoryLease:
    __slots__ = ("_slot",)

    def __init__(self, slot: tuple[str, str]) -> None:
        self._slot: tuple[str, str] | None = slot

    def release(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            _holders.leave(slot)

    def __del__(self) -> None:
        if hasattr(self, "_slot") and _holders is not None:
            self.release()


def share(storage: Storage, key: str) -> Lease | None:
    """Hold an object as a reader; None where the storage knows no leases.

    Raises
    ------
    KeyNotFound
        If there is no such object, or it is being removed.
    StorageError
        If the file cannot be opened.
    """
    traits = traits_of(storage)
    if not traits.reader_leases:
        return None
    base = innermost(storage)
    if not traits.folder:
        slot = base.url, check_key(key)
        if base.stat(key) is None or not _holders.share(slot):
            raise KeyNotFound(f"{key!r} does not exist in {base.url}")
        lease = _MemoryLease(slot)
        if base.stat(key) is None:
            raise KeyNotFound(f"{key!r} does not exist in {base.url}")
        return lease
    path = f"{traits.folder.rstrip('/')}/{check_key(key)}"
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except _GONE:
        raise KeyNotFound(f"{key!r} does not exist in {base.url}") from None
    except OSError as error:
        raise storage_error(error, "open", path) from error
    file = _FileLease(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # The process that removed the file since it was opened had it alone then: this lock protects nothing.
        if os.fstat(fd).st_nlink == 0:
            raise KeyNotFound(f"{key!r} does not exist in {base.url}")
    except BlockingIOError:
        raise KeyNotFound(f"{key!r} is being removed from {base.url}") from None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise storage_error(error, "lock", path) from error
    return file


@contextmanager
def claimed(storage: Storage, key: str) -> Iterator[bool | None]:
    """Hold an object alone, to remove it: it gets no readers meanwhile.

    Yields
    ------
    True if it has no readers, or there is no such object; False if it has; None where that is unknown.
    """
    traits = traits_of(storage)
    if not traits.reader_leases:
        yield None
        return
    if not traits.folder:
        slot = innermost(storage).url, check_key(key)
        free = _holders.claim(slot)
        try:
            yield free
        finally:
            if free:
                _holders.leave(slot)
        return
    path = f"{traits.folder.rstrip('/')}/{check_key(key)}"
    fd = None
    try:
        try:
            # Network file systems give a lock of this kind only to who may write.
            fd = os.open(path, os.O_RDWR | _FLAGS)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free_now: bool | None = True
        except _GONE:
            free_now = True
        except BlockingIOError:
            free_now = False
        except OSError:
            free_now = None
        yield free_now
    finally:
        if fd is not None:
            os.close(fd)


def is_shared(storage: Storage, key: str) -> bool | None:
    """Whether an object has readers of :func:`share`; None where that is unknown."""
    with claimed(storage, key) as free:
        return None if free is None else not free
