"""Which rows in which order: ORDER BY, LIMIT, ARRANGE BY, SAMPLE BY."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lakebed import random
from lakebed.errors import QueryError
from lakebed.query.binding.binding import Binder
from lakebed.query.binding.bound import Apply, Bound, Unknown, Value
from lakebed.query.engine.joins import From
from lakebed.query.engine.plan import described
from lakebed.query.engine.relation import Relation
from lakebed.query.engine.work import Work
from lakebed.query.functions.numeric import weights_of
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.values.ordering import Key, ordered
from lakebed.query.values.sampling import drawn

if TYPE_CHECKING:
    from lakebed.query.indexes.search import Order

SEARCHED = ("BM25_SIMILARITY", "RRF", "COSINE_SIMILARITY", "DOT", "L2_DISTANCE")
"""Functions whose order may be found otherwise than by computing them for all rows."""

Limit = tuple[int | None, int, float | None]
"""How many rows are wanted, how many are left out before them, and the part of all in percent."""


def in_order(work: Work, source: From, query: syntax.Query, binder: Binder) -> From:
    """Put rows in the order of ORDER BY."""
    if not query.order:
        return source
    for key in query.order:
        if isinstance(key.expression, syntax.Literal):
            told = f"ORDER BY {key.expression.value!r} orders nothing: name a column, or what is computed"
            raise query_error(work.text, key.expression.at, "type", told)
    keys = [binder.bind(key.expression) for key in query.order]
    limit = limit_of(work, query, binder, None)
    best = None if limit[0] is None or limit[2] or binder.is_grouped else limit[0] + limit[1]
    relation = source.relation
    searched = _searched(work, relation, keys, query, best)
    found = searched.rows(is_dry=work.is_dry) if searched is not None else None
    if work.is_told:  # the text of a vector takes longer than a search for it
        told = ", ".join(
            f"{described(k)}{' descending' if o.is_descending else ''}"
            for k, o in zip(keys, query.order, strict=True)
        )
        way = f" ({searched.told})" if searched is not None and searched.told else ""
        work.note(f"order by {told}{f', the first {best}' if best is not None else ''}{way}")
    if work.is_dry:
        return source
    if found is not None:
        work.watch.hold(found.nbytes)
        return From(relation.select(found), source.names)
    columns = [work.column(relation, key, is_key=True) for key in keys]
    try:
        rows = ordered(
            [Key(c, o.is_descending, o.nulls) for c, o in zip(columns, query.order, strict=True)], best
        )
    except QueryError as error:
        raise query_error(work.text, query.order[0].expression.at, error.kind, error.message) from error
    return From(relation.select(rows), source.names)


def _searched(
    work: Work, relation: Relation, keys: Sequence[Bound], query: syntax.Query, best: int | None
) -> Order | None:
    """Return the search that one key asks for; None where ORDER BY goes by values alone."""
    key = keys[0]
    if len(keys) != 1 or not isinstance(key, Apply) or key.name not in SEARCHED:
        return None
    from lakebed.query.indexes.search import Order

    order = query.order[0]
    return Order(relation, key, order.is_descending, order.nulls, best, work.ways.is_exact, work.column)


def arranged(work: Work, source: From, query: syntax.Query, binder: Binder) -> From:
    """Put rows with equal keys beside each other; inside each key they keep their order."""
    if not query.arrange:
        return source
    keys = [binder.bind(key) for key in query.arrange]
    work.note(f"arrange by {', '.join(map(described, keys))}")
    if work.is_dry:
        return source
    columns = [work.column(source.relation, key) for key in keys]
    try:
        rows = ordered([Key(column, False, "") for column in columns])
    except QueryError as error:
        raise query_error(work.text, query.arrange[0].at, error.kind, error.message) from error
    return From(source.relation.select(rows), source.names)


def limit_of(work: Work, query: syntax.Query, binder: Binder, top: int | None) -> Limit:
    """Return how many rows are wanted, how many are left out before them, and the part of all in percent."""
    count: int | None = top
    percent = None
    offset = 0
    if query.limit is not None:
        if query.limit.count is not None:
            wanted = number(work, query.limit.count, binder, "LIMIT")
            if wanted == math.inf:
                pass
            elif query.limit.is_percent:
                percent = float(wanted)
            else:
                limit = int(wanted)
                count = limit if count is None else min(count, limit)
        if query.limit.offset is not None:
            skipped = number(work, query.limit.offset, binder, "OFFSET")
            offset = 0 if skipped == math.inf else int(skipped)
    return count, offset, percent


def number(work: Work, node: syntax.Expression, binder: Binder, what: str) -> int | float:
    """Return a number that a clause needs; infinity while it is not known.

    Raises
    ------
    QueryError
        If the expression is none, or differs by row.
    """
    bound = binder.bind(node)
    if isinstance(bound, Unknown) and binder.is_dry:
        return math.inf
    is_number = isinstance(bound, Value) and isinstance(bound.value, int | float)
    if not is_number or not isinstance(bound, Value) or isinstance(bound.value, bool):
        raise query_error(work.text, node.at, "type", f"{what} needs a number that is the same for all rows")
    value: int | float = bound.value
    is_count = what.endswith(("LIMIT", "OFFSET"))
    if value != value or abs(value) > 1 << 62 or (is_count and value < 0):
        raise query_error(
            work.text, node.at, "type", f"{what} cannot be {value}{'; it is 0 or more' * is_count}"
        )
    return value


def cut(work: Work, relation: Relation, limit: Limit) -> Relation:
    """Return the rows that LIMIT and OFFSET leave."""
    count, offset, percent = limit
    total = len(relation)
    if percent is not None:
        share = int(np.ceil(total * min(max(percent, 0.0), 100.0) / 100))
        count = share if count is None else min(count, share)
    stop = total if count is None else min(total, offset + count)
    if offset == 0 and stop == total:
        return relation
    work.note(f"limit: rows {min(offset, stop)} to {stop}")
    return relation.select(np.arange(min(offset, stop), stop, dtype=np.int64))


def sampled(work: Work, source: From, query: syntax.Query, binder: Binder) -> From:
    """Draw rows as SAMPLE BY says."""
    node = query.sample
    if node is None:
        return source
    weight = binder.bind(node.weight)
    work.note(f"sample by {described(weight)}")
    relation = source.relation
    if work.is_dry:
        return source
    count = len(relation)
    if node.count is not None:
        wanted = number(work, node.count, binder, "LIMIT")
        count = round(len(relation) * wanted / 100) if node.is_percent else int(wanted)
    seed = None if node.seed is None else int(number(work, node.seed, binder, "SEED"))
    try:
        weights = weights_of(work.column(relation, weight))
        rows = drawn(
            weights, count, replace=node.replace, seed=random.get_seed() if seed is None else abs(seed)
        )
    except QueryError as error:
        raise query_error(work.text, node.at, error.kind, error.message) from error
    return From(relation.select(rows), source.names)
