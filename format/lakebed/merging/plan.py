"""Effects of a merge on the rows of tensors: rows that are added, changed or removed, and conflicts. Pure.

Rows are matched by their ids. This module never reads a row: its caller's function decides which pairs of rows differ.

    in the common ancestor   here       there      outcome
    no                       -          row        the row is added
    yes                      same       changed    their value is taken
    yes                      changed    same       our value is kept
    yes                      changed    changed    conflict, unless both values are equal
    yes                      same       deleted    the row is deleted
    yes                      changed    deleted    conflict
    yes                      deleted    same       the row stays deleted
    yes                      deleted    changed    conflict
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Refs = tuple[Ints, Ints]
"""Rows of several versions, as two int64 arrays: position of the version in the comparison, and row."""

Differ = Callable[[Refs, Refs], NDArray[np.bool_]]
"""Function that returns a mask of the pairs of rows that differ."""


@dataclass(frozen=True, slots=True)
class Line:
    """The rows of a tensor in one version, or combined from several versions.

    Parameters
    ----------
    ids
        Sample ids: uint64, shape (rows,).
    version, row
        Where each row's value is stored: position of a version, and row in that version; int64, shape (rows,).
    """

    ids: NDArray[np.uint64]
    version: Ints
    row: Ints

    @classmethod
    def of(cls, ids: NDArray[np.uint64], version: int) -> Line:
        """Return the rows of a single version."""
        return cls(ids, np.full(len(ids), version, np.int64), np.arange(len(ids), dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    def refs(self, places: Ints) -> Refs:
        """Return, for the rows at some positions, the versions and rows that hold their values."""
        return self.version[places], self.row[places]

    def keep(self, places: Ints) -> Line:
        """Return only the rows at some positions."""
        return Line(self.ids[places], self.version[places], self.row[places])


def _matched(lines: Sequence[Line]) -> list[Ints]:
    """Join several `Line` objects by id: return, for each, its row of every id, int64, -1 if it lacks the id."""
    shared = _same_start([line.ids for line in lines])
    tails = [line.ids[shared:] for line in lines]
    known, inverse = _distinct(tails)
    head = np.arange(shared, dtype=np.int64)
    found, at = [], 0
    for tail in tails:
        places = np.full(len(known), -1, np.int64)
        places[inverse[at : at + len(tail)]] = np.arange(shared, shared + len(tail), dtype=np.int64)
        found.append(np.concatenate([head, places]))
        at += len(tail)
    return found


def _same_start(columns: Sequence[NDArray[np.uint64]]) -> int:
    """Return the number of rows at the start whose ids are the same in all columns: in most merges, nearly all rows."""
    count = min(map(len, columns))
    same = np.ones(count, np.bool_)
    for column in columns[1:]:
        same &= column[:count] == columns[0][:count]
    return count if same.all() else int(np.argmin(same))


def _distinct(tails: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], Ints]:
    """Return the distinct ids, and for each row the position of its id among them."""
    filled = [tail for tail in tails if len(tail)]
    if len(filled) == 1:
        return filled[0], np.arange(len(filled[0]), dtype=np.int64)
    known, inverse = np.unique(np.concatenate(tails), return_inverse=True)
    return known, inverse.astype(np.int64, copy=False)


def combined(base: Line, one: Line, other: Line, differ: Differ) -> Line:
    """Combine the rows of two common ancestors: return the rows with the changes of both since their ancestor ``base``.

    If both ancestors changed a row, the value of ``one`` is taken.
    """
    b, o, t = _matched([base, one, other])
    gone = (b >= 0) & ((o < 0) | (t < 0))
    both = np.flatnonzero((o >= 0) & (t >= 0) & (b >= 0))
    newer = both[differ(other.refs(t[both]), base.refs(b[both]))]
    newer = newer[~differ(one.refs(o[newer]), base.refs(b[newer]))]
    version, row = one.version.copy(), one.row.copy()
    version[o[newer]], row[o[newer]] = other.refs(t[newer])
    kept = np.sort(o[(o >= 0) & ~gone])
    added = other.keep(np.sort(t[(o < 0) & (b < 0) & (t >= 0)]))
    mine = Line(one.ids, version, row).keep(kept)
    parts = [(getattr(mine, name), getattr(added, name)) for name in ("ids", "version", "row")]
    return Line(*(np.concatenate(pair) for pair in parts))


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Effects of a merge on the rows of one tensor; all rows are int64 arrays.

    Parameters
    ----------
    base_rows
        Number of rows in the common ancestor.
    theirs_of
        For each of our rows, its row number in their version, -1 if that version lacks the row.
    new
        Row numbers, in their version, of the rows to add, ascending.
    updates
        Pairs (our row, their row) in which our row takes the value of their row.
    clashes
        Pairs (our row, their row) that both versions changed.
    gone_there
        Triples (ancestor's row, our row, whether we changed it) of rows that their version deleted.
    gone_here
        Triples (ancestor's row, their row, whether they changed it) of rows that our version deleted.
    """

    base_rows: int
    theirs_of: Ints
    new: Ints
    updates: Ints
    clashes: Ints
    gone_there: Ints
    gone_here: Ints


