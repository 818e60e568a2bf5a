"""The right to write a branch: one writer at a time, kept alive by a thread, never silently lost.

A lease consists of two locks. The writer's lock (``lakebed.storage.lock``) keeps out other processes of lakebed, where
the operating system has locks. The 3.x lock file in the head's folder (format.md 14) keeps out Deep Lake 3.9.52, and on
stores without locks also lakebed; it expires unless it is renewed. A writer that takes over from one that may still
live raises the branch's fence in the version tree, so that the former cannot publish any more.
"""

from __future__ import annotations

import threading

from lakebed import config
from lakebed.documents.lock import DatasetLock
from lakebed.errors import LeaseLost, LockedException, StorageError
from lakebed.runtime import clock, process_hooks
from lakebed.runtime.failures import OnFailure
from lakebed.storage.base import Storage
from lakebed.storage.concurrently import concurrently
from lakebed.storage.lock import Owner, WriterLock
from lakebed.versions.locks.lock_files import lock_files_of
from lakebed.versions.locks.marker import LockFile, check_foreign_lock, is_own, lock_key, read_lock
from lakebed.versions.swap import TreeAt, read_tree_at, swap
from lakebed.versions.tree_file import TREE_KEY
from lakebed.versions.updates import RaiseFence, apply

# Seconds between two attempts to become the writer. The pause grows to _LONGEST_PAUSE, because on a store an attempt
# takes two requests.
_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
# Maximum number of attempts to lock a head; an attempt fails if the head is replaced in the meantime.
_ATTEMPTS = 20


class _Overtaken(LockedException):
    """Error for a head that was replaced while its lock was being taken; the lock of the new head may be free."""


