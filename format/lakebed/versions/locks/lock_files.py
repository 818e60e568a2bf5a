"""The lock files of one writer, in the folders of its head and its unpublished version.

There are two kinds. Where the operating system has locks, the files only keep out Deep Lake 3.9.52, and are removed at
the end. On a store they are the lock: each is replaced on condition that it is still the one that was written last, so
that a takeover is never overwritten, and nothing has to be read first. When the writer ends, the files stay, marked as
released, to show that 3.9.52 has not opened the head since (``lakebed.versions.locks.marker``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from lakebed import config
from lakebed.documents.lock import DatasetLock
from lakebed.errors import KeyNotFound, LockedException, PreconditionFailed, StorageError
from lakebed.runtime import clock
from lakebed.storage.base import Storage, is_conditional, traits_of
from lakebed.storage.concurrently import concurrently
from lakebed.versions.locks.marker import LockFile, is_own, lock_file, lock_key, named, own_lock, read_lock

CONFIRM_SECONDS = 0.5
"""Seconds after which a writer reads its lock file again, on a store without conditional writes, as 3.9.52 does."""


class LockFiles(Protocol):
    """The lock files of one writer; not thread-safe."""

    def enter(self, head: str, found: LockFile) -> None:
        """Write our lock into a head's folder, in place of the lock file ``found``; forget our locks in other folders.

        Raises
        ------
        LockedException
            If another writer was faster.
        """

    def add(self, version: str) -> None:
        """Write our lock into the folder of an unpublished version."""

    def publish(self, version: str, digest: str, *, leaving: bool) -> None:
        """Write our lock, with the manifest's digest, into the folder of a version that is about to become the head.

        Parameters
        ----------
        leaving
            Write the lock as released, because the writer ends after this publish.
        """

    def moved(self, head: str) -> None:
        """Record the published head; the locks in other folders are no longer needed."""

    def lost(self, *, strictly: bool) -> str:
        """Return why these locks were lost; "" if they are still ours.

        Parameters
        ----------
        strictly
            Read the lock files even if they cannot have been replaced yet.
        """

    def renew(self) -> str:
        """Renew the locks unless they were lost; return as :meth:`lost` does."""

    def release(self) -> None:
        """Release the locks; failures are only logged, because locks expire."""

    def forget(self) -> None:
        """Forget all locks without touching the storage."""


def lock_files_of(storage: Storage, branch: str) -> LockFiles:
    """Return the lock files of a branch's writer."""
    return (
        _PlainLockFiles(storage)
        if traits_of(storage).system_locks
        else _ConditionalLockFiles(storage, branch)
    )


