"""Rows by key in a dataset: publish many, merge seldom.

Rows of keys that are surely new go straight into the dataset. All others wait in a delta (`delta`) and take the place
of older ones at the next merge. Both are durable when `publish` returns; readers see rows of known keys after `merge`.
There is no index on disk that could be lost: a filter of the known keys is made by one scan of the key columns, once so
many rows have come that it is worth it; until then every key is taken for a known one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.upserts.collapse import older_duplicates
from destination_deeplake.upserts.delta import Delta
from destination_deeplake.upserts.keys import Hashes, KeyFilter, hash_keys
from destination_deeplake.upserts.merge import MergeCount, merge
from destination_deeplake.upserts.newest import Keying, newest_rows
from destination_deeplake.upserts.windows import windows

DELTA_BRANCH = "airbyte-delta"


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may wait in a delta before it is merged; a merge takes some multiple of it as memory.

    Attributes
    ----------
    rows : int
        Rows of all columns.
    column_bytes : int
        Bytes of the largest column.
    unlearned : float
        Rows that may come before the known keys are learned, as a part of those that the dataset has.
    """

    rows: int = 2_000_000
    column_bytes: int = 128_000_000
    unlearned: float = 0.02


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
    extracted : str
        Tensor that tells the newer row where cursors are equal, or there is none.
    branch : str
        Name of the side branch that holds the delta.
    rekeyed : bool
        Whether the dataset may hold several rows of one key, because its key was another one, or none: the next merge
        keeps the newest of them.
    budget : Budget
        What may wait.
    """

    def __init__(
        self,
        base: lakebed.Dataset,
        *,
        key: Sequence[str],
        cursor: str | None,
        deleted: str | None,
        extracted: str = "_airbyte_extracted_at",
        branch: str = DELTA_BRANCH,
        rekeyed: bool = False,
        budget: Budget = Budget(),
    ) -> None:
        order = (extracted,) if cursor is None else (cursor, extracted)
        self._base = base
        self._keying = Keying(tuple(key), order, deleted)
        self._delta = Delta(base, branch)
        self._rekeyed = rekeyed
        self._budget = budget
        self._known: KeyFilter | None = None
        self._has_begun = False
        self._merged = MergeCount()

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
        hashes = hash_keys([batch[name] for name in self._keying.key])
        newest = newest_rows(hashes, [batch[name] for name in self._keying.order])
        hashes = hashes[newest]
        known = self._may_be_known(hashes)
        # A key that is not there needs no deletion.
        fresh = ~known & ~self._keying.is_deleted(batch, rows)[newest]
        if fresh.any():
            self._base.extend(_chosen(batch, newest[fresh], rows), append_empty=True)
            self._base.flush()
            self._filter().add(hashes[fresh])
        if known.any():
            self._delta.append(_chosen(batch, newest[known], rows), self._keying)
            if self._delta.rows >= self._budget.rows or self._delta.widest >= self._budget.column_bytes:
                self._merge_delta()

    def merge(self) -> MergeCount:
        """Give readers one row, the newest, for every key; durable when this returns.

        Returns
        -------
        What was merged since the store was made, or since the last call of this.
        """
        if self._rekeyed:
            extra = older_duplicates(self._base, self._keying)
            if len(extra):
                self._base.pop_rows(extra)
                self._base.flush()
            self._merged += MergeCount(collapsed=len(extra))
            self._rekeyed = False
        self._merge_delta()
        merged, self._merged = self._merged, MergeCount()
        return merged

    def discard(self) -> None:
        """Throw away what waits."""
        self._delta.drop()

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
                for _, columns in windows(dataset, self._keying.key):
                    self._known.add(hash_keys(list(columns.values())))
        return self._known

    def _merge_delta(self) -> None:
        self._merged += _merged(self._base, self._delta)


def settle(base: lakebed.Dataset, branch: str = DELTA_BRANCH) -> MergeCount | None:
    """Merge the delta that an interrupted sync left, before anything else changes the dataset.

    The rows go by the columns that were key and order when they came.

    Returns
    -------
    What was merged; None if there was no delta.
    """
    delta = Delta(base, branch)
    if not delta.exists:
        return None
    return _merged(base, delta)


def _merged(base: lakebed.Dataset, delta: Delta) -> MergeCount:
    """Merge a delta and drop it; a crash in between merges the same rows once more, which changes nothing."""
    keying = delta.keying
    count = merge(base, delta.dataset, keying) if keying is not None and delta.rows else MergeCount()
    delta.drop()
    return count


def _chosen(batch: Mapping[str, pa.Array], rows: NDArray[np.int64], count: int) -> dict[str, pa.Array]:
    """Return some rows of a batch, ascending."""
    if len(rows) == count:
        return dict(batch)
    wanted = pa.array(rows)
    return {name: column.take(wanted) for name, column in batch.items()}


__all__ = ["DELTA_BRANCH", "Budget", "MergeCount", "UpsertStore", "settle"]
