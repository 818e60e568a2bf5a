"""Syntax tree of a query; `at` is the position of each node in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

# -- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, true, false or null."""

    value: int | float | str | bool | None
    at: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A ``?`` or ``$name``; `number` counts from 0, and a repeated name counts once."""

    number: int
    at: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A column, and its table if that is named."""

    table: str | None
    column: str
    at: int


@dataclass(frozen=True, slots=True)
class Array:
    """``ARRAY[...]`` or ``[...]``."""

    items: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Unary:
    """``-x`` or ``NOT x``."""

    operator: str
    operand: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator with two operands: arithmetic, comparison, ``||``."""

    operator: str
    left: Expression
    right: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Logical:
    """``a AND b AND c`` or ``a OR b OR c``; a chain is one node, so that long chains do not make deep trees."""

    operator: str
    operands: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Slice:
    """``start:stop:step`` between square brackets."""

    start: Expression | None
    stop: Expression | None
    step: Expression | None
    at: int


@dataclass(frozen=True, slots=True)
class Dots:
    """``...`` between square brackets."""

    at: int


@dataclass(frozen=True, slots=True)
class Subscript:
    """``x[...]``."""

    base: Expression
    items: tuple[Expression | Slice | Dots, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function; `is_star` for ``COUNT(*)``."""

    name: str
    arguments: tuple[Expression, ...]
    is_distinct: bool
    is_star: bool
    at: int


@dataclass(frozen=True, slots=True)
class Weights:
    """A function of pairs: ``MAX_WEIGHT(condition: weight, ...)``."""

    name: str
    pairs: tuple[tuple[Expression, Expression], ...]
    at: int