def plan_rows(base: Line, ours: Line, theirs: Line, differ: Differ) -> RowPlan:
    """Return the effects of a merge on a tensor, from its rows in the common ancestor and in both versions."""
    b, o, t = _matched([base, ours, theirs])
    in_b, in_o, in_t = b >= 0, o >= 0, t >= 0
    theirs_of = np.full(len(ours), -1, np.int64)
    theirs_of[o[in_o]] = t[in_o]

    here, there, everywhere = (
        np.flatnonzero(mask) for mask in (in_b & in_o & ~in_t, in_b & ~in_o & in_t, in_b & in_o & in_t)
    )
    theirs_changed = everywhere[differ(theirs.refs(t[everywhere]), base.refs(b[everywhere]))]
    ours_changed = differ(ours.refs(o[theirs_changed]), base.refs(b[theirs_changed]))
    # If no common ancestor has the row, it is unknown which version changed it, so it counts as changed in both.
    doubtful = np.concatenate([theirs_changed[ours_changed], np.flatnonzero(~in_b & in_o & in_t)])
    clashing = doubtful[differ(ours.refs(o[doubtful]), theirs.refs(t[doubtful]))]
    changed_here = differ(ours.refs(o[here]), base.refs(b[here]))
    changed_there = differ(theirs.refs(t[there]), base.refs(b[there]))
    updated = theirs_changed[~ours_changed]
    return RowPlan(
        len(base),
        theirs_of,
        np.sort(t[~in_b & ~in_o & in_t]),
        _table(o[updated], t[updated]),
        _table(o[clashing], t[clashing]),
        _table(b[here], o[here], changed_here),
        _table(b[there], t[there], changed_there),
    )


def _table(*columns: NDArray[Any]) -> Ints:
    """Return columns as a table, sorted by the first column."""
    table = np.stack([column.astype(np.int64) for column in columns], axis=1)
    first = table[:, 0]
    return table if (first[1:] >= first[:-1]).all() else table[np.argsort(first, kind="stable")]


# -- conflicts ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row that both versions changed; its row number is None in a version that deleted the row."""

    tensor: str
    ours: int | None
    theirs: int | None


class Keep(Enum):
    """The choice between our and their version of a conflicting row."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True)
class Value:
    """A value that the caller's function returned for a conflicting row."""

    value: Any


Choose = Callable[[Conflict], Keep | Value]


def conflicts(plans: Mapping[str, RowPlan]) -> tuple[Conflict, ...]:
    """Return the conflicts of all tensors, sorted by name and row."""
    found = []
    for name, plan in plans.items():
        rows = [(int(o), int(t)) for o, t in plan.clashes.tolist()]
        deleted = [(o, None) for _, o, changed in plan.gone_there.tolist() if changed]
        revived = [(None, t) for _, t, changed in plan.gone_here.tolist() if changed]
        found += [Conflict(name, o, t) for o, t in [*rows, *deleted, *revived]]
    return tuple(found)


