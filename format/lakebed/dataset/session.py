"""One open dataset at one branch or version: the snapshot it reads, the draft it writes, the lock it holds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lakebed import clock, config
from lakebed.dataset import siblings
from lakebed.dataset.credentials import LinkCredentials
from lakebed.dataset.history.branching import create_branch
from lakebed.dataset.opened import Opened
from lakebed.dataset.tails import Tails
from lakebed.documents.version_tree import VersionTree, new_id
from lakebed.errors import (
    CommitFailed,
    CommitStateUnknown,
    DatasetCorruptError,
    InvalidOperationError,
    LockedException,
    ReadOnlyModeError,
    StorageError,
)
from lakebed.reading.samples import SampleReader
from lakebed.storage.base import Storage
from lakebed.versions.check import contradiction
from lakebed.versions.derive import inherited, own_chunks
from lakebed.versions.leases import Lease
from lakebed.versions.publish import publish
from lakebed.versions.seals import without_doubtful
from lakebed.versions.state import Snapshot
from lakebed.versions.swap import TreeAt, kept, read_tree_at
from lakebed.versions.traces import is_as_read
from lakebed.writing.draft import Draft
from lakebed.writing.link_rows import Linking


class Session(Opened):
    """State shared by a dataset and all views and tensors made from it.

    Parameters
    ----------
    storage
        Where the dataset lies.
    ref
        Address of the version to open; None is ``main``.
    read_only
        Refuse every change.
    lock_timeout
        Seconds to wait for another writer of the branch to end.
    as_of
        Open the newest commit of this time, in POSIX seconds, or before, on the line of that version.
    start
        The tree, and what the head holds, where both are known already.

    Attributes
    ----------
    epoch
        Counts what outdates views: rows added or replaced through the dataset, checkouts.
    credentials, linking
        What links go by, when they are followed and when they are appended.
    """

    def __init__(
        self,
        storage: Storage,
        ref: str | None = None,
        *,
        read_only: bool = False,
        cache_bytes: int | None = None,
        lock_timeout: float = 0.0,
        as_of: float | None = None,
        start: tuple[TreeAt, Snapshot] | None = None,
    ) -> None:
        super().__init__(storage, ref, cache_bytes=cache_bytes, as_of=as_of, start=start)
        self.read_only = read_only
        self.lock_timeout = lock_timeout
        self.credentials = LinkCredentials(storage)
        self.linking = Linking(self.credentials)
        self.epoch = 0
        self.mutex = threading.RLock()
        self._tails = Tails(storage, self.source)
        self._pid = os.getpid()
        self._draft: Draft | None = None
        self._lock: Lease | None = None
        # Versions of a publish that failed, though it may still have worked, or may work yet.
        self._unsettled: Sequence[Snapshot] = ()
        self._holds = 0
        self._first_unpublished = 0.0
        siblings.enter(self)

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def has_unpublished(self) -> bool:
        return self._draft is not None and self._draft.dirty

    def schema(self) -> Snapshot:
        """Return what there is, lengths included; samples that still wait in the draft may lack chunks."""
        if self._draft is not None:
            self._draft.settle()
        return self.structure()

    def structure(self) -> Snapshot:
        """Return names, keys and settings; lengths and extents may lag behind samples that were just added."""
        draft = self._draft
        if draft is None or not draft.dirty:
            return self.snapshot
        tensors = {key: tensor.state for key, tensor in draft.tensors.items()}
        return Snapshot(draft.version_id, draft.meta, draft.info, tensors, draft.diff)

    def reader(self, key: str, name: str) -> SampleReader:
        """Return a reader of a tensor that also sees this session's own unpublished samples."""
        with self.mutex:
            draft = self._draft
            if draft is not None and draft.dirty:
                draft.settle()
                draft.tensors[key].seal()
                state = draft.tensors[key].state
            else:
                state = self.snapshot.tensors[key]
            cached = self._readers.get(key)
            if cached is None or cached[0] is not state:
                cached = (state, SampleReader(name, state, self.source, self.credentials))
                cached[1].lease = self._collector.reading
                self._readers[key] = cached
            return cached[1]

    def latest(self, key: str, name: str, row: int) -> Any:
        """Return a flat sample with this session's own changes, which are not made into chunks for it."""
        with self.mutex:
            draft = self._draft
            if draft is None or not draft.dirty or draft.tensors[key].is_tiled(row):
                return self.reader(key, name).value(row)
            draft.settle()
            tensor = draft.tensors[key]
            reader = SampleReader(name, tensor.state, self.source, self.credentials)
            waiting = tensor.waiting(row)
            if waiting is None:
                return reader.value(tensor.sealed_row(row))
            return reader.decode(waiting.joined(), waiting.shape(0))

    # -- writing -----------------------------------------------------------------------------------------------

    def draft(self, *, sound: bool = True) -> Draft:
        """Return the draft to write into, taking the writer's lock if need be.

        Parameters
        ----------
        sound
            Refuse a head whose lengths contradict each other, as a killed Deep Lake 3.x leaves it.

        Raises
        ------
        ReadOnlyModeError
            If the dataset was opened read-only or a commit that is no branch head is checked out.
        LockedException
            If another writer holds the branch.
        DatasetCorruptError
            If the head contradicts itself.
        """
        self._after_fork()
        self.settle()
        if self._draft is not None:
            self._draft.settle()
            return self._draft
        self.take_lock()
        if sound:
            self._check_sound()
        if own_chunks(self.snapshot) > config.CHECKPOINT_CHUNKS:
            self._go_on_below()
        self._draft = Draft(
            self.snapshot, new_id(), self.storage, self._tails.read, self._guard, self.source.pool.take
        )
        self._unpublished.draft = self._draft
        self._first_unpublished = clock.monotonic()
        return self._draft

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

    def _go_on_below(self) -> None:
        """Let a new head inherit what is uncommitted, so that it need not name all of it at every publish."""
        head, branch = inherited(self.snapshot, new_id()), self.branch
        edit = without_doubtful(lambda tree: tree.grow_head(branch, head.version_id), self.snapshot)
        edit = self._collector.noting(edit, self.tree, branch)
        try:
            at = publish(self.storage, self.tree_at(), edit, [head], lease=self._lock)
        except (CommitFailed, CommitStateUnknown, StorageError):
            self.unlock()  # whoever takes the lock again finds out what has become of it
            raise
        self._published(at, [head])

    def _guard(self, version_id: str) -> None:
        if self._lock is not None:
            self._lock.guard(version_id)

    def begin_in_child(self) -> None:
        """Go on in a forked child, which has none of its parent's other threads.

        What one of those had begun stays half done: the lock that it held, the draft that it may have been changing.
        """
        self.credentials.begin_in_child()
        if self.mutex.acquire(blocking=False):
            self.mutex.release()
            return
        self.mutex = threading.RLock()
        self._after_fork()

    def _after_fork(self) -> None:
        """Let go of what a forked child has a copy of: its parent's draft and lock are not its own."""
        if self._pid != os.getpid():
            self._pid, self._holds, self._lock = os.getpid(), 0, None
            self._draft = self._unpublished.draft = None
            self._readers.clear()
            self._collector.forget()

    def take_lock(self) -> None:
        """Become the writer of the branch, or of a new one beside an old commit; see :meth:`draft`."""
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
            # Whoever writes on an old commit goes on beside it (FORMAT.md 9.4).
            create_branch(self, f"auto_{new_id()}")
        if self._lock is not None:
            return
        lease = Lease(self.storage, self.branch)
        try:
            at = lease.acquire(expected=self.snapshot.version_id)
        except LockedException:
            if not siblings.flush_siblings(self) and not self.lock_timeout:
                raise
            at = lease.acquire(self.lock_timeout)
        try:
            if self.tree != at.tree or not is_as_read(self.storage, at.tree, self.snapshot, lease.found):
                self.source.clear()
                self._tails.forget()
                self.enter(at.tree.head(self.branch).id, tree=at.tree)
            self._at = self.known = at
            self.tree = at.tree
        except BaseException:
            lease.release()
            raise
        self._lock = lease
        if lease.found_traces:
            self._collector.suspect()

    def check_writable(self) -> None:
        """Make sure that changes are possible at this moment.

        Raises
        ------
        LockedException
            If another process writes the branch.
        StorageError
            If the storage takes no changes.
        """
        with self.mutex:
            if self._lock is None:
                self.take_lock()
                if self._holds == 0:
                    self.unlock()

    @contextmanager
    def writing(self, *, sound: bool = True) -> Iterator[Draft]:
        """Give the draft for one change; what has waited for too long is published afterwards; see :meth:`draft`.

        The schema to write by must be read inside: taking the lock may have brought in another writer's version.
        """
        with self.mutex:
            draft = self.draft(sound=sound)
            try:
                yield draft
            except BaseException:
                if draft.torn or not draft.dirty:
                    self.discard()
                raise
            waited = clock.monotonic() - self._first_unpublished
            if self._holds == 0 and waited > config.MAX_UNPUBLISHED_SECONDS:
                self.flush()

    def offer_row(self, group: str, row: Mapping[str, Any]) -> bool:
        """Take a row that surely fits the tensors of a row before it; tell whether it was taken.

        The row is encoded later, together with others, but counts at once: whoever asks sees it.
        """
        with self.mutex:
            draft = self._offered()
            return draft is not None and draft.offer_row(group, row) and self._taken(draft)

    def offer(self, key: str, sample: Any) -> bool:
        """Take a sample that surely fits a tensor; see :meth:`offer_row`."""
        with self.mutex:
            draft = self._offered()
            return draft is not None and draft.offer(key, sample) and self._taken(draft)

    def _offered(self) -> Draft | None:
        return self._draft if self._pid == os.getpid() and not self._unsettled else None

    def _taken(self, draft: Draft) -> bool:
        waited = clock.monotonic() - self._first_unpublished
        if self._holds == 0 and waited > config.MAX_UNPUBLISHED_SECONDS:
            self.flush()
        elif draft.loose.is_full:
            draft.settle()
        return True

    def tree_at(self) -> TreeAt:
        """Return the tree as this writer found or left it."""
        if self._at is None:
            raise InvalidOperationError("the writer's lock is not held")
        return self._at

    @property
    def is_held(self) -> bool:
        """Whether a ``with`` block keeps the writer's lock."""
        return self._holds > 0

    def hold(self) -> None:
        """Keep the writer's lock until :meth:`release`, however often something is published."""
        with self.mutex:
            self._after_fork()
            if self.is_head and not self.read_only:
                self.take_lock()
            self._holds += 1

    def release(self) -> None:
        """Publish and give up one hold."""
        with self.mutex:
            self._holds = max(0, self._holds - 1)
            self.flush()

    def flush(self) -> None:
        """Publish everything unpublished; durable and visible when this returns.

        After an error of the storage everything unpublished is still there, and so is the lock: try again.

        Raises
        ------
        CommitFailed
            If another writer changed the branch in spite of the lock; what was unpublished is dropped.
        """
        with self.mutex:
            self._after_fork()
            self.settle()
            draft = self._draft
            if draft is not None and draft.dirty:
                draft.settle()
                self._publish_draft(draft)
            if self._holds == 0:
                self.unlock()

    def _publish_draft(self, draft: Draft) -> None:
        snapshot, branch, version_id = self.sealed(draft), self.branch, draft.version_id

        def edit(tree: VersionTree) -> VersionTree:
            return tree.swap_head(branch, version_id)

        self.publish(draft, edit, [snapshot], leaving=True)

    def sealed(self, draft: Draft) -> Snapshot:
        """Return what a draft holds, in chunks; what must be read for that is read at the same time."""
        self._tails.fetch(draft.tails())
        return draft.snapshot()

    def publish(
        self,
        draft: Draft,
        edit: Callable[[VersionTree], VersionTree],
        versions: Sequence[Snapshot],
        *,
        leaving: bool = False,
    ) -> None:
        """Publish a draft's chunks with some versions, of which the last is the head to go on from.

        Parameters
        ----------
        edit
            Change of the version tree; applied anew where another branch was published meanwhile.
        versions
            Complete, under ids of their own.
        leaving
            The lock is given back right after this, unless a ``with`` block keeps it.

        Raises
        ------
        CommitFailed
            If another writer changed the branch; the draft is dropped.
        """
        try:
            if self._lock is not None:
                self._lock.check()
            edit = self._collector.noting(without_doubtful(edit, self.snapshot), self.tree, self.branch)
            at = publish(
                self.storage,
                self.tree_at(),
                edit,
                versions,
                draft.new_chunks().items(),
                draft.spilled,
                lease=self._lock,
                leaving=leaving and not self.is_held,
            )
        except CommitFailed:
            # What the draft builds on is gone; the next change takes the lock anew and reads what there is now.
            self.discard()
            self.unlock()
            raise
        except (StorageError, CommitStateUnknown):
            self._unsettled = versions
            raise
        self._published(at, versions)

    def settle(self) -> Sequence[Snapshot]:
        """Find out what became of a publish that failed; return its versions if it has worked after all.

        Raises
        ------
        CommitStateUnknown
            If the storage still does not answer.
        """
        failed = self._unsettled
        if not failed:
            return ()
        try:
            at = read_tree_at(self.storage)
        except StorageError as error:
            raise CommitStateUnknown(
                f"{self.storage.url} can not be read ({error}), so it is not known whether the last publish is there; "
                "nothing is lost: try again"
            ) from error
        if at.tree.branches.get(self.branch) == failed[-1].version_id:
            at = kept(self.storage, at)
            self._unsettled = ()
            self._published(at, failed)
            return failed
        self._unsettled = ()
        if self._draft is not None:
            # A put that is still on its way must not meet a folder with other content.
            self._draft.version_id = new_id()
        return ()

    def _published(self, at: TreeAt, versions: Sequence[Snapshot]) -> None:
        old, head = self.snapshot, versions[-1]
        if self._draft is not None:
            self._tails.published(head, self._draft.new_chunks())
        self._at = self.known = at
        self.tree, self.snapshot = at.tree, head
        self.source.heads = frozenset(at.tree.branches.values())
        self._draft = self._unpublished.draft = None
        self._readers.clear()
        if self._lock is not None:
            self._lock.moved(head.version_id)
        self._collector.published(old, versions, at.tree, self.branch)

    def unlock(self) -> None:
        """Let others write the branch; what is unpublished is dropped."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            self._draft = self._unpublished.draft = None
            lock.release()

    def yield_lock(self) -> bool:
        """Publish and unlock for another dataset of this process, unless a ``with`` block holds on; say whether."""
        if self._lock is None or self._holds:
            return False
        self.flush()
        return True

    def discard(self) -> None:
        """Forget everything unpublished, as after an error that leaves the draft in doubt."""
        with self.mutex:
            self.abandon()
            self._unsettled = ()
            if self._holds == 0:
                self.unlock()

    def abandon(self) -> None:
        """Forget the draft, but not that its publish may have worked after all."""
        with self.mutex:
            self._draft = self._unpublished.draft = None
            self._readers.clear()

    def forget(self) -> None:
        """Let go of everything without touching the storage, as the end of the process does."""
        self._draft = self._unpublished.draft = None
        self._unsettled, self._holds = (), 0
        if self._lock is not None:
            self._lock.forget()
            self._lock = None

    def close(self) -> None:
        """Publish and release the lock."""
        self._holds = 0
        self.flush()