class Lease:
    """Right to write one branch, from :meth:`acquire` to :meth:`release`.

    Parameters
    ----------
    storage
        Storage of the dataset.
    branch
        Name of the branch.
    """

    def __init__(self, storage: Storage, branch: str) -> None:
        self._storage = storage
        self._branch = branch
        self._lock = WriterLock(storage, branch)
        self._mutex = threading.Lock()
        self._lock_files = lock_files_of(storage, branch)
        self._lost = ""
        self._written = 0.0  # time of the monotonic clock at which the lock files were written
        self.took_over = False  # true if the previous writer ended without releasing its lease
        self.found = LockFile()  # the head's lock file as it was before this lease

    @property
    def branch(self) -> str:
        """Name of the branch."""
        return self._branch

    def acquire(
        self, timeout: float = 0.0, *, expected: str | None = None, known: TreeAt | None = None
    ) -> TreeAt:
        """Become the writer and return the current version tree.

        Parameters
        ----------
        expected
            The most likely head, whose lock is read at the same time as the tree.
        known
            The tree, if it was read earlier.

        Raises
        ------
        LockedException
            If another writer is at work and does not end within ``timeout`` seconds; the message names it.
        """
        deadline = clock.monotonic() + timeout
        attempts, pause = 0, min(_PAUSE, timeout)
        while True:
            try:
                return self._acquire(expected, known)
            except _Overtaken as error:
                attempts += 1
                if attempts < _ATTEMPTS:
                    continue
                raise LockedException(*error.args) from error
            except LockedException:
                if clock.monotonic() >= deadline:
                    raise
            if self._lock.is_system_lock:
                clock.sleep(pause)
            else:
                clock.sleep(clock.chance().uniform(pause / 2, pause))
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _acquire(self, expected: str | None, known: TreeAt | None) -> TreeAt:
        seized = False
        try:
            self._lock.acquire()
        except LockedException:
            if not self._lock.is_system_lock:
                raise
            self._lock.seize(self._is_stale)
            seized = True
        with OnFailure(self._lock_files.forget), OnFailure(self._lock.release):
            at, found = self._read(expected, known)
            head = at.tree.head(self._branch).id
            expired = self._enter(head, found)
            self.took_over = seized or expired
            if seized or (expired and not self._lock.is_system_lock):
                at = self._fence(at)
                now = at.tree.head(self._branch).id
                if now != head:  # the previous writer has published once more before the fence
                    self._enter(now, None)
                    self._storage.delete(lock_key(head))
        self._lost, self._written = "", clock.monotonic()
        _renewer.add(self)
        return at

    def _read(self, expected: str | None, known: TreeAt | None) -> tuple[TreeAt, LockFile | None]:
        """Return the tree, and the lock file of its head if that is the expected one."""
        if expected is None or self._lock.is_system_lock:
            return read_tree_at(self._storage, known), None
        trees: list[TreeAt] = []
        locks: list[LockFile] = []
        concurrently(
            [
                lambda: trees.append(read_tree_at(self._storage, known)),
                lambda: locks.append(read_lock(self._storage, expected)),
            ]
        )
        at = trees[0]
        return at, locks[0] if at.tree.head(self._branch).id == expected else None

    def _is_stale(self, owner: Owner) -> bool:
        """Return whether the owner has not renewed its lock file in the head's folder in time."""
        head = read_tree_at(self._storage).tree.head(self._branch).id
        lock = read_lock(self._storage, head).lock
        return lock is not None and lock.pid == owner.pid and lock.expiry <= clock.now()

    def _enter(self, head: str, found: LockFile | None) -> bool:
        """Write our lock into a head's folder; return whether it replaced an expired lock."""
        found = found or read_lock(self._storage, head)
        try:
            if not self._is_left(found.lock):
                check_foreign_lock(self._storage, head, found.lock)
            self._lock_files.enter(head, found)
        except LockedException as error:
            if not self._lock.is_system_lock:
                self._check_current(head, error)
            raise
        self.found = found
        return found.lock is not None and not is_own(found.lock) and not found.lock.is_released

    def _is_left(self, lock: DatasetLock | None) -> bool:
        """Return whether a lock file belongs to the dead writer whose lock the operating system released."""
        return lock is not None and self._lock.was_left_by(lock.pid, int.from_bytes(lock.node, "little"))

    def _check_current(self, head: str, error: LockedException) -> None:
        """Raise `_Overtaken` if the branch has another head by now, so that the lock of ``head`` does not matter."""
        if read_tree_at(self._storage).tree.branches.get(self._branch) not in (None, head):
            raise _Overtaken(*error.args) from error

    def _fence(self, at: TreeAt) -> TreeAt:
        updates = [RaiseFence(self._branch)]
        return swap(self._storage, at, updates, apply(at.tree, updates))

    def protect(self, version_id: str) -> None:
        """Write a lock file into the folder of an unpublished version, so that no collector takes it for garbage."""
        with self._mutex:
            self._lock_files.add(version_id)

    def publish(self, version_id: str, digest: str, *, leaving: bool = False) -> None:
        """Write a lock file for a version that is about to become the head; see :meth:`LockFiles.publish`."""
        with self._mutex:
            self._lock_files.publish(version_id, digest, leaving=leaving)

    def moved(self, head: str) -> None:
        """Record the new head, whose folder has our lock file already; remove our lock files in other folders."""
        with self._mutex:
            self._lock_files.moved(head)
            self._written = clock.monotonic()

    def check(self) -> None:
        """Check, before a publish, that this process is still the writer.

        Raises
        ------
        LeaseLost
            If another writer took over.
        """
        with self._mutex:
            self._note(self._lock_files.lost(strictly=False))
        if self._lost:
            if self._storage.stat(TREE_KEY) is None:
                raise LeaseLost(
                    f"{self._storage.url} was deleted while this process was writing it. Unpublished changes are "
                    "lost; create it anew, and repeat the changes."
                )
            raise LeaseLost(
                f"{self._lost}: this writer of branch {self._branch!r} of {self._storage.url} did not renew its lease "
                "in time. Nothing of this publish is visible. Open the dataset again and repeat the change."
            )

    def _note(self, why: str) -> None:
        if not self._lock.is_intact:
            why = "another process has seized the lock"
        self._lost = self._lost or why

    @property
    def is_due(self) -> bool:
        """Return whether the lock files must be renewed now."""
        return abs(clock.monotonic() - self._written) >= config.LEASE_SECONDS / 8

    def renew(self) -> None:
        """Renew the lock files; called by a thread at intervals."""
        with self._mutex:
            try:
                if not self._lost and self._lock.is_intact:
                    self._note(self._lock_files.renew())
                    self._written = clock.monotonic()
            except StorageError as error:
                import logging

                logging.getLogger(__name__).warning(
                    "the lease of %s of %s was not renewed: %s", self._branch, self._storage.url, error
                )

    def release(self) -> None:
        """End the lease, so that others can write; no effect if it is not held."""
        _renewer.remove(self)
        try:
            with self._mutex:
                if self._lost or not self._lock.held:
                    self._lock_files.forget()
                else:
                    self._lock_files.release()
        finally:
            self._lock.release()  # runs even if Ctrl-C interrupts the requests to the store

    def forget(self) -> None:
        """End the lease without touching the storage, as the end of the process does."""
        _renewer.remove(self)
        self._lock_files.forget()
        self._lock.release()


class _Renewer:
    """The thread that renews all leases of this process."""

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
                # The interpreter is exiting and cannot start threads; it exits before the lease needs a renewal.
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
                if lease.is_due:
                    lease.renew()

    def renew_all(self) -> None:
        """Renew all leases at once, as the thread does."""
        with self._mutex:
            leases = list(self._leases.values())
        for lease in leases:
            lease.renew()


_renewer = _Renewer()


def renew_all() -> None:
    """Renew all leases of this process now, without waiting for the thread."""
    _renewer.renew_all()


process_hooks.after_fork(_renewer.reset)
