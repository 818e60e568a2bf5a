"""One dataset opened at one branch, with the right to write it: the writer's lock, and what becomes of a publish."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakebed.documents.version_tree import new_id
from lakebed.errors import (
    CommitFailed,
    CommitStateUnknown,
    DatasetCorruptError,
    InvalidOperationError,
    LockedException,
    ReadOnlyModeError,
    StorageError,
)
from lakebed.session import finalizer, open_sessions
from lakebed.session.checkout import Checkout
from lakebed.session.tail_cache import TailCache
from lakebed.storage.base import Storage
from lakebed.versions.foreign_writes import is_as_read
from lakebed.versions.state import Snapshot, contradiction
from lakebed.versions.tree_file import TreeAt, read_tree_at

if TYPE_CHECKING:
    from lakebed.versions.locks.leases import Lease
    from lakebed.versions.updates import Updates
    from lakebed.writing.draft.draft import Draft


class Writer(Checkout):
    """A branch head that is read, the lock that it is written under, and publishes, whose end may stay unknown.

    What is published, the session that this is a part of decides. Parameters as in `Checkout`, and:

    Parameters
    ----------
    read_only
        Refuse every change.
    lock_timeout
        Seconds to wait for another writer of the branch to end.
    """

    def __init__(
        self,
        storage: Storage,
        ref: str | None = None,
        *,
        read_only: bool,
        lock_timeout: float,
        cache_bytes: int | None = None,
        as_of: float | None = None,
        start: tuple[TreeAt, Snapshot] | None = None,
        head_of: str | None = None,
    ) -> None:
        super().__init__(storage, ref, cache_bytes=cache_bytes, as_of=as_of, start=start, head_of=head_of)
        self.read_only = read_only
        self.lock_timeout = lock_timeout
        self.mutex = threading.RLock()
        self._tail_cache = TailCache(storage, self.source)
        self._pid = os.getpid()
        self._lock: Lease | None = None
        self._passing: Lease | None = None  # a lease that is being taken, or given back
        # Versions of a publish that has not told its end: it may have worked, or may work yet.
        self._unknown_commit: Sequence[Snapshot] = ()
        self._lost: CommitFailed | None = None
        self._holds = 0
        self._part_folders: tuple[str, ...] = ()  # where others write what this session will adopt
        self._promised: dict[str, str] = {}  # by branch, the id that its next commit will get

    # -- the lock ----------------------------------------------------------------------------------------------

    def _after_fork(self) -> None:
        """Let go of what a forked child has a copy of: its parent's draft and lock are not its own."""
        if self._pid != os.getpid():
            self._pid, self._holds, self._lock, self._passing = os.getpid(), 0, None, None
            self._unpublished.draft = None
            self._part_folders = ()
            self._promised.clear()
            self._readers.clear()
            self._collector.forget()

    def acquire_lock(self, patience: float = 0.0) -> None:
        """Become the writer of the branch, or of a new one beside an old commit; see :meth:`draft`.

        Parameters
        ----------
        patience
            Seconds to wait for another writer at least, whatever the dataset was opened with.
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
            # A writer on an old commit goes on beside it (FORMAT.md 9.4).
            from lakebed.session.new_branch import create_branch

            create_branch(self, f"auto_{new_id()}")
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
                if not open_sessions.flush_other_sessions(self) and not timeout:
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
        """Give back a lease that is not, or no longer, the one that this session writes by."""
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
        """Let others write the branch; what is unpublished is dropped."""
        if self._lock is not None:
            self._passing = self._lock
            self._lock = self._unpublished.draft = None
        self._pass_on()

    @property
    def is_held(self) -> bool:
        """Whether a ``with`` block keeps the writer's lock."""
        return self._holds > 0

    def tree_at(self) -> TreeAt:
        """Return the tree as this writer found or left it."""
        if self._at is None:
            raise InvalidOperationError("the writer's lock is not held")
        return self._at

    def _guard(self, version_id: str) -> None:
        if self._lock is not None:
            self._lock.protect(version_id)

    def open_part_folder(self) -> str:
        """Make a folder for chunks that others write while this session holds the lock; return its version id.

        Collectors leave it alone until it is closed, or the session ends.
        """
        folder = new_id()
        with self.mutex:
            self._guard(folder)
            self._part_folders = (*self._part_folders, folder)
        return folder

    def close_part_folder(self, folder: str) -> None:
        """Leave what was not adopted of a folder's chunks to collectors, from the next publish on."""
        self._part_folders = tuple(other for other in self._part_folders if other != folder)

    # -- publishing --------------------------------------------------------------------------------------------

    def publish(
        self,
        draft: Draft,
        updates: Updates,
        versions: Sequence[Snapshot],
        *,
        leaving: bool = False,
    ) -> None:
        """Publish a draft's chunks with some versions, of which the last is the head to go on from.

        Parameters
        ----------
        updates
            Changes of the version tree; applied anew where another branch was published meanwhile.
        versions
            Complete, under ids of their own.
        leaving
            The lock is given back right after this, unless a ``with`` block keeps it.

        Raises
        ------
        CommitFailed
            If another writer changed the branch; the draft is dropped.
        DatasetCorruptError
            If what is to be published contradicts itself; the draft is dropped.
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
            # What the draft builds on is gone; the next change takes the lock anew and reads what there is now.
            self.discard()
            self.unlock()
            raise
        self._published(at, versions)

    def _completed(self, updates: Updates) -> Updates:
        """Add what every publish of a session changes in the tree besides."""
        from lakebed.versions.updates import drop_unverified

        collected = self._collector.updates(self.tree, self.branch)
        return [*updates, *drop_unverified(self.snapshot), *collected]

    def _check_in_step(self, versions: Sequence[Snapshot]) -> None:
        """Refuse to publish a version whose lengths contradict each other: no reader may meet it."""
        for version in versions:
            problem = contradiction(version)
            if problem is not None:
                self.discard()
                raise DatasetCorruptError(
                    f"what was changed in {self.storage.url} since it was published last contradicts itself "
                    f"({problem}); it was dropped, and nothing was published. Please report what led to this",
                    dataset=self.storage.url,
                )

    def _go_on_below(self) -> None:
        """Let a new head inherit what is uncommitted, so that it need not name all of it at every publish."""
        from lakebed.versions.derive import inherited
        from lakebed.versions.publish import publish
        from lakebed.versions.updates import CheckpointHead

        head, branch = inherited(self.snapshot, new_id()), self.branch
        updates = self._completed([CheckpointHead(branch, head.version_id)])
        try:
            at = publish(self.storage, self.tree_at(), updates, [head], lease=self._lock)
        except (CommitFailed, CommitStateUnknown, StorageError):
            self.unlock()  # the next writer that takes the lock finds out what has become of it
            raise
        self._published(at, [head])

    def resolve_unknown_commit(self) -> Sequence[Snapshot]:
        """Find out what became of a publish that failed; return its versions if it has worked after all.

        Raises
        ------
        CommitStateUnknown
            If the storage still does not answer.
        """
        failed = self._unknown_commit
        if not failed:
            return ()
        from lakebed.versions.swap import ensure_durable

        try:
            at = read_tree_at(self.storage)
        except StorageError as error:
            raise CommitStateUnknown(
                f"{self.storage.url} can not be read ({error}), so it is not known whether the last publish is there; "
                "nothing is lost: try again"
            ) from error
        if at.tree.branches.get(self.branch) == failed[-1].version_id:
            self._published(ensure_durable(self.storage, at), failed)
            return failed
        self._unknown_commit = ()
        draft = self._unpublished.draft
        if draft is not None:
            # A put that is still on its way must not meet a folder with other content.
            draft.publish_as(new_id())
        return ()

    def _published(self, at: TreeAt, versions: Sequence[Snapshot]) -> None:
        # An interrupt may come anywhere: as long as the end of the publish is unknown, all of this is done once more.
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
        try:
            self._collector.published(old, versions, at.tree, self.branch)
        except BaseException:
            self._collector.forget()  # what it was about to remove is left to the next one
            raise

    # -- letting go --------------------------------------------------------------------------------------------

    def discard(self) -> None:
        """Forget everything unpublished, as after an error that leaves the draft in doubt."""
        with self.mutex:
            self._unpublished.draft = None
            self._readers.clear()
            self._unknown_commit = ()
            if self._holds == 0:
                self.unlock()

    def drop_unpublished(self) -> None:
        """Forget everything unpublished; where a publish has not told its end, the next change finds out what there is.

        Unlike :meth:`discard`, it leaves nothing in doubt while the lock is held.
        """
        with self.mutex:
            try:
                self.resolve_unknown_commit()
            except CommitStateUnknown:
                self.unlock()
            self.discard()

    def abandon(self) -> None:
        """Let go of everything without touching the storage, as the end of the process does."""
        self._unpublished.draft = None
        self._unknown_commit, self._holds, self._lost = (), 0, None
        if self._lock is not None:
            self._lock.forget()
            self._lock = None
