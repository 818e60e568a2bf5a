"""Deleted keys, remembered after their sync, so that an older row that arrives late is not inserted.

The deletions are stored on a side branch, one row for each merged deletion: the columns of key and order, and the time
of the merge. The dataset's info names the branch, so that a dataset that replaces this one has its own branch; a branch
that the info does not name is ignored. Deletions are written before their delta is dropped; after an interruption in
between, both steps are repeated.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.native import keys as native
from lakebed.native.keys import KeyTable, Values
from lakebed.runtime.failures import OnFailure
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import Hashes, values
from lakebed.upserts.ndarrays import as_arrow, numbers_of
from lakebed.upserts.windows import Columns, taken, whole, windows

INFO_KEY = "deleted_rows"
"""Key of the branch's name in the info of a dataset."""

MOST = 1_000_000
"""Maximum number of remembered deletions; the latest ones are kept."""

_KEYING = "keying"
_MERGED_AT = "merged_at"
_DAY = 86_400_000_000
_LOOSE = 1000
"""Maximum number of outdated rows that stay: for so few, rewriting the other rows is not worth the time."""


@dataclass(frozen=True, slots=True)
class Buried:
    """The deletions in force.

    Attributes
    ----------
    hashes : uint64, shape (rows, 2)
        Keys of the deletions.
    order : list of Values
        Order columns of the deletions, which decide whether another row is newer.
    """

    hashes: Hashes
    order: list[Values]

    def hides(self, table: KeyTable, rows: NDArray[np.int64], order: list[Values]) -> NDArray[np.bool_]:
        """Return for each key of a table whether its row is older than a deletion of the key.

        Parameters
        ----------
        table : KeyTable
            Keys.
        rows : int64, shape (keys,)
            Row of each key in `order`.
        order : list of Values
            The columns that `Keying.ordered` returned.
        """
        slots = table.find(self.hashes)
        hits = np.flatnonzero(slots >= 0)
        is_newer = native.not_older(order, rows[slots[hits]], self.order, hits)
        hidden = np.zeros(len(rows), dtype=np.bool_)
        hidden[slots[hits[~is_newer]]] = True
        return hidden


