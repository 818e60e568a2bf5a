"""WHERE and HAVING: the rows for which a condition is true; EXPAND BY: those around them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import Bound, Logic, Value
from lakebed.query.engine.conditions import Condition
from lakebed.query.engine.evaluate import Scope, is_true
from lakebed.query.engine.plan import described
from lakebed.query.engine.relation import Relation
from lakebed.query.engine.work import Work, at_row, parted
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.statistics import pruning
from lakebed.query.values.columns import stretches, tick

Rows = NDArray[np.int64]

_AROUND = 1 << 20
"""Rows that EXPAND BY adds between two looks at the clock."""

_FAR = np.iinfo(np.int64).min


def filtered(work: Work, relation: Relation, condition: Condition, wanted: int | None) -> Relation:
    """Return the rows for which a condition is true; the first `wanted` of them, if that is not None."""
    parts, read, asked_of = condition.parts, condition.read, condition.asked_of
    names = [name for name, kind in read.items() if kind == "data" and name]
    if work.is_told:
        told = ", ".join(f"{name}: {kind}" for name, kind in read.items())
        work.note(f"where {' and then '.join(map(described, parts))} (reads {told or 'nothing'})")
    if work.is_dry:
        for line in pruning.expected(condition.left(relation), relation, names):
            work.note(line)
        return relation
    if wanted == 0:
        return relation.select(np.zeros(0, np.int64))
    if all(isinstance(part, Value) for part in parts):
        kept = is_true(condition.node, Scope(relation, range(len(relation) and 1)))
        return relation if not len(kept) or kept[0] else relation.select(np.zeros(0, np.int64))
    found: list[Rows] = []
    count = asked = 0
    before = pruning.traffic(relation, names) if work.is_told else None
    left = condition.left(relation)
    all_windows = relation.windows(names, is_soon=wanted is not None)
    far: AbstractContextManager[object] = nullcontext()
    if wanted is None:  # else the first chunks may be enough
        far = pruning.ahead(left, relation, parts[0])
    with far:
        for window in parted(pruning.windows(left, relation, all_windows), *parts):
            work.watch.tick()
            scope = Scope(relation, window)
            mask = _asked(parts, relation, scope, window)
            pruning.learn(relation, scope, asked_of, window)
            places = np.flatnonzero(mask)
            if window.start:
                places += window.start
            found.append(places)
            count += len(places)
            asked += len(window)
            work.watch.hold(places.nbytes)
            if wanted is not None and count >= wanted:
                break
    if work.is_told:
        for line in pruning.expected(left, relation, names):
            work.note(line)
        work.note(f"asked of {asked:,} of {len(relation):,} rows, true of {count:,}")
        after = pruning.traffic(relation, names)
        if before is not None and after is not None:
            came = after.since(before)
            work.note(f"{came.requests:,} requests brought {came.nbytes:,} bytes")
    pruning.save(relation, asked_of)
    rows = found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0, np.int64)
    return relation.select(rows if wanted is None else rows[:wanted])


def _asked(parts: Sequence[Bound], relation: Relation, scope: Scope, window: range) -> NDArray[np.bool_]:
    node = parts[0] if len(parts) == 1 else Logic("and", tuple(parts))
    try:
        return is_true(node, scope)
    except QueryError as error:
        raise at_row(error, node, relation, window) from error


def expanded(work: Work, whole: Relation, found: Relation, node: syntax.Expand) -> tuple[Relation, Rows]:
    """Add the rows around each that was found; tell how far each lies from it."""
    work.note(f"expand by {node.before} before and {node.after} after")
    rows, all_rows = found.base_rows(), whole.base_rows()
    if rows is None or all_rows is None:
        raise query_error(work.text, node.at, "unsupported", "EXPAND BY needs the rows of one dataset")
    order = np.argsort(all_rows, kind="stable")
    places = order[np.searchsorted(all_rows[order], rows)]
    work.watch.hold(16 * len(places) * (node.before + node.after + 1))
    apart = np.arange(-min(node.before, len(whole)), min(node.after, len(whole)) + 1)
    size = max(1, _AROUND // len(apart))
    parts = [places[some.start : some.stop] for some in stretches(len(places), size)]
    if node.keeps_repeats:
        found_rows, offsets = [], []
        for part in parts:
            around, inside = _around(part, apart, len(whole))
            found_rows.append(around[inside])
            offsets.append(np.tile(apart, len(part))[inside])
            tick()
        return whole.select(np.concatenate(found_rows or [places])), np.concatenate(offsets or [places])
    # How far each row lies from the first that was found which it is around; the other way round, so that that stays.
    distances = np.full(len(whole), _FAR)
    for part in reversed(parts):
        around, inside = _around(part, apart, len(whole))
        distances[around[inside][::-1]] = np.tile(apart, len(part))[inside][::-1]
        tick()
    (near,) = np.nonzero(distances != _FAR)
    return whole.select(near), distances[near]


def _around(places: Rows, apart: Rows, count: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Return the places around some, and which of them there are."""
    around = (places[:, None] + apart).reshape(-1)
    return around, (around >= 0) & (around < count)
