"""WHERE and HAVING: the rows for which a condition is true; EXPAND BY: the rows around them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.engine.conditions import Condition
from lakebed.query.engine.context import QueryContext, at_row, described, parted
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.relations.bound import Logic, Value
from lakebed.query.relations.evaluate import Scope, is_true
from lakebed.query.relations.relation import Relation
from lakebed.query.statistics import pruning
from lakebed.query.values.limits import stretches, tick

Rows = NDArray[np.int64]

_AROUND = 1 << 20
"""Maximum number of rows that EXPAND BY adds between two checks of the clock."""

_FAR = np.iinfo(np.int64).min


def filtered(context: QueryContext, relation: Relation, condition: Condition, wanted: int | None) -> Relation:
    """Return the rows for which a condition is true, but only the first `wanted` ones if `wanted` is not None."""
    parts, names = condition.parts, [name for name, kind in condition.read.items() if kind == "data" and name]
    if context.is_told:
        told = ", ".join(f"{name}: {kind}" for name, kind in condition.read.items())
        context.note(f"where {' and then '.join(map(described, parts))} (reads {told or 'nothing'})")
    if context.is_dry:
        _note_all(context, pruning.expected(condition.left(relation), relation, names))
        return relation
    if wanted == 0:
        return relation.select(np.zeros(0, np.int64))
    if all(isinstance(part, Value) for part in parts):
        kept = is_true(condition.node, Scope(relation, range(len(relation) and 1)))
        return relation if not len(kept) or kept[0] else relation.select(np.zeros(0, np.int64))
    before = pruning.traffic(relation, names) if context.is_told else None
    left = condition.left(relation)
    rows, asked = _asked(context, relation, condition, names, left, wanted)
    if context.is_told:
        _note_all(context, pruning.expected(left, relation, names))
        context.note(f"computed for {asked:,} of {len(relation):,} rows, true for {len(rows):,}")
        after = pruning.traffic(relation, names)
        if before is not None and after is not None:
            came = after.since(before)
            context.note(f"{came.requests:,} requests brought {came.nbytes:,} bytes")
    pruning.save(relation, condition.asked_of)
    return relation.select(rows if wanted is None else rows[:wanted])


def _note_all(context: QueryContext, lines: Sequence[str]) -> None:
    for line in lines:
        context.note(line)


def _asked(
    context: QueryContext,
    relation: Relation,
    condition: Condition,
    names: Sequence[str],
    left: pruning.Kept | None,
    wanted: int | None,
) -> tuple[Rows, int]:
    """Return the rows for which a condition is true, and the number of rows for which it was computed."""
    parts = condition.parts
    node = parts[0] if len(parts) == 1 else Logic("and", tuple(parts))
    found: list[Rows] = []
    count = asked = 0
    windows = pruning.windows(left, relation, relation.windows(names, is_soon=wanted is not None))
    # With LIMIT, the first chunks may hold enough rows, so do not read ahead.
    with nullcontext() if wanted is not None else pruning.ahead(left, relation, parts[0]):
        for window in parted(windows, *parts):
            context.watch.tick()
            scope = Scope(relation, window)
            try:
                mask = is_true(node, scope)
            except QueryError as error:
                raise at_row(error, node, relation, window) from error
            pruning.learn(relation, scope, condition.asked_of, window)
            places = np.flatnonzero(mask)
            if window.start:
                places += window.start
            found.append(places)
            count += len(places)
            asked += len(window)
            context.watch.hold(places.nbytes)
            if wanted is not None and count >= wanted:
                break
    return found[0] if len(found) == 1 else np.concatenate(found or [np.zeros(0, np.int64)]), asked


def expanded(
    context: QueryContext, whole: Relation, found: Relation, node: syntax.Expand
) -> tuple[Relation, Rows]:
    """Add the rows around each found row; return all rows, and the distance of each from the found row near it."""
    context.note(f"expand by {node.before} before and {node.after} after")
    rows, all_rows = found.base_rows(), whole.base_rows()
    if rows is None or all_rows is None:
        raise query_error(context.text, node.at, "unsupported", "EXPAND BY needs the rows of one dataset")
    order = np.argsort(all_rows, kind="stable")
    places = order[np.searchsorted(all_rows[order], rows)]
    context.watch.hold(16 * len(places) * (node.before + node.after + 1))
    apart = np.arange(-min(node.before, len(whole)), min(node.after, len(whole)) + 1)
    parts = [places[some.start : some.stop] for some in stretches(len(places), max(1, _AROUND // len(apart)))]
    if node.keeps_repeats:
        pairs = [_around(part, apart, len(whole)) for part in parts] or [(places, places)]
        near, distances = (np.concatenate(side) for side in zip(*pairs, strict=True))
        return whole.select(near), distances
    # Each row gets the distance to the first match that is near it: write the distances of the last match first, so
    # that the distances of the first match overwrite them.
    distances = np.full(len(whole), _FAR)
    for part in reversed(parts):
        near, steps = _around(part, apart, len(whole))
        distances[near[::-1]] = steps[::-1]
    (near,) = np.nonzero(distances != _FAR)
    return whole.select(near), distances[near]


def _around(places: Rows, apart: Rows, count: int) -> tuple[Rows, Rows]:
    """Return place + distance, and the distance, for all `places` and distances (`apart`); only rows below `count`."""
    tick()
    around = (places[:, None] + apart).reshape(-1)
    inside = (around >= 0) & (around < count)
    return around[inside], np.tile(apart, len(places))[inside]
