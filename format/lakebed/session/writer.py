"""Writing of one branch: the writer's lock, publishing, and checks whether an interrupted publish succeeded."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lakebed.documents.version_tree import FIRST, new_id
from lakebed.errors import (
    CommitFailed,
    CommitStateUnknown,
    DatasetCorruptError,
    InvalidOperationError,
    LockedException,
    ReadOnlyModeError,
    StorageError,
)
from lakebed.reading.fetch import ChunkSource
from lakebed.runtime.failures import OnFailure
from lakebed.session.checkout import Checkout
from lakebed.session.process import finalizer, open_sessions
from lakebed.storage.base import Data, Storage, pieces, traits_of
from lakebed.versions.foreign_writes import is_as_read
from lakebed.versions.state import Snapshot, TensorState, contradiction
from lakebed.versions.tree_file import TreeAt, read_tree_at

if TYPE_CHECKING:
    from lakebed.versions.locks.leases import Lease
    from lakebed.versions.updates import Updates
    from lakebed.writing.draft.draft import Draft

_SMALL = 256 * 1024
_MOST_BYTES = 16 * 1024 * 1024


class TailCache:
    """Cache of the small last chunks of tensors that a writer has published or read.

    The next publish packs the samples of these chunks together with new samples. Without the cache, it would first read
    one chunk of every tensor. Not thread-safe.

    Parameters
    ----------
    storage
        Storage of the dataset.
    source
        Reads and verifies chunks.
    """

    def __init__(self, storage: Storage, source: ChunkSource) -> None:
        self._source = source
        self._is_remote = not traits_of(storage).local
        self._kept: OrderedDict[str, bytes | memoryview] = OrderedDict()
        self._bytes = 0

    def read(self, state: TensorState, row: int) -> bytes | memoryview:
        """Return the content of the chunk file that a row of a tensor's chunk table names."""
        key = state.table.key(row)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        data = self._source.file(state.table, row, pooled=True)
        self._keep(key, data)
        return data

    def fetch(self, wanted: Callable[[], Iterable[tuple[TensorState, int]]]) -> None:
        """If the storage is remote, read the chunks that the next publish needs concurrently."""
        if not self._is_remote:
            return
        from lakebed.storage.concurrently import concurrently

        missing = [(state, row) for state, row in wanted() if state.table.key(row) not in self._kept]
        if len(missing) > 1:
            found = concurrently([partial(self._source.file, state.table, row) for state, row in missing])
            for (state, row), data in zip(missing, found, strict=True):
                self._keep(state.table.key(row), data)

    def published(self, snapshot: Snapshot, chunks: Mapping[str, Data]) -> None:
        """Keep the last chunk of each tensor if this publish wrote the chunk and the chunk is small."""
        for state in snapshot.tensors.values() if chunks else ():
            table, last = state.table, len(state.table) - 1
            key = table.key(last) if last >= 0 and table.size(last) <= _SMALL else ""
            if key in chunks:
                self._keep(key, b"".join(pieces(chunks[key])))

    def clear(self) -> None:
        """Forget all chunks, because another writer has written since."""
        self._kept.clear()
        self._bytes = 0

    def _keep(self, key: str, data: bytes | memoryview) -> None:
        if len(data) > _SMALL or key in self._kept:
            return
        self._kept[key] = data
        self._bytes += len(data)
        while self._bytes > _MOST_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)


