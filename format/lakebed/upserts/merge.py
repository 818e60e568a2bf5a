"""Merging of the rows of a delta into the dataset, in one pass over its key columns.

Memory grows with the delta: it holds a table of the delta's keys, and one column of it at a time. All keys of the
dataset are read, and each chunk with changed rows is written once. Merging the same rows twice changes nothing, so an
interrupted merge is simply repeated.
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.tensor import Tensor
from lakebed.native import keys as native
from lakebed.native.keys import Values
from lakebed.runtime.failures import OnFailure
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import KeyTable, values
from lakebed.upserts.ndarrays import as_arrow
from lakebed.upserts.putting_off import Checkpoint, go_on
from lakebed.upserts.tombstones import Buried, Tombstones
from lakebed.upserts.windows import Columns, windows

Rows = NDArray[np.int64]

_PIECE_BYTES = 32_000_000
"""Bytes of the delta in memory at a time: bytes of one column for updates, of all columns for added rows."""
_WHOLE_BYTES = 64_000_000
"""Largest column of the delta, in bytes, that is not cut into pieces."""
_SAMPLED_ROWS = 1000


@dataclass(frozen=True, slots=True)
class MergeCount:
    """Numbers of keys and rows that a merge changed.

    Attributes
    ----------
    updated, inserted, deleted : int
        Rows of the dataset that were replaced, added and removed because of newer rows.
    superseded : int
        Keys whose row in the dataset, or whose recorded deletion, was newer; and deletions of unknown keys.
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
        Key -> slot: the position of the key in `rows`, `deleted` and `blank`.
    rows : int64, shape (slots,)
        Row of the delta.
    order : list of Values
        Order columns of the delta, with all of its rows.
    deleted : bool, shape (slots,)
        Whether the row deletes its key.
    blank : bool, shape (slots,)
        Whether all values of the key are missing.
    """

    table: KeyTable
    rows: Rows
    order: list[Values]
    deleted: NDArray[np.bool_]
    blank: NDArray[np.bool_]


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
    """Changes to the dataset.

    Attributes
    ----------
    updated, sources : int64
        Rows of the dataset, ascending, and the rows of the delta that take their place.
    removed : int64
        Rows of the dataset that are removed, ascending.
    inserted : int64
        Rows of the delta that are added, ascending.
    deletions : int64
        Rows of the delta that delete their key, ascending, whether the dataset has the key or not.
    count : MergeCount
        Numbers of these changes.
    """

    updated: Rows
    sources: Rows
    removed: Rows
    inserted: Rows
    deletions: Rows
    count: MergeCount


def merge(
    base: Dataset,
    delta: Dataset,
    keying: Keying,
    checkpoint: Checkpoint = go_on,
    tombstones: Tombstones | None = None,
) -> MergeCount:
    """Merge the rows of a delta into the dataset, and record deletions, durably.

    Raises
    ------
    MergePutOffError
        If `checkpoint` raises it; after any error the dataset is unchanged.
    """
    buried = None if tombstones is None else tombstones.of(keying)
    plan = _found(base, delta, keying, buried, checkpoint)
    with published_whole(base):
        apply(base, delta, plan, checkpoint)
    if tombstones is not None:
        tombstones.bury(delta, plan.deletions, keying)
    return plan.count


@contextmanager
def published_whole(base: Dataset) -> Iterator[None]:
    """Publish the changes made inside the ``with``; after an error publish none, because columns may contradict."""
    with OnFailure(base.discard):
        yield
    base.flush()


def _found(
    base: Dataset,
    delta: Dataset,
    keying: Keying,
    buried: Buried | None,
    checkpoint: Checkpoint,
) -> Plan:
    """Make the plan; its tables of keys are released on return."""
    winners = newest_of(delta, keying, checkpoint)
    return planned(base, keying, matched(base, keying, winners, checkpoint), winners, buried)


def newest_of(delta: Dataset, keying: Keying, checkpoint: Checkpoint = go_on) -> Winners:
    """Find the newest row of each key in a delta, which must have rows."""
    table = KeyTable(delta.max_len)
    slots: list[NDArray[np.int32]] = []
    order: list[list[pa.Array]] = []
    gone: list[NDArray[np.bool_]] = []
    blank: list[NDArray[np.bool_]] = []
    for first, columns in windows(delta, keying.tensors_in(delta)):
        checkpoint()
        slots.append(table.insert(keying.hashes_of_window(delta, first, columns)))
        order.append(keying.ordered(columns))
        gone.append(keying.is_deleted(columns, len(slots[-1])))
        blank.append(keying.is_blank(columns))
    joined = [values(pa.concat_arrays(parts)) for parts in zip(*order, strict=True)]
    rows = native.newest(np.concatenate(slots), len(table), joined)
    return Winners(table, rows, joined, np.concatenate(gone)[rows], np.concatenate(blank)[rows])


def matched(base: Dataset, keying: Keying, winners: Winners, checkpoint: Checkpoint = go_on) -> Matches:
    """Return the rows of the dataset whose keys are in a delta."""
    rows, slots = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for first, columns in windows(base, keying.key_in(base)):
        checkpoint()
        found = winners.table.find(keying.hashes_of_window(base, first, columns))
        hits = np.flatnonzero(found >= 0)
        rows.append(first + hits)
        slots.append(found[hits])
    return Matches(np.concatenate(rows), np.concatenate(slots))


def planned(
    base: Dataset, keying: Keying, matches: Matches, winners: Winners, buried: Buried | None = None
) -> Plan:
    """Plan the changes for matching rows, and for the rows of the delta; keys in `buried` are not added."""
    rows, slots = matches.rows, matches.slots
    columns: Columns = base.take_rows(rows, keying.order_in(base))
    order = [values(column) for column in keying.ordered(columns)]
    times = np.bincount(slots, minlength=len(winners.rows))
    stays = np.ones(len(rows), dtype=np.bool_)
    if (times > 1).any():
        # If the dataset had another key or none before, it may hold several rows of one key: keep the newest row.
        best = native.newest(slots, len(times), order)
        stays[:] = False
        stays[best[best >= 0]] = True
    # Rows without any value in the key may be older than the columns of the key: update the newest row, remove none.
    spared = ~stays & winners.blank[slots]
    wins = native.not_older(winners.order, winners.rows[slots], order, np.arange(len(rows)))
    gone, unknown = winners.deleted[slots], times == 0
    updates, removals = stays & wins & ~gone, stays & wins & gone
    hidden = np.zeros(len(times), dtype=np.bool_)
    if buried is not None:
        hidden = buried.hides(winners.table, winners.rows, winners.order)
    inserted = np.sort(winners.rows[unknown & ~winners.deleted & ~hidden])
    return Plan(
        updated=rows[updates],
        sources=winners.rows[slots[updates]],
        removed=rows[removals | (~stays & ~spared)],
        inserted=inserted,
        deletions=np.sort(winners.rows[winners.deleted]),
        count=MergeCount(
            updated=int(updates.sum()),
            inserted=len(inserted),
            deleted=int(removals.sum()),
            superseded=int((stays & ~wins).sum() + (unknown & (winners.deleted | hidden)).sum()),
            collapsed=int((~stays & ~spared).sum()),
        ),
    )


def apply(base: Dataset, delta: Dataset, plan: Plan, checkpoint: Checkpoint = go_on) -> None:
    """Change the dataset, column by column, without publishing it; tensors that the delta lacks keep their values."""
    names = [name for name in delta.tensors if name in base]
    used = 0
    for name in names if len(plan.updated) else ():
        size = _weight(delta, [name]) * delta.max_len
        used += size
        if used > _WHOLE_BYTES:
            # Return the memory of the tables of keys and of previous columns; doing so after each small column would
            # make the next column allocate all its memory anew.
            _give_back()
            used = size
        _update(base, delta, name, plan, checkpoint, is_whole=size <= _WHOLE_BYTES)
    checkpoint()
    if len(plan.removed):
        base.pop_rows(plan.removed)
    files = [name for name in names if _holds_files(delta[name])]
    others = [name for name in names if name not in files]
    for part in _pieces(len(plan.inserted), delta, names):
        checkpoint()
        inserted = plan.inserted[part]
        columns: Columns = delta.take_rows(inserted, others)
        added: dict[str, Any] = {name: _checked(base[name], column) for name, column in columns.items()}
        added |= {name: delta[name][inserted.tolist()] for name in files}
        base.extend(added, append_empty=True)


def _update(
    base: Dataset,
    delta: Dataset,
    name: str,
    plan: Plan,
    checkpoint: Checkpoint,
    *,
    is_whole: bool,
) -> None:
    """Replace rows of a column: a small one as a whole, a large one in pieces that are read separately."""
    if is_whole and not _holds_files(delta[name]):
        checkpoint()
        _update_piece(base, delta, name, plan.updated, plan.sources)
        return
    for part in _pieces(len(plan.updated), delta, [name]):
        checkpoint()
        _update_piece(base, delta, name, plan.updated[part], plan.sources[part])
        _give_back()


def _update_piece(base: Dataset, delta: Dataset, name: str, rows: Rows, sources: Rows) -> None:
    if _holds_files(delta[name]):
        base.update_rows(rows, {name: delta[name][sources.tolist()]})
    else:
        base.update_rows(rows, {name: _checked(base[name], _in_order(delta, name, sources))})


def _holds_files(tensor: Tensor) -> bool:
    """Return whether samples are files or links, whose stored bytes are copied between branches unchanged."""
    return tensor.is_link or tensor.meta.sample_compression not in (None, "lz4")


def _checked(tensor: Tensor, column: pa.Array) -> pa.Array:
    """Return JSON texts with the Arrow type of JSON, so that they are not parsed again."""
    if tensor.htype == "json" and pa.types.is_string(column.type):
        return pa.ExtensionArray.from_storage(pa.json_(), column)
    return column


def _in_order(delta: Dataset, name: str, rows: Rows) -> pa.Array:
    """Read rows of a column in any order; read each chunk only once."""
    order = None if bool((rows[1:] > rows[:-1]).all()) else np.argsort(rows)
    found: Columns = delta.take_rows(rows if order is None else rows[order], [name])
    if order is None:
        return found[name]
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return found[name].take(as_arrow(places))


def _pieces(rows: int, delta: Dataset, names: list[str]) -> Iterator[slice]:
    """Cut the rows of some columns of a delta into pieces that fit into memory."""
    if rows:
        step = max(_PIECE_BYTES // _weight(delta, names), 1)
        for at in range(0, rows, step):
            yield slice(at, at + step)


def _weight(delta: Dataset, names: list[str]) -> int:
    """Return the approximate bytes of a row of some columns."""
    on_disk: int = delta[names].size_approx() // delta.max_len
    readable = [name for name in names if not _holds_files(delta[name])]
    # Chunks may be compressed, so compare their size on disk with the size of a sample in memory.
    first: Columns = delta.read_columns(0, min(delta.max_len, _SAMPLED_ROWS), readable)
    in_memory = sum(int(column.nbytes) // len(column) for column in first.values())
    return max(on_disk, in_memory) + 1


def _give_back() -> None:
    """Return free memory to the operating system; Arrow and the C library would keep it for later use.

    The free memory between columns adds up to half of the memory of a merge.
    """
    pa.default_memory_pool().release_unused()
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    """Return glibc's `malloc_trim`; for other C libraries, a function that does nothing."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _: None
    return found
