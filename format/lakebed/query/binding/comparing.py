"""Binding of comparisons: types are checked, class names and dates become numbers."""

from __future__ import annotations

import numpy as np

from lakebed.errors import QueryError
from lakebed.query.binding import domains
from lakebed.query.binding.constants import constant
from lakebed.query.binding.context import Context
from lakebed.query.binding.outer import Inner, column_of
from lakebed.query.functions import dates
from lakebed.query.functions.text import ILIKE, IN, LIKE
from lakebed.query.language import syntax
from lakebed.query.language.errors import near, placed
from lakebed.query.relations.bound import Apply, Bound, Input, Logic, Not, Unknown, Value
from lakebed.query.values.elementwise import compare
from lakebed.query.values.info import FLAG, JSON, NUMBER

SIGNS = ("=", "!=", "<", "<=", ">", ">=")


def compared(context: Context, sign: str, left: Bound, right: Bound, at: int) -> Bound:
    """Return a comparison.

    Raises
    ------
    QueryError
        If the types of the sides do not fit.
    """
    if any(isinstance(side, Value) and side.value is None for side in (left, right)):
        raise context.error(at, "type", "NULL cannot be compared: say IS NULL or IS NOT NULL")
    left, right = _alike(context, left, right, at), _alike(context, right, left, at)
    left, right = aligned(context, sign, left, right, at)
    left, right = _unrounded(left, right), _unrounded(right, left)
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Value) and isinstance(one.value, str) and other.info.kind == "array":
            raise context.error(at, "type", f"{_shown(other)} holds numbers, and {one.value!r} is text")
        is_number = isinstance(one, Value) and isinstance(one.value, bool | int | float | np.ndarray)
        if is_number and other.info.kind == "text" and not isinstance(other, Value):
            raise context.error(at, "type", f"{_shown(other)} holds text and cannot be compared with numbers")
    if isinstance(left, Input) and isinstance(right, Input):
        kinds = {left.info.kind: left, right.info.kind: right}
        if set(kinds) == {"array", "text"}:
            told = f"{_shown(kinds['array'])} holds numbers, and {_shown(kinds['text'])} text"
            raise context.error(at, "type", f"{told}: say CAST(x AS text), or CAST(x AS float64)")
    return context.apply(sign, lambda given: compare(sign, *given.columns), (left, right), FLAG, at)


def aligned(context: Context, sign: str, left: Bound, right: Bound, at: int) -> tuple[Bound, Bound]:
    """Return the sides of a comparison in one domain.

    Raises
    ------
    QueryError
        If the operator needs an order that the sides do not have, or the sides are times of different kinds.
    """
    with placed(context.text, at):
        domain = domains.shared([left.info, right.info])
        if domain is None:
            return left, right
        if domain.class_names is not None and sign not in ("=", "!="):
            message = (
                "labels of two class lists have no common order; compare their names with CAST(x AS text)"
            )
            raise QueryError(message, kind="type")
        return context.folded(domains.of(left, domain, at)), context.folded(domains.of(right, domain, at))


def _unrounded(node: Bound, other: Bound) -> Bound:
    """Return `node`; an array literal that float32 rounded gets all digits if `other` is not float16 or float32."""
    if isinstance(node, Value) and node.exact is not None and other.info.dtype not in _NARROW:
        return Value(node.exact, node.info)
    return node


_NARROW = (np.dtype(np.float16), np.dtype(np.float32))


def _alike(context: Context, node: Bound, other: Bound, at: int) -> Bound:
    """Return the number of the class or date that a text `node` names if `other` has classes or dates, else `node`."""
    if not isinstance(node, Value) or not isinstance(node.value, str) or node.is_read:
        return node
    text, names = node.value, other.info.class_names
    if names is not None:
        if text not in names:
            raise context.error(at, "bad_class_name", f"there is no class {text!r}{near(text, names)}")
        return Value(names.index(text), NUMBER)
    if dates.is_time(other.info):
        moment = dates.microseconds(text)
        if moment is None:
            raise context.error(at, "type", domains.no_date(text))
        return Value(dates.stored_as(moment, other.info.logical), other.info)
    return node


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
        info = inner.one_column(node.at, "IN needs a query of")
        with placed(context.text, node.at):
            domain = domains.shared([operand.info, info])
            if domain is not None:
                operand = context.folded(domains.of(operand, domain, node.at))
        if context.is_dry or not inner.is_alone:
            found = Unknown(FLAG) if context.is_dry else inner.among(operand, node.at, domain)
            return Not(found) if node.is_negated else found
        plain = column_of(inner.whole(), domain)
    else:
        items = [_alike(context, item, operand, node.at) for item in _items(context, node)]
        values = [item.value for item in items if isinstance(item, Value)]
        if len(values) < len(items) or any(isinstance(v, np.ndarray) and v.ndim for v in values):
            # The list holds columns or arrays: compare with each item separately.
            found = Logic("or", tuple(compared(context, "=", operand, item, node.at) for item in items))
            return Not(found) if node.is_negated else found
        plain = [v.item() if isinstance(v, np.ndarray | np.generic) else v for v in values]
    found = context.apply("IN", IN.compute, (operand, Value(plain, JSON)), FLAG, node.at, 1.0)
    return context.folded(Not(found)) if node.is_negated else found


def _items(context: Context, node: syntax.In) -> list[Bound]:
    """Return the items between the brackets; a single ``?`` may be a list of them."""
    only = node.items[0] if len(node.items) == 1 else None
    values = context.parameters or ()
    if isinstance(only, syntax.Parameter) and only.number < len(values):
        given = values[only.number]
        if isinstance(given, list | tuple | set | frozenset | range):
            return [constant(value) for value in given]
        if np.ndim(given) == 1:
            return [constant(value) for value in np.asarray(given).tolist()]
    return [context.bind(item) for item in node.items]


def _shown(node: Bound) -> str:
    return node.name if isinstance(node, Input | Apply) else "it"
