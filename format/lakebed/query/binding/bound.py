"""A query whose names are found: expressions over the columns of a relation, constants folded, labels as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lakebed.query.values.columns import Column


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of a column before it is read.

    Attributes
    ----------
    kind
        ``array``, ``text``, ``json``, or ``any`` where only the values tell.
    dtype, rank
        Of arrays; None where they are not known, or differ.
    class_names
        Of class labels.
    htype
        Of the tensor that the values come from.
    coords
        Of boxes: how four numbers are one, such as ``LTWH``.
    logical
        Of dates and times: the Arrow type that the integers stand for.
    is_group
        Whether a value is all samples of a group.
    is_key
        Whether these are equal, since the rows were grouped by them.
    cost
        How dear a row is to read, in no unit.
    are_nulls_apart
        Whether it is on record which values are missing, so that IS NULL reads no values.
    """

    kind: str = "any"
    dtype: np.dtype[Any] | None = None
    rank: int | None = None
    class_names: tuple[str, ...] | None = None
    htype: str = ""
    coords: str = "LTWH"
    logical: str = ""
    is_group: bool = False
    is_key: bool = False
    cost: float = 1.0
    are_nulls_apart: bool = False

    def grouped(self, *, is_key: bool = False) -> Info:
        """Return what is known of a column whose values are groups of these."""
        rank = None if self.rank is None else self.rank + 1
        kind = self.kind if self.kind == "array" else "json"
        found = replace(self, kind=kind, rank=rank, is_group=True, is_key=is_key, cost=self.cost * 4)
        return replace(found, are_nulls_apart=False)


COUNT_ALL = ""
"""Name of the column of a grouped relation that counts the rows of each group."""

NUMBER = Info("array")
FLAG = Info("array", np.dtype(np.bool_))
TEXT = Info("text")
JSON = Info("json")
ANY = Info()
TIME = Info("array", np.dtype(np.int64), logical="timestamp[us]")


def merged(infos: Sequence[Info]) -> Info:
    """Return what is known of a column that has values of several: that in which they agree."""
    known = [info for info in infos if info != ANY]
    if not known:
        return ANY
    first = known[0]
    if all(info == first for info in known):
        return first

    def same(name: str, otherwise: Any) -> Any:
        value = getattr(first, name)
        return value if all(getattr(info, name) == value for info in known) else otherwise

    return Info(
        same("kind", "any"), same("dtype", None), same("rank", None), same("class_names", None), same("htype", ""),
        same("coords", "LTWH"), same("logical", ""), same("is_group", False), same("is_key", False),
        max(info.cost for info in known),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Value:
    """A constant: a number, text, array, JSON value or None.

    Attributes
    ----------
    exact
        The numbers of an array literal, which `value` holds as float32, before they were rounded.
    is_read
        Whether it was read from a dataset, so that a text need not name a class, or a date.
    """

    value: Any
    info: Info
    exact: Any = None
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A constant that is known only when the query is answered: it is checked, not answered."""

    info: Info = ANY


@dataclass(frozen=True, slots=True)
class Input:
    """A column of the relation."""

    name: str
    info: Info


@dataclass(frozen=True, slots=True)
class Given:
    """What a function computes with: columns of equal length, and what is known of them."""

    columns: Sequence[Column]
    count: int
    infos: Sequence[Info]


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of other expressions.

    Attributes
    ----------
    key
        Of what differs by row and is no number, what ORDER BY goes by; None if it cannot.
    """

    name: str
    compute: Callable[[Given], Column]
    operands: tuple[Bound, ...]
    info: Info
    at: int
    cost: float = 0.1
    key: Callable[[Column], Column] | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Logic:
    """``and`` or ``or`` of conditions."""

    operator: str
    operands: tuple[Bound, ...]
    info: Info = FLAG


@dataclass(frozen=True, slots=True)
class Not:
    """The contrary of a condition."""

    operand: Bound
    info: Info = FLAG


@dataclass(frozen=True, slots=True)
class Missing:
    """Whether a value is missing."""

    operand: Bound
    info: Info = FLAG


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a column's samples, which is known without their values."""

    name: str
    info: Info


@dataclass(frozen=True, slots=True)
class Facts:
    """What is on record of the files of a column's samples."""

    name: str
    info: Info = JSON


@dataclass(frozen=True, slots=True)
class RowNumber:
    """The position in the relation, from 0."""

    info: Info = NUMBER


@dataclass(frozen=True, slots=True)
class Chance:
    """A number that differs by row; the same again for the same key."""

    key: int
    info: Info = NUMBER


@dataclass(frozen=True, slots=True)
class Cases:
    """The value of the first condition that is true; the last one has none."""

    branches: tuple[tuple[Bound | None, Bound], ...]
    info: Info


Bound = Value | Unknown | Input | Apply | Logic | Not | Missing | Shape | Facts | RowNumber | Chance | Cases


def parts(node: Bound) -> Iterator[Bound]:
    """Yield what an expression is made of directly."""
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
    """Return the names of the columns that an expression reads, shapes included, in order."""
    if isinstance(node, Input | Shape | Facts):
        return {node.name: None}
    found: dict[str, None] = {}
    for part in parts(node):
        found.update(inputs(part))
    return found


def on_record(node: Missing) -> str | None:
    """Return the column of which it is on record whether its values are missing; None where only these tell."""
    operand = node.operand
    return operand.name if isinstance(operand, Input) and operand.info.are_nulls_apart else None


def values_read(node: Bound) -> dict[str, Info]:
    """Return the columns whose values an expression reads; those of which shapes are enough are not among them."""
    if isinstance(node, Input):
        return {node.name: node.info}
    if isinstance(node, Missing) and on_record(node) is not None:
        return {}
    found: dict[str, Info] = {}
    for part in parts(node):
        found.update(values_read(part))
    return found


def is_by_place(node: Bound) -> bool:
    """Whether an expression depends on the position of a row."""
    return isinstance(node, RowNumber | Chance) or any(map(is_by_place, parts(node)))


def is_dear(node: Bound) -> bool:
    """Whether a row takes longer to compute than arithmetic does, whatever it takes to read.

    What looks up many rows at once in a table that it makes for them is not meant: fewer rows make it dearer.
    """
    if isinstance(node, Apply) and node.cost >= 1.0 and node.name not in _LOOKED_UP:
        return True
    return any(map(is_dear, parts(node)))


_LOOKED_UP = ("IN", "IN SELECT", "EXISTS", "SELECT")


def cost(node: Bound) -> float:
    """Return how dear an expression is for one row, in no unit: what it reads, and what it computes."""
    found = sum(info.cost for info in values_read(node).values())
    return found + 0.5 * len(inputs(node)) + _computing(node)


def _computing(node: Bound) -> float:
    own = node.cost if isinstance(node, Apply) else 0.01
    return own + sum(map(_computing, parts(node)))
