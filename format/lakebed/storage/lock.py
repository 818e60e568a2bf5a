"""The writer's lock: one per branch, across processes and across the datasets of one process.

A local dataset is locked through `.lakebed/writer-<hash of branch>.lock`; the operating system frees the lock when the
process ends in any way. The file holds the owner as JSON, for the message that others see. The lock of a suspended
process can be seized: another file replaces the locked one, and the old holder finds that its lock is no longer intact.
"""

# Paths are strings throughout this package.
# ruff: noqa: PTH103, PTH108, PTH116, PTH120, PTH123
from __future__ import annotations

import json
import os
import threading
import weakref
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from lakebed.errors import LockedException
from lakebed.errors.stores import storage_error
from lakebed.runtime import clock, process_hooks
from lakebed.runtime.machine import boot_id, node_id
from lakebed.storage.base import place_of, traits_of
from lakebed.storage.files.disk import LockedFile, exclusive, lock_file

try:
    from _blake2 import blake2b  # `hashlib` would load OpenSSL, which local writes do not need otherwise
except ImportError:  # this interpreter lacks the module
    from hashlib import blake2b

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from lakebed.storage.base import Storage

_OWNER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of a lock: process id, host name, and the time since which it holds the lock (POSIX seconds).

    Parameters
    ----------
    node
        Machine as in 3.x lock files: the address of the network card (`machine.node_id`).
    boot
        Id of the kernel's present boot (`machine.boot_id`) in hex digits.
    """

    pid: int
    host: str
    since: float
    node: int = 0
    boot: str = ""

    @classmethod
    def me(cls) -> Owner:
        """Return this process as a holder that starts now."""
        return cls(os.getpid(), os.uname().nodename, clock.now(), node_id(), boot_id().hex())

    def to_bytes(self) -> bytes:
        """Return the content of the lock file."""
        fields = {"pid": self.pid, "host": self.host, "since": self.since, "node": self.node}
        return json.dumps({**fields, "boot": self.boot}).encode()

    def __str__(self) -> str:
        if self.pid == os.getpid() and self.host == os.uname().nodename:
            who = "this process"
        else:
            who = f"process {self.pid} on {self.host}"
        age = max(0, round(clock.now() - self.since))
        return f"{who} since {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M:%S} UTC, {age} s ago"


class _HeldLocks:
    """Locks that this process holds or is about to take, by url and branch."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._entries: dict[tuple[str, str], tuple[Owner, int, weakref.ref[WriterLock]]] = {}
        # Reentrant, because a garbage collection during its use may release another lock.
        self._mutex = threading.RLock()

    def enter(self, slot: tuple[str, str], owner: Owner, lock: WriterLock) -> Owner:
        """Return the owner of the slot: the given owner if the slot was free, else the earlier one."""
        mine = owner, threading.get_ident(), weakref.ref(lock)
        with self._mutex:
            found = self._entries.get(slot)
            if found is None or self._is_left(found):
                self._entries[slot] = found = mine
            return found[0]

    def _is_left(self, entry: tuple[Owner, int, weakref.ref[WriterLock]]) -> bool:
        """Tell whether an interrupt ended the call of this thread that was about to take the lock."""
        _, thread, reference = entry
        lock = reference()
        return lock is None or (not lock.held and thread == threading.get_ident())

    def leave(self, slot: tuple[str, str], lock: WriterLock) -> None:
        with self._mutex:
            found = self._entries.get(slot)
            if found is not None and found[2]() in (None, lock):
                del self._entries[slot]


