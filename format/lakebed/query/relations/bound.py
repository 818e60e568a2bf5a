"""Bound expressions: names are columns of a relation, constants are folded, class names are numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakebed.query.values.columns import Column
from lakebed.query.values.info import ANY, FLAG, JSON, NUMBER, Given, Info

COUNT_ALL = ""
"""Name of a grouped relation's column with the number of rows of each group."""


@dataclass(frozen=True, slots=True)
class Value:
    """A constant: a number, text, array, JSON value or None.

    Attributes
    ----------
    exact
        Numbers of an array literal before `value` rounded them to float32.
    is_read
        True if the value was read from a dataset. Such a text need not name a class or a date to be compared with one.
    """

    value: Any
    info: Info
    exact: Any = None
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A constant whose value is unknown, because the query is only checked, not run."""

    info: Info = ANY


@dataclass(frozen=True, slots=True)
class Input:
    """A column of the relation."""

    name: str
    info: Info


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of other expressions.

    Attributes
    ----------
    cost
        Relative cost of computing a row.
    key
        Computes the column that ORDER BY sorts by, for values that are not single numbers.
    """

    name: str
    compute: Callable[[Given], Column]
    operands: tuple[Bound, ...]
    info: Info
    at: int
    cost: float = 0.1
    key: Callable[[Column], Column] | None = None


@dataclass(frozen=True, slots=True)
class Logic:
    """``and`` or ``or`` of conditions."""

    operator: str
    operands: tuple[Bound, ...]
    info: Info = FLAG


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition."""

    operand: Bound
    info: Info = FLAG


@dataclass(frozen=True, slots=True)
class Missing:
    """The condition that a value is missing."""

    operand: Bound
    info: Info = FLAG


@dataclass(frozen=True, slots=True)
class Shape:
    """The shapes of a column's samples, which are known without reading values."""

    name: str
    info: Info


@dataclass(frozen=True, slots=True)
class Facts:
    """The recorded properties of the files of a column's samples."""

    name: str
    info: Info = JSON


@dataclass(frozen=True, slots=True)
class RowNumber:
    """The position of the row in the relation, from 0."""

    info: Info = NUMBER


@dataclass(frozen=True, slots=True)
class Chance:
    """A random number for each row, reproducible by its key."""

    key: int
    info: Info = NUMBER


@dataclass(frozen=True, slots=True)
class Cases:
    """The value of the first branch whose condition is true; the last branch has no condition (None)."""

    branches: tuple[tuple[Bound | None, Bound], ...]
    info: Info


Bound = Value | Unknown | Input | Apply | Logic | Not | Missing | Shape | Facts | RowNumber | Chance | Cases


def parts(node: Bound) -> Iterator[Bound]:
    """Yield the direct parts of an expression."""
    if isinstance(node, Apply | Logic):
        yield from node.operands
    elif isinstance(node, Not | Missing):
        yield node.operand
    elif isinstance(node, Cases):
        for condition, value in node.branches:
            if condition is not None:
                yield condition
            yield value


def inputs(node: Bound) -> dict[str, None]:
    """Return the names of the columns whose values, shapes or facts an expression reads, in order of first use."""
    if isinstance(node, Input | Shape | Facts):
        return {node.name: None}
    return {name: None for part in parts(node) for name in inputs(part)}


def values_read(node: Bound) -> dict[str, Info]:
    """Return the columns whose values an expression reads."""
    if isinstance(node, Input):
        return {node.name: node.info}
    if isinstance(node, Missing) and on_record(node) is not None:
        return {}
    return {name: info for part in parts(node) for name, info in values_read(part).items()}


def on_record(node: Missing) -> str | None:
    """Return the column of IS NULL if its missing values are recorded separately; None if its values must be read."""
    operand = node.operand
    return operand.name if isinstance(operand, Input) and operand.info.are_nulls_apart else None


def column_and_vector(node: Apply) -> tuple[Input | None, Value | None]:
    """Return the column and the constant array among the operands of a function; None for each that is absent."""
    operands = node.operands if len(node.operands) == 2 else (node, node)
    first, second = operands if isinstance(operands[0], Input) else operands[::-1]
    if (
        not isinstance(first, Input)
        or not isinstance(second, Value)
        or not isinstance(second.value, np.ndarray)
    ):
        return None, None
    return first, second


def is_by_place(node: Bound) -> bool:
    """Return whether an expression depends on the position of the row in the relation."""
    return isinstance(node, RowNumber | Chance) or any(map(is_by_place, parts(node)))


def is_dear(node: Bound) -> bool:
    """Return whether computing the expression for a row takes longer than arithmetic, without the time to read the row.

    IN and subqueries do not count as expensive: they look rows up in a table that is made once for many rows, so that
    splitting the rows would slow them.
    """
    if isinstance(node, Apply) and node.cost >= 1.0 and node.name not in _LOOKUPS:
        return True
    return any(map(is_dear, parts(node)))


_LOOKUPS = ("IN", "IN SELECT", "EXISTS", "SELECT")


def cost(node: Bound) -> float:
    """Return the relative cost of an expression per row, for reading and computing."""
    found = sum(info.cost for info in values_read(node).values())
    return found + 0.5 * len(inputs(node)) + _computing(node)


def _computing(node: Bound) -> float:
    own = node.cost if isinstance(node, Apply) else 0.01
    return own + sum(map(_computing, parts(node)))
