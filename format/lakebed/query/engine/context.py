"""Context of an execution: the text, parameters, limits and notes that all clauses of one query share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import QueryError
from lakebed.query.functions.spaces import Ways
from lakebed.query.relations.bound import (
    Apply,
    Bound,
    Cases,
    Chance,
    Facts,
    Input,
    Logic,
    Missing,
    Not,
    RowNumber,
    Shape,
    Unknown,
    Value,
    inputs,
    is_dear,
    parts,
)
from lakebed.query.relations.evaluate import Scope, evaluate, located
from lakebed.query.relations.relation import Relation
from lakebed.query.statistics import pruning
from lakebed.query.values.columns import Column, concatenated
from lakebed.query.values.limits import Watch

_DEAR_ROWS = 1 << 16
"""Number of rows between two checks of the clock, for expressions that take some microseconds per row."""

_SHOWN = 60
"""Maximum number of characters of a constant in an explanation."""


@dataclass(slots=True)
class QueryContext:
    """State that all clauses of one query share.

    Attributes
    ----------
    parameters
        Values of the ``?``; None while they are not known.
    is_dry
        True to look up names and plan the query without reading values.
    is_told
        True to record the steps, for EXPLAIN.
    steps, depth
        The recorded steps, and the nesting depth of the current query.
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
        """Record a step, for EXPLAIN."""
        self.steps.append((self.depth, text))

    def column(self, relation: Relation, node: Bound, *, is_key: bool = False) -> Column:
        """Compute an expression for all rows; `is_key` is True if ORDER BY sorts by the result."""
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
        if not found:
            return evaluate(node, Scope(relation, range(0)))
        return concatenated(found, are_json=node.info.kind == "json")


def parted(windows: Iterable[range], *nodes: Bound) -> Iterator[range]:
    """Yield ranges of rows, split for expensive expressions so that the clock is checked often enough."""
    is_split = any(map(is_dear, nodes))
    for window in windows:
        step = _DEAR_ROWS if is_split else max(1, len(window))
        for start in range(window.start, window.stop, step):
            yield range(start, min(window.stop, start + step))


def at_row(error: QueryError, node: Bound, relation: Relation, window: range) -> QueryError:
    """Return an error that names the failed row by its number in the dataset."""
    found = located(error, node, relation, window)
    if found.row is None:
        return found
    rows = relation.base_rows()
    number = found.row if rows is None else int(rows[found.row])
    message = f"row {number}: {found.message}"
    return QueryError(message, kind=found.kind, line=found.line, column=found.column, row=number)


def described(node: Bound) -> str:
    """Return an expression as text."""
    if isinstance(node, Unknown):
        return "?"
    if isinstance(node, Value):
        try:
            text = repr(node.value)
        except RecursionError:  # the parameter is a deeply nested list
            return type(node.value).__name__
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if isinstance(node, Input):
        return node.name or "COUNT(*)"
    if isinstance(node, Shape | Facts):
        return f"{'SHAPE' if isinstance(node, Shape) else 'SAMPLE_INFO'}({node.name})"
    if isinstance(node, RowNumber | Chance):
        return "ROW_NUMBER()" if isinstance(node, RowNumber) else "RANDOM()"
    if isinstance(node, Cases):
        return f"CASE of {len(node.branches)}"
    operands = [described(part) for part in parts(node)]
    if isinstance(node, Logic):
        return f" {node.operator.upper()} ".join(f"({operand})" for operand in operands)
    if isinstance(node, Not):
        return f"NOT ({operands[0]})"
    if isinstance(node, Missing):
        return f"{operands[0]} IS NULL"
    if node.name == "[]":
        return f"{operands[0]}[...]"
    if not node.name.isidentifier():
        return f" {node.name} ".join(operands) if len(operands) > 1 else f"{node.name}{operands[0]}"
    return f"{node.name}({', '.join(operands)})"
