"""FROM: datasets, versions, queries in brackets, and joins of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import Apply, Bound, Input, inputs
from lakebed.query.binding.domains import aligned
from lakebed.query.binding.names import Entry, Names
from lakebed.query.engine.evaluate import Scope, evaluate, is_true
from lakebed.query.engine.relation import Combined, Projected, Relation
from lakebed.query.functions.registry import FUNCTIONS
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.values.columns import Column, concatenated, stretches, tick
from lakebed.query.values.keys import pairs

if TYPE_CHECKING:
    from lakebed.query.binding.binding import Binder

Rows = NDArray[np.int64]

_PAIRS = 1 << 20
"""Pairs that are made between two looks at the clock."""

_KEY_BYTES = 16
"""Of a row: its key, and the number that stands for it."""


@dataclass(frozen=True, slots=True)
class From:
    """What FROM names: a relation, and the columns that may be named."""

    relation: Relation
    names: Names


Bind = Callable[[From], "Binder"]
"""Makes what binds expressions to a relation."""


def join(
    text: str, node: syntax.Join, left: From, right: From, bind: Bind, hold: Callable[[int], None]
) -> From:
    """Pair the rows of two sources.

    Parameters
    ----------
    hold
        Takes note of bytes that are kept.

    Raises
    ------
    QueryError
        If the condition is no equality of the two sides, or names are not clear.
    """
    clash = set(left.names.tables) & set(right.names.tables)
    if clash:
        raise query_error(
            text, node.at, "ambiguous", f"two tables are called {clash.pop()!r}: name one with AS"
        )
    if node.kind == "zip":
        return _side_by_side(left, right)
    if node.kind == "cross" or (node.condition is None and not node.using and node.kind != "natural"):
        return _crossed(node, left, right, bind, hold)
    using = node.using
    if node.kind == "natural":
        using = tuple(e.column for e in left.names.all_of(None) if right.names.find(None, e.column))
        if not using:
            raise query_error(text, node.at, "unknown_column", "NATURAL JOIN: the two sides share no column")
    if using:
        keys: list[tuple[Bound, Bound]] = [
            (_named(text, node.at, left, c), _named(text, node.at, right, c)) for c in using
        ]
        rest: list[syntax.Expression] = []
    else:
        keys, rest = _equalities(text, node, left, right, bind)
    keys = [_alike(text, node.at, pair) for pair in keys]
    lefts, rights = pairs(
        [_whole(left.relation, key, hold) for key, _ in keys],
        [_whole(right.relation, key, hold) for _, key in keys],
        hold,
    )
    kind = "inner" if node.kind == "natural" else node.kind
    if rest:
        if kind != "inner":
            raise query_error(
                text,
                node.at,
                "unsupported",
                f"a {kind.upper()} JOIN takes equalities only; put the rest behind WHERE",
            )
        both = _both(left, right, lefts, rights)
        binder = bind(both)
        for condition in rest:
            kept = _true_of(binder.bind(condition), both.relation, hold)
            lefts, rights = lefts[kept], rights[kept]
            both = _both(left, right, lefts, rights)
    tick()
    if kind in ("left", "full"):
        hold(16 * (len(lefts) + len(left.relation)))
        lefts, rights = _with_missing(lefts, rights, len(left.relation))
    if kind in ("right", "full"):
        alone = _unpaired(rights, len(right.relation))
        hold(16 * (len(lefts) + len(alone)))
        lefts = np.concatenate([lefts, np.full(len(alone), -1)])
        rights = np.concatenate([rights, alone])
    found = _both(left, right, lefts, rights)
    return _merged(found, left, using, kind) if using else found


def _alike(text: str, at: int, pair: tuple[Bound, Bound]) -> tuple[Bound, Bound]:
    """Return two keys as values whose numbers mean the same."""
    try:
        first, second = aligned(pair, at)
    except QueryError as error:
        raise query_error(text, at, error.kind, error.message) from error
    return first, second


def _with_missing(lefts: Rows, rights: Rows, count: int) -> tuple[Rows, Rows]:
    """Add the left rows without a partner where they belong: pairs lie in the order of their left rows."""
    alone = _unpaired(lefts, count)
    places = np.searchsorted(lefts, alone)
    return np.insert(lefts, places, alone), np.insert(rights, places, -1)


def _unpaired(rows: Rows, count: int) -> Rows:
    """Return the rows 0 to `count` that are not among some, of which -1 is none."""
    is_alone = np.ones(count, np.bool_)
    is_alone[rows[rows >= 0]] = False
    return np.flatnonzero(is_alone)


def _whole(relation: Relation, key: Bound, hold: Callable[[int], None]) -> Column:
    """Return a key of all rows."""
    hold(_KEY_BYTES * len(relation))
    found = []
    for window in relation.windows(list(inputs(key))):
        tick()
        found.append(evaluate(key, Scope(relation, window)))
    return concatenated(found) if found else evaluate(key, Scope(relation, range(0)))


def _both(left: From, right: From, lefts: Rows, rights: Rows) -> From:
    """Put two sources side by side; their columns get names that no two share."""
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
    """Pair rows by position; the shorter side ends in missing values."""
    sizes = (len(left.relation), len(right.relation))
    rows = np.arange(max(sizes))
    lefts, rights = (np.where(rows < size, rows, -1) for size in sizes)
    return _both(left, right, lefts, rights)


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
    """Tell of each pair whether a condition is true, some at a time."""
    parts: list[NDArray[np.bool_]] = []
    for window in relation.windows([name for name in inputs(condition) if name]):
        hold(len(window))
        parts.append(is_true(condition, Scope(relation, window)))
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _named(text: str, at: int, source: From, column: str) -> Bound:
    return source.names.one(text, at, None, column)


def _equalities(
    text: str, node: syntax.Join, left: From, right: From, bind: Bind
) -> tuple[list[tuple[Bound, Bound]], list[syntax.Expression]]:
    """Return the pairs of keys that a condition makes equal, and what else it asks."""
    keys: list[tuple[Bound, Bound]] = []
    rest: list[syntax.Expression] = []
    for part in _conjuncts(node.condition):
        found = None
        if isinstance(part, syntax.Binary) and part.operator == "=":
            found = _sides(part, left, right, bind)
        if found is None:
            # Names that are wrong are told as such.
            bind(_both(left, right, np.zeros(0, np.int64), np.zeros(0, np.int64))).bind(part)
            rest.append(part)
        else:
            keys.append(found)
    if not keys:
        raise query_error(
            text,
            node.at,
            "unsupported",
            "a JOIN needs an equality of its two sides: ON a.id = b.id; or CROSS JOIN",
        )
    return keys, rest


def _conjuncts(node: syntax.Expression | None) -> Iterator[syntax.Expression]:
    if isinstance(node, syntax.Logical) and node.operator == "and":
        for operand in node.operands:
            yield from _conjuncts(operand)
    elif node is not None:
        yield node


def _sides(part: syntax.Binary, left: From, right: From, bind: Bind) -> tuple[Bound, Bound] | None:
    """Return the two sides of an equality, that of the left source first; None if a side names both."""
    both = bind(_both(left, right, np.zeros(0, np.int64), np.zeros(0, np.int64)))
    both.bind(part.left)  # an ambiguous name is one whichever side would know it
    both.bind(part.right)
    for first, second in ((part.left, part.right), (part.right, part.left)):
        try:
            return bind(left).bind(first), bind(right).bind(second)
        except QueryError as error:
            if error.kind != "unknown_column":
                raise
    return None


def _merged(found: From, left: From, using: tuple[str, ...], kind: str) -> From:
    """Let a column of USING appear once: that of the side which has all rows, or the first that is there."""
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
                merged = Apply(
                    "COALESCE", function.compute, both, function.told([side.info for side in both]), 0
                )
            name = f"{entry.column}="
            outputs[name] = merged
            entries.append(Entry(None, entry.column, name, merged.info))
    return From(Projected(found.relation, outputs), Names(entries, found.names.stored))