class _PlainLockFiles:
    """Lock files for 3.9.52 only; lakebed uses the lock of the operating system."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._versions: dict[str, None] = {}

    def enter(self, head: str, found: LockFile) -> None:  # noqa: ARG002
        self._storage.put(*lock_file(head))
        self._versions = {head: None}

    def add(self, version: str) -> None:
        self._storage.put(*lock_file(version))
        self._versions[version] = None

    def publish(self, version: str, digest: str, *, leaving: bool) -> None:
        """Do nothing: a publish writes the lock itself, before all other files."""

    def moved(self, head: str) -> None:
        old = [version for version in self._versions if version != head]
        self._versions = {head: None}
        self._remove(old)

    def lost(self, *, strictly: bool) -> str:  # noqa: ARG002
        for version in self._versions:
            lock = read_lock(self._storage, version).lock
            if lock is not None and not is_own(lock):
                return f"{named(lock)} has locked it meanwhile"
        return ""

    def renew(self) -> str:
        why = self.lost(strictly=True)
        if not why:
            files = [lock_file(version) for version in self._versions]
            # The lock need not survive a power cut, because the writer that holds it would not survive either.
            self._storage.put_many(files, durable=False)
        return why

    def release(self) -> None:
        old, self._versions = list(self._versions), {}
        self._remove(old)

    def forget(self) -> None:
        self._versions = {}

    def _remove(self, versions: Iterable[str]) -> None:
        for version in versions:
            try:
                self._storage.delete(lock_key(version))
            except StorageError as error:  # if the lock cannot be removed, it expires
                import logging

                logging.getLogger(__name__).warning("a lock file of %s stays: %s", self._storage.url, error)


@dataclass(frozen=True, slots=True)
class _Written:
    """A lock file as this process wrote it, and the time by the monotonic clock."""

    etag: str
    lock: DatasetLock
    at: float

    @property
    def is_fresh(self) -> bool:
        """Return whether the file is so recent that no writer can consider it expired, if clocks agree roughly."""
        half = config.LEASE_SECONDS / 2
        return self.lock.expiry - clock.now() > half and clock.monotonic() - self.at < half


def _why(found: LockFile) -> str:
    """Return how a lock of ours was lost, for messages."""
    return (
        "its lock file is missing" if found.lock is None else f"{named(found.lock)} has locked it meanwhile"
    )


class _ConditionalLockFiles:
    """Lock files that are the lock itself, on a store with conditional puts."""

    def __init__(self, storage: Storage, branch: str) -> None:
        self._storage = storage
        self._branch = branch
        self._written: dict[str, _Written | None] = {}
        self._next: dict[str, _Written] = {}

    def enter(self, head: str, found: LockFile) -> None:
        try:
            # Write the digest that was found. If 3.9.52 has opened the version since its publish, the digest is
            # missing, and must stay missing.
            mine = self._write(head, own_lock(found.digest), found.etag)
            confirm(self._storage, lock_key(head), mine.lock.to_bytes())
            self._written = {head: mine}
        except PreconditionFailed as error:
            raise LockedException(
                f"branch {self._branch!r} of {self._storage.url} was locked by another writer just now; try again"
            ) from error

    def add(self, version: str) -> None:
        lock, now = own_lock(), clock.monotonic()
        etag = self._storage.put(lock_key(version), lock.to_bytes())
        self._written[version] = _Written(etag, lock, now)

    def publish(self, version: str, digest: str, *, leaving: bool) -> None:
        lock, now = own_lock(digest), clock.monotonic()
        if leaving:
            lock = lock.released()
        # Do not renew the lock until its version is the head: a renewal would expect the file that `add` wrote.
        self._written.pop(version, None)
        etag = self._storage.put(lock_key(version), lock.to_bytes())
        self._next[version] = _Written(etag, lock, now)

    def moved(self, head: str) -> None:
        # Leave the lock of the previous head until it expires, to keep out writers that know only that head.
        self._written, self._next = {head: self._next.get(head)}, {}

    def lost(self, *, strictly: bool) -> str:
        if not strictly and all(found is not None and found.is_fresh for found in self._written.values()):
            return "" if is_conditional(self._storage) else self._check_stored()
        return self.renew()

    def _check_stored(self) -> str:
        """Read the locks again, if the store cannot exclude two writers that lock at the same time."""
        for version, known in self._written.items():
            found = read_lock(self._storage, version)
            if known is None or found.etag != known.etag:
                return _why(found)
        return ""

    def renew(self) -> str:
        for version, known in self._written.items():
            before = known or self._found(version)
            if before is None:
                return _why(read_lock(self._storage, version))
            lock = own_lock(before.lock.digest)
            try:
                self._written[version] = self._write(version, lock, before.etag)
            except PreconditionFailed:
                # The answer to an earlier write may have been lost: in that case the file is our own, with another
                # etag.
                now = self._found(version)
                if now is None or now.lock.digest != lock.digest:
                    return _why(read_lock(self._storage, version))
                self._written[version] = self._write(version, lock, now.etag)
        return ""

    def release(self) -> None:
        written, self._written = self._written, {}
        concurrently([partial(self._release, version, known) for version, known in written.items()])

    def _release(self, version: str, known: _Written | None) -> None:
        try:
            before = known or self._found(version)
            if before is not None and not before.lock.is_released:
                self._write(version, before.lock.released(), before.etag)
        except PreconditionFailed:
            pass  # another writer has taken over and has its own lock
        except StorageError as error:  # if the lock cannot be released, it expires
            import logging

            logging.getLogger(__name__).warning("a lock file of %s stays: %s", self._storage.url, error)

    def forget(self) -> None:
        self._written, self._next = {}, {}

    def _found(self, version: str) -> _Written | None:
        """Return a stored lock file of ours; None if it is missing or belongs to another writer."""
        found = read_lock(self._storage, version)
        if found.etag is None or found.lock is None or not is_own(found.lock):
            return None
        return _Written(found.etag, found.lock, clock.monotonic())

    def _write(self, version: str, lock: DatasetLock, etag: str | None) -> _Written:
        data, now = lock.to_bytes(), clock.monotonic()
        try:
            written = self._storage.put_if(lock_key(version), data, etag)
        except PreconditionFailed:
            found = read_lock(self._storage, version)
            if found.etag is None or found.data != data:
                raise
            written = found.etag  # an earlier attempt succeeded, but its answer was lost
        return _Written(written, lock, now)


def confirm(storage: Storage, key: str, data: bytes) -> None:
    """Verify that a lock file is still the one just written; no effect on stores with conditional puts.

    Two writers that find a lock free at the same moment both write a lock file, and the second file replaces the first.
    After a pause much longer than a request, each writer reads the file: one finds its own lock, the other gives up
    (format.md 14; Deep Lake 3.9.52 does so on every store).

    Raises
    ------
    PreconditionFailed
        If another writer replaced it.
    """
    if is_conditional(storage):
        return
    clock.sleep(CONFIRM_SECONDS)
    try:
        found = storage.get(key)
    except KeyNotFound:
        found = b""
    if found != data:
        raise PreconditionFailed(f"{key!r} in {storage.url} was written by another writer at the same time")
