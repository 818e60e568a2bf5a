"""How a condition is answered: its parts by their cost, what they read, and which of them statistics may decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakebed.query.binding.bound import (
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
    cost,
    inputs,
    parts,
    values_read,
)
from lakebed.query.values.elementwise import MIRRORED

_SHOWN = 60
# Extremes are compared with each value of an IN: beyond so many that takes longer than what it saves.
_MANY = 1000


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a part of a condition asks of one column, which its smallest and largest value may answer for a chunk.

    Attributes
    ----------
    sign
        A comparison, or ``in``.
    is_any
        Whether one value of a sample is enough; otherwise all must fit.
    """

    column: str
    sign: str
    value: Any
    is_any: bool


def conjuncts(node: Bound) -> list[Bound]:
    """Return conditions that must all be true, the cheap ones first."""
    found = list(_flat(node))
    return sorted(found, key=cost) if len(found) > 1 else found


def _flat(node: Bound) -> Iterator[Bound]:
    if isinstance(node, Logic) and node.operator == "and":
        for operand in node.operands:
            yield from _flat(operand)
    else:
        yield node


def bounds(node: Bound) -> Bounds | None:
    """Return what a condition asks of one column's extremes; None if they do not tell."""
    is_any = False
    if isinstance(node, Apply) and node.name == "ANY" and len(node.operands) == 1:
        node, is_any = node.operands[0], True
    if not isinstance(node, Apply) or len(node.operands) != 2:
        return None
    left, right = node.operands
    if node.name == "IN" and isinstance(left, Input) and isinstance(right, Value):
        if isinstance(right.value, list) and len(right.value) > _MANY:
            return None
        return Bounds(left.name, "in", right.value, is_any)
    if node.name not in MIRRORED:
        return None
    if isinstance(left, Input) and isinstance(right, Value):
        return Bounds(left.name, node.name, right.value, is_any)
    if isinstance(left, Value) and isinstance(right, Input):
        return Bounds(right.name, MIRRORED[node.name], left.value, is_any)
    return None


def reads(*nodes: Bound) -> dict[str, str]:
    """Return the columns that expressions read -> ``data``, or ``shape`` where what is on record of them is enough."""
    found: dict[str, str] = {}
    for node in nodes:
        data = values_read(node)
        for name in inputs(node):
            if name in data or found.get(name) == "data":
                found[name] = "data"
            else:
                found.setdefault(name, "shape")
    return found


def described(node: Bound) -> str:
    """Return an expression as text."""
    if isinstance(node, Unknown):
        return "?"
    if isinstance(node, Value):
        try:
            text = repr(node.value)
        except RecursionError:  # a parameter of a program: lists in lists
            return type(node.value).__name__
        return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    if isinstance(node, Input):
        return node.name or "COUNT(*)"
    if isinstance(node, Shape | Facts):
        return f"{'SHAPE' if isinstance(node, Shape) else 'SAMPLE_INFO'}({node.name})"
    if isinstance(node, Logic):
        return f" {node.operator.upper()} ".join(f"({described(operand)})" for operand in node.operands)
    if isinstance(node, Not):
        return f"NOT ({described(node.operand)})"
    if isinstance(node, Missing):
        return f"{described(node.operand)} IS NULL"
    if isinstance(node, RowNumber | Chance):
        return "ROW_NUMBER()" if isinstance(node, RowNumber) else "RANDOM()"
    if isinstance(node, Cases):
        return f"CASE of {len(node.branches)}"
    operands = [described(part) for part in parts(node)]
    if node.name == "[]":
        return f"{operands[0]}[...]"
    if not node.name.isidentifier():
        return f" {node.name} ".join(operands) if len(operands) > 1 else f"{node.name}{operands[0]}"
    return f"{node.name}({', '.join(operands)})"
