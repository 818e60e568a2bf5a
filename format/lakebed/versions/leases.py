"""The right to write a branch: one writer at a time, kept alive by a thread, never silently lost.

Two locks make a lease. The writer's lock (``lakebed.storage.lock``) keeps other processes of ours out where the
operating system guards it. The 3.x lock file in the head's folder (FORMAT.md 14) keeps Deep Lake 3.9.52 out, and ours
where there is no other lock; it runs out when nobody renews it. Whoever takes over from a writer that may still live
raises the branch's fence in the version tree, so that this one can not publish any more.
"""

from __future__ import annotations

import logging
import os
import threading
import time

from lakebed import clock, config
from lakebed.documents.lock import LOCK_SECONDS, DatasetLock, is_live_foreign
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import (
    FormatError,
    KeyNotFound,
    LeaseLost,
    LockedException,
    PreconditionFailed,
    StorageError,
)
from lakebed.storage.base import Data, Storage
from lakebed.storage.lock import Owner, WriterLock
from lakebed.versions.fences import with_fence
from lakebed.versions.state import folder_of
from lakebed.versions.swap import TreeAt, read_tree_at, swap

LOCK_NAME = "dataset_lock.lock"

_log = logging.getLogger(__name__)


def lock_key(version_id: str) -> str:
    """Return the storage key of the lock file in a version's folder."""
    return f"{folder_of(version_id)}{LOCK_NAME}"


def own_lock() -> bytes:
    """Return what this process writes into lock files now."""
    return DatasetLock.own(clock.now(), config.LEASE_SECONDS).to_bytes()


def lock_file(head: str) -> tuple[str, Data]:
    """Return key and content of this process's lock of a head."""
    return lock_key(head), own_lock()


class Lease:
    """Right to write one branch, from :meth:`acquire` to :meth:`release`.

    Parameters
    ----------
    storage
        Where the dataset lies.
    branch
        Name of the branch.
    """

    def __init__(self, storage: Storage, branch: str) -> None:
        self._storage = storage
        self._branch = branch
        self._lock = WriterLock(storage, branch)
        self._mutex = threading.Lock()
        # Versions whose folder has our lock file: the head, and a draft that has written chunks.
        self._guarded: dict[str, None] = {}
        self._lost = ""
        self.found_traces = False  # whether a writer before this one ended without a farewell

    @property
    def branch(self) -> str:
        """Name of the branch."""
        return self._branch

    def acquire(self, timeout: float = 0.0) -> TreeAt:
        """Become the writer and return the version tree to go on from.

        Raises
        ------
        LockedException
            If another writer is at work and does not end within ``timeout`` seconds; the message names it.
        """
        deadline = clock.monotonic() + timeout
        while True:
            try:
                return self._acquire()
            except LockedException:
                if clock.monotonic() >= deadline:
                    raise
            clock.sleep(min(0.05, timeout))

    def _acquire(self) -> TreeAt:
        seized = False
        try:
            self._lock.acquire()
        except LockedException:
            if not self._lock.frees_itself:
                raise
            self._lock.seize(self._is_stale)
            seized = True
        try:
            at = read_tree_at(self._storage)
            head = at.tree.head(self._branch).id
            expired = self._enter(head)
            self.found_traces = seized or expired
            if seized or (expired and not self._lock.frees_itself):
                at = self._fence(at)
                now = at.tree.head(self._branch).id
                if now != head:  # the other one was faster this last time
                    self._enter(now)
                    self._storage.delete(lock_key(head))
                    head = now
        except BaseException:
            self._lock.release()
            raise
        self._guarded = {head: None}
        self._lost = ""
        _keeper.add(self)
        return at

    def _is_stale(self, owner: Owner) -> bool:
        """Whether the lock file of the head says that its writer has not been seen for too long."""
        head = read_tree_at(self._storage).tree.head(self._branch).id
        found = _read(self._storage, lock_key(head))
        return found is not None and found.pid == owner.pid and found.expiry <= clock.now()

    def _enter(self, head: str) -> bool:
        """Put our lock into a head's folder; tell whether one that ran out was there."""
        key = lock_key(head)
        stat = self._storage.stat(key)
        found = None if stat is None else _read(self._storage, key)
        check_foreign_lock(self._storage, head, found)
        if self._lock.frees_itself:
            self._storage.put(key, own_lock())
        else:
            try:
                self._storage.put_if(key, own_lock(), None if stat is None else stat.etag)
            except PreconditionFailed as error:
                raise LockedException(
                    f"branch {self._branch!r} of {self._storage.url} was locked by another writer just now; try again"
                ) from error
        return found is not None and not _is_own(found)

    def _fence(self, at: TreeAt) -> TreeAt:
        def edit(tree: VersionTree) -> VersionTree:
            return with_fence(tree, self._branch)

        return swap(self._storage, at, edit, edit(at.tree), {})

    def guard(self, version_id: str) -> None:
        """Mark the folder of a version in the making, so that nobody takes it for garbage."""
        with self._mutex:
            self._storage.put(*lock_file(version_id))
            self._guarded[version_id] = None

    def moved(self, head: str) -> None:
        """Go on with a new head, whose folder has our lock file already; those of others are removed."""
        with self._mutex:
            old = [version for version in self._guarded if version != head]
            self._guarded = {head: None}
        self._remove(old)

    def check(self) -> None:
        """Make sure, before a publish, that this is still the writer.

        Raises
        ------
        LeaseLost
            If another one took over.
        """
        with self._mutex:
            self._look()
        if self._lost:
            raise LeaseLost(
                f"{self._lost}: this writer of branch {self._branch!r} of {self._storage.url} did not renew its lease "
                "in time. Nothing of this publish is visible. Open the dataset again and repeat the change."
            )

    def _look(self) -> list[str]:
        """Return the lock files that are to be renewed; note if the lease is lost."""
        if not self._lock.is_intact:
            self._lost = self._lost or "another process has seized the lock"
        for version in self._guarded:
            found = _read(self._storage, lock_key(version))
            if found is not None and not _is_own(found):
                self._lost = self._lost or f"{_named(found)} has locked it meanwhile"
        return [] if self._lost else list(self._guarded)

    def renew(self) -> None:
        """Write the lock files anew; called by a thread every now and then."""
        with self._mutex:
            try:
                files = [lock_file(version) for version in self._look()]
                self._storage.put_many(files, durable=False)  # after a power cut there is nothing to guard
            except StorageError as error:
                _log.warning(
                    "the lease of %s of %s was not renewed: %s", self._branch, self._storage.url, error
                )

    def release(self) -> None:
        """Let others write; no effect if it is not held."""
        _keeper.remove(self)
        with self._mutex:
            guarded, self._guarded = list(self._guarded), {}
        if not self._lost and self._lock.held:
            self._remove(guarded)
        self._lock.release()

    def forget(self) -> None:
        """Let go without touching the storage, as the end of the process does."""
        _keeper.remove(self)
        self._guarded = {}
        self._lock.release()

    def _remove(self, versions: list[str]) -> None:
        for version in versions:
            try:
                self._storage.delete(lock_key(version))
            except StorageError as error:  # it runs out by itself
                _log.warning("a lock file of %s stays: %s", self._storage.url, error)


