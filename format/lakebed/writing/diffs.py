"""The record of a version's changes to one tensor, change by change (format.md 10.2). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.frozen import changed
from lakebed.versions.state import TensorState

RowNumbers = Sequence[int] | NDArray[np.integer]

# Maximum number of updated rows that a version lists; if there are more, it only records that the tensor was
# transformed. Every publish writes the list again, with 8 bytes per row, for each tensor and companion, and 3.9.52
# makes a Python set of it (about 60 bytes per row) whenever it opens the dataset. With more rows, knowing them costs
# more than reading all rows.
MOST_LISTED = 100_000


def touched(state: TensorState) -> CommitDiff:
    """Return the tensor's diff; a new one if nothing changed since the last commit."""
    if state.diff is not None:
        return state.diff
    # For sequences the format counts flat samples here. If most sequences are empty, there are more rows than
    # samples, and 3.9.52 would reach negative numbers when it removes rows: start at the larger number.
    first = max(state.meta.length, state.length)
    return CommitDiff(first=first, last=first)


def with_added(diff: CommitDiff, rows: int) -> CommitDiff:
    """Record rows added at the end."""
    return changed(diff, last=diff.last + rows)


def with_updated(diff: CommitDiff, rows: RowNumbers) -> CommitDiff:
    """Record replaced rows, except those that this version added.

    For very many rows, record only that the tensor was transformed.
    """
    many = np.asarray(rows, dtype=np.uint64)
    old = many[many < np.uint64(diff.first)]
    if not len(old) or (diff.data_transformed and not len(diff.updated)):
        return diff
    updated = _union(diff.updated, old)
    if len(updated) > MOST_LISTED:
        return replace(diff, updated=np.zeros(0, np.uint64), data_transformed=True)
    return replace(diff, updated=updated)


def _union(known: NDArray[np.uint64], more: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the union of two sets of rows, ascending."""
    if not len(known) and bool((more[1:] > more[:-1]).all()):
        return more
    # Both arrays are mostly sorted, which makes a stable sort fast; numpy.unique would hash all values.
    rows = np.concatenate([known, more])
    rows.sort(kind="stable")
    found: NDArray[np.uint64] = rows[np.concatenate([np.ones(1, np.bool_), rows[1:] != rows[:-1]])]
    return found


def with_resized(diff: CommitDiff, row: int, more: int) -> CommitDiff:
    """Record that samples from ``row`` on were replaced by ``more`` more samples than before (may be negative)."""
    first = diff.first + more if row < diff.first else diff.first
    return _with_range(diff, first, diff.last + more)


def _with_range(diff: CommitDiff, first: int, last: int) -> CommitDiff:
    """Set the range of added samples, limited to possible bounds in case another writer's diff is inexact."""
    first = max(0, first)
    return replace(diff, first=first, last=max(first, last))


def with_removed(diff: CommitDiff, rows: RowNumbers, ids: NDArray[np.uint64] | None) -> CommitDiff:
    """Record removed rows: ascending, numbered as before the removal.

    Parameters
    ----------
    ids
        Sample ids of the rows, uint64, shape (rows,); None if the tensor has no ids.
    """
    gone = np.asarray(rows, dtype=np.uint64)
    old = gone < np.uint64(diff.first)
    count = int(old.sum())
    shifted = _moved_up(diff.updated, gone) if len(diff.updated) and len(gone) else diff.updated
    deleted = np.concatenate([diff.deleted, _in_previous_version(gone[old], diff.deleted)])
    deleted_ids = diff.deleted_ids if ids is None else np.concatenate([diff.deleted_ids, ids[old]])
    diff = replace(diff, updated=shifted, deleted=deleted, deleted_ids=deleted_ids)
    return _with_range(diff, diff.first - count, diff.last - len(gone))


def _moved_up(rows: NDArray[np.uint64], gone: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Renumber ascending rows for the removal of ``gone``, which ascends, too; removed rows are left out."""
    rows = np.sort(rows)
    at = np.searchsorted(gone, rows)
    left = gone[np.minimum(at, len(gone) - 1)] != rows
    found: NDArray[np.uint64] = rows[left] - at[left].astype(np.uint64)
    return found


def _in_previous_version(rows: NDArray[np.uint64], deleted: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Number rows as in the previous version, which has the deleted ones too."""
    before = np.sort(deleted)
    # before[j] - j is the current number of the first row after the j-th deleted row.
    present = before - np.arange(len(before), dtype=np.uint64)
    return rows + np.searchsorted(present, rows, side="right").astype(np.uint64)


def with_cleared(diff: CommitDiff) -> CommitDiff:
    """Record that all samples were dropped, in place of earlier records."""
    return CommitDiff(created=diff.created, data_transformed=diff.data_transformed, cleared=True)


def with_transformed(diff: CommitDiff) -> CommitDiff:
    """Record that every sample may have changed, unless the tensor is new."""
    if diff.created:
        return diff
    return replace(diff, updated=np.zeros(0, np.uint64), data_transformed=True)


def with_info(diff: CommitDiff) -> CommitDiff:
    """Record a change of the tensor's info."""
    return replace(diff, info_updated=True)
