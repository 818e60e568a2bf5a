"""Removal of old rows, and the staging of new ones until then.

A new generation grows on a side branch and takes the place of the old one in one step when its stream is complete.
The side branch of an attempt that failed stays, because the states of its rows may have been acknowledged: the next
attempt of the same generation goes on with it, a sync that only adds rows adds those (`left`), and one that
replaces all rows once more throws it away.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.ndarrays import numbers_of
from destination_deeplake.stream.record import INFO_KEY

STAGING_BRANCH = "airbyte-overwrite"
STAGING_DELTA_BRANCH = "airbyte-overwrite-delta"
DELETED_BRANCHES = ("airbyte-deleted", "airbyte-overwrite-deleted")
"""Deletions that the dataset remembers, and those of one that is to take its place, which keeps its branch then."""
DELETED_KEY = "deleted_rows"
"""Under this name the info of a dataset says which of them is its own (`upserts.tombstones`)."""

_GENERATION = META_COLUMNS[3]
_MAIN = "main"
_SLICE_BYTES = 16_000_000


def side_branch(name: str, target: lakebed.Dataset) -> str:
    """Return the name of a side branch of the branch that is written: each connection has its own."""
    return name if target.branch == _MAIN else f"{name} of {target.branch}"


def has_older_rows(known: Mapping[str, Any] | None, plan: StreamPlan) -> bool:
    """Tell whether the dataset may hold rows of a generation that the plan does not allow.

    A sync that wants no generation but its own replaces those with a greater number, too: they are of a connection
    that was there before this one, which counts from the beginning.
    """
    if known is None or not plan.oldest_wanted:
        return False
    oldest = known.get("generation_id")
    if not isinstance(oldest, int) or oldest < plan.oldest_wanted:
        return True
    return plan.truncates and oldest != plan.generation_id


def is_staged(known: Mapping[str, Any] | None, plan: StreamPlan) -> bool:
    """Tell whether the rows of the sync are to take the place of all that are there."""
    return plan.mode is WriteMode.OVERWRITE or (plan.truncates and has_older_rows(known, plan))


def is_resumable(plan: StreamPlan) -> bool:
    """Tell whether a later attempt could go on with what this one staged.

    A generation that is asked for again is the same one, interrupted. An overwrite by mode says nothing of the kind:
    runners that use it number every sync alike.
    """
    return plan.truncates and plan.mode is not WriteMode.OVERWRITE


def staging(target: lakebed.Dataset, plan: StreamPlan) -> tuple[lakebed.Dataset, bool]:
    """Return the side branch, and whether it holds rows of an earlier attempt of the same generation."""
    name = side_branch(STAGING_BRANCH, target)
    if name in target.branches and is_resumable(plan):
        staged = target.start_overwrite(name, resume=True)
        found = staged.info.get(INFO_KEY) or {}
        if found.get("generation_id") == plan.generation_id and not is_overwrite(found):
            return staged, True
    discard(target)
    return target.start_overwrite(name), False


def is_overwrite(found: Mapping[str, Any]) -> bool:
    """Tell whether staged rows are of an overwrite by mode: no state of theirs was ever acknowledged."""
    return bool(found.get("mode") == WriteMode.OVERWRITE)


def discard(target: lakebed.Dataset) -> None:
    """Throw away what was staged."""
    for name in (STAGING_BRANCH, STAGING_DELTA_BRANCH):
        branch = side_branch(name, target)
        if branch in target.branches:
            target.delete_branch(branch, force=True)
    forget_others(target)


def deleted_branches(target: lakebed.Dataset, *, staged: bool) -> list[str]:
    """Return what the branch of deletions may be called, that of the dataset itself or of what is staged."""
    names = [side_branch(name, target) for name in DELETED_BRANCHES]
    if staged:
        # Not the one that the dataset goes on with until its contents are replaced.
        names.reverse()
        if target.info.get(DELETED_KEY) == names[0]:
            names.reverse()
    return names


def forget_others(target: lakebed.Dataset) -> None:
    """Drop deletions that the dataset does not name: of what it held before, or of what was staged and given up."""
    for name in deleted_branches(target, staged=False):
        if name in target.branches and name != target.info.get(DELETED_KEY):
            target.delete_branch(name, force=True)


def batches(dataset: lakebed.Dataset, tensors: list[str]) -> Iterator[dict[str, pa.Array]]:
    """Yield all rows of a dataset in their order, some megabytes at a time."""
    rows = len(dataset)
    step = max(1, min(rows, _SLICE_BYTES * rows // max(1, dataset.size_approx())))
    for start in range(0, rows, step):
        yield dataset.read_columns(start, min(start + step, rows), tensors)


def expire(dataset: lakebed.Dataset, oldest_wanted: int) -> int:
    """Remove the rows of older generations, and those of none, and return how many; the next flush publishes it."""
    import pyarrow.compute as pc

    found, start = [], 0
    for batch in pa.RecordBatchReader.from_stream(dataset[[_GENERATION]]):
        older = pc.fill_null(pc.less(batch.column(0), oldest_wanted), True)
        found.append(np.flatnonzero(numbers_of(older)) + start)
        start += batch.num_rows
    rows = np.concatenate(found) if found else np.empty(0, np.int64)
    if len(rows):
        dataset.pop_rows(rows.astype(np.int64))
    return len(rows)
