"""One open dataset at one branch or version: the snapshot it reads, the draft it writes, the lock it holds."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from lakebed import clock, config
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
from lakebed.reading.samples import SampleReader
from lakebed.session import finalizer, open_sessions
from lakebed.session.checkout import Checkout
from lakebed.session.credentials import LinkCredentials
from lakebed.session.tail_cache import TailCache
from lakebed.storage.base import Storage, traits_of
from lakebed.versions.foreign_writes import is_as_read
from lakebed.versions.state import Snapshot, contradiction
from lakebed.versions.tree_file import TreeAt, read_tree_at

if TYPE_CHECKING:
    from lakebed.versions.locks.leases import Lease
    from lakebed.versions.updates import Updates
    from lakebed.writing.draft.draft import Draft
    from lakebed.writing.encode.links import Linking


class Session(Checkout):
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
        Open the newest commit of this time, in POSIX seconds, or before, in the history of that version.
    start
        The tree, and what the head holds, where both are known already.
    head_of
        Branch whose head the version was: it is opened even if another head has taken its place.
    credentials
        What links go by; None is what the dataset names.

    Attributes
    ----------
    epoch
        Counts what outdates views: rows added or replaced through the dataset, checkouts.
    credentials
        What links go by when they are followed.
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
        head_of: str | None = None,
        credentials: LinkCredentials | None = None,
    ) -> None:
        super().__init__(storage, ref, cache_bytes=cache_bytes, as_of=as_of, start=start, head_of=head_of)
        self.read_only = read_only
        self.lock_timeout = lock_timeout
        self.credentials = LinkCredentials(storage) if credentials is None else credentials
        self._linking: Linking | None = None
        self.epoch = 0
        self.mutex = threading.RLock()
        self._tail_cache = TailCache(storage, self.source)
        self._pid = os.getpid()
        self._lock: Lease | None = None
        self._passing: Lease | None = None  # a lease that is being taken, or given back
        # Versions of a publish that has not told its end: it may have worked, or may work yet.
        self._unknown_commit: Sequence[Snapshot] = ()
        self._lost: CommitFailed | None = None
        self._holds = 0
        self._first_unpublished = 0.0
        self._part_folders: tuple[str, ...] = ()  # where others write what this session will adopt
        self._promised: dict[str, str] = {}  # by branch, the id that its next commit will get
        open_sessions.enter(self)

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def has_unpublished(self) -> bool:
        draft = self._unpublished.draft
        return draft is not None and draft.dirty

    def schema(self) -> Snapshot:
        """Return what there is, lengths included; samples that still wait in the draft may lack chunks."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None:
                return self._position.snapshot
            work = self._unpublished.work
            draft = draft if work is None else work
            if draft.buffer.rows:
                with _Change(self) as draft:
                    draft.encode_pending()
            return self._structure(draft, is_final=work is None)

    def structure(self) -> Snapshot:
        """Return names, keys and settings; lengths and extents may lag behind samples that were just added."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None:
                return self._position.snapshot
            work = self._unpublished.work
            return self._structure(draft if work is None else work, is_final=work is None)

    def _structure(self, draft: Draft, *, is_final: bool) -> Snapshot:
        return draft.structure(is_final=is_final) if draft.dirty else self.snapshot

    def reader(self, key: str, name: str) -> SampleReader:
        """Return a reader of a tensor that also sees this session's own unpublished samples."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None or not draft.dirty:
                state = self._position.snapshot.tensors[key]
            else:
                if draft.buffer.rows or not draft.tensors.seen[key].is_packed:
                    with _Change(self) as draft:
                        draft.encode_pending()
                        draft.tensors[key].pack()
                state = draft.tensors.seen[key].state
            cached = self._readers.get(key)
            if cached is None or cached[0] is not state:
                cached = (state, SampleReader(name, state, self.source, self.credentials))
                cached[1].lease = self._collector.reading
                if draft is not None and draft.dirty:
                    cached[1].held = self._unpublished.pin(key)
                self._readers[key] = cached
            return cached[1]

    def latest(self, key: str, name: str, row: int) -> Any:
        """Return a flat sample with this session's own changes, which are not made into chunks for it."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None or not draft.dirty or draft.tensors.seen[key].is_tiled(row):
                return self.reader(key, name).value(row)
            if draft.buffer.rows:
                with _Change(self) as draft:
                    draft.encode_pending()
            tensor = draft.tensors.seen[key]
            reader = SampleReader(name, tensor.state, self.source, self.credentials)
            pending = tensor.pending_sample(row)
            if pending is None:
                return reader.value(tensor.chunk_row(row))
            return reader.decode(pending.joined(), pending.shape(0))

    @property
    def pending_id(self) -> str:
        """Id that the next commit here will get, a promise from when it is first asked for; else that of the version.

        A publish gives the head another id, so none of those can be it.
        """
        with self.mutex:
            self._after_fork()
            if self.read_only or not self.is_head:
                return self.structure().version_id
            return self._promised.setdefault(self.branch, new_id())

    def pop_promised_id(self) -> str | None:
        """Return the id that was promised to the next commit, once; None if it was never asked for."""
        return self._promised.pop(self.branch, None)

    def known_as(self, address: str) -> str:
        """Return the branch whose next commit an id is promised to; any other address as it is."""
        return next((branch for branch, id_ in self._promised.items() if id_ == address), address)

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def linking(self) -> Linking:
        """What links go by when they are appended."""
        if self._linking is None:
            from lakebed.writing.encode.links import Linking

            self._linking = Linking(self.credentials, dataset=traits_of(self.storage).folder or None)
        return self._linking

    def writing(self, *, sound: bool = True) -> _Change:
        """Give the draft for one change, which is made as a whole or not at all; to be used with the mutex held.

        ``with session.mutex, session.writing() as draft``: the interpreter itself lets go of the mutex then, so that no
        interrupt can come in between. What has waited for too long is published afterwards. The schema to write by
        must be read inside: taking the lock may have brought in another writer's version.

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
        return _Change(self, prepare=lambda: self._prepare(sound=sound))

    def draft(self) -> Draft:
        """Return what the running change works on."""
        draft = self._unpublished.draft
        if draft is None:
            raise InvalidOperationError("no change is being made")
        return draft

    def _prepare(self, *, sound: bool) -> None:
        """Get ready for a change: with the writer's lock, and a draft."""
        self._after_fork()
        self._tell_lost()
        self.resolve_unknown_commit()
        if self._unpublished.draft is not None:
            return
        from lakebed.session import publisher
        from lakebed.versions.derive import own_chunks
        from lakebed.writing.draft.draft import Draft

        self.acquire_lock()
        if sound:
            self._check_sound()
        if own_chunks(self.snapshot) > config.CHECKPOINT_CHUNKS:
            self._go_on_below()
        self._first_unpublished = clock.monotonic()
        self._unpublished.draft = Draft(
            self.snapshot, new_id(), self.storage, self._tail_cache.read, self._guard, self.source.pool.take
        )
        publisher.watch(self)

    def begin_change(self, prepare: Callable[[], None] | None, frame: FrameType) -> tuple[Draft, bool]:
        """Begin a change that a frame makes, unless that is part of one already.

        Returns
        -------
        tuple
            What to work on, and whether the change is one of its own.
        """
        draft = self._unpublished.work
        is_own = draft is None
        if draft is None:
            if prepare is not None:
                prepare()
            draft = self._unpublished.begin(frame)
        try:
            if prepare is not None:
                draft.encode_pending()
        except BaseException:
            if is_own:
                self.end_change(is_made=False)
            raise
        return draft, is_own

    def end_change(self, *, is_made: bool) -> None:
        """End a change: keep what it has made, or go on as if it had not begun."""
        if is_made:
            self._unpublished.keep()
            return
        made = self._unpublished.give_up()
        if made is not None and not self._unknown_commit:
            made.tensors.give_up()
        if not self.has_unpublished and not self._unknown_commit:
            self.discard()

    def seconds_left(self) -> float | None:
        """Return how long what is unpublished, or about to be, may still wait; None if there is nothing.

        A ``with`` block keeps everything until it ends.
        """
        if self._unpublished.draft is None or self._pid != os.getpid():
            return None
        left = config.MAX_UNPUBLISHED_SECONDS - (clock.monotonic() - self._first_unpublished)
        return left if self._holds == 0 else max(left, config.MAX_UNPUBLISHED_SECONDS)

    def publish_old(self) -> None:
        """Publish what has waited for too long."""
        left = self.seconds_left()
        if left is not None and left <= 0:
            self.flush()

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
            self._pid, self._holds, self._lock, self._passing = os.getpid(), 0, None, None
            self._unpublished.draft = None
            self._part_folders = ()
            self._promised.clear()
            self._readers.clear()
            self._collector.forget()

    def acquire_lock(self) -> None:
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
                if not open_sessions.flush_other_sessions(self) and not self.lock_timeout:
                    raise
                at = lease.acquire(self.lock_timeout)
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
                self.acquire_lock()
                if self._holds == 0:
                    self.unlock()

    def try_append_row(self, group: str, row: Mapping[str, Any]) -> bool:
        """Take a row that surely fits the tensors of a row before it; tell whether it was taken.

        The row is encoded later, together with others, but counts at once.
        """
        with self.mutex:
            draft = self._draft_to_append()
            return draft is not None and draft.try_append_row(group, row) and self._bound_pending(draft)

    def try_append(self, key: str, sample: Any) -> bool:
        """Take a sample that surely fits a tensor; see :meth:`try_append_row`."""
        with self.mutex:
            draft = self._draft_to_append()
            return draft is not None and draft.try_append(key, sample) and self._bound_pending(draft)

    def _draft_to_append(self) -> Draft | None:
        draft = self._unpublished.draft
        if draft is None or self._unknown_commit or self._lost is not None or self._pid != os.getpid():
            return None
        return draft

    def _bound_pending(self, draft: Draft) -> bool:
        waited = clock.monotonic() - self._first_unpublished
        if self._holds == 0 and waited > config.MAX_UNPUBLISHED_SECONDS:
            self.flush()
        elif draft.buffer.is_full:
            with _Change(self) as draft:
                draft.encode_pending()
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
                self.acquire_lock()
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
            self._tell_lost()
            self.resolve_unknown_commit()
            if self.has_unpublished:
                with _Change(self) as draft:
                    draft.encode_pending()
                    snapshot = self.packed(draft)
                self._publish_draft(draft, snapshot)
            if self._holds == 0:
                self.unlock()

    def flush_waiting(self) -> None:
        """Publish what has waited for too long, for a thread that has no caller to raise an error to.

        What could not be published stays, and is tried again; that it was dropped is told by the next call that writes.
        """
        with self.mutex:
            if self._pid != os.getpid() or self._lost is not None:
                return
            try:
                self.publish_old()
            except CommitFailed as error:
                self._lost = error
                raise

    def _tell_lost(self) -> None:
        """Raise, once, that rows were dropped while no call was running."""
        lost, self._lost = self._lost, None
        if lost is not None:
            raise CommitFailed(
                f"rows that were appended some time ago could not be published, and are dropped: {lost}"
            ) from lost

    def _publish_draft(self, draft: Draft, snapshot: Snapshot) -> None:
        from lakebed.versions.updates import SwapHead

        self.publish(draft, [SwapHead(self.branch, draft.version_id)], [snapshot], leaving=True)

    def packed(self, draft: Draft) -> Snapshot:
        """Return what a draft holds, in chunks; what must be read for that is read at the same time."""
        self._tail_cache.fetch(draft.tails())
        return draft.snapshot()

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

    def unlock(self) -> None:
        """Let others write the branch; what is unpublished is dropped."""
        if self._lock is not None:
            self._passing = self._lock
            self._lock = self._unpublished.draft = None
        self._pass_on()

    def yield_lock(self) -> bool:
        """Publish and unlock for another dataset of this process, unless a ``with`` block holds on; say whether."""
        if self._lock is None or self._holds:
            return False
        self.flush()
        return True

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

    def close(self) -> None:
        """Publish and release the lock."""
        self._holds = 0
        self.flush()


class _Change:
    """One change of a session's draft, or a part of one: ``with`` gives the draft to work on.

    Parameters
    ----------
    prepare
        Sees to it that there is a draft; None: it is there.
    """

    __slots__ = ("_is_own", "_prepare", "_session")

    def __init__(self, session: Session, *, prepare: Callable[[], None] | None = None) -> None:
        self._session = session
        self._prepare = prepare
        self._is_own = False

    def __enter__(self) -> Draft:
        draft, self._is_own = self._session.begin_change(self._prepare, sys._getframe(1))  # noqa: SLF001
        return draft

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_own:
            self._session.end_change(is_made=kind is None)
            if kind is None and self._prepare is not None:
                self._session.publish_old()