class Writer(Checkout):
    """Checkout that can write: it takes the lock of a branch and publishes; the outcome of a publish may be unknown.

    `Session` decides what to publish.

    Parameters
    ----------
    read_only
        Refuse every change.
    lock_timeout
        Seconds to wait for another writer of the branch.
    opening
        Parameters of `Checkout`.
    """

    def __init__(
        self, storage: Storage, ref: str | None, *, read_only: bool, lock_timeout: float, **opening: Any
    ) -> None:
        super().__init__(storage, ref, **opening)
        self.read_only = read_only
        self.lock_timeout = lock_timeout
        self.mutex = threading.RLock()
        self._tail_cache = TailCache(storage, self.source)
        self._pid = os.getpid()
        self._lock: Lease | None = None
        self._passing: Lease | None = None  # the lease that this session is acquiring or releasing
        # Versions of the last publish if its outcome is unknown: the publish may have succeeded, or may still succeed.
        self._unknown_commit: Sequence[Snapshot] = ()
        self._lost: CommitFailed | None = None
        self._holds = 0
        # Folders in which other processes write parts that this session will adopt.
        self._part_folders: tuple[str, ...] = ()
        self._promised: dict[str, str] = {}  # branch -> id that the next commit on the branch will get

    # -- the lock ----------------------------------------------------------------------------------------------

    def _after_fork(self) -> None:
        """Drop the copies that a forked child has of its parent's draft and lock."""
        if self._pid != os.getpid():
            self._pid, self._holds, self._lock, self._passing = os.getpid(), 0, None, None
            self._unpublished.draft = None
            self._part_folders = ()
            self._promised.clear()
            self._readers.clear()
            self._collector.forget()

    def acquire_lock(self, patience: float = 0.0) -> None:
        """Become the writer of the branch; at an old commit, create a new branch there and become its writer.

        Parameters
        ----------
        patience
            Minimum time in seconds to wait for another writer, even if ``lock_timeout`` is shorter.
        """
        if self.read_only:
            raise ReadOnlyModeError(
                f"{self.storage.url} was opened read-only; open it with read_only=False to change it"
            )
        if not self.is_head:
            if not self.tree.commits[self.snapshot.version_id].is_committed:
                raise ReadOnlyModeError(
                    f"version {self.snapshot.version_id} is neither a commit nor the head of a branch; "
                    "checkout a branch to write"
                )
            # A session on an old commit writes to a new branch that begins there (format.md 9.4).
            self.create_branch(f"auto_{new_id()}")
        finalizer.ready()
        self._pass_on()
        if self._lock is not None:
            return
        from lakebed.versions.locks.leases import Lease

        lease = self._passing = Lease(self.storage, self.branch)
        try:
            try:
                at = lease.acquire(expected=self.snapshot.version_id, known=self.known)
            except LockedException:
                timeout = max(self.lock_timeout, patience)
                if not open_sessions.flush_other_sessions(self, self.storage, self.branch) and not timeout:
                    raise
                at = lease.acquire(timeout)
            if self.tree != at.tree or not is_as_read(self.storage, at.tree, self.snapshot, lease.found):
                self.source.clear()
                self._tail_cache.clear()
                self.enter(at.tree.head(self.branch).id, tree=at.tree)
            self._at = self.known = at
            self._position = self._position._replace(tree=at.tree)
            self._lock = lease
        finally:
            self._pass_on()
        if lease.took_over:
            self._collector.request_sweep()

    def _pass_on(self) -> None:
        """Release a lease under which this session does not write yet, or writes no longer."""
        passing = self._passing
        if passing is not None and passing is not self._lock:
            passing.release()
        self._passing = None

    def _check_sound(self) -> None:
        problem = contradiction(self.snapshot)
        if problem is None:
            return
        if self._holds == 0:
            self.unlock()
        raise DatasetCorruptError(
            f"{self.storage.url} can be read, but not changed: {problem}; `lakebed repair URL --plan` shows what can "
            "be saved",
            dataset=self.storage.url,
        )

    def unlock(self) -> None:
        """Release the writer's lock of the branch; unpublished changes are dropped."""
        if self._lock is not None:
            self._passing = self._lock
            self._lock = self._unpublished.draft = None
        self._pass_on()

    @property
    def is_held(self) -> bool:
        """True if a ``with`` block keeps the writer's lock."""
        return self._holds > 0

    def create_branch(self, name: str) -> None:
        """Create a branch at this commit, or at the commit below this head, and check the branch out."""
        from lakebed.versions.derive import inherited

        if self.read_only:
            raise ReadOnlyModeError(f"{self.storage.url} was opened read-only; a branch can not be created")
        start = self.snapshot
        node = self.tree.commits[start.version_id]
        base = start.version_id if node.is_committed else node.parent or FIRST
        # An unchanged head has the same content as the commit below it, unless 3.9.52 has written to the head.
        if not node.is_committed and (start.has_changes or start.origin is None):
            start = self.versions.get(self.tree, base)
        self.start_branch(name, base, inherited(start, new_id()))

    def start_branch(self, name: str, base: str, head: Snapshot) -> None:
        """Publish a new branch that starts at the version ``base`` and has this head; check the branch out."""
        from lakebed.storage.lock import WriterLock
        from lakebed.versions.locks.marker import release_lock
        from lakebed.versions.publish import publish
        from lakebed.versions.updates import AddBranch

        updates = [AddBranch(name, head.version_id, base)]
        lock = WriterLock(self.storage, name)
        try:
            lock.acquire()
            at = publish(self.storage, self.known or read_tree_at(self.storage), updates, [head])
            release_lock(self.storage, head.version_id)
            self.known = at
        finally:
            lock.release()
        self.enter(head.version_id, head, at.tree)

    def tree_at(self) -> TreeAt:
        """Return the tree as this writer last read or wrote it."""
        if self._at is None:
            raise InvalidOperationError("the writer's lock is not held")
        return self._at

    def _guard(self, version_id: str) -> None:
        if self._lock is not None:
            self._lock.protect(version_id)

    def open_part_folder(self) -> str:
        """Reserve a folder for chunks that other processes write while this session holds the lock; return its id.

        Garbage collection keeps the folder until :meth:`close_part_folder`, or until the session ends.
        """
        folder = new_id()
        with self.mutex:
            self._guard(folder)
            self._part_folders = (*self._part_folders, folder)
        return folder

    def close_part_folder(self, folder: str) -> None:
        """Let garbage collection remove chunks that were not adopted, starting with the next publish."""
        self._part_folders = tuple(other for other in self._part_folders if other != folder)

    # -- publishing --------------------------------------------------------------------------------------------

    def publish(
        self, draft: Draft, updates: Updates, versions: Sequence[Snapshot], *, leaving: bool = False
    ) -> None:
        """Publish a draft's chunks with one or more versions, of which the last is the new head.

        Parameters
        ----------
        updates
            Changes of the version tree; they are applied again if another branch was published meanwhile.
        versions
            Complete versions, each with a new id.
        leaving
            True if the caller releases the lock right afterwards, unless a ``with`` block keeps it.

        Raises
        ------
        CommitFailed
            If another writer changed the branch; the draft is dropped.
        DatasetCorruptError
            If the lengths in a version contradict each other; the draft is dropped.
        """
        from lakebed.versions.publish import publish
        from lakebed.versions.updates import reported

        if draft.dirty:
            self._check_in_step(versions)
        try:
            if self._lock is not None:
                with reported(updates):
                    self._lock.check()
            self._unknown_commit = versions
            at = publish(
                self.storage,
                self.tree_at(),
                self._completed(updates),
                versions,
                draft.tensors.new_chunks().items(),
                draft.tensors.spilled,
                lease=self._lock,
                leaving=leaving and not self.is_held,
            )
        except CommitFailed:
            # The version below the draft was removed; the next change takes the lock again and reads the current
            # version.
            self.discard()
            self.unlock()
            raise
        self._published(at, versions)

    def _completed(self, updates: Updates) -> Updates:
        """Return updates, together with the changes of the tree that every publish of a session makes."""
        from lakebed.versions.updates import drop_unverified

        collected = self._collector.updates(self.tree, self.branch)
        return [*updates, *drop_unverified(self.snapshot), *collected]

    def _check_in_step(self, versions: Sequence[Snapshot]) -> None:
        """Refuse to publish a version whose lengths contradict each other, so that no reader ever opens it."""
        for version in versions:
            problem = contradiction(version)
            if problem is not None:
                self.discard()
                raise DatasetCorruptError(
                    f"the unpublished changes of {self.storage.url} contradict each other ({problem}); they were "
                    "dropped, and nothing was published. Please report what led to this",
                    dataset=self.storage.url,
                )

    def _go_on_below(self) -> None:
        """Start a new head above the present head, so that later publishes need not list the present head's chunks."""
        from lakebed.versions.derive import inherited
        from lakebed.versions.publish import publish
        from lakebed.versions.updates import CheckpointHead

        head, branch = inherited(self.snapshot, new_id()), self.branch
        updates = self._completed([CheckpointHead(branch, head.version_id)])
        try:
            at = publish(self.storage, self.tree_at(), updates, [head], lease=self._lock)
        except (CommitFailed, CommitStateUnknown, StorageError):
            self.unlock()  # the next writer that takes the lock finds out whether the publish succeeded
            raise
        self._published(at, [head])

    def resolve_unknown_commit(self) -> Sequence[Snapshot]:
        """Check whether a publish with unknown outcome succeeded; return its versions if so, else an empty sequence.

        Raises
        ------
        CommitStateUnknown
            If the storage still does not answer, so that the outcome stays unknown.
        """
        failed = self._unknown_commit
        if not failed:
            return ()
        from lakebed.versions.swap import ensure_durable

        try:
            at = read_tree_at(self.storage)
        except StorageError as error:
            raise CommitStateUnknown(
                f"{self.storage.url} can not be read ({error}), so it is not known whether the last publish succeeded; "
                "nothing is lost: try again"
            ) from error
        if at.tree.branches.get(self.branch) == failed[-1].version_id:
            self._published(ensure_durable(self.storage, at), failed)
            return failed
        self._unknown_commit = ()
        draft = self._unpublished.draft
        if draft is not None:
            # Use a new id: a request that is still running may write to the folder of the old one.
            draft.publish_as(new_id())
        return ()

    def _published(self, at: TreeAt, versions: Sequence[Snapshot]) -> None:
        # An interrupt may come at any point. Until `_unknown_commit` is cleared, the outcome of the publish counts as
        # unknown, and the next call repeats this whole method.
        old, head, draft = self.snapshot, versions[-1], self._unpublished.draft
        if draft is not None:
            self._tail_cache.published(head, draft.tensors.new_chunks())
        self._at = self.known = at
        self._position = self._position._replace(tree=at.tree, snapshot=head)
        self.source.heads = frozenset(at.tree.branches.values())
        self._unpublished.draft = None
        self._readers.clear()
        if self._lock is not None:
            self._lock.moved(head.version_id)
            for folder in self._part_folders:
                self._lock.protect(folder)
        self._unknown_commit = ()
        # If an interrupt stops this garbage collection, the next collection removes the remaining files.
        with OnFailure(self._collector.forget):
            self._collector.published(old, versions, at.tree, self.branch)

    # -- letting go --------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Drop all unpublished changes, as after an error that may have left the draft inconsistent."""
        with self.mutex:
            self._unpublished.draft = None
            self._readers.clear()
            self._unknown_commit = ()
            if self._holds == 0:
                self.unlock()

    def drop_unpublished(self) -> None:
        """Drop all unpublished changes, after checking the outcome of a publish whose outcome is unknown.

        If the outcome stays unknown, the lock is released as well, so that the next change reads the present state.
        """
        with self.mutex:
            try:
                self.resolve_unknown_commit()
            except CommitStateUnknown:
                self.unlock()
            self.discard()

    def abandon(self) -> None:
        """Drop unpublished changes and the lock without any request to the storage, as if the process had ended."""
        self._unpublished.draft = None
        self._unknown_commit, self._holds, self._lost = (), 0, None
        if self._lock is not None:
            self._lock.forget()
            self._lock = None
