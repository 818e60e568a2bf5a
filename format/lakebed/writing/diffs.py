"""What a version records of the changes to one tensor, change by change (FORMAT.md 10.2). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.commit_diff import CommitDiff
from lakebed.versions.state import TensorState

# So many rows are put in their places one by one; for more, sorting all is cheaper.
_FEW = 4


def touched(state: TensorState) -> CommitDiff:
    """Return the tensor's diff, a fresh one if nothing changed since the last commit."""
    if state.diff is not None:
        return state.diff
    # Of sequences the format counts flat samples here; where most are empty there are more rows than those, and
    # 3.9.52 would count below zero when it removes them.
    first = max(state.meta.length, state.length)
    return CommitDiff(first=first, last=first)


def with_added(diff: CommitDiff, rows: int) -> CommitDiff:
    """Record rows added at the end."""
    return replace(diff, last=diff.last + rows)


def with_updated(diff: CommitDiff, rows: Sequence[int]) -> CommitDiff:
    """Record replaced rows; those that this version added count as added only."""
    old = [row for row in rows if row < diff.first]
    if not old:
        return diff
    if len(old) > _FEW or bool((diff.updated[1:] < diff.updated[:-1]).any()):
        return replace(diff, updated=np.union1d(diff.updated, np.asarray(old, dtype=np.uint64)))
    known = diff.updated
    for row in old:
        at = int(known.searchsorted(np.uint64(row)))
        if at == len(known) or known[at] != row:
            known = np.concatenate([known[:at], np.array([row], np.uint64), known[at:]])
    return diff if known is diff.updated else replace(diff, updated=known)


def with_resized(diff: CommitDiff, row: int, more: int) -> CommitDiff:
    """Record that a run of samples from ``row`` on was replaced by one with so many more (or, below 0, fewer)."""
    first = diff.first + more if row < diff.first else diff.first
    return _with_range(diff, first, diff.last + more)


def _with_range(diff: CommitDiff, first: int, last: int) -> CommitDiff:
    """Set the range of added samples; another writer's inexact diff must not make an impossible one."""
    first = max(0, first)
    return replace(diff, first=first, last=max(first, last))


def with_removed(diff: CommitDiff, rows: Sequence[int], ids: NDArray[np.uint64] | None) -> CommitDiff:
    """Record removed rows: ascending, numbered as before the removal.

    Parameters
    ----------
    ids
        Sample ids of the rows, uint64, shape (rows,); None where the tensor has no ids.
    """
    gone = np.asarray(rows, dtype=np.uint64)
    old = gone < np.uint64(diff.first)
    count = int(old.sum())
    shifted = diff.updated
    if len(shifted):
        kept = np.setdiff1d(shifted, gone)
        shifted = kept - np.searchsorted(gone, kept).astype(np.uint64)
    deleted = np.concatenate([diff.deleted, _in_previous_version(gone[old], diff.deleted)])
    deleted_ids = diff.deleted_ids if ids is None else np.concatenate([diff.deleted_ids, ids[old]])
    diff = replace(diff, updated=shifted, deleted=deleted, deleted_ids=deleted_ids)
    return _with_range(diff, diff.first - count, diff.last - len(gone))


def _in_previous_version(rows: NDArray[np.uint64], deleted: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Number rows as the previous version did, which had the deleted ones too."""
    before = np.sort(deleted)
    # before[j] - j is the present number of the first row behind the j-th deleted one.
    present = before - np.arange(len(before), dtype=np.uint64)
    return rows + np.searchsorted(present, rows, side="right").astype(np.uint64)


def with_cleared(diff: CommitDiff) -> CommitDiff:
    """Record that all samples were dropped, and with them what was recorded before."""
    return CommitDiff(created=diff.created, data_transformed=diff.data_transformed, cleared=True)


def with_info(diff: CommitDiff) -> CommitDiff:
    """Record a change of the tensor's info."""
    return replace(diff, info_updated=True)
