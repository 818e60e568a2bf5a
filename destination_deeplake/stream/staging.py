"""Removal of old rows, and the staging of new ones until then.

A new generation is written to a side branch, and replaces the old one in one step when its stream is complete. The side
branch of a failed attempt stays, because the states of its rows may have been acknowledged: the next attempt of the
same generation continues it, a sync that only adds rows adds the rows of the branch (`left`), and a sync that replaces
all rows again drops the branch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.stream.record import INFO_KEY
from lakebed.upserts.ndarrays import numbers_of

STAGING_BRANCH = "airbyte-overwrite"
STAGING_DELTA_BRANCH = "airbyte-overwrite-delta"
DELETED_BRANCHES = ("airbyte-deleted", "airbyte-overwrite-deleted")
"""Branches of remembered deletions: the dataset uses one, its staged replacement the other and keeps it."""
DELETED_KEY = "deleted_rows"
"""Key of a dataset's info with the name of its branch (`upserts.tombstones`)."""

_GENERATION = META_COLUMNS[3]
_MAIN = "main"
_SLICE_BYTES = 16_000_000


def side_branch(name: str, target: lakebed.Dataset) -> str:
    """Return the name of a side branch; each written branch has its own."""
    return name if target.branch == _MAIN else f"{name} of {target.branch}"


def has_older_rows(known: Mapping[str, Any] | None, plan: StreamPlan) -> bool:
    """Tell whether the dataset may hold rows of a generation that the plan does not allow.

    A sync that keeps only its own generation also replaces rows of greater generations: they come from an earlier
    connection, since a new connection counts from the beginning.
    """
    if known is None or not plan.oldest_wanted:
        return False
    oldest = known.get("generation_id")
    if not isinstance(oldest, int) or oldest < plan.oldest_wanted:
        return True
    return plan.truncates and oldest != plan.generation_id


def is_staged(known: Mapping[str, Any] | None, plan: StreamPlan) -> bool:
    """Tell whether the rows of the sync replace all existing rows."""
    return plan.mode is WriteMode.OVERWRITE or (plan.truncates and has_older_rows(known, plan))


def is_resumable(plan: StreamPlan) -> bool:
    """Tell whether a later attempt could continue the staged rows.

    If a generation is requested again, the earlier attempt was interrupted. That does not hold for an overwrite by
    mode, because its runners give every sync the same number.
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
    """Tell whether staged rows are of an overwrite by mode, so that none of their states was acknowledged."""
    return bool(found.get("mode") == WriteMode.OVERWRITE)


def discard(target: lakebed.Dataset) -> None:
    """Drop the staged rows."""
    for name in (STAGING_BRANCH, STAGING_DELTA_BRANCH):
        branch = side_branch(name, target)
        if branch in target.branches:
            target.delete_branch(branch, force=True)
    forget_others(target)


def deleted_branches(target: lakebed.Dataset, *, staged: bool) -> list[str]:
    """Return the possible names of the branch of deletions, for the dataset itself or its replacement."""
    names = [side_branch(name, target) for name in DELETED_BRANCHES]
    if staged:
        # The replacement gets the name that the dataset does not use: the dataset keeps its own until it is replaced.
        names.reverse()
        if target.info.get(DELETED_KEY) == names[0]:
            names.reverse()
    return names


def forget_others(target: lakebed.Dataset) -> None:
    """Drop branches of deletions that the dataset does not name, which belong to replaced or abandoned contents."""
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
    """Remove rows of older or no generation; return their number. The next flush publishes it."""
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
