"""Order and choice of rows: ORDER BY, LIMIT, ARRANGE BY, SAMPLE BY."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed import random
from lakebed.query.binding.binding import Binder
from lakebed.query.engine.context import QueryContext, described
from lakebed.query.engine.joins import From
from lakebed.query.functions.numeric import weights_of
from lakebed.query.language import syntax
from lakebed.query.language.errors import placed, query_error
from lakebed.query.relations.bound import Apply, Bound, Unknown, Value
from lakebed.query.relations.relation import Relation
from lakebed.query.values.ordering import Key, ordered
from lakebed.query.values.sampling import drawn

if TYPE_CHECKING:
    from lakebed.query.indexes.search import Order

SEARCHED = ("BM25_SIMILARITY", "RRF", "COSINE_SIMILARITY", "DOT", "L2_DISTANCE")
"""Functions by which rows can be sorted without computing the function for all rows."""


@dataclass(frozen=True, slots=True)
class Limit:
    """LIMIT and OFFSET: number of wanted rows (None for all), number of skipped rows, and wanted share in percent."""

    count: int | None
    offset: int
    percent: float | None


def arranged(
    context: QueryContext, source: From, query: syntax.Query, binder: Binder, limit: Limit | None
) -> From:
    """Apply ORDER BY, LIMIT, ARRANGE BY and SAMPLE BY; `limit` is None if DISTINCT must come before LIMIT."""
    source = _in_order(context, source, query, binder)
    if limit is not None:
        source = From(cut(context, source.relation, limit), source.names)
    return _sampled(context, _side_by_side(context, source, query, binder), query, binder)


def _in_order(context: QueryContext, source: From, query: syntax.Query, binder: Binder) -> From:
    """Sort rows by ORDER BY."""
    if not query.order:
        return source
    for key in query.order:
        if isinstance(key.expression, syntax.Literal):
            message = f"ORDER BY {key.expression.value!r} orders nothing: name a column or an expression"
            raise query_error(context.text, key.expression.at, "type", message)
    keys = [binder.bind(key.expression) for key in query.order]
    limit = limit_of(context, query, binder, None)
    best = None if limit.count is None or limit.percent or binder.is_grouped else limit.count + limit.offset
    relation = source.relation
    search = _search(context, relation, keys, query, best)
    found = None if search is None else search.rows(is_dry=context.is_dry)
    # Describe the search only for EXPLAIN, because writing a vector as text takes longer than the search.
    if context.is_told:
        told = ", ".join(
            described(key) + " descending" * order.is_descending
            for key, order in zip(keys, query.order, strict=True)
        )
        way = f" ({search.told})" if search is not None and search.told else ""
        context.note(f"order by {told}{f', the first {best}' if best is not None else ''}{way}")
    if context.is_dry:
        return source
    if found is not None:
        context.watch.hold(found.nbytes)
        return From(relation.select(found), source.names)
    columns = [context.column(relation, key, is_key=True) for key in keys]
    with placed(context.text, query.order[0].expression.at):
        pairs = zip(columns, query.order, strict=True)
        rows = ordered([Key(column, order.is_descending, order.nulls) for column, order in pairs], best)
    return From(relation.select(rows), source.names)


def _search(
    context: QueryContext, relation: Relation, keys: Sequence[Bound], query: syntax.Query, best: int | None
) -> Order | None:
    """Return the search for the order of a single key; None if ORDER BY needs the values of all rows."""
    key = keys[0]
    if len(keys) != 1 or not isinstance(key, Apply) or key.name not in SEARCHED:
        return None
    from lakebed.query.indexes.search import Order

    order = query.order[0]
    return Order(relation, key, order.is_descending, order.nulls, best, context.ways.is_exact, context.column)


def _side_by_side(context: QueryContext, source: From, query: syntax.Query, binder: Binder) -> From:
    """Put rows with equal keys of ARRANGE BY next to each other; rows with equal keys keep their order."""
    if not query.arrange:
        return source
    keys = [binder.bind(key) for key in query.arrange]
    context.note(f"arrange by {', '.join(map(described, keys))}")
    if context.is_dry:
        return source
    columns = [context.column(source.relation, key) for key in keys]
    with placed(context.text, query.arrange[0].at):
        rows = ordered([Key(column, False, "") for column in columns])
    return From(source.relation.select(rows), source.names)


def limit_of(context: QueryContext, query: syntax.Query, binder: Binder, top: int | None) -> Limit:
    """Return the limit that LIMIT and OFFSET of a query and `top`, the number after TOP, set together."""
    if query.limit is None:
        return Limit(top, 0, None)
    count, percent, offset = top, None, 0
    if query.limit.count is not None:
        wanted = number(context, query.limit.count, binder, "LIMIT")
        if query.limit.is_percent and wanted != math.inf:
            percent = float(wanted)
        elif wanted != math.inf:
            count = int(wanted) if top is None else min(top, int(wanted))
    if query.limit.offset is not None:
        skipped = number(context, query.limit.offset, binder, "OFFSET")
        offset = 0 if skipped == math.inf else int(skipped)
    return Limit(count, offset, percent)


def number(context: QueryContext, node: syntax.Expression, binder: Binder, clause: str) -> int | float:
    """Return the number in a clause; infinity if it is a parameter whose value is not known yet.

    Raises
    ------
    QueryError
        If the expression is not a number, or differs by row.
    """
    bound = binder.bind(node)
    if isinstance(bound, Unknown) and binder.is_dry:
        return math.inf
    value = bound.value if isinstance(bound, Value) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        message = f"{clause} needs a number that is the same for all rows"
        raise query_error(context.text, node.at, "type", message)
    is_count = clause in ("LIMIT", "OFFSET")
    if value != value or abs(value) > 1 << 62 or (is_count and value < 0):
        message = f"{clause} cannot be {value}{'; it is 0 or more' * is_count}"
        raise query_error(context.text, node.at, "type", message)
    return value


def cut(context: QueryContext, relation: Relation, limit: Limit) -> Relation:
    """Return the rows that LIMIT and OFFSET leave."""
    total, count = len(relation), limit.count
    if limit.percent is not None:
        share = int(np.ceil(total * min(max(limit.percent, 0.0), 100.0) / 100))
        count = share if count is None else min(count, share)
    stop = total if count is None else min(total, limit.offset + count)
    if limit.offset == 0 and stop == total:
        return relation
    start = min(limit.offset, stop)
    context.note(f"limit: rows {start} to {stop}")
    return relation.select(np.arange(start, stop, dtype=np.int64))


def _sampled(context: QueryContext, source: From, query: syntax.Query, binder: Binder) -> From:
    """Draw rows by SAMPLE BY."""
    node = query.sample
    if node is None:
        return source
    weight = binder.bind(node.weight)
    context.note(f"sample by {described(weight)}")
    relation = source.relation
    if context.is_dry:
        return source
    count = len(relation)
    if node.count is not None:
        wanted = number(context, node.count, binder, "LIMIT")
        count = round(count * wanted / 100) if node.is_percent else int(wanted)
    seed = random.get_seed() if node.seed is None else abs(int(number(context, node.seed, binder, "SEED")))
    with placed(context.text, node.at):
        weights = weights_of(context.column(relation, weight))
        rows = drawn(weights, count, replace=node.replace, seed=seed)
    return From(relation.select(rows), source.names)
