"""One open dataset at one branch or version: its reads, and the draft that collects changes."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from lakebed import config
from lakebed.documents.version_tree import new_id
from lakebed.errors import CommitFailed, InfoError, InvalidOperationError, ReadOnlyModeError
from lakebed.reading.samples import SampleReader
from lakebed.runtime import clock
from lakebed.runtime.failures import OnFailure
from lakebed.session.credentials import LinkCredentials
from lakebed.session.process import open_sessions
from lakebed.session.writer import Writer
from lakebed.storage.base import Storage, traits_of
from lakebed.versions.state import Snapshot
from lakebed.versions.tree_file import TreeAt

if TYPE_CHECKING:
    from lakebed.session.held_infos import Live
    from lakebed.writing.draft.draft import Draft
    from lakebed.writing.encode.links import Linking


class Session(Writer):
    """State shared by a dataset and all views and tensors made from it.

    Parameters
    ----------
    storage
        Storage of the dataset.
    ref
        Address of the version to open; None is ``main``.
    read_only
        Refuse every change.
    cache_bytes, as_of, start, head_of
        As in `Checkout`.
    lock_timeout
        Seconds to wait for another writer of the branch.
    credentials
        Credentials of links; None finds credentials by the names that the dataset declares.

    Attributes
    ----------
    epoch
        Number of events so far that make views outdated: additions or replacements of rows, and checkouts.
    credentials
        Credentials for following links.
    held_infos
        The infos that callers hold, by key; their values may have been changed in place.
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
        super().__init__(
            storage,
            ref,
            read_only=read_only,
            lock_timeout=lock_timeout,
            cache_bytes=cache_bytes,
            as_of=as_of,
            start=start,
            head_of=head_of,
        )
        self.credentials = LinkCredentials(storage) if credentials is None else credentials
        self._linking: Linking | None = None
        self.held_infos: dict[str, Live] = {}
        self.epoch = 0
        self._first_unpublished = 0.0
        open_sessions.enter(self)

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def has_unpublished(self) -> bool:
        draft = self._unpublished.draft
        return (draft is not None and draft.dirty) or any(
            live.is_changed for live in self.held_infos.values()
        )

    def store_held_infos(self) -> None:
        """Add in-place changes of infos that callers hold to the draft: all of them, or none.

        Raises
        ------
        InfoError
            If a value cannot be stored, or a commit is checked out.
        ReadOnlyModeError
            If the dataset is read-only. After this error and after InfoError, the changes are dropped.
        LockedException, StorageError
            If the dataset cannot be changed now; the next call tries again.
        """
        changed = {key: live for key, live in self.held_infos.items() if live.is_changed}
        if not changed:
            return
        from lakebed.session.held_infos import DATASET, stored_form

        new = {}
        try:
            self.check_info_changeable()
            with self.writing() as draft:
                schema = self.schema()
                known = {key: state.info for key, state in schema.tensors.items()} | {DATASET: schema.info}
                # Ignore changes of the infos of removed tensors.
                new = {key: stored_form(live.of(known[key])) for key, live in changed.items() if key in known}
                for key, info in new.items():
                    if key == DATASET:
                        draft.schema.set_info(info)
                    else:
                        draft.schema.set_tensor_info(key, info)
        except (InfoError, ReadOnlyModeError):
            for live in changed.values():
                live.forget()
            raise
        for key, live in changed.items():
            if key in new:
                live.rebase(new[key])
            else:
                live.forget()

    def check_info_changeable(self) -> None:
        """Refuse to change an info at an old commit: as in 3.x, only a change of samples starts a branch there.

        Raises
        ------
        InfoError
            If a commit is checked out.
        """
        node = self.tree.commits.get(self.snapshot.version_id)
        if node is not None and node.is_committed and not self.read_only:
            raise InfoError(
                "Cannot modify info from a non-head commit. Checkout a branch, or make one here with checkout(name, "
                "create=True)."
            )

    def schema(self) -> Snapshot:
        """Return the current version, with the lengths of unpublished changes, whose samples may have no chunks yet."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None:
                return self._position.snapshot
            work = self._unpublished.work
            draft = draft if work is None else work
            if draft.buffer.rows:
                draft = self._encoded()
            return draft.structure(is_final=work is None) if draft.dirty else self._position.snapshot

    def structure(self) -> Snapshot:
        """Return the current version; its lengths and extents may not include samples that were just added."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None:
                return self._position.snapshot
            work = self._unpublished.work
            draft = draft if work is None else work
            return draft.structure(is_final=work is None) if draft.dirty else self._position.snapshot

    def reader(self, key: str, name: str) -> SampleReader:
        """Return a reader of a tensor, which also reads unpublished samples of this session."""
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

    def _encoded(self) -> Draft:
        """Encode the samples that wait in the draft."""
        with _Change(self) as draft:
            draft.encode_pending()
        return draft

    def latest(self, key: str, name: str, row: int) -> Any:
        """Return a flat sample with unpublished changes, without packing unpublished samples into chunks."""
        with self.mutex:
            draft = self._unpublished.draft
            if draft is None or not draft.dirty or draft.tensors.seen[key].is_tiled(row):
                return self.reader(key, name).value(row)
            if draft.buffer.rows:
                draft = self._encoded()
            tensor = draft.tensors.seen[key]
            reader = SampleReader(name, tensor.state, self.source, self.credentials)
            pending = tensor.pending_sample(row)
            if pending is None:
                return reader.value(tensor.chunk_row(row))
            return reader.decode(pending.joined(), pending.shape(0))

    @property
    def pending_id(self) -> str:
        """Id of the next commit, chosen on first access; the version's id if the session cannot commit here.

        The head's own id does not become the commit's id, because every publish changes it.
        """
        with self.mutex:
            self._after_fork()
            if self.read_only or not self.is_head:
                return self.structure().version_id
            return self._promised.setdefault(self.branch, new_id())

    def pop_promised_id(self) -> str | None:
        """Return the id that :attr:`pending_id` chose for the next commit, and forget it; None if it chose none."""
        return self._promised.pop(self.branch, None)

    def known_as(self, address: str) -> str:
        """Return the branch whose next commit will get this id; return other addresses unchanged."""
        return next((branch for branch, id_ in self._promised.items() if id_ == address), address)

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def linking(self) -> Linking:
        """Credentials and limits that apply to appended links."""
        if self._linking is None:
            from lakebed.writing.encode.links import Linking

            self._linking = Linking(self.credentials, dataset=traits_of(self.storage).folder or None)
        return self._linking

    def writing(self, *, sound: bool = True) -> _Change:
        """Return a context manager for one change; it gives the draft, and drops the whole change after an error.

        Use it as ``with session.mutex, session.writing() as draft``: the interpreter itself then releases the mutex,
        even after an interrupt. Changes that have waited too long are published at the end. Read the schema inside of
        the context: taking the lock may load a version of another writer.

        Parameters
        ----------
        sound
            Refuse a head whose lengths contradict each other, which a killed Deep Lake 3.x can leave.

        Raises
        ------
        ReadOnlyModeError
            If the dataset was opened read-only, or the version is neither a commit nor a head.
        LockedException
            If another writer holds the branch.
        DatasetCorruptError
            If the lengths in the head contradict each other.
        """
        return _Change(self, prepare=lambda: self._prepare(sound=sound))

    def draft(self) -> Draft:
        """Return the draft of the current change."""
        draft = self._unpublished.draft
        if draft is None:
            raise InvalidOperationError("no change is being made")
        return draft

    def _prepare(self, *, sound: bool) -> None:
        """Take the writer's lock and make a draft, unless both exist."""
        self._after_fork()
        self._tell_lost()
        self.resolve_unknown_commit()
        if self._unpublished.draft is not None:
            return
        from lakebed.session.process import publisher
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

    def _begin_change(self, prepare: Callable[[], None] | None, frame: FrameType) -> tuple[Draft, bool]:
        """Begin a change for a frame of the program, unless it is part of a change that has begun already.

        Returns
        -------
        tuple
            The draft, and whether a new change was begun.
        """
        draft = self._unpublished.work
        if draft is not None:
            if prepare is not None:
                draft.encode_pending()
            return draft, False
        if prepare is not None:
            prepare()
        draft = self._unpublished.begin(frame)
        if prepare is not None:
            with OnFailure(partial(self._end_change, is_made=False)):
                draft.encode_pending()
        return draft, True

    def _end_change(self, *, is_made: bool) -> None:
        """End a change: keep it, or restore the state before it."""
        if is_made:
            self._unpublished.keep()
            return
        made = self._unpublished.give_up()
        if made is not None and not self._unknown_commit:
            made.tensors.give_up()
        if not self.has_unpublished and not self._unknown_commit:
            self.discard()

    def seconds_left(self) -> float | None:
        """Return the number of seconds that unpublished changes may still wait; None without unpublished changes.

        Within a ``with`` block of the dataset this is the full time, so nothing is published before the block's end.
        """
        if self._unpublished.draft is None or self._pid != os.getpid():
            return None
        left = config.MAX_UNPUBLISHED_SECONDS - (clock.monotonic() - self._first_unpublished)
        return left if self._holds == 0 else max(left, config.MAX_UNPUBLISHED_SECONDS)

    def publish_old(self) -> None:
        """Publish changes that have waited too long."""
        left = self.seconds_left()
        if left is not None and left <= 0:
            self.flush()

    def begin_in_child(self) -> None:
        """Repair the session in a forked child, in which the other threads of its parent do not exist.

        Another thread may have held the mutex and been changing the draft, so mutex and draft are replaced.
        """
        self.credentials.begin_in_child()
        if self.mutex.acquire(blocking=False):
            self.mutex.release()
            return
        self.mutex = threading.RLock()
        self._after_fork()

    def check_writable(self) -> None:
        """Check that changes are possible now.

        Raises
        ------
        LockedException
            If another process is writing the branch.
        StorageError
            If the storage refuses changes.
        """
        with self.mutex:
            if self._lock is None:
                self.acquire_lock()
                if self._holds == 0:
                    self.unlock()

    def try_append_row(self, group: str, row: Mapping[str, Any]) -> bool:
        """Append a row if a row with the same types was checked before; return whether it was appended.

        The row is encoded later, together with other rows, but already counts in the length of the dataset.
        """
        with self.mutex:
            draft = self._draft_to_append()
            return draft is not None and draft.try_append_row(group, row) and self._bound_pending(draft)

    def try_append(self, key: str, sample: Any) -> bool:
        """Append a sample if a sample of the same type was checked before; see :meth:`try_append_row`."""
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
            self._encoded()
        return True

    def hold(self) -> None:
        """Keep the writer's lock until :meth:`release`, through any number of publishes."""
        with self.mutex:
            self._after_fork()
            if self.is_head and not self.read_only:
                self.acquire_lock()
            self._holds += 1

    def release(self) -> None:
        """End the effect of one call of :meth:`hold`, and publish changes."""
        with self.mutex:
            self._holds = max(0, self._holds - 1)
            self.flush()

    def flush(self) -> None:
        """Publish all changes: they are durable and visible to readers when this returns.

        After an error of the storage the changes and the lock are kept, and the caller can try again.

        Raises
        ------
        CommitFailed
            If another writer changed the branch in spite of the lock; unpublished changes are dropped.
        """
        with self.mutex:
            self._after_fork()
            self._tell_lost()
            self.resolve_unknown_commit()
            self.store_held_infos()
            if self.has_unpublished:
                with _Change(self) as draft:
                    draft.encode_pending()
                    snapshot = self.packed(draft)
                from lakebed.versions.updates import SwapHead

                self.publish(draft, [SwapHead(self.branch, draft.version_id)], [snapshot], leaving=True)
            if self._holds == 0:
                self.unlock()

    def flush_waiting(self) -> None:
        """Publish changes that have waited too long, from a thread without a caller that could handle errors.

        After an error the changes are kept for another attempt. If the changes had to be dropped, the next call that
        writes raises an error.
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
        """Raise an error, once, if rows were dropped in the background."""
        lost, self._lost = self._lost, None
        if lost is not None:
            raise CommitFailed(
                f"rows that were appended some time ago could not be published, and are dropped: {lost}"
            ) from lost

    def packed(self, draft: Draft) -> Snapshot:
        """Return the version of a draft with all samples packed into chunks; needed chunks are read concurrently."""
        self._tail_cache.fetch(draft.tails)
        return draft.snapshot()

    def yield_lock(self) -> bool:
        """Publish and unlock for another dataset of this process; return False inside a ``with`` block."""
        if self._lock is None or self._holds:
            return False
        self.flush()
        return True

    def close(self) -> None:
        """Publish and release the lock."""
        self._holds = 0
        self.flush()


class _Change:
    """Context manager of one change of a session's draft, or of a part of a change; it gives the draft.

    Parameters
    ----------
    prepare
        Makes the draft; None if it exists.
    """

    __slots__ = ("_is_own", "_prepare", "_session")

    def __init__(self, session: Session, *, prepare: Callable[[], None] | None = None) -> None:
        self._session = session
        self._prepare = prepare
        self._is_own = False

    def __enter__(self) -> Draft:
        draft, self._is_own = self._session._begin_change(self._prepare, sys._getframe(1))  # noqa: SLF001
        return draft

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_own:
            self._session._end_change(is_made=kind is None)  # noqa: SLF001
            if kind is None and self._prepare is not None:
                self._session.publish_old()
