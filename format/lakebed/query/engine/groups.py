"""GROUP BY, UNGROUP BY and DISTINCT."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.binding import Binder
from lakebed.query.binding.names import Names
from lakebed.query.engine.context import QueryContext, described
from lakebed.query.engine.joins import From
from lakebed.query.language import syntax
from lakebed.query.language.errors import placed
from lakebed.query.relations.bound import Input
from lakebed.query.relations.relation import Grouped, Relation, Stored, Unpacked
from lakebed.query.values.columns import Numbers, concatenated
from lakebed.query.values.keys import codes, firsts, groups, joined
from lakebed.query.values.limits import Watch
from lakebed.query.values.reductions import items_of

FRAME = "frame_number"
"""Name of the column with the number of each item in its group."""


def grouped(context: QueryContext, source: From, node: syntax.Select, binder: Binder) -> From:
    """Group rows by the keys of GROUP BY, or all rows as one group."""
    relation = source.relation
    keys = [binder.bind(key) for key in node.group]
    context.note(f"group by {', '.join(map(described, keys)) or 'all rows'}")
    if not keys:
        rows = np.arange(len(relation), dtype=np.int64)
        made = Grouped(relation, rows, np.array([0, len(relation)]))
    elif context.is_dry:
        made = Grouped(relation, np.zeros(0, np.int64), np.zeros(1, np.int64))
    else:
        numbers = []
        for key, given in zip(keys, node.group, strict=True):
            with placed(context.text, given.at):
                numbers.append(codes(context.column(relation, key), refuse_arrays=True))
        made = Grouped(relation, *groups(joined(numbers)))
        context.watch.hold(made.members.nbytes)
    named = {key.name for key in keys if isinstance(key, Input)}
    entries = (
        replace(entry, told=entry.info.grouped(is_key=entry.name in named)) for entry in source.names.entries
    )
    return From(made, Names(entries, source.names.stored))


def ungrouped(relation: Relation, count: int | None, watch: Watch) -> Relation:
    """Make one row of each item of the groups, or of each `count` items.

    Parameters
    ----------
    count
        Number of items in each new row, which holds them as a list; None makes rows of single items.

    Raises
    ------
    QueryError
        If the relation has no groups.
    """
    split = [name for name, info in relation.infos.items() if info.is_group or _is_sequence(relation, name)]
    if not split:
        raise QueryError(
            "UNGROUP BY needs groups or sequences: it follows FROM (SELECT ... GROUP BY ...)", kind="type"
        )
    if count is not None and count < 1:
        raise QueryError("UNGROUP BY needs at least one item for each row", kind="type")
    sizes = _sizes(relation, split, watch)
    watch.hold(16 * int(sizes.sum()))
    owners = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    watch.tick()
    items = np.arange(len(owners), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    whole = Unpacked(relation, owners, items, split, None if FRAME in relation.infos else FRAME)
    if count is None:
        return whole
    starts = np.flatnonzero(items % count == 0)
    return Grouped(whole, np.arange(len(owners), dtype=np.int64), np.append(starts, len(owners)))


def _is_sequence(relation: Relation, name: str) -> bool:
    """Return whether a column is a tensor of sequences."""
    if isinstance(relation, Stored):
        return relation.column(name).state.sequence is not None
    below = relation.below(name, range(0))
    return below is not None and _is_sequence(*below[:2])


def _sizes(relation: Relation, split: list[str], watch: Watch) -> NDArray[np.int64]:
    """Return the number of items of each row, in which all columns must agree."""
    found: NDArray[np.int64] | None = None
    for name in split:
        parts = []
        for window in relation.windows([name]):
            watch.tick()
            parts.append(items_of(relation.read(name, window)))
        whole = concatenated(parts) if parts else None
        sizes = whole.values.astype(np.int64) if isinstance(whole, Numbers) else np.zeros(0, np.int64)
        if found is not None and not np.array_equal(found, sizes):
            at = int(np.flatnonzero(found != sizes)[0])
            raise QueryError(
                f"the groups of row {at} differ in length: {found[at]} and {sizes[at]}", kind="shape"
            )
        found = sizes
    return np.zeros(0, np.int64) if found is None else found


def distinct(
    context: QueryContext, found: Relation, node: syntax.Select, source: From, binder: Binder
) -> Relation:
    """Remove rows that are equal to an earlier row, in the columns of DISTINCT ON or in all columns."""
    context.note("distinct")
    if context.is_dry:
        return found
    if node.distinct_on:
        keys = [context.column(source.relation, binder.bind(key)) for key in node.distinct_on]
    else:
        keys = [context.column(found, Input(name, found.infos[name])) for name in found.names]
    return found.select(firsts(joined([codes(key, refuse_arrays=False) for key in keys])))
