"""Queries that name columns of the query around them, taken apart: what can be asked once, and what it is asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from lakebed.query.language import syntax


@dataclass(frozen=True, slots=True)
class Separated:
    """A query without the equalities that it has with the query around it.

    Attributes
    ----------
    query
        It gives the sides of the equalities that are its own as its first columns, and behind them its own column, if
        that is wanted.
    outer
        The other sides.
    is_whole
        Whether it makes one row of all that it finds, even of nothing.
    """

    query: syntax.Query
    outer: tuple[syntax.Expression, ...]
    is_whole: bool


def separated(
    query: syntax.Query, outer_names: Collection[int], *, is_exists: bool, is_in: bool
) -> Separated | None:
    """Take a query apart; None where it says more of the query around it than equalities.

    Parameters
    ----------
    outer_names
        ``id`` of each name that is one of the query around it.
    is_exists, is_in
        Whether it is asked for rows alone, or for the values of all rows; otherwise it is one value.
    """
    body = query.body
    if not isinstance(body, syntax.Select) or query.tables or query.limit or query.sample or query.arrange:
        return None
    if body.expand or body.ungroup or body.top is not None or body.distinct_on:
        return None
    is_grouped = bool(body.group) or any(counts_rows(item.expression) for item in body.items)
    if body.is_distinct and (is_grouped or not (is_exists or is_in)):
        return None
    if is_exists and is_grouped and (body.having is not None or not body.group):
        return None
    is_grouped = is_grouped and not is_exists
    if not is_exists and (len(body.items) != 1 or body.items[0].expression is None):
        return None
    own: list[syntax.Expression] = []
    equal: list[tuple[syntax.Expression, syntax.Expression]] = []
    for part in _conjuncts(body.where):
        sides = _sides(part, outer_names)
        if sides is None:
            own.append(part)
        else:
            equal.append(sides)
    named = {id(node) for _, side in equal for node in _parts(side)} & set(outer_names)
    if not equal or named != set(outer_names):
        return None
    keys = tuple(key for key, _ in equal)
    if is_grouped and not all(isinstance(key, syntax.Name) for key in keys):
        return None
    items = [_key_item(key, number, is_grouped=is_grouped) for number, key in enumerate(keys)]
    if not is_exists:
        (item,) = body.items
        items.append(syntax.Item(item.expression, item.alias or "value of the query", None, (), item.at))
    group = (*body.group, *keys) if is_grouped else ()
    having = body.having if is_grouped else None
    where = syntax.Logical("and", tuple(own), body.at) if len(own) > 1 else own[0] if own else None
    select = syntax.Select(
        tuple(items), body.source, where, None, group, having, None, False, (), None, body.at
    )
    asked = syntax.Query(select, at=query.at)
    return Separated(asked, tuple(side for _, side in equal), is_grouped and not body.group)


def _key_item(key: syntax.Expression, number: int, *, is_grouped: bool) -> syntax.Item:
    if is_grouped:
        key = syntax.Subscript(key, (syntax.Literal(0, key.at),), key.at)
    return syntax.Item(key, f"key {number}", None, (), key.at)


def _conjuncts(node: syntax.Expression | None) -> Iterator[syntax.Expression]:
    if isinstance(node, syntax.Logical) and node.operator == "and":
        for operand in node.operands:
            yield from _conjuncts(operand)
    elif node is not None:
        yield node


def _sides(
    part: syntax.Expression, outer_names: Collection[int]
) -> tuple[syntax.Expression, syntax.Expression] | None:
    """Return the own side of an equality, and the one that names columns of the query around it."""
    if not isinstance(part, syntax.Binary) or part.operator != "=":
        return None
    for own, other in ((part.left, part.right), (part.right, part.left)):
        if _is_of(other, outer_names, is_outer=True) and _is_of(own, outer_names, is_outer=False):
            return own, other
    return None


def _is_of(node: syntax.Expression, outer_names: Collection[int], *, is_outer: bool) -> bool:
    """Whether an expression names columns, all of them of the query around it, or all of them its own."""
    found = list(_parts(node))
    if any(isinstance(part, syntax.Query) for part in found):
        return False
    names = [id(part) in outer_names for part in found if isinstance(part, syntax.Name)]
    return bool(names) and all(is_of == is_outer for is_of in names)


def _parts(node: Any) -> Iterator[Any]:
    """Yield what an expression is made of, itself included; a query inside it as a whole."""
    if isinstance(node, tuple):
        for item in node:
            yield from _parts(item)
        return
    names = getattr(node, "__slots__", None)
    if names is None:
        return
    yield node
    if not isinstance(node, syntax.Query):
        for name in names:
            if name != "at":
                yield from _parts(getattr(node, name))


def counts_rows(node: Any) -> bool:
    """Whether an expression counts the rows of groups: COUNT(*) stands in it."""
    return any(isinstance(part, syntax.Call) and part.is_star for part in _parts(node))
