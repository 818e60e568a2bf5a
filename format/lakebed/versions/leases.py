"""The lock file of 3.x in a head's folder: who writes a branch (FORMAT.md 14)."""

from __future__ import annotations

import os

from lakebed import clock
from lakebed.documents.lock import DatasetLock, is_live_foreign
from lakebed.errors import KeyNotFound, LockedException
from lakebed.storage.base import Data, Storage
from lakebed.versions.state import folder_of

LOCK_NAME = "dataset_lock.lock"


def lock_file(head: str) -> tuple[str, Data]:
    """Return key and content of this process's lock of a head."""
    return f"{folder_of(head)}{LOCK_NAME}", DatasetLock.own(clock.now()).to_bytes()


def check_foreign_lock(storage: Storage, head: str) -> None:
    """Refuse to write while a Deep Lake 3.x process has the head open for writing (FORMAT.md 14).

    Raises
    ------
    LockedException
        If its lock is live.
    """
    key = f"{folder_of(head)}{LOCK_NAME}"
    try:
        data = storage.get(key)
    except KeyNotFound:
        return
    if is_live_foreign(data, clock.now()) and not _owner_is_dead(data):
        raise LockedException(
            f"{storage.url} is open for writing by a Deep Lake 3.x process (lock file {key}); "
            "close it there, or wait until its lock runs out after at most 5 minutes"
        )


def _owner_is_dead(data: bytes) -> bool:
    """Whether the lock was left by a process of this machine that is gone, as a killed writer of ours leaves it."""
    lock, own = DatasetLock.from_bytes(data), DatasetLock.own(clock.now())
    if lock.node != own.node:
        return False
    try:
        os.kill(lock.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def hold_lock(storage: Storage, head: str) -> None:
    """Write the 3.x lock of a head, so that a Deep Lake 3.x writer stays out (FORMAT.md 14)."""
    storage.put(f"{folder_of(head)}{LOCK_NAME}", DatasetLock.own(clock.now()).to_bytes())


def release_lock(storage: Storage, head: str) -> None:
    """Remove the 3.x lock of a head."""
    storage.delete(f"{folder_of(head)}{LOCK_NAME}")