class _Keeper:
    """One thread per process that renews the leases which this process holds."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._leases: dict[int, Lease] = {}
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def add(self, lease: Lease) -> None:
        with self._mutex:
            self._leases[id(lease)] = lease
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="lakebed-leases", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # At the exit of the interpreter no thread starts any more, and nothing lasts long enough to need one.
                return
            self._thread = thread

    def remove(self, lease: Lease) -> None:
        with self._mutex:
            self._leases.pop(id(lease), None)

    def _run(self) -> None:
        while True:
            self._wake.wait(config.LEASE_SECONDS / 4)
            with self._mutex:
                leases = list(self._leases.values())
                if not leases:
                    self._thread = None
                    return
            for lease in leases:
                lease.renew()

    def renew_all(self) -> None:
        """Renew at once what is held, as the thread does."""
        with self._mutex:
            leases = list(self._leases.values())
        for lease in leases:
            lease.renew()


_keeper = _Keeper()


def renew_all() -> None:
    """Renew all leases of this process at once; a thread does it in good time by itself."""
    _keeper.renew_all()


def live_owner(storage: Storage, head: str) -> str | None:
    """Return who writes a branch at the moment, in words; None if nobody but this process does."""
    found = _read(storage, lock_key(head))
    if found is None or not is_live_foreign(found.to_bytes(), clock.now()) or _owner_is_dead(found):
        return None
    return _named(found)


def is_at_work(storage: Storage, version: str) -> bool:
    """Whether a writer that may live, of this process or another, has its lock in a version's folder."""
    found = _read(storage, lock_key(version))
    return found is not None and found.expiry > clock.now() and not _owner_is_dead(found)


def check_foreign_lock(storage: Storage, head: str, found: DatasetLock | None = None) -> None:
    """Refuse to write while another process has the head open for writing (FORMAT.md 14).

    Raises
    ------
    LockedException
        If its lock is live.
    """
    found = found or _read(storage, lock_key(head))
    if found is None or not is_live_foreign(found.to_bytes(), clock.now()) or _owner_is_dead(found):
        return
    left = round(found.expiry - clock.now())
    raise LockedException(
        f"{storage.url} is open for writing by {_named(found)}; close it there, wait until its lock runs out in "
        f"{left} s, or open it with read_only=True (lock file {lock_key(head)})"
    )


def _named(lock: DatasetLock) -> str:
    age = max(0.0, clock.now() - (lock.expiry - config.LEASE_SECONDS))
    node = lock.node[::-1].hex(":")
    return f"process {lock.pid} on machine {node} (a writer of ours or of Deep Lake 3.x, last seen {age:.0f} s ago)"


def _read(storage: Storage, key: str) -> DatasetLock | None:
    """Read a lock file; None if there is none, or it was cut short when it was written."""
    try:
        return DatasetLock.from_bytes(storage.get(key))
    except (KeyNotFound, FormatError):
        return None


def _is_own(lock: DatasetLock) -> bool:
    own = DatasetLock.own(0.0)
    return (lock.node, lock.pid) == (own.node, own.pid)


def _owner_is_dead(lock: DatasetLock) -> bool:
    """Whether the lock was left by a process of this machine that is gone, as a killed writer of ours leaves it."""
    if lock.node != DatasetLock.own(0.0).node or not 0 < lock.pid < 1 << 31:
        return False
    if lock.expiry - LOCK_SECONDS < clock.now() - _uptime() - 1.0:
        return True  # taken before this machine started: the process number may belong to another one by now
    try:
        os.kill(lock.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _uptime() -> float:
    """Return seconds since the machine started, or less where the system does not tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def release_lock(storage: Storage, head: str) -> None:
    """Remove the 3.x lock of a head that is published; one that stays runs out by itself."""
    try:
        storage.delete(lock_key(head))
    except StorageError as error:
        _log.warning("a lock file of %s stays: %s", storage.url, error)


os.register_at_fork(after_in_child=_keeper.reset)