_held_locks = _HeldLocks()
_all: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class WriterLock:
    """The right to write a branch of a dataset.

    Parameters
    ----------
    storage
        Storage of the dataset; its `url` names the lock.
    branch
        Name of the branch.

    Attributes
    ----------
    left
        Last owner: the lock file still names it, but the system freed the lock when that process ended.
    is_system_lock
        Whether the lock ends with its process; otherwise it separates only writers of this process.
    """

    def __init__(self, storage: Storage, branch: str) -> None:
        self.left: Owner | None = None
        self._file: LockedFile | None = None
        self._owner: Owner | None = None
        self._url = storage.url
        self._place = place_of(storage)
        self._branch = branch
        traits = traits_of(storage)
        self._folder = traits.folder if traits.system_locks else ""
        self.is_system_lock = traits.system_locks

    @property
    def held(self) -> bool:
        """True if this object holds the lock."""
        return self._owner is not None

    def was_left_by(self, pid: int, node: int) -> bool:
        """Tell whether a process of a machine held this lock before and has surely ended.

        The process ran under the same kernel, perhaps in another container, so the kernel would know if it still held
        the lock.
        """
        left = self.left
        return (
            self.held
            and left is not None
            and (left.pid, left.node) == (pid, node)
            and left.boot == boot_id().hex() != bytes(16).hex()
        )

    @property
    def is_intact(self) -> bool:
        """True if the lock that this object holds was not seized by another process."""
        if self._owner is None:
            return False
        if self._file is None:
            return True
        try:
            return os.fstat(self._file.fd).st_ino == os.stat(self._lock_path()).st_ino
        except OSError:
            return False

    def acquire(self, timeout: float = 0.0) -> None:
        """Take the lock within `timeout` seconds; no effect if this object already holds it.

        Raises
        ------
        LockedException
            If another writer holds it; the message names the owner.
        StorageError
            If the lock file cannot be written.
        """
        deadline = clock.monotonic() + timeout
        while not self.held:
            owner = self._try()
            if self.held:
                return
            if clock.monotonic() >= deadline:
                raise self._refusal(owner)
            clock.sleep(0.02)

    def _refusal(self, owner: Owner | None) -> LockedException:
        by = str(owner) if owner else "another process"
        return LockedException(
            f"branch {self._branch!r} of {self._url} is locked for writing by {by};"
            " wait until it is closed, or open it with read_only=True"
        )

    def seize(self, is_stale: Callable[[Owner], bool]) -> None:
        """Take the lock from a process that holds it but is suspended.

        Parameters
        ----------
        is_stale
            Tells whether the lock may be taken from this owner; called while no other process can seize it.

        Raises
        ------
        LockedException
            If the lock may not be taken, or its owner is unknown or is this process.
        """
        if not self._folder:
            raise self._refusal(self._try())
        path = self._lock_path()
        with exclusive(f"{os.path.dirname(path)}/seize.lock"):
            owner = self._try()
            if self.held:
                return
            is_mine = owner is not None and (owner.pid, owner.host) == (os.getpid(), os.uname().nodename)
            if owner is None or is_mine or not is_stale(owner):
                raise self._refusal(owner)
            try:
                os.unlink(path)
            except OSError as error:
                raise storage_error(error, "seize", path) from error
            owner = self._try()
            if not self.held:
                raise self._refusal(owner)

    def release(self) -> None:
        """Release the lock; no effect if it is not held."""
        file, owner, slot = self._file, self._owner, (self._place, self._branch)
        if file is not None:
            # Unlock the file, because a child that was forked meanwhile may keep it open; but never unlock it from the
            # child.
            if owner is None or owner.pid == os.getpid():
                file.unlock()
            else:
                file.close()
        _all.discard(self)
        _held_locks.leave(slot, self)
        self._file = self._owner = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def abandon(self) -> None:
        """Forget the lock without freeing it: the parent process still holds it."""
        if self._file is not None:
            self._file.close()
        self._file = self._owner = None

    def _try(self) -> Owner | None:
        """Take the lock if it is free; otherwise return its owner, None if unknown."""
        me = Owner.me()
        slot = self._place, self._branch
        try:
            # On some file systems, a process can lock a file twice through two openings, so check this table, too.
            other = _held_locks.enter(slot, me, self)
            if other is not me:
                return other
            if self._folder:
                path = self._lock_path()
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._file = lock_file(path)
                if self._file is None:
                    return _read_owner(path)
                fd = self._file.fd
                self.left = _owner(os.pread(fd, _OWNER_BYTES, 0))
                os.ftruncate(fd, 0)
                os.pwrite(fd, me.to_bytes(), 0)
            _all.add(self)
            self._owner = me
        except OSError as error:
            raise storage_error(error, "lock", self._lock_path()) from error
        else:
            return me
        finally:
            if self._owner is not me:
                self.release()

    def _lock_path(self) -> str:
        name = blake2b(self._branch.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return f"{self._folder.rstrip('/')}/.lakebed/writer-{name}.lock"


def _read_owner(path: str) -> Owner | None:
    """Return the owner in a lock file; None if it cannot be read, since the text is only for people."""
    try:
        with open(path, "rb") as file:
            return _owner(file.read(_OWNER_BYTES))
    except OSError:
        return None


def _owner(text: bytes) -> Owner | None:
    try:
        found = json.loads(text)
        node, boot = int(found.get("node", 0)), str(found.get("boot", ""))
        return Owner(int(found["pid"]), str(found["host"]), float(found["since"]), node, boot)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _forget_in_child() -> None:
    """Drop the parent's locks in a forked child, which must not keep them alive."""
    _held_locks.reset()
    for lock in list(_all):
        lock.abandon()


process_hooks.after_fork(_forget_in_child)
