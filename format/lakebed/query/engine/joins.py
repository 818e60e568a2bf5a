"""Joins of the sources of FROM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.binding import Binder
from lakebed.query.binding.domains import aligned
from lakebed.query.binding.names import Entry, Names
from lakebed.query.functions.registry import FUNCTIONS
from lakebed.query.language import syntax
from lakebed.query.language.errors import placed, query_error
from lakebed.query.relations.bound import Apply, Bound, Input, inputs
from lakebed.query.relations.evaluate import Scope, evaluate, is_true
from lakebed.query.relations.relation import Combined, Projected, Relation
from lakebed.query.values.columns import Column, concatenated
from lakebed.query.values.keys import pairs
from lakebed.query.values.limits import stretches, tick

Rows = NDArray[np.int64]

_PAIRS = 1 << 20
"""Maximum number of pairs that a cross join makes between two checks of the clock."""

_KEY_BYTES = 16
"""Bytes of memory that a join counts for each row: for its key, and for the number that represents the key."""


@dataclass(frozen=True, slots=True)
class From:
    """A source of FROM: a relation, and the columns that the query can name in it."""

    relation: Relation
    names: Names


Bind = Callable[[From], Binder]
"""Function that returns a binder of expressions to the columns of a source."""


def join(
    text: str, node: syntax.Join, left: From, right: From, bind: Bind, hold: Callable[[int], None]
) -> From:
    """Pair the rows of two sources.

    Parameters
    ----------
    hold
        Function that counts the bytes of memory that the join uses.

    Raises
    ------
    QueryError
        If the condition is not an equality of the two sides, or names are ambiguous.
    """
    clash = set(left.names.tables) & set(right.names.tables)
    if clash:
        message = f"two tables are called {clash.pop()!r}: name one with AS"
        raise query_error(text, node.at, "ambiguous", message)
    if node.kind == "zip":
        return _side_by_side(left, right)
    if node.kind == "cross" or (node.condition is None and not node.using and node.kind != "natural"):
        return _crossed(node, left, right, bind, hold)
    kind, using = node.kind, node.using
    if kind == "natural":
        kind, using = "inner", _common(text, node, left, right)
    keys: list[tuple[Bound, Bound]]
    rest: list[syntax.Expression] = []
    if using:
        keys = [
            (left.names.one(text, node.at, None, c), right.names.one(text, node.at, None, c)) for c in using
        ]
    else:
        keys, rest = _equalities(text, node, left, right, bind)
    with placed(text, node.at):
        sides = [aligned(pair, node.at) for pair in keys]
    lefts, rights = pairs(
        [_whole(left.relation, key, hold) for key, _ in sides],
        [_whole(right.relation, key, hold) for _, key in sides],
        hold,
    )
    if rest and kind != "inner":
        message = f"a {kind.upper()} JOIN takes equalities only; put other conditions after WHERE"
        raise query_error(text, node.at, "unsupported", message)
    for condition in rest:
        both = _both(left, right, lefts, rights)
        kept = _true_of(bind(both).bind(condition), both.relation, hold)
        lefts, rights = lefts[kept], rights[kept]
    tick()
    if kind in ("left", "full"):
        hold(16 * (len(lefts) + len(left.relation)))
        alone = _unpaired(lefts, len(left.relation))
        # The pairs are in the order of their left rows, so `lefts` is sorted.
        places = np.searchsorted(lefts, alone)
        lefts, rights = np.insert(lefts, places, alone), np.insert(rights, places, -1)
    if kind in ("right", "full"):
        alone = _unpaired(rights, len(right.relation))
        hold(16 * (len(lefts) + len(alone)))
        lefts, rights = np.append(lefts, np.full(len(alone), -1)), np.append(rights, alone)
    found = _both(left, right, lefts, rights)
    return _merged(found, left, using, kind) if using else found


def _common(text: str, node: syntax.Join, left: From, right: From) -> tuple[str, ...]:
    """Return the names of the columns that both sides of a NATURAL JOIN have."""
    found = tuple(e.column for e in left.names.all_of(None) if right.names.find(None, e.column))
    if not found:
        raise query_error(text, node.at, "unknown_column", "NATURAL JOIN: the two sides share no column")
    return found


def _unpaired(rows: Rows, count: int) -> Rows:
    """Return the numbers from 0 to ``count - 1`` that are not in `rows`; -1 in `rows` means no row."""
    is_alone = np.ones(count, np.bool_)
    is_alone[rows[rows >= 0]] = False
    return np.flatnonzero(is_alone)


def _whole(relation: Relation, key: Bound, hold: Callable[[int], None]) -> Column:
    """Return the keys of all rows."""
    hold(_KEY_BYTES * len(relation))
    found = []
    for window in relation.windows(list(inputs(key))):
        tick()
        found.append(evaluate(key, Scope(relation, window)))
    return concatenated(found) if found else evaluate(key, Scope(relation, range(0)))


def _both(left: From, right: From, lefts: Rows, rights: Rows) -> From:
    """Return the relation of paired rows; the columns of both sources get unique names."""
    columns: dict[str, tuple[int, str]] = {}
    entries: list[Entry] = []
    for side, source in enumerate((left, right)):
        for entry in source.names.entries:
            name = entry.column if entry.table is None else f"{entry.table}.{entry.column}"
            while name in columns:
                name += "'"
            columns[name] = (side, entry.name)
            entries.append(Entry(entry.table, entry.column, name, entry.info, entry.is_behind))
    relation = Combined([(left.relation, lefts), (right.relation, rights)], columns)
    return From(relation, Names(entries, left.names.stored + right.names.stored))


def _side_by_side(left: From, right: From) -> From:
    """Pair rows by position; the values of the shorter side are missing at the end."""
    sizes = (len(left.relation), len(right.relation))
    rows = np.arange(max(sizes))
    return _both(left, right, *(np.where(rows < size, rows, -1) for size in sizes))


def _crossed(node: syntax.Join, left: From, right: From, bind: Bind, hold: Callable[[int], None]) -> From:
    sizes = (len(left.relation), len(right.relation))
    hold(16 * sizes[0] * sizes[1])
    first, second = np.empty(sizes, np.int64), np.empty(sizes, np.int64)
    for rows in stretches(sizes[0], max(1, _PAIRS // max(1, sizes[1]))):
        first[rows.start : rows.stop] = np.arange(rows.start, rows.stop)[:, None]
        second[rows.start : rows.stop] = np.arange(sizes[1])
    lefts, rights = first.reshape(-1), second.reshape(-1)
    found = _both(left, right, lefts, rights)
    if node.condition is None:
        return found
    kept = _true_of(bind(found).bind(node.condition), found.relation, hold)
    return _both(left, right, lefts[kept], rights[kept])


def _true_of(condition: Bound, relation: Relation, hold: Callable[[int], None]) -> NDArray[np.bool_]:
    """Return whether a condition is true for each pair."""
    parts: list[NDArray[np.bool_]] = []
    for window in relation.windows([name for name in inputs(condition) if name]):
        hold(len(window))
        parts.append(is_true(condition, Scope(relation, window)))
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _equalities(
    text: str, node: syntax.Join, left: From, right: From, bind: Bind
) -> tuple[list[tuple[Bound, Bound]], list[syntax.Expression]]:
    """Return the pairs of keys that a condition makes equal, and its other parts."""
    keys: list[tuple[Bound, Bound]] = []
    rest: list[syntax.Expression] = []
    nothing = np.zeros(0, np.int64)
    both = bind(_both(left, right, nothing, nothing))
    for part in syntax.conjuncts(node.condition):
        both.bind(part)  # reports unknown and ambiguous names before the join runs
        found = _sides(part, left, right, bind)
        if found is None:
            rest.append(part)
        else:
            keys.append(found)
    if not keys:
        message = "a JOIN needs an equality of its two sides: ON a.id = b.id; or CROSS JOIN"
        raise query_error(text, node.at, "unsupported", message)
    return keys, rest


def _sides(part: syntax.Expression, left: From, right: From, bind: Bind) -> tuple[Bound, Bound] | None:
    """Return the sides of an equality, the side that names the left source first; None if a side names both sources."""
    if not isinstance(part, syntax.Binary) or part.operator != "=":
        return None
    for first, second in ((part.left, part.right), (part.right, part.left)):
        try:
            return bind(left).bind(first), bind(right).bind(second)
        except QueryError as error:
            if error.kind != "unknown_column":
                raise
    return None


def _merged(found: From, left: From, using: tuple[str, ...], kind: str) -> From:
    """Show each column of USING once.

    The values are from the side whose rows are all kept by the join; for FULL, from the first side with a value.
    """
    outputs: dict[str, Bound] = {e.name: Input(e.name, e.info) for e in found.names.entries}
    entries: list[Entry] = []
    count = len(left.names.entries)
    for number, entry in enumerate(found.names.entries):
        if entry.column not in using or entry.is_behind:
            entries.append(entry)
            continue
        if entry.table is not None:
            entries.append(Entry(entry.table, entry.column, entry.name, entry.info, is_behind=True))
        if number < count:
            others = [e for e in found.names.entries[count:] if e.column == entry.column and not e.is_behind]
            one, two = Input(entry.name, entry.info), Input(others[0].name, others[0].info)
            if kind == "right":
                one, two = two, one
            merged: Bound = one
            if kind == "full":
                function = FUNCTIONS["COALESCE"]
                both = tuple(aligned((one, two), 0))
                info = function.told([side.info for side in both])
                merged = Apply("COALESCE", function.compute, both, info, 0)
            name = f"{entry.column}="
            outputs[name] = merged
            entries.append(Entry(None, entry.column, name, merged.info))
    return From(Projected(found.relation, outputs), Names(entries, found.names.stored))
