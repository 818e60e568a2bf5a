"""A query at work: its text, limits and ways, the steps that it took, and expressions over all rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import QueryError
from lakebed.query.binding.bound import Apply, Bound, inputs, is_dear
from lakebed.query.engine.evaluate import Scope, evaluate, located
from lakebed.query.engine.limits import Watch, Ways
from lakebed.query.engine.relation import Relation
from lakebed.query.statistics import pruning
from lakebed.query.values.columns import Column, concatenated

_DEAR_ROWS = 1 << 16
"""Rows between two looks at the clock, where some microseconds are spent on each."""


@dataclass(slots=True)
class Work:
    """What all clauses of one query share.

    Attributes
    ----------
    parameters
        Values of the ``?``; None while they are not known.
    ways
        Where vectors are computed, and whether indexes are used.
    is_dry
        Find names and decide how to go about it, and read nothing.
    is_told
        Note the steps, for an explanation.
    steps, depth
        How deep the query lies in others, and what was done.
    """

    text: str
    parameters: Sequence[Any] | None
    watch: Watch
    ways: Ways
    is_dry: bool = False
    is_told: bool = False
    steps: list[tuple[int, str]] = field(default_factory=list)
    depth: int = 0

    def note(self, text: str) -> None:
        """Note a step, for an explanation."""
        self.steps.append((self.depth, text))

    def column(self, relation: Relation, node: Bound, *, is_key: bool = False) -> Column:
        """Return an expression over all rows."""
        found: list[Column] = []
        key = node.key if is_key and isinstance(node, Apply) else None
        with pruning.ahead(None, relation, node):
            for window in parted(relation.windows([name for name in inputs(node) if name]), node):
                self.watch.hold(8 * len(window))
                try:
                    part = evaluate(node, Scope(relation, window))
                    found.append(part if key is None else key(part))
                except QueryError as error:
                    raise at_row(error, node, relation, window) from error
        return concatenated(found) if found else evaluate(node, Scope(relation, range(0)))


def parted(windows: Iterable[range], *nodes: Bound) -> Iterator[range]:
    """Yield stretches of rows; shorter ones where computing an expression takes long, for looks at the clock."""
    if not any(map(is_dear, nodes)):
        yield from windows
        return
    for window in windows:
        for start in range(window.start, window.stop, _DEAR_ROWS):
            yield range(start, min(window.stop, start + _DEAR_ROWS))


def at_row(error: QueryError, node: Bound, relation: Relation, window: range) -> QueryError:
    """Return an error of a row that names it as the dataset counts it."""
    found = located(error, node, relation, window)
    if found.row is None:
        return found
    rows = relation.base_rows()
    number = found.row if rows is None else int(rows[found.row])
    made = QueryError(f"row {number}: {found.message}", kind=found.kind, row=number)
    made.line, made.column = found.line, found.column
    return made