@dataclass(slots=True)
class Steps:
    """Steps for one tensor, executed in this order: updates, values, appends, new values, deletes.

    Parameters
    ----------
    updates
        Pairs (our row, their row): our row takes the value of their row; int64, shape (n, 2).
    values
        Chosen values, by number of our row.
    appends
        Rows of their version to append, ascending.
    new_values
        Chosen values of rows to append, by row number in their version.
    deletes
        Our rows to delete, ascending.
    """

    updates: Ints
    appends: Ints
    deletes: Ints
    values: dict[int, Any] = field(default_factory=dict)
    new_values: dict[int, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return whether no step is needed."""
        return not (len(self.updates) or len(self.appends) or len(self.deletes) or self.values)

    def takes_all(self, plan: RowPlan, their_rows: int) -> bool:
        """Return whether the result is exactly the rows of their version, in their order and with their values."""
        complete = len(self.updates) == len(plan.updates) and not (self.values or self.new_values)
        return complete and np.array_equal(self.layout(plan), np.arange(their_rows))

    def layout(self, plan: RowPlan) -> Ints:
        """Return, for each row of the result, its row in their version, -1 if that version lacks it: int64."""
        return np.concatenate([np.delete(plan.theirs_of, self.deletes), self.appends])


def decide(plans: Mapping[str, RowPlan], choose: Choose) -> dict[str, Steps]:
    """Resolve all conflicts, and return the steps for each tensor.

    A row of the dataset spans all tensors, so it is kept or deleted as a whole: if the resolution of a conflict keeps
    (or restores) the row in one tensor, the other tensors that had as many rows in the common ancestor keep it too.
    """
    kept: dict[int, set[int]] = {}
    revived: dict[int, set[int]] = {}
    steps = {}
    for name, plan in plans.items():
        step = steps[name] = Steps(plan.updates, plan.new, np.empty(0, np.int64))
        taken = []
        for o, t in plan.clashes.tolist():
            choice = choose(Conflict(name, o, t))
            if isinstance(choice, Value):
                step.values[o] = choice.value
            elif choice is Keep.THEIRS:
                taken.append((o, t))
        if taken:
            step.updates = np.concatenate([plan.updates, np.array(taken, np.int64)])
        for b, o, changed in plan.gone_there.tolist():
            if changed and (choice := choose(Conflict(name, o, None))) is not Keep.THEIRS:
                kept.setdefault(plan.base_rows, set()).add(b)
                if isinstance(choice, Value):
                    step.values[o] = choice.value
        for b, t, changed in plan.gone_here.tolist():
            if changed and (choice := choose(Conflict(name, None, t))) is not Keep.OURS:
                revived.setdefault(plan.base_rows, set()).add(b)
                if isinstance(choice, Value):
                    step.new_values[t] = choice.value
    for name, plan in plans.items():
        stay, back = _members(kept, plan), _members(revived, plan)
        gone, away = plan.gone_there, plan.gone_here
        steps[name].deletes = np.sort(gone[~np.isin(gone[:, 0], stay), 1])
        steps[name].appends = np.sort(np.concatenate([plan.new, away[np.isin(away[:, 0], back), 1]]))
    return steps


def _members(rows: Mapping[int, set[int]], plan: RowPlan) -> Ints:
    return np.array(sorted(rows.get(plan.base_rows, ())), np.int64)


def along(
    plans: Mapping[str, RowPlan], steps: Mapping[str, Steps]
) -> tuple[dict[str, RowPlan], dict[str, Steps]]:
    """Delete and add rows in tensors without a common ancestor in the same way as in tensors that have one.

    A tensor has no common ancestor if both versions got it from a third branch, or kept it although the third branch
    deleted it. Nothing records which of its rows were deleted; but the same rows of the other tensors were deleted.

    Parameters
    ----------
    plans, steps
        Plans and steps of the tensors that are as long as the dataset in both versions.
    """
    known = {name: (int((plan.theirs_of >= 0).sum()), plan.base_rows) for name, plan in plans.items()}
    most = max(known.values(), default=(0, 0))
    leaders = [name for name in plans if known[name] == most]
    layouts = [steps[name].layout(plans[name]) for name in leaders]
    new_plans, new_steps = dict(plans), dict(steps)
    if not most[1] or any(not np.array_equal(layouts[0], layout) for layout in layouts[1:]):
        return new_plans, new_steps
    plan, step = plans[leaders[0]], steps[leaders[0]]
    for name, mine in plans.items():
        is_open = mine.gone_there[:, 2].any() or mine.gone_here[:, 2].any()
        if name in leaders or is_open or not (mine.theirs_of >= 0).any():
            continue
        if not np.array_equal(steps[name].layout(mine), layouts[0]):
            kept = steps[name].updates[~np.isin(steps[name].updates[:, 0], step.deletes)]
            new_plans[name] = replace(mine, theirs_of=plan.theirs_of)
            new_steps[name] = replace(steps[name], updates=kept, appends=step.appends, deletes=step.deletes)
    return new_plans, new_steps


def filler_ids(rows: NDArray[np.uint64], key: str) -> NDArray[np.uint64]:
    """Return ids for the empty samples that a tensor gets where a merge adds rows only to other tensors.

    The ids are computed from the ids of the added rows: two lines that fill the same rows compute the same ids, so a
    later merge recognises each pair of filled rows as one row.
    """
    mixed = rows ^ np.uint64(xxhash.xxh3_64_intdigest(key.encode()))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))