@dataclass(frozen=True, slots=True)
class In:
    """``x IN (...)``; exactly one of `items` and `query` is given."""

    operand: Expression
    items: tuple[Expression, ...]
    query: Query | None
    is_negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Between:
    """``x BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    is_negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Like:
    """``x LIKE pattern``, or ILIKE, which ignores case."""

    operand: Expression
    pattern: Expression
    is_negated: bool
    any_case: bool
    at: int


@dataclass(frozen=True, slots=True)
class IsNull:
    """``x IS NULL``."""

    operand: Expression
    is_negated: bool
    at: int


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE [operand] WHEN ... THEN ... ELSE ... END``."""

    operand: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None
    at: int


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(x AS type)``."""

    operand: Expression
    type_name: str
    at: int


@dataclass(frozen=True, slots=True)
class Extract:
    """``EXTRACT(unit FROM x)``."""

    unit: str
    operand: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Nested:
    """``EXISTS (SELECT ...)``, or ``(SELECT ...)`` as one value."""

    query: Query
    is_exists: bool
    at: int


Expression = (
    Literal
    | Parameter
    | Name
    | Array
    | Unary
    | Binary
    | Logical
    | Subscript
    | Call
    | Weights
    | In
    | Between
    | Like
    | IsNull
    | Case
    | Cast
    | Extract
    | Nested
)


# -- sources -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Path:
    """A dataset by address, or a query of WITH by name."""

    path: str
    version: str | None
    alias: str | None
    is_quoted: bool
    at: int


@dataclass(frozen=True, slots=True)
class Difference:
    """``DIFF('a', 'b')``: the rows of version b that version a lacks or has with other values."""

    path: str | None
    first: str
    second: str
    alias: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Derived:
    """A query in brackets."""

    query: Query
    alias: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Join:
    """Two sources; `kind` is inner, left, right, full, cross, natural, or zip for the comma."""

    kind: str
    left: Source
    right: Source
    condition: Expression | None
    using: tuple[str, ...]
    at: int


Source = Path | Difference | Derived | Join


# -- statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the list of SELECT.

    Attributes
    ----------
    expression
        Expression to compute; None for ``*``.
    alias
        Name given with AS.
    table
        Table of ``table.*``.
    items
        Subscripts of ``*[...]``.
    """

    expression: Expression | None
    alias: str | None
    table: str | None
    items: tuple[Expression | Slice | Dots, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Order:
    """One key of ORDER BY; `nulls` is first, last or empty."""

    expression: Expression
    is_descending: bool
    nulls: str


@dataclass(frozen=True, slots=True)
class Limit:
    """``LIMIT count [PERCENT] OFFSET skipped``; None for missing parts."""

    count: Expression | None
    is_percent: bool
    offset: Expression | None
    at: int


@dataclass(frozen=True, slots=True)
class Sample:
    """``SAMPLE BY weight [REPLACE ...] [SEED n] [LIMIT n [PERCENT]]``."""

    weight: Expression
    replace: bool
    seed: Expression | None
    count: Expression | None
    is_percent: bool
    at: int


@dataclass(frozen=True, slots=True)
class Expand:
    """``EXPAND BY before after``: the rows around each found row."""

    before: int
    after: int
    keeps_repeats: bool
    alias: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Ungroup:
    """``UNGROUP BY SPLIT``, or by a number of items."""

    count: Expression | None
    at: int


@dataclass(frozen=True, slots=True)
class Select:
    """A statement from SELECT to UNGROUP BY."""

    items: tuple[Item, ...]
    source: Source | None
    where: Expression | None
    expand: Expand | None
    group: tuple[Expression, ...]
    having: Expression | None
    ungroup: Ungroup | None
    is_distinct: bool
    distinct_on: tuple[Expression, ...]
    top: int | None
    at: int


@dataclass(frozen=True, slots=True)
class Combined:
    """UNION, INTERSECT or EXCEPT of two queries."""

    operator: str
    keeps_all: bool
    left: Select | Combined | Query
    right: Select | Combined | Query
    at: int


@dataclass(frozen=True, slots=True)
class Query:
    """A whole statement, or one in brackets.

    Attributes
    ----------
    parameters
        Number of parameter values that the statement takes.
    named
        Name of each ``$name`` parameter -> its first position in the text.
    """

    body: Select | Combined | Query
    tables: tuple[tuple[str, Query], ...] = ()
    order: tuple[Order, ...] = ()
    arrange: tuple[Expression, ...] = ()
    limit: Limit | None = None
    sample: Sample | None = None
    at: int = 0
    parameters: int = 0
    named: tuple[tuple[str, int], ...] = ()


def conjuncts(node: Expression | None) -> Iterator[Expression]:
    """Yield the conditions that are joined by AND; a condition without AND is yielded unchanged."""
    if isinstance(node, Logical) and node.operator == "and":
        for operand in node.operands:
            yield from conjuncts(operand)
    elif node is not None:
        yield node


def parts(node: object) -> Iterator[object]:
    """Yield an expression and its parts, except those of subqueries."""
    if isinstance(node, tuple):
        for item in node:
            yield from parts(item)
    elif is_dataclass(node):
        yield node
        if not isinstance(node, Query):
            for part in fields(node):
                yield from parts(getattr(node, part.name))


def bare(node: Any) -> Any:
    """Return an expression without positions in the text and names of tables, to compare it with another one."""
    if isinstance(node, tuple):
        return tuple(map(bare, node))
    if not is_dataclass(node) or isinstance(node, type):
        return type(node), node  # 1, 1.0 and true are equal
    return type(node), *(bare(getattr(node, f.name)) for f in fields(node) if f.name not in ("at", "table"))


_ARITHMETIC = Name | Literal | Parameter | Binary | Unary

NUMERIC = frozenset("+-*/%^")
"""Operators whose result is missing where the column is, so that a key is the same in all rows of a group."""


def operators(node: object) -> frozenset[str]:
    """Return the operators of arithmetic with one column; ``?`` for any other expression."""
    of = list(parts(node))
    names = {part.column for part in of if isinstance(part, Name)}
    if len(names) != 1 or not all(isinstance(part, _ARITHMETIC) for part in of):
        return frozenset("?")
    return frozenset(part.operator for part in of if isinstance(part, Binary | Unary))


def key_of_groups(node: Expression) -> Any:
    """Return a key of GROUP BY as `bare` does if it is the same in all rows of a group, else None.

    Other expressions have another meaning in groups: x['key'] is an item of the group, not of its rows.
    """
    return bare(node) if isinstance(node, Name) or operators(node) <= NUMERIC else None


def columns_of(query: Query) -> set[str] | None:
    """Return all names of columns and aliases in a query; None if the query selects all columns."""
    found: set[str] = set()
    waiting: list[object] = [query]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name):
            found.add(node.column)
        elif isinstance(node, tuple):
            waiting.extend(node)
        elif is_dataclass(node):
            if isinstance(node, Item) and node.expression is None:
                return None
            if isinstance(node, Join):
                if node.condition is None and not node.using and node.kind not in ("cross", "zip"):
                    return None
                found.update(node.using)
            waiting.extend(getattr(node, part.name) for part in fields(node))
    return found
