"""Rows that wait in a delta -> the rows of the dataset, in one pass over its key columns.

Memory goes with the delta: a table of its keys, and one of its columns at a time. Of the dataset all keys are read, and
each chunk that has a row to change is written anew once. Merging the same rows twice changes nothing, so whoever was
interrupted begins again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.native import keys as native
from destination_deeplake.native.keys import Values
from destination_deeplake.upserts.keys import KeyTable, hash_keys, values
from destination_deeplake.upserts.newest import Keying
from destination_deeplake.upserts.windows import Columns, whole, windows

Rows = NDArray[np.int64]

_INSERTED_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class MergeCount:
    """What became of keys.

    Attributes
    ----------
    updated, inserted, deleted : int
        Rows of the dataset that were replaced, added and removed because of newer rows.
    superseded : int
        Keys whose row in the dataset was newer, and keys that were to be deleted and are unknown.
    collapsed : int
        Rows removed because another row of the dataset has the same key.
    """

    updated: int = 0
    inserted: int = 0
    deleted: int = 0
    superseded: int = 0
    collapsed: int = 0

    def __add__(self, other: "MergeCount") -> "MergeCount":
        return MergeCount(
            self.updated + other.updated,
            self.inserted + other.inserted,
            self.deleted + other.deleted,
            self.superseded + other.superseded,
            self.collapsed + other.collapsed,
        )


@dataclass(frozen=True, slots=True)
class Winners:
    """The newest row of each key in a delta.

    Attributes
    ----------
    table : KeyTable
        Key -> slot.
    rows : int64, shape (slots,)
        Row of the delta.
    order : list of Values
        Order columns of the delta, all rows.
    deleted : bool, shape (slots,)
        Whether the row says that its key is gone.
    """

    table: KeyTable
    rows: Rows
    order: list[Values]
    deleted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Matches:
    """Rows of the dataset whose keys are in a delta, ascending.

    Attributes
    ----------
    rows : int64, shape (matches,)
        Row of the dataset.
    slots : int32, shape (matches,)
        Slot of its key.
    """

    rows: Rows
    slots: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done to the dataset.

    Attributes
    ----------
    updated, sources : int64
        Rows of the dataset, ascending, and the rows of the delta that take their place.
    removed : int64
        Rows of the dataset that go, ascending.
    inserted : int64
        Rows of the delta that are added, ascending.
    count : MergeCount
        The same in numbers.
    """

    updated: Rows
    sources: Rows
    removed: Rows
    inserted: Rows
    count: MergeCount


def merge(base: lakebed.Dataset, delta: lakebed.Dataset, keying: Keying) -> MergeCount:
    """Bring the rows of a delta into the dataset; durable when this returns."""
    winners = newest_of(delta, keying)
    plan = planned(base, keying, matched(base, keying, winners), winners)
    apply(base, delta, plan)
    base.flush()
    return plan.count


def newest_of(delta: lakebed.Dataset, keying: Keying) -> Winners:
    """Find the newest row of each key in a delta that has rows."""
    table = KeyTable(delta.max_len)
    slots: list[NDArray[np.int32]] = []
    order: list[list[pa.Array]] = [[] for _ in keying.order]
    gone: list[NDArray[np.bool_]] = []
    for _, columns in windows(delta, keying.tensors):
        slots.append(table.insert(hash_keys([columns[name] for name in keying.key])))
        for parts, name in zip(order, keying.order, strict=True):
            parts.append(columns[name])
        gone.append(keying.is_deleted(columns, len(slots[-1])))
    joined = [values(pa.concat_arrays(parts)) for parts in order]
    rows = native.newest(np.concatenate(slots), len(table), joined)
    return Winners(table, rows, joined, np.concatenate(gone)[rows])


def matched(base: lakebed.Dataset, keying: Keying, winners: Winners) -> Matches:
    """Find the rows of the dataset whose keys are in a delta."""
    rows, slots = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for first, columns in windows(base, keying.key):
        found = winners.table.find(hash_keys(list(columns.values())))
        hits = np.flatnonzero(found >= 0)
        rows.append(first + hits)
        slots.append(found[hits])
    return Matches(np.concatenate(rows), np.concatenate(slots))


def planned(base: lakebed.Dataset, keying: Keying, matches: Matches, winners: Winners) -> Plan:
    """Decide what becomes of every row that matches, and of every row of the delta."""
    rows, slots = matches.rows, matches.slots
    columns: Columns = base.take_rows(rows, list(keying.order))
    order = [values(columns[name]) for name in keying.order]
    times = np.bincount(slots, minlength=len(winners.rows))
    stays = np.ones(len(rows), dtype=np.bool_)
    if (times > 1).any():
        # Keys were other columns before, or rows were only appended: the newest row of each key counts.
        best = native.newest(slots, len(times), order)
        stays[:] = False
        stays[best[best >= 0]] = True
    wins = native.not_older(winners.order, winners.rows[slots], order, np.arange(len(rows)))
    gone, unknown = winners.deleted[slots], times == 0
    updates, removals = stays & wins & ~gone, stays & wins & gone
    inserted = np.sort(winners.rows[unknown & ~winners.deleted])
    return Plan(
        updated=rows[updates],
        sources=winners.rows[slots[updates]],
        removed=rows[removals | ~stays],
        inserted=inserted,
        count=MergeCount(
            updated=int(updates.sum()),
            inserted=len(inserted),
            deleted=int(removals.sum()),
            superseded=int((stays & ~wins).sum() + (unknown & winners.deleted).sum()),
            collapsed=int((~stays).sum()),
        ),
    )


def apply(base: lakebed.Dataset, delta: lakebed.Dataset, plan: Plan) -> None:
    """Change the dataset, column by column, without publishing it; tensors that the delta lacks keep what they have."""
    names = [name for name in delta.tensors if name in base]
    if len(plan.updated):
        for name in names:
            if _holds_files(delta[name]):
                base.update_rows(plan.updated, {name: delta[name][plan.sources.tolist()]})
                continue
            column = whole(delta, name).take(pa.array(plan.sources))
            base.update_rows(plan.updated, {name: _checked(base[name], column)})
    if len(plan.removed):
        base.pop_rows(plan.removed)
    files = [name for name in names if _holds_files(delta[name])]
    others = [name for name in names if name not in files]
    for part in _slices(plan.inserted, delta):
        columns: Columns = delta.take_rows(part, others)
        rows: dict[str, Any] = {name: _checked(base[name], column) for name, column in columns.items()}
        rows |= {name: delta[name][part.tolist()] for name in files}
        base.extend(rows, append_empty=True)


def _holds_files(tensor: lakebed.Tensor) -> bool:
    """Tell whether samples are files or links, which go from branch to branch as they are stored."""
    return tensor.is_link or tensor.meta.sample_compression not in (None, "lz4")


def _checked(tensor: lakebed.Tensor, column: pa.Array) -> pa.Array:
    """Return JSON that was read as what it is, so that it is not parsed again."""
    if tensor.htype == "json" and pa.types.is_string(column.type):
        return pa.ExtensionArray.from_storage(pa.json_(), column)
    return column


def _slices(rows: Rows, delta: lakebed.Dataset) -> Sequence[Rows]:
    """Cut rows of a delta into slices that go into memory."""
    if not len(rows):
        return []
    weight = delta.size_approx() // max(delta.max_len, 1) + 1
    step = max(_INSERTED_BYTES // weight, 1)
    return [rows[first : first + step] for first in range(0, len(rows), step)]
