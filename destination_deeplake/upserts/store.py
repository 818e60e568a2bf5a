"""Rows by key in a dataset: publish many, merge seldom.

While the dataset is small, rows take the place of older ones as they come (`at_once`). Later, rows of keys that are
surely new go straight into it, and all others wait in a delta (`delta`) and take the place of older ones at the next
merge. All are durable when `publish` returns; readers see those that wait after `merge`.
There is no index on disk that could be lost: a filter of the known keys is made by one scan of the key columns, once so
many rows have come that it is worth it; until then every key is taken for a known one.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.naming import DELTA_BRANCH
from destination_deeplake.upserts.at_once import Allowance, merge_at_once
from destination_deeplake.upserts.collapse import older_duplicates
from destination_deeplake.upserts.delta import Delta
from destination_deeplake.upserts.keying import Keying
from destination_deeplake.upserts.keys import Hashes, KeyFilter
from destination_deeplake.upserts.merge import MergeCount, merge
from destination_deeplake.upserts.newest import newest_rows
from destination_deeplake.upserts.putting_off import Checkpoint, MergePutOffError, go_on
from destination_deeplake.upserts.tombstones import Buried, Tombstones
from destination_deeplake.upserts.windows import taken, windows


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a delta before it is merged; a merge takes a multiple of them as memory.

    Attributes
    ----------
    rows : int
        Rows of all columns.
    column_bytes : int
        Bytes of the largest column.
    unlearned : float
        Rows that may come before the known keys are learned, as a part of those that the dataset has.
    at_once : int
        Bytes that the dataset has when rows begin to wait. Below that they do where much would be written anew for few,
        or time is short.
    """

    rows: int = 2_000_000
    column_bytes: int = 256_000_000
    unlearned: float = 0.02
    at_once: int = 8_000_000


BUDGET = Budget()
"""Default limits."""


