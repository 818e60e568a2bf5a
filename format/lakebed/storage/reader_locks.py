"""Reader leases: a reader holds a shared lock on a file of its version, and a file that is held is not removed.

Nothing is written, so leases work in read-only folders. On local files a lease is a shared lock of the operating system
(``flock``), which a forked child shares with its parent and which ends with the last process that holds it; in memory
it is an entry in a table. Other storages have no leases: only time protects readers there.
"""

# Paths are strings throughout this package.
from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lakebed.errors import KeyNotFound
from lakebed.errors.stores import storage_error
from lakebed.runtime import process_hooks
from lakebed.storage.base import check_key, innermost, traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakebed.storage.base import Storage

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Errors of file systems that do not support such locks, or support them only for files that are open for writing.
_NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.EBADF, errno.ENOSYS))
_GONE = (FileNotFoundError, NotADirectoryError)


class Lease:
    """Right to read an object until it is released, or garbage."""

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[], object]) -> None:
        self._release: Callable[[], object] | None = release

    def release(self) -> None:
        """Release the object; a second release is no error."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        if hasattr(self, "_release"):  # `__init__` may have been interrupted
            self.release()


class _Holders:
    """Number of readers of each object in memory; -1 while it is being removed."""

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


def share(storage: Storage, key: str) -> Lease | None:
    """Hold an object as a reader; None if the storage has no leases.

    Raises
    ------
    KeyNotFound
        If the object does not exist, or is being removed.
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
        lease = Lease(partial(_holders.leave, slot))
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
    # Closing the descriptor in a forked child does not release the lock of the parent.
    lease = Lease(partial(os.close, fd))
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # If another process has removed the file since it was opened, locking it protects nothing.
        if os.fstat(fd).st_nlink == 0:
            raise KeyNotFound(f"{key!r} does not exist in {base.url}")
    except BlockingIOError:
        raise KeyNotFound(f"{key!r} is being removed from {base.url}") from None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise storage_error(error, "lock", path) from error
    return lease


@contextmanager
def claimed(storage: Storage, key: str) -> Iterator[bool | None]:
    """Hold an object exclusively in order to remove it, so that it gets no readers meanwhile.

    Yields
    ------
    True if it has no readers or does not exist; False if it has readers; None if unknown.
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
    free_now: bool | None = True
    try:
        try:
            # Network file systems grant an exclusive lock only if the file is open for writing.
            fd = os.open(path, os.O_RDWR | _FLAGS)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except _GONE:
            pass
        except BlockingIOError:
            free_now = False
        except OSError:
            free_now = None
        yield free_now
    finally:
        if fd is not None:
            os.close(fd)


def is_shared(storage: Storage, key: str) -> bool | None:
    """Tell whether an object has readers of :func:`share`; None if unknown."""
    with claimed(storage, key) as free:
        return None if free is None else not free
