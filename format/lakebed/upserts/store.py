"""Rows by key in a dataset: many publishes, few merges.

While the dataset is small, arriving rows replace older ones at once (`at_once`). Later, rows of keys that are certainly
new are added directly, and all other rows wait in a delta (`delta`) for the next merge. All rows are durable when
`publish` returns; readers see waiting rows after `merge`. No index of the keys is stored: once enough rows have
arrived, one scan of the key columns makes a filter of the known keys; until then every key counts as known.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.upserts.at_once import Allowance, merge_at_once
from lakebed.upserts.collapse import older_duplicates
from lakebed.upserts.delta import Delta
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import Hashes, KeyFilter
from lakebed.upserts.merge import MergeCount, merge
from lakebed.upserts.newest import newest_rows
from lakebed.upserts.putting_off import Checkpoint, MergePutOffError, go_on
from lakebed.upserts.tombstones import Buried, Tombstones
from lakebed.upserts.windows import taken, windows

DELTA_BRANCH = "lakebed-delta"
"""Default name of the side branch."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a delta before it is merged; a merge needs a multiple of these limits as memory.

    Attributes
    ----------
    rows : int
        Maximum number of waiting rows.
    column_bytes : int
        Maximum size of the largest column of the waiting rows, in bytes.
    unlearned : float
        Number of arrived rows after which the keys of the dataset are read, as a fraction of the dataset's rows.
    at_once : int
        Minimum size in bytes of a dataset whose rows wait. In smaller datasets, rows wait if many bytes would be
        rewritten for few rows, or if time is short.
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
    base : Dataset
        The dataset that readers see; the caller must hold its writer's lock while the store is used.
    key : sequence of str
        Tensors that identify a row.
    cursor : str or None
        Tensor whose greater value marks the newer row.
    deleted : str or None
        Tensor that is not null in rows that delete their key; None if rows cannot delete.
    documents, fields, numbers, called, digits
        As in `Keying`.
    extracted : str
        Tensor whose greater value marks the newer row if cursors are equal or missing; None for the order of arrival.
    branch : str
        Name of the side branch that holds the delta.
    rekeyed : bool
        Whether the dataset may hold several rows of one key, because it had another key or none; the next merge keeps
        the newest.
    budget : Budget or None
        Limits for waiting rows; None is `BUDGET`.
    checkpoint : Checkpoint
        Called at each step of a merge; raises if time is short.
    tombstones : Tombstones or None
        Deletions that are remembered after a merge; None for none.
    """

    def __init__(
        self,
        base: Dataset,
        *,
        key: Sequence[str],
        cursor: str | None,
        deleted: str | None,
        documents: Sequence[str] = (),
        fields: Sequence[str] = (),
        numbers: Mapping[str, str] | None = None,
        called: Mapping[str, str] | None = None,
        digits: Sequence[str] = (),
        extracted: str | None = "_airbyte_extracted_at",
        branch: str = DELTA_BRANCH,
        rekeyed: bool = False,
        budget: Budget | None = None,
        checkpoint: Checkpoint = go_on,
        tombstones: Tombstones | None = None,
    ) -> None:
        order = [name for name in (cursor, extracted) if name is not None]
        self._base = base
        self._keying = Keying(
            tuple(key),
            tuple(order or key[:1]),  # equal in all rows of a key, so that the last row is the newest
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
        """Number of rows that wait for the next merge."""
        return self._delta.rows

    def publish(self, batch: Mapping[str, pa.Array]) -> None:
        """Add rows in the order of their arrival, durably.

        Parameters
        ----------
        batch : mapping of str to pyarrow.Array
            Tensor -> its values as they will be stored, all of one length; key, cursor and the other tensors that the
            store was given must be included.

        Raises
        ------
        TypeError
            If a column of the key or the order holds neither numbers, moments, booleans nor texts.
        """
        rows = len(batch[self._keying.key[0]])
        if not rows:
            return
        if not self._has_begun:
            self._merge_delta()  # merge the delta of an earlier store
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
        # A deleted key counts as known until the next merge, because an older row of the key may arrive late.
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
        """Merge the waiting rows if they exceed the limits; call it after `publish`, when the batch is released."""
        if self._delta.rows >= self._budget.rows or self._delta.widest >= self._budget.column_bytes:
            # All rows are durable, so they can wait if time is short.
            with contextlib.suppress(MergePutOffError):
                self._merge_delta()

    def merge(self) -> MergeCount:
        """Publish one row, the newest, for every key, durably.

        Returns
        -------
        Counts of merges since the store was made, or since the last call.

        Raises
        ------
        MergePutOffError
            If time is short; nothing changes for readers, and waiting rows keep waiting.
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
        """Discard unpublished rows after a failed step; rows of the delta keep waiting."""
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
        """Return for each key whether the dataset or the delta may have it."""
        few = self._base.max_len * self._budget.unlearned
        if self._known is None and self._delta.rows + len(hashes) <= few:
            return np.ones(len(hashes), dtype=np.bool_)
        return self._filter().may_hold(hashes)

    def _filter(self) -> KeyFilter:
        """Return the filter of existing keys, which is made on first use."""
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
    base: Dataset,
    branch: str = DELTA_BRANCH,
    checkpoint: Checkpoint = go_on,
    tombstones: Tombstones | None = None,
) -> MergeCount | None:
    """Merge the delta that an interrupted sync left, before anything else changes the dataset.

    The rows are merged by the key and order that they had when they arrived.

    Returns
    -------
    Counts of the merge; None if there was no delta.

    Raises
    ------
    MergePutOffError
        If `checkpoint` raises it.
    """
    delta = Delta(base, branch)
    if not delta.exists:
        return None
    return _merged(base, delta, checkpoint, tombstones)


def _merged(base: Dataset, delta: Delta, checkpoint: Checkpoint, tombstones: Tombstones | None) -> MergeCount:
    """Merge a delta and drop it. After a crash in between, the same rows are merged again, which changes nothing."""
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