class Tombstones:
    """The deletions that a dataset remembers.

    Parameters
    ----------
    base : Dataset
        The dataset.
    branches : sequence of str
        Possible names of the side branch. If the dataset names none of them, the first one is used, and its contents
        are ignored.
    days : int
        Number of days for which they are remembered; 0 remembers none.
    most : int
        Maximum number of remembered deletions.
    clock : callable
        Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        base: Dataset,
        branches: Sequence[str],
        *,
        days: int,
        most: int = MOST,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._base = base
        self._branches = list(branches)
        self._days = days
        self._most = most
        self._clock = clock
        self._known: tuple[Keying, Buried | None] | None = None

    @property
    def exist(self) -> bool:
        """True if the dataset names an existing branch."""
        return self._name in self._base.branches

    @property
    def _name(self) -> str | None:
        # A branch inherits the info of the branch from which it was created, and thus the name of that branch's side
        # branch: ignore a name that is not one of this branch's own.
        found: str | None = self._base.info.get(INFO_KEY)
        return found if found in self._branches else None

    def of(self, keying: Keying) -> Buried | None:
        """Return the deletions in force, for rows of a key and order; None if there are none."""
        if self._known is None or self._known[0] != keying:
            name = self._name
            self._known = keying, None if name is None or not self.exist else self._read(name, keying)
        return self._known[1]

    def recall(self) -> Columns:
        """Return key and order of the deletions in force, by tensor; empty if there are none."""
        name = self._name
        if name is None or not self.exist:
            return {}
        with _closing(self._base.start_overwrite(name, resume=True)) as branch:
            if not branch.tensors or not branch.max_len:
                return {}
            young = self._young(numbers_of(whole(branch, _MERGED_AT)))
            found: Columns = branch.take_rows(young, [name for name in branch.tensors if name != _MERGED_AT])
            return found if len(young) else {}

    def bury(self, delta: Dataset, rows: NDArray[np.int64], keying: Keying) -> None:
        """Record deletions and wait until they are durable.

        Parameters
        ----------
        delta : Dataset
            The delta with the deletions.
        rows : int64, shape (rows,)
            Ascending rows that delete their key.
        keying : Keying
            Key and order of the rows.
        """
        if not self._days:
            self.drop()
            return
        added = _told(delta, rows, keying) if len(rows) else {}
        count = len(next(iter(added.values()), ()))
        if not count:
            return
        self._known = None
        with self._opened(keying) as branch:
            before = branch.max_len if branch.tensors else 0
            for name, column in added.items():
                if name not in branch:
                    branch.create_tensor_like(name, self._base[name]).extend(pa.nulls(before, column.type))
            if _MERGED_AT not in branch:
                branch.create_tensor(_MERGED_AT, htype="generic", dtype="int64", **_BARE)
            moments = as_arrow(np.full(count, int(self._clock() * 1_000_000)))
            branch.extend({**added, _MERGED_AT: moments}, append_empty=True)
            branch.flush()
            self._compact(branch, keying)

    def drop(self) -> None:
        """Drop all deletions."""
        name, self._known = self._name, None
        if name is not None:
            del self._base.info[INFO_KEY]
            self._base.flush()
            if name in self._base.branches:
                self._base.delete_branch(name, force=True)

    @contextlib.contextmanager
    def _opened(self, keying: Keying) -> Iterator[Dataset]:
        """Open the branch; empty it if it has another key or order."""
        name, is_there = self._name or self._branches[0], self.exist
        branch = self._base.start_overwrite(name, resume=is_there)
        if is_there and not self._fits(branch, keying):
            branch.close()
            branch, is_there = self._base.start_overwrite(name), False
        with _closing(branch):
            if not is_there:
                branch.info[_KEYING] = _meaning(keying)
                branch.flush()
                self._base.info[INFO_KEY] = name
                self._base.flush()
            yield branch

    def _fits(self, branch: Dataset, keying: Keying) -> bool:
        """Return whether rows of the branch and the dataset can be compared: columns and types are the same."""
        return bool(branch.info.get(_KEYING) == _meaning(keying)) and all(
            (branch[name].htype, branch[name].dtype) == (self._base[name].htype, self._base[name].dtype)
            for name in _tensors(keying, branch)
            if name in branch
        )

    def _read(self, name: str, keying: Keying) -> Buried | None:
        with _closing(self._base.start_overwrite(name, resume=True)) as branch:
            if not branch.tensors or not branch.max_len or not self._fits(branch, keying):
                return None
            hashes, order, moments = _columns(branch, keying)
        young = self._young(moments)
        if not len(young):
            return None
        wanted = as_arrow(young)
        return Buried(hashes[young], [values(column.take(wanted)) for column in order])

    def _compact(self, branch: Dataset, keying: Keying) -> None:
        """Remove deletions that are too old or too many, and those of a key that was deleted again later."""
        hashes, order, moments = _columns(branch, keying)
        table = KeyTable(len(hashes))
        slots = table.insert(hashes)
        stays = np.zeros(len(hashes), dtype=np.bool_)
        stays[native.newest(slots, len(table), [values(column) for column in order])] = True
        stays &= moments >= self._oldest()
        stays[np.flatnonzero(stays)[: -self._most]] = False
        gone = np.flatnonzero(~stays)
        if len(gone) > max(_LOOSE, len(stays) // 2) or len(stays) > self._most + _LOOSE:
            branch.pop_rows(gone)
            branch.flush()

    def _young(self, moments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the deletions that are still remembered, by the times of their merges."""
        found: NDArray[np.int64] = np.flatnonzero(moments >= self._oldest())[-self._most :]
        return found

    def _oldest(self) -> int:
        return int(self._clock() * 1_000_000) - self._days * _DAY


_BARE: dict[str, Any] = dict.fromkeys(
    ("create_id_tensor", "create_shape_tensor", "create_sample_info_tensor"), False
)


@contextlib.contextmanager
def _closing(branch: Dataset) -> Iterator[Dataset]:
    """Close a branch after use; after an error, drop its unpublished changes."""
    with contextlib.closing(branch), OnFailure(branch.discard):
        yield branch


def _tensors(keying: Keying, dataset: Dataset) -> list[str]:
    return replace(keying, deleted=None).tensors_in(dataset)


def _meaning(keying: Keying) -> dict[str, Any]:
    """Return as JSON the part of a keying that two sets of rows must share to be comparable."""
    found = replace(keying, deleted=None, fields=(), called={}).to_info()
    return {name: found[name] for name in ("key", "order", "documents", "numbers", "digits")}


def _told(delta: Dataset, rows: NDArray[np.int64], keying: Keying) -> Columns:
    """Return key and order of the rows whose keys are complete; a key with a lost value equals no other key."""
    about = [keying.identity, keying.changes] if keying.fields else []
    found: Columns = delta.take_rows(rows, [*_tensors(keying, delta), *about])
    plain = replace(keying, fields=()).hashes_of_batch(found)
    kept = np.flatnonzero((keying.hashes_of_batch(found) == plain).all(axis=1))
    return taken({name: column for name, column in found.items() if name not in about}, kept)


def _columns(branch: Dataset, keying: Keying) -> tuple[Hashes, list[pa.Array], NDArray[np.int64]]:
    """Return keys, order and moments of all rows of a branch."""
    plain = replace(keying, fields=(), deleted=None)
    hashes, order, moments = [], [], []
    for first, columns in windows(branch, [*plain.tensors_in(branch), _MERGED_AT]):
        hashes.append(plain.hashes_of_window(branch, first, columns))
        order.append(plain.ordered(columns))
        moments.append(numbers_of(columns[_MERGED_AT]))
    joined = [pa.concat_arrays(parts) for parts in zip(*order, strict=True)]
    return np.concatenate(hashes), joined, np.concatenate(moments)
