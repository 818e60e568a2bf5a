"""Separation of a correlated query into an uncorrelated query and its equalities with the outer query."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from lakebed.query.language import syntax


@dataclass(frozen=True, slots=True)
class Separated:
    """A query without its equalities with the outer query.

    Attributes
    ----------
    query
        The inner query. Its first columns are the inner sides of the equalities; the column of the original query
        follows, if it is needed.
    outer
        The outer sides of the equalities.
    is_whole
        True if the query makes one row from all rows that it finds, even from none.
    """

    query: syntax.Query
    outer: tuple[syntax.Expression, ...]
    is_whole: bool


def separated(
    query: syntax.Query, outer_names: Collection[int], *, is_exists: bool, is_in: bool
) -> Separated | None:
    """Separate a query; return None if it uses columns of the outer query outside of equalities.

    Parameters
    ----------
    outer_names
        ``id`` of each name that is a column of the outer query.
    is_exists, is_in
        True if the query is the operand of EXISTS, or of IN; if both are false, it stands for a single value.
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
    for part in syntax.conjuncts(body.where):
        sides = _sides(part, outer_names)
        if sides is None:
            own.append(part)
        else:
            equal.append(sides)
    named = {id(node) for _, side in equal for node in syntax.parts(side)} & set(outer_names)
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


def _sides(
    part: syntax.Expression, outer_names: Collection[int]
) -> tuple[syntax.Expression, syntax.Expression] | None:
    """Return the inner and the outer side of an equality; None for other conditions."""
    if not isinstance(part, syntax.Binary) or part.operator != "=":
        return None
    for own, other in ((part.left, part.right), (part.right, part.left)):
        if _is_of(other, outer_names, is_outer=True) and _is_of(own, outer_names, is_outer=False):
            return own, other
    return None


def _is_of(node: syntax.Expression, outer_names: Collection[int], *, is_outer: bool) -> bool:
    """Return whether an expression names columns, all of them of the outer query if `is_outer`, else of the inner."""
    found = list(syntax.parts(node))
    if any(isinstance(part, syntax.Query) for part in found):
        return False
    names = [id(part) in outer_names for part in found if isinstance(part, syntax.Name)]
    return bool(names) and all(is_of == is_outer for is_of in names)


def counts_rows(node: Any) -> bool:
    """Return whether an expression contains COUNT(*), which counts the rows of groups."""
    return any(isinstance(part, syntax.Call) and part.is_star for part in syntax.parts(node))
