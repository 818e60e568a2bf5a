"""Lock files in the folders of versions, in the layout of 3.x (format.md 14): the writer, and traces of 3.9.52.

On stores without locks of their own, the lock file of every head that lakebed published stays when its writer ends,
marked as released, with the digest of the manifest. Deep Lake 3.9.52 overwrites it when it opens the head for writing
and removes it at the end, so this file alone tells whether the manifest is still valid.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors import FormatError, KeyNotFound, LockedException, StorageError
from lakebed.runtime import clock, process_hooks
from lakebed.storage.base import Data, Storage, traits_of
from lakebed.versions.chunk_table import folder_of

if TYPE_CHECKING:
    from lakebed.documents.lock import DatasetLock

LOCK_NAME = "dataset_lock.lock"

# Number of bytes that are read of a lock file; every lock file is smaller.
_MOST_BYTES = 256


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock file as it was read.

    Parameters
    ----------
    data, etag
        The content and its etag; None if the file is missing.
    lock
        The parsed lock; None if the file is missing or was cut short when it was written.
    """

    data: bytes = b""
    etag: str | None = None
    lock: DatasetLock | None = None

    @property
    def digest(self) -> str:
        """Digest of the manifest that the lock file confirms; "" if it confirms no manifest."""
        return "" if self.lock is None else self.lock.digest


def lock_key(version_id: str) -> str:
    """Return the storage key of the lock file in a version's folder."""
    return f"{folder_of(version_id)}{LOCK_NAME}"


def own_lock(digest: str = "") -> DatasetLock:
    """Return a lock of this process with the current time."""
    from lakebed.documents.lock import DatasetLock

    return DatasetLock.own(clock.now(), config.LEASE_SECONDS, digest=digest)


def lock_file(head: str) -> tuple[str, Data]:
    """Return key and content of this process's lock of a head."""
    return lock_key(head), own_lock().to_bytes()


def released_file(head: str, digest: str) -> tuple[str, Data]:
    """Return key and content of the released lock file of a head that is published with a manifest."""
    return lock_key(head), own_lock(digest).released().to_bytes()


def read_lock(storage: Storage, version: str) -> LockFile:
    """Read the lock file of a version."""
    try:
        tail = storage.get_tail(lock_key(version), _MOST_BYTES)
    except KeyNotFound:
        return LockFile()
    from lakebed.documents.lock import DatasetLock

    try:
        return LockFile(tail.data, tail.stat.etag, DatasetLock.from_bytes(tail.data))
    except FormatError:
        return LockFile(tail.data, tail.stat.etag)


def live_owner(storage: Storage, head: str, found: LockFile | None = None) -> str | None:
    """Describe the other process that is writing a branch, for messages; None if none is.

    Parameters
    ----------
    found
        The lock file of the head, if it has been read.
    """
    lock = (read_lock(storage, head) if found is None else found).lock
    return named(lock) if lock is not None and _is_in_the_way(lock) else None


def is_being_written(storage: Storage, version: str) -> bool:
    """Return whether a version's folder has the lock of a writer, in any process, that may be alive."""
    return may_live(read_lock(storage, version).lock)


def may_live(lock: DatasetLock | None) -> bool:
    """Return whether a lock is present and its owner, in any process, may be alive."""
    return lock is not None and lock.expiry > clock.now() and not _owner_is_dead(lock)


def check_foreign_lock(storage: Storage, head: str, lock: DatasetLock | None) -> None:
    """Refuse to write while another process has the head open for writing (format.md 14).

    Raises
    ------
    LockedException
        If its lock is live.
    """
    if lock is None or not _is_in_the_way(lock):
        return
    left = round(lock.expiry - clock.now())
    raise LockedException(
        f"{storage.url} is open for writing by {named(lock)}; close it there, wait until its lock runs out in "
        f"{left} s, or open it with read_only=True (lock file {lock_key(head)})"
    )


def named(lock: DatasetLock) -> str:
    """Describe the owner of a lock for messages."""
    age = max(0.0, clock.now() - (lock.expiry - config.LEASE_SECONDS))
    node = lock.node[::-1].hex(":")
    return f"process {lock.pid} on machine {node} (a writer of lakebed or of Deep Lake 3.x, last seen {age:.0f} s ago)"


def is_own(lock: DatasetLock) -> bool:
    """Return whether a lock belongs to this process."""
    from lakebed.documents.lock import DatasetLock

    own = DatasetLock.own(0.0)
    return (lock.node, lock.pid) == (own.node, own.pid)


def _is_in_the_way(lock: DatasetLock) -> bool:
    from lakebed.documents.lock import is_live_foreign

    return is_live_foreign(lock.to_bytes(), clock.now()) and not _owner_is_dead(lock)


def _owner_is_dead(lock: DatasetLock) -> bool:
    """Return whether the owner was a process of this machine that is dead, such as a killed writer of lakebed."""
    from lakebed.documents.lock import LOCK_SECONDS, DatasetLock

    if lock.node != DatasetLock.own(0.0).node or not 0 < lock.pid < 1 << 31:
        return False
    if lock.expiry - LOCK_SECONDS < clock.now() - _uptime() - 1.0:
        # The lock is older than the last boot, so its process id may now belong to another process.
        return True
    return not process_hooks.is_alive(lock.pid)


def _uptime() -> float:
    """Return the number of seconds since the machine started; a smaller number if the system does not report it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def release_lock(storage: Storage, head: str) -> None:
    """Remove the 3.x lock of a head that was published without a lease; if that fails, the lock expires.

    On stores without locks of their own, such a lock is written as released.
    """
    if not traits_of(storage).system_locks:
        return
    try:
        storage.delete(lock_key(head))
    except StorageError as error:
        import logging

        logging.getLogger(__name__).warning("a lock file of %s stays: %s", storage.url, error)
