"""Comparisons: types that cannot go together are refused, names of classes and dates become numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lakebed.query import syntax
from lakebed.query.bound import FLAG, JSON, NUMBER, TIME, Apply, Bound, Input, Logic, Not, Unknown, Value
from lakebed.query.constants import constant
from lakebed.query.context import Context
from lakebed.query.elementwise import compare
from lakebed.query.errors import near
from lakebed.query.functions import dates
from lakebed.query.functions.text import ILIKE, IN, LIKE
from lakebed.query.outer import Inner, column_of

SIGNS = ("=", "!=", "<", "<=", ">", ">=")


def compared(context: Context, sign: str, left: Bound, right: Bound, at: int) -> Bound:
    """Return a comparison.

    Raises
    ------
    QueryError
        If the types of the sides do not go together.
    """
    if any(isinstance(side, Value) and side.value is None for side in (left, right)):
        raise context.error(at, "type", "nothing is compared with NULL: say IS NULL or IS NOT NULL")
    left, right = _alike(context, left, right, at), _alike(context, right, left, at)
    left, right = _same_times(context, left, right, at)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Value) and isinstance(one.value, str) and other.info.kind == "array":
            raise context.error(at, "type", f"{_shown(other)} holds numbers, and {one.value!r} is text")
        is_number = isinstance(one, Value) and isinstance(one.value, bool | int | float | np.ndarray)
        if is_number and other.info.kind == "text" and not isinstance(other, Value):
            raise context.error(at, "type", f"{_shown(other)} holds text, which is not compared with numbers")
    return context.apply(sign, lambda given: compare(sign, *given.columns), (left, right), FLAG, at)


def _alike(context: Context, node: Bound, other: Bound, at: int) -> Bound:
    """Return a text as the number of the class, or the moment, that it names in the other column."""
    if not isinstance(node, Value) or not isinstance(node.value, str):
        return node
    if other.info.class_names is not None:
        return Value(_class(context, node.value, other.info.class_names, at), NUMBER)
    if dates.is_time(other.info):
        moment = dates.microseconds(node.value)
        if moment is None:
            raise context.error(
                at, "type", f"{node.value!r} is no date such as '2026-01-31' or '2026-01-31 12:00'"
            )
        stored = dates.stored_as(moment, other.info.logical)
        return Value(int(stored) if stored == int(stored) else stored, other.info)
    return node


def _same_times(context: Context, left: Bound, right: Bound, at: int) -> tuple[Bound, Bound]:
    if left.info.logical == right.info.logical or not (
        dates.is_time(left.info) and dates.is_time(right.info)
    ):
        return left, right
    sides = [
        context.apply(
            "TIMESTAMP",
            lambda given: dates.as_moments(given.columns[0], given.infos[0], "comparison"),
            (side,),
            TIME,
            at,
        )
        for side in (left, right)
    ]
    return sides[0], sides[1]


def _class(context: Context, name: str, names: Sequence[str], at: int) -> int:
    if name not in names:
        raise context.error(at, "bad_class_name", f"there is no class {name!r}{near(name, names)}")
    return names.index(name)


def between(context: Context, node: syntax.Between) -> Bound:
    """Return ``x BETWEEN low AND high``."""
    operand = context.bind(node.operand)
    low = compared(context, ">=", operand, context.bind(node.low), node.at)
    high = compared(context, "<=", operand, context.bind(node.high), node.at)
    found = Logic("and", (low, high))
    return Not(found) if node.is_negated else found


def like(context: Context, node: syntax.Like) -> Bound:
    """Return ``x LIKE pattern``."""
    operand, pattern = context.bind(node.operand), context.bind(node.pattern)
    if operand.info.kind == "array":
        hint = "; CONTAINS(label, 'pattern*') finds class names" if operand.info.class_names else ""
        raise context.error(node.at, "type", f"LIKE needs text{hint}")
    function = ILIKE if node.any_case else LIKE
    found = context.apply(function.name, function.compute, (operand, pattern), FLAG, node.at, function.cost)
    return context.folded(Not(found)) if node.is_negated else found


def among(context: Context, node: syntax.In) -> Bound:
    """Return ``x IN (...)``."""
    operand = context.bind(node.operand)
    found: Bound
    if node.query is not None:
        inner = Inner(context, node.query)
        inner.one_column(node.at, "IN needs a query of")
        if context.is_dry or not inner.is_alone:
            found = Unknown(FLAG) if context.is_dry else inner.among(operand, node.at)
            return Not(found) if node.is_negated else found
        values = column_of(inner.whole())
    else:
        items = [_alike(context, item, operand, node.at) for item in _items(context, node)]
        if not all(isinstance(item, Value) for item in items):
            # Columns among them: one comparison each.
            found = Logic("or", tuple(compared(context, "=", operand, item, node.at) for item in items))
            return Not(found) if node.is_negated else found
        values = [item.value for item in items if isinstance(item, Value)]
    if any(isinstance(value, np.ndarray) and value.ndim for value in values):
        found = Logic("or", tuple(compared(context, "=", operand, constant(v), node.at) for v in values))
    else:
        plain = [v.item() if isinstance(v, np.ndarray | np.generic) else v for v in values]
        found = context.apply("IN", IN.compute, (operand, Value(plain, JSON)), FLAG, node.at, 1.0)
    return context.folded(Not(found)) if node.is_negated else found


def _items(context: Context, node: syntax.In) -> list[Bound]:
    """Return what stands between the brackets; the one ``?`` may be a list of them."""
    items = [context.bind(item) for item in node.items]
    only = node.items[0] if len(items) == 1 else None
    if isinstance(only, syntax.Parameter) and context.parameters is not None:
        given = context.parameters[only.number]
        if isinstance(given, list | tuple | set | frozenset | range):
            return [constant(value) for value in given]
        if np.ndim(given) == 1:
            return [constant(value) for value in np.asarray(given).tolist()]
    return items


def _shown(node: Bound) -> str:
    return node.name if isinstance(node, Input | Apply) else "it"
