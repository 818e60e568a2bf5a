"""The writer of one stream's dataset.

    append                rows go to the branch that readers see; every publish is visible at once
    dedup                 new keys likewise; newer rows of known keys wait on a side branch and are merged in at the
                          end (`upserts`)
    overwrite, truncate   rows go to a side branch that replaces all existing rows when the stream is complete
                          (`staging`)

A sync ends with `finish` or `abandon`, then `commit`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import DELETION_DAYS
from destination_deeplake.columns import ONE_LANE, Batch, Lanes, RecordTable
from destination_deeplake.lake import Lake, hold
from destination_deeplake.naming import DELETED_AT, DELTA_BRANCH, META_COLUMNS
from destination_deeplake.stream.layout import StoredColumns, prepare
from destination_deeplake.stream.left import LeftRows, left_rows
from destination_deeplake.stream.misfits import Misfit
from destination_deeplake.stream.record import INFO_KEY, label, recorded, remember
from destination_deeplake.stream.staging import (
    DELETED_KEY,
    STAGING_BRANCH,
    STAGING_DELTA_BRANCH,
    deleted_branches,
    discard,
    expire,
    forget_others,
    has_older_rows,
    is_resumable,
    is_staged,
    side_branch,
    staging,
)
from lakebed.runtime.failures import outcome
from lakebed.upserts.putting_off import Checkpoint, MergePutOffError, go_on

if TYPE_CHECKING:
    import pyarrow as pa

    from lakebed.upserts.keying import Keying
    from lakebed.upserts.store import MergeCount, UpsertStore
    from lakebed.upserts.tombstones import Tombstones


class StreamWriter:
    """A writer of the rows of one stream in one sync, from `open_stream`.

    Parameters
    ----------
    plan : StreamPlan
        Plan of the stream.
    target : lakebed.Dataset
        The dataset as readers see it, held for writing by `held`.
    staged : lakebed.Dataset or None
        Side branch that will replace the dataset; None if rows are added to the dataset itself.
    held : contextlib.ExitStack
        Releases the dataset for other writers.
    hard_deletes : bool
        Whether deletions at the source remove rows, in DEDUP.
    keep_refused : bool
        Whether the table keeps values that do not fit, for `publish` to return.
    checkpoint : Checkpoint
        Called at each step of a merge; if time is short, it raises, and the next sync merges.
    deletion_days : int
        Number of days for which hard deletions are remembered.
    lanes : Lanes
        Inputs of the records.

    Attributes
    ----------
    table : RecordTable
        Receives records from the wire; `publish` empties it.
    notes : list of str
        Notes for the user on opening the stream.
    merged : MergeCount or None
        Outcome of merges of newer rows with known keys.
    keyless : tuple of two int, or None
        Number of records without a value in a field of their primary key, and the first one's number, from 1.
    untimed : int
        Number of records without a readable time of extraction.
    expired : int
        Number of removed rows of older generations.
    replaced : tuple of two int, or None
        Numbers of rows that readers saw before and see now, if this sync has replaced all rows.
    was_swapped : bool
        Whether the rows of this sync have replaced all others.
    was_put_off : bool
        Whether readers will see some durable rows only after the next sync, because time was too short to merge them.
    commit_id : str or None
        The version that `commit` made; None if there were no changes.
    """

    def __init__(
        self,
        plan: StreamPlan,
        target: lakebed.Dataset,
        staged: lakebed.Dataset | None,
        held: contextlib.ExitStack,
        *,
        hard_deletes: bool = True,
        keep_refused: bool = False,
        checkpoint: Checkpoint = go_on,
        deletion_days: int = DELETION_DAYS,
        lanes: Lanes = ONE_LANE,
    ) -> None:
        self.plan = plan
        self.keyless: tuple[int, int] | None = None
        self._seen = 0
        self.notes: list[str] = []
        self._target = target
        self._staged = staged
        self._is_staged = staged is not None
        self._held = held
        known: Mapping[str, Any] | None = target.info.get(INFO_KEY)
        self._is_outdated = staged is None and has_older_rows(known, plan)
        columns = {} if known is None else known.get("columns", {})
        with contextlib.ExitStack() as opening:
            # Lock the side branch, too, so that no other process continues it.
            if staged is not None:
                opening.enter_context(hold(staged))
            self._columns: StoredColumns = prepare(self._dataset, plan, columns, self.notes)
            self._store: UpsertStore | None = None
            if plan.mode is WriteMode.DEDUP:
                self._store = self._upserts(checkpoint, hard_deletes=hard_deletes, days=deletion_days)
            remember(self._dataset, mode=plan.mode.value)
            if self._store is None:
                remember(self._dataset, key=None)
                _forget_deletions(self._dataset)
            self._staged_held = opening.pop_all()
        self.table = RecordTable(
            self._columns.fields,
            sync_id=plan.sync_id,
            generation_id=plan.generation_id,
            files=plan.include_files,
            keep_refused=keep_refused,
            exact=self._columns.exact,
            fields=plan.field_order,
            lanes=lanes,
        )
        self._keeps_refused = self._columns.keeps_refused = keep_refused
        self._written = 0
        self._partitions = Counter[str]()
        self._misfits: list[Misfit] | None = None
        self._is_changed = False
        self._is_over = False
        self._is_let_go = False
        self.merged: MergeCount | None = None
        self.untimed = 0
        self.expired = 0
        self.replaced: tuple[int, int] | None = None
        self.was_swapped = False
        self.was_put_off = False
        self.commit_id: str | None = None

    def _upserts(self, checkpoint: Checkpoint, *, hard_deletes: bool, days: int) -> UpsertStore:
        # Imported here, because syncs without such streams do not need it.
        from lakebed.upserts.store import UpsertStore

        base, plan = self._dataset, self.plan
        self._key = [self._columns.tensor(path) for path in plan.primary_key]
        if not len(base):
            remember(base, key=self._key)
        cursor = self._columns.tensor(plan.cursor) if plan.cursor else None
        deletes = hard_deletes and any(column.path == DELETED_AT for column in self._columns.fields)
        self._deleted = self._columns.tensor(DELETED_AT) if deletes else None
        self._days = days
        return UpsertStore(
            base,
            key=self._key,
            cursor=cursor,
            deleted=self._deleted,
            **self._columns.comparison,
            documents=[cursor] if cursor and base[cursor].htype == "json" else [],
            fields=[".".join(path[:end]) for path in plan.primary_key for end in range(1, len(path) + 1)],
            branch=side_branch(DELTA_BRANCH if self._staged is None else STAGING_DELTA_BRANCH, self._target),
            # If the dataset had another key or none before, it may hold several rows of one key; the first merge
            # searches for them.
            rekeyed=self._is_rekeyed(base),
            checkpoint=checkpoint,
            tombstones=_tombstones(base, self._target, days) if deletes else None,
        )

    def _is_rekeyed(self, base: lakebed.Dataset) -> bool:
        return bool(base.info[INFO_KEY].get("key") != self._key)

    @property
    def _dataset(self) -> lakebed.Dataset:
        return self._staged if self._staged is not None else self._target

    @property
    def durable(self) -> int:
        """Number of records of this sync that a STATE may acknowledge.

        Rows on a side branch that no later attempt could continue are acknowledged only after the replacement.
        """
        return 0 if self._is_staged and not is_resumable(self.plan) else self._written

    @property
    def waiting_partitions(self) -> Mapping[str, int]:
        """Number of records of each partition that are written but that no STATE may acknowledge yet."""
        return self._partitions

    def take_durable_partitions(self) -> Mapping[str, int]:
        """Return, by partition, the number of records that a STATE may acknowledge in addition since the last call."""
        if self._is_staged and not is_resumable(self.plan):
            return {}
        taken, self._partitions = self._partitions, Counter()
        return taken

    @property
    def written(self) -> int:
        """Number of records of this sync that are published, on the visible or on a side branch."""
        return self._written

    @property
    def misfits(self) -> list[Misfit]:
        """Values that did not fit and were stored as null, by column, most frequent first."""
        if self._misfits is None:
            found = self._columns.misfits
            found += [
                Misfit(name, refused.count, None, refused.first, "that are not objects")
                for name, refused in self.table.broken_objects().items()
            ]
            return sorted(found, key=lambda misfit: -misfit.count)
        return self._misfits

    @property
    def removes_rows(self) -> bool:
        """True if the end of the complete stream removes visible rows."""
        return self._is_staged or self._is_outdated

    def publish(self) -> list[tuple[pa.Table, dict[str, pa.Array]]]:
        """Publish the rows of the table.

        Returns
        -------
        list of tuple of pyarrow.Table and dict
            Values that did not fit, in the form of `Batch.refused`, and their rows; empty if there are none or they are
            not kept.
        """
        if not self.table.rows or self._is_over:
            return []
        # After a failure below, these rows are missing from the table, so the sync must not continue.
        self._is_over = True
        batches, result = self.table.take(), []
        partitions = Counter[str]()
        rows = 0
        while batches:
            taken = batches.pop(0)
            self.untimed += taken.columns[META_COLUMNS[1]].null_count
            self._write(taken, is_last=not batches)
            if taken.refused is not None:
                refused = self._columns.take_refused(taken.refused)
                if refused.num_rows:
                    result.append((refused, taken.columns))
            rows += taken.rows
            partitions.update(taken.partitions)
            del taken
        self._written += rows
        self._partitions.update(partitions)
        self._is_changed |= not self._is_staged
        if self._store is not None:
            self._store.make_room()
        self._is_over = False
        return result

    def _write(self, taken: Batch, *, is_last: bool) -> None:
        for batch in self._columns.batches(taken.columns, taken.misfits, taken.numbers):
            if self._store is not None:
                self._note_incomplete(self._store.keying, batch)
                self._store.publish(batch)
            else:
                # Tensors that users added to the dataset (labels, embeddings) get empty samples.
                self._dataset.extend(batch, append_empty=True)
                if is_last or self.plan.include_files:
                    self._dataset.flush()

    def _note_incomplete(self, keying: Keying, batch: Mapping[str, pa.Array]) -> None:
        rows, before = keying.incomplete(batch), self._seen
        self._seen += len(batch[keying.key[0]])
        if len(rows):
            count, first = self.keyless or (0, before + int(rows[0]) + 1)
            self.keyless = count + len(rows), first

    def finish(self) -> bool:
        """Complete the stream: merge the waiting rows, or replace all rows by them, and remove older generations.

        Returns
        -------
        bool
            False if a merge was put off: the next sync does it, and staged rows stay staged.
        """
        if self._is_over:
            return False
        self._is_over = True
        if not self._merge():
            self._is_over = False
            return False
        if self._staged is not None:
            self.replaced = len(self._target), len(self._staged)
            self._staged_held.close()
            self._target.finish_overwrite(side_branch(STAGING_BRANCH, self._target))
            self._staged, self._is_staged = None, False
            forget_others(self._target)
            self.was_swapped = self._is_changed = True
        elif self._is_outdated:
            self.expired = expire(self._target, self.plan.oldest_wanted)
            _forget_deletions(self._target)
            remember(self._target, generation_id=self.plan.oldest_wanted)
            self._is_changed |= self.expired > 0
        self._is_over = False
        return True

    def abandon(self) -> None:
        """End an incomplete sync: staged rows stay for the next one."""
        if self._is_over:
            return
        self._is_over = True
        if not self._is_staged:
            self._merge()
        self._is_over = False

    def _merge(self) -> bool:
        if self._store is not None:
            try:
                self.merged = self._store.merge()
            except MergePutOffError:
                self.was_put_off = True
                return False
            # From now on, every key is unique.
            remember(self._dataset, key=self._key)
        return True

    def commit(self, message: str) -> None:
        """Commit the visible changes of the sync as one version, if there are any, and release the dataset.

        After a failed step, nothing is committed, and unpublished changes are discarded.
        """
        if self._is_over:
            self._give_up()
            return
        self._is_over = True
        with self.given_up_on_failure():
            self._staged_held.close()
            with self._held:
                if self._is_changed:
                    self.commit_id = self._target.commit(message, allow_empty=True)
        self._let_go()

    def given_up_on_failure(self) -> contextlib.ExitStack:
        """Return a context manager that discards unpublished changes if its block fails."""
        stack = contextlib.ExitStack()
        stack.push(self._failed)
        return stack

    def _failed(self, _: object, error: BaseException | None, __: object) -> None:
        """Discard unpublished changes; a second error becomes a note of the first one."""
        if error is None:
            return
        self._is_over = True
        another = outcome(self._give_up, kind=Exception).error
        if another is not None:
            error.add_note(f"Then the dataset could not be released: {type(another).__name__}: {another}")

    def _give_up(self) -> None:
        """Discard unpublished changes, which would otherwise be published when the process ends."""
        if self._is_let_go:
            return
        with contextlib.ExitStack() as steps:
            # Run all these steps, the last one first, even if one fails.
            steps.callback(self._let_go)
            steps.callback(self._held.close)
            steps.callback(self._staged_held.close)
            if self._store is not None:
                steps.callback(self._store.forget)
            for dataset in (self._target, self._staged):
                if dataset is not None:
                    steps.callback(dataset.discard)

    def _let_go(self) -> None:
        """Keep only counts, because the caches of hundreds of open datasets would fill the memory."""
        self._misfits = self.misfits
        self._is_let_go = True
        self._staged = self._store = None
        del self._columns, self._target

    def release(self) -> None:
        """Release the dataset without writing anything."""
        self._is_over = True
        self._staged_held.close()
        self._held.close()

    def settled(self) -> None:
        """Note that rows of an interrupted sync were merged on opening, which is a change to commit."""
        self._is_changed = True

    def bring_in(self, left: lakebed.Dataset) -> None:
        """Add the rows of an interrupted replacement that no sync will continue, and drop its branch.

        A crash adds either no row or all rows; the next sync detects which.
        """
        deletions = self._deletions_of(left)
        # In a read-only dataset, `pending_commit_id` is the id of the staged version, not of a future commit.
        left.read_only = True
        origin = left.pending_commit_id
        info = self._target.info[INFO_KEY]
        if info.get("brought_in") != origin:
            rows = LeftRows(left, self._target, self._columns)
            for batch in rows.batches():
                if self._store is not None:
                    self._store.publish(batch)
                    self._store.make_room()
                else:
                    self._target.extend(batch, append_empty=True)
            if deletions and self._store is not None and self._deleted is not None:
                # Deletions by the refresh also apply to the rows that the dataset has now.
                gone = rows.deletions(deletions, self._key, self._deleted)
                if gone:
                    self._store.publish(gone)
            remember(self._target, brought_in=origin)
            self._target.flush()
            self.notes.append(f"{len(left)} rows that an interrupted refresh had staged are added")
        discard(self._target)
        remember(self._target, brought_in=None)
        self._is_changed = True

    def _deletions_of(self, left: lakebed.Dataset) -> Mapping[str, pa.Array]:
        """Return key and order of rows that an interrupted refresh has deleted, by tensor; empty if it deleted none."""
        if self._store is None or self._deleted is None:
            return {}
        return _tombstones(left, self._target, self._days).recall()


def open_stream(
    lake: Lake,
    plan: StreamPlan,
    *,
    hard_deletes: bool = True,
    keep_refused: bool = False,
    checkpoint: Checkpoint = go_on,
    deletion_days: int = DELETION_DAYS,
    lanes: Lanes = ONE_LANE,
) -> StreamWriter:
    """Open or create the dataset of a stream, with a tensor for every column; see `StreamWriter`.

    Rows that an interrupted sync left unmerged are merged first, by their own key.

    Raises
    ------
    ConfigError
        If the folder has the dataset of another stream, or a dataset that this connector did not write.
    MergePutOffError
        If the time is too short for that merge.
    lakebed.errors.LakebedError, OSError
        If the dataset cannot be opened or written.
    """
    target = lake.open(plan)
    known = recorded(target, plan, lake.address(plan))
    with contextlib.ExitStack() as holding:
        # Hold the lock for the whole sync, so that a second sync fails at its start.
        holding.enter_context(hold(target))
        is_settled = _settle(target, target, DELTA_BRANCH, checkpoint, deletion_days)
        staged, left, is_resumed = None, None, False
        if is_staged(known, plan):
            label(target, plan, known)
            staged, is_resumed = staging(target, plan)
        else:
            left = left_rows(target, plan)
            if left is None:
                discard(target)
        for side in (staged, left):
            if side is not None:
                _settle(side, target, STAGING_DELTA_BRANCH, checkpoint, deletion_days)
        kept = contextlib.ExitStack()
        writer = StreamWriter(
            plan,
            target,
            staged,
            kept,
            hard_deletes=hard_deletes,
            keep_refused=keep_refused,
            checkpoint=checkpoint,
            deletion_days=deletion_days,
            lanes=lanes,
        )
        kept.push(holding.pop_all())
    if staged is not None and is_resumed:
        writer.notes.append(f"continuing with {len(staged)} rows of an interrupted sync")
    if left is not None:
        writer.bring_in(left)
    if is_settled:
        writer.notes.append("rows that an interrupted sync had not merged are merged now")
        writer.settled()
    return writer


def _settle(
    dataset: lakebed.Dataset, target: lakebed.Dataset, name: str, checkpoint: Checkpoint, days: int
) -> bool:
    """Merge rows that an earlier sync left on a delta branch; return whether there were any."""
    delta = side_branch(name, target)
    if delta not in dataset.branches:
        return False
    from lakebed.upserts.store import settle

    return settle(dataset, delta, checkpoint, _tombstones(dataset, target, days)) is not None


def _tombstones(dataset: lakebed.Dataset, target: lakebed.Dataset, days: int) -> Tombstones:
    """Return the remembered deletions of the target, or of its replacement."""
    from lakebed.upserts.tombstones import Tombstones

    return Tombstones(dataset, deleted_branches(target, staged=dataset is not target), days=days)


def _forget_deletions(dataset: lakebed.Dataset) -> None:
    """Drop the name of the branch of deletions, which do not concern the new rows."""
    if DELETED_KEY in dataset.info:
        del dataset.info[DELETED_KEY]