class UpsertStore:
    """The rows of one dataset, one for each key.

    Parameters
    ----------
    base : lakebed.Dataset
        What readers see; its writer's lock is best held for as long as the store is used.
    key : sequence of str
        Tensors that together name a row.
    cursor : str or None
        Tensor whose greater value tells the newer row.
    deleted : str or None
        Tensor that is not null in rows that delete their key; None: every row is an ordinary one.
    documents, fields, numbers, called, digits
        As in `Keying`.
    extracted : str
        Tensor that tells the newer row where cursors are equal, or there is none.
    branch : str
        Name of the side branch that holds the delta.
    rekeyed : bool
        Whether the dataset may hold several rows of one key, because its key was another one, or none: the next merge
        keeps the newest of them.
    budget : Budget or None
        What may wait; None is `BUDGET`.
    checkpoint : Checkpoint
        Asked at each step of a merge whether there is time for it.
    tombstones : Tombstones or None
        Deletions that are remembered past the merge; None: none is.
    """

    def __init__(
        self,
        base: lakebed.Dataset,
        *,
        key: Sequence[str],
        cursor: str | None,
        deleted: str | None,
        documents: Sequence[str] = (),
        fields: Sequence[str] = (),
        numbers: Mapping[str, str] | None = None,
        called: Mapping[str, str] | None = None,
        digits: Sequence[str] = (),
        extracted: str = "_airbyte_extracted_at",
        branch: str = DELTA_BRANCH,
        rekeyed: bool = False,
        budget: Budget | None = None,
        checkpoint: Checkpoint = go_on,
        tombstones: Tombstones | None = None,
    ) -> None:
        order = (extracted,) if cursor is None else (cursor, extracted)
        self._base = base
        self._keying = Keying(
            tuple(key),
            order,
            deleted,
            tuple(documents),
            tuple(fields),
            dict(numbers or {}),
            dict(called or {}),
            tuple(digits),
        )
        self._delta = Delta(base, branch)
        self._rekeyed = rekeyed
        self._budget = BUDGET if budget is None else budget
        self._allowance = Allowance(self._budget.at_once)
        self._checkpoint = checkpoint
        self._tombstones = tombstones
        self._known: KeyFilter | None = None
        self._has_begun = False
        self._merged = MergeCount()

    @property
    def keying(self) -> Keying:
        """Identity, order and deletion of the rows."""
        return self._keying

    @property
    def pending(self) -> int:
        """Rows that wait for the next merge."""
        return self._delta.rows

    def publish(self, batch: Mapping[str, pa.Array]) -> None:
        """Take in rows in the order of their arrival; they are durable when this returns.

        Parameters
        ----------
        batch : mapping of str to pyarrow.Array
            Tensors, those of key, cursor and so on among them, and their values as they are to be stored, all of one
            length.

        Raises
        ------
        TypeError
            If a column of the key or the order holds neither numbers, moments, booleans nor texts.
        """
        rows = len(batch[self._keying.key[0]])
        if not rows:
            return
        if not self._has_begun:
            self._merge_delta()  # what an earlier store left
            self._has_begun = True
        hashes = self._keying.hashes_of_batch(batch)
        gone = self._keying.is_deleted(batch, rows)
        if self._may_merge_at_once(batch, gone):
            self._merged += merge_at_once(self._base, batch, self._keying, hashes, self._buried())
            if self._known is not None:
                self._known.add(hashes)
            return
        newest = newest_rows(hashes, self._keying.ordered(batch))
        hashes = hashes[newest]
        known = self._may_be_known(hashes)
        # Deleted keys are remembered until the next merge: an older row may arrive late.
        known |= gone[newest]
        fresh = ~known
        if fresh.any():
            self._base.extend(_chosen(batch, newest[fresh], rows), append_empty=True)
            self._base.flush()
            self._filter().add(hashes[fresh])
        if gone.any() and self._known is not None:
            self._known.add(hashes[gone[newest]])
        if known.any():
            self._delta.append(_chosen(batch, newest[known], rows), self._keying)

    def make_room(self) -> None:
        """Merge what waits if it is too much; best called after `publish`, when its batch was let go."""
        if self._delta.rows >= self._budget.rows or self._delta.widest >= self._budget.column_bytes:
            # All rows are durable: where there is no time, they wait on.
            with contextlib.suppress(MergePutOffError):
                self._merge_delta()

    def merge(self) -> MergeCount:
        """Give readers one row, the newest, for every key; durable when this returns.

        Returns
        -------
        What was merged since the store was made, or since the last call of this.

        Raises
        ------
        MergePutOffError
            If there is no time for it: readers see what they saw, and what waits goes on waiting.
        """
        if self._rekeyed:
            extra = older_duplicates(self._base, self._keying, checkpoint=self._checkpoint)
            if len(extra):
                self._base.pop_rows(extra)
                self._base.flush()
            self._merged += MergeCount(collapsed=len(extra))
            self._rekeyed = False
        self._merge_delta()
        merged, self._merged = self._merged, MergeCount()
        return merged

    def forget(self) -> None:
        """Forget rows that a step which failed left unpublished; what waits durably goes on waiting."""
        self._delta.forget()

    def _may_merge_at_once(self, batch: Mapping[str, pa.Array], gone: NDArray[np.bool_]) -> bool:
        if self._delta.rows or gone.any():
            return False
        return self._allowance.take(self._base, batch, is_hurried=self._is_hurried())

    def _is_hurried(self) -> bool:
        try:
            self._checkpoint()
        except MergePutOffError:
            return True
        return False

    def _may_be_known(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Tell for each key whether the dataset or the delta may have it."""
        few = self._base.max_len * self._budget.unlearned
        if self._known is None and self._delta.rows + len(hashes) <= few:
            return np.ones(len(hashes), dtype=np.bool_)
        return self._filter().may_hold(hashes)

    def _filter(self) -> KeyFilter:
        """Return the keys that there are, learned when they are first asked for."""
        if self._known is None:
            self._known = KeyFilter(self._base.max_len + self._delta.rows)
            for dataset in (self._base, self._delta.dataset) if self._delta.rows else (self._base,):
                for first, columns in windows(dataset, self._keying.key_in(dataset)):
                    self._known.add(self._keying.hashes_of_window(dataset, first, columns))
            buried = self._buried()
            if buried is not None:
                self._known.add(buried.hashes)
        return self._known

    def _buried(self) -> Buried | None:
        return None if self._tombstones is None else self._tombstones.of(self._keying)

    def _merge_delta(self) -> None:
        self._merged += _merged(self._base, self._delta, self._checkpoint, self._tombstones)


def settle(
    base: lakebed.Dataset,
    branch: str = DELTA_BRANCH,
    checkpoint: Checkpoint = go_on,
    tombstones: Tombstones | None = None,
) -> MergeCount | None:
    """Merge the delta that an interrupted sync left, before anything else changes the dataset.

    The rows go by the columns that were key and order when they came.

    Returns
    -------
    What was merged; None if there was no delta.

    Raises
    ------
    MergePutOffError
        If `checkpoint` says so.
    """
    delta = Delta(base, branch)
    if not delta.exists:
        return None
    return _merged(base, delta, checkpoint, tombstones)


def _merged(
    base: lakebed.Dataset, delta: Delta, checkpoint: Checkpoint, tombstones: Tombstones | None
) -> MergeCount:
    """Merge a delta and drop it; a crash in between merges the same rows once more, which changes nothing."""
    keying = delta.keying
    count = MergeCount()
    if keying is not None and delta.rows:
        count = merge(base, delta.dataset, keying, checkpoint, tombstones)
    delta.drop()
    return count


def _chosen(batch: Mapping[str, pa.Array], rows: NDArray[np.int64], count: int) -> dict[str, pa.Array]:
    """Return some rows of a batch, ascending."""
    if len(rows) == count:
        return dict(batch)
    return taken(batch, rows)


__all__ = ["DELTA_BRANCH", "Budget", "MergeCount", "UpsertStore", "settle"]
