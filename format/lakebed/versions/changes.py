"""Changes of successive versions: their records, compared and joined (format.md 10). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.dataset_diff import DatasetDiff
from lakebed.documents.version_tree import CommitNode
from lakebed.versions.state import Snapshot, TensorState

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VersionChange:
    """The changes of one version; ``tensors`` has all its visible tensors by name."""

    node: CommitNode
    schema: DatasetDiff
    tensors: Mapping[str, CommitDiff]

    @classmethod
    def of(cls, node: CommitNode, snapshot: Snapshot) -> VersionChange:
        """Return the records of a version; tensors without changes have an empty record."""
        tensors = {name: snapshot.tensor(name).diff or CommitDiff() for name in snapshot.names()}
        return cls(node, snapshot.diff or DatasetDiff(), tensors)


@dataclass(frozen=True, slots=True)
class Fork:
    """The versions of two histories after their last common version: nodes, newest first."""

    ancestor: str
    left: list[CommitNode]
    right: list[CommitNode]


def fork(left: Sequence[CommitNode], right: Sequence[CommitNode]) -> Fork:
    """Split two histories at their last common version; each history is the nodes from a version to the root.

    Raises
    ------
    ValueError
        If the histories have no version in common.
    """
    known = {node.id for node in right}
    at = next((i for i, node in enumerate(left) if node.id in known), None)
    if at is None:
        raise ValueError("the two histories have no version in common")
    ancestor = left[at].id
    return Fork(ancestor, list(left[:at]), list(_until(right, ancestor)))


def _until(line: Iterable[CommitNode], ancestor: str) -> Iterable[CommitNode]:
    for node in line:
        if node.id == ancestor:
            return
        yield node


# -- rows of one tensor --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """One version of a tensor: its record, and the number of rows before and after.

    Parameters
    ----------
    ids
        Returns the sample ids before and now, uint64 each, which are used if the record contradicts the lengths; None
        if the tensor has none.
    """

    diff: CommitDiff
    before: int
    after: int
    ids: Callable[[], tuple[NDArray[np.uint64], NDArray[np.uint64]] | None]

    @classmethod
    def between(
        cls,
        old: TensorState | None,
        new: TensorState,
        ids: Callable[[], tuple[NDArray[np.uint64], NDArray[np.uint64]] | None] = lambda: None,
    ) -> Step:
        """Return the step to the next version from one with or without the tensor."""
        return cls(new.diff or CommitDiff(), 0 if old is None else old.length, new.length, ids)

    @property
    def is_fresh(self) -> bool:
        """Return whether all rows are new: the tensor was created, cleared, or transformed as a whole."""
        return self.diff.created or self.diff.cleared or self.diff.data_transformed

    @property
    def is_exact(self) -> bool:
        """Return whether the record agrees with the lengths.

        After several removals, 3.9.52 records too few, or rows that the version itself had added.
        """
        diff, deleted = self.diff, self.diff.deleted
        return (
            self.before - len(deleted) + diff.added == self.after
            and (not len(deleted) or int(deleted.max()) < self.before)
            and len(np.unique(deleted)) == len(deleted)
            and len(diff.deleted_ids) in (0, len(deleted))
        )


def modified_rows(steps: Iterable[Step]) -> Rows:
    """Return the rows that were added or replaced in any of several versions, oldest first.

    Returns
    -------
    Row numbers in the last version: int64, ascending, each once.
    """
    rows = np.empty(0, np.int64)
    for step in steps:
        rows = _after(rows, step)
    return rows


def _after(rows: Rows, step: Step) -> Rows:
    diff = step.diff
    if step.is_fresh:
        # The tensor is new in this step, so all its rows are added, whatever the record says about single rows.
        return np.arange(step.after, dtype=np.int64)
    ids = None if step.is_exact else step.ids()
    if ids is not None:
        before, after = ids
        carried = np.flatnonzero(np.isin(after, before[rows[rows < len(before)]]))
        added = np.flatnonzero(~np.isin(after, before))
    else:
        deleted = np.unique(diff.deleted).astype(np.int64)
        kept = rows[~np.isin(rows, deleted)]
        carried = kept - np.searchsorted(deleted, kept)
        # Count from the end, because for sequences the recorded first index counts flat samples.
        added = np.arange(max(0, step.after - diff.added), step.after, dtype=np.int64)
    found = np.unique(np.concatenate([carried, diff.updated.astype(np.int64), added]))
    return found[found < step.after]
