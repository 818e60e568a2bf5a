"""Correlated subqueries, which name columns of their outer query.

Such a subquery is answered for each distinct set of values of the outer columns. If it uses the outer columns only in
equalities with its own columns, it is answered once without the equalities, and its rows are looked up by their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.constants import python
from lakebed.query.binding.context import Context
from lakebed.query.binding.domains import converted, of, shared
from lakebed.query.binding.separate import Separated, separated
from lakebed.query.functions.text import IN
from lakebed.query.language import syntax
from lakebed.query.relations.bound import Apply, Bound, Unknown, Value
from lakebed.query.relations.relation import Relation
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Ragged,
    collect,
    either,
    in_places,
    row,
    rows,
    take,
    truth,
)
from lakebed.query.values.info import ANY, FLAG, JSON, Given, Info
from lakebed.query.values.keys import hashable
from lakebed.query.values.lookup import Found, Key, Lookup

_COST = 50.0
_ANSWER_BYTES = 64
_TICK_ROWS = 1 << 12
_SEVERAL = "a subquery used as a value has one column and one row, not {} and {}; GROUP BY true makes one row"

Answer = Callable[[Relation], Any]
"""Function that makes an answer from the result of a subquery for one set of values of the outer columns."""


class Named:
    """The columns of the outer query that an inner query names, collected while the inner query is checked."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.found: dict[tuple[str | None, str], Bound] = {}
        self.nodes: set[int] = set()

    def __call__(self, node: syntax.Name) -> Bound | None:
        """Return the column of the outer query that a name means; None if the outer query has no such column."""
        try:
            bound = self.context.bind(node)
        except QueryError as error:
            if error.kind != "unknown_column" or node.table in self.context.names.tables:
                raise
            return None
        self.found[node.table, node.column] = bound
        self.nodes.add(id(node))
        return Unknown(bound.info)


class Inner:
    """A checked subquery; it may name columns of the outer query."""

    def __init__(self, context: Context, query: syntax.Query) -> None:
        self.context = context
        self.query = query
        self.named = Named(context)
        self.checked = context.run(query, self.named, True)
        self._answers: dict[Hashable, Any] = {}

    @property
    def is_alone(self) -> bool:
        """True if the query names no column of the outer query, and so has a single answer."""
        return not self.named.found

    def whole(self) -> Relation:
        """Return the result of a subquery that names no column of the outer query."""
        return self.context.run(self.query, None, False)

    def one_column(self, at: int, what: str) -> Info:
        """Return the properties of the only column; if there are several, raise an error that begins with `what`."""
        names = self.checked.names
        if len(names) != 1:
            raise self.context.error(at, "arity", f"{what} one column, not {len(names)}")
        return self.checked.infos[names[0]]

    def with_values(self, values: Sequence[Any]) -> Relation:
        """Return the result for one set of values of the outer columns."""
        meant = {
            name: Unknown(bound.info) if value is None else Value(python(value), bound.info, is_read=True)
            for (name, bound), value in zip(self.named.found.items(), values, strict=True)
        }
        return self.context.run(self.query, lambda node: meant.get((node.table, node.column)), False)

    # -- many rows ---------------------------------------------------------------------------------------------------

    def exists(self, at: int) -> Bound:
        """Return, for each outer row, whether the subquery finds a row."""
        once = Once.of(self, is_exists=True)
        return self._applied("EXISTS", FLAG, at, once, lambda relation: len(relation) > 0, _flags)

    def among(self, operand: Bound, at: int, domain: Info | None) -> Bound:
        """Return, for each outer row, whether a value is among the results of the subquery.

        The value and the results are converted to `domain`.
        """
        once = Once.of(self, is_in=True, operand=operand)
        return self._applied(
            "IN SELECT", FLAG, at, once, lambda relation: column_of(relation, domain), _in_each, operand
        )

    def value(self, info: Info, at: int) -> Bound:
        """Return, for each outer row, the value that the subquery finds."""
        return self._applied("SELECT", info, at, Once.of(self), one_value, collect)

    def _applied(
        self,
        name: str,
        info: Info,
        at: int,
        once: Once | None,
        answer: Answer,
        finish: Callable[..., Column],
        *operands: Bound,
    ) -> Bound:
        """Return an expression that looks rows up by keys; if `once` is None, it computes an answer for each row.

        `finish` makes a column from the answers of all rows.
        """
        keys = () if once is None else once.keys
        first, second = len(keys), len(keys) + len(self.named.found)

        def compute(given: Given) -> Column:
            more = given.columns[second:]
            found = None if once is None else once.column([*given.columns[:first], *more])
            return finish(self._each(given.columns[first:second], answer), *more) if found is None else found

        return Apply(name, compute, (*keys, *self.named.found.values(), *operands), info, at, _COST)

    def _each(self, named: Sequence[Column], answer: Answer) -> list[Any]:
        """Return an answer for each row, computed once for each distinct set of values."""
        found: list[Any] = []
        for number, values in enumerate(zip(*map(rows, named), strict=True)):
            if number % _TICK_ROWS == 0:
                self.context.watch.tick()
            key = tuple(map(hashable, values))
            if key not in self._answers:
                self.context.watch.tick()
                try:
                    made = answer(self.with_values(values))
                except QueryError as error:
                    if error.kind == "limit":
                        raise
                    message = f"the subquery: {error.message}"
                    raise QueryError(message, kind=error.kind, row=number) from error
                self.context.watch.hold(_ANSWER_BYTES + 8 * (len(made) if isinstance(made, list) else 1))
                self._answers[key] = made
            found.append(self._answers[key])
        return found


class Once:
    """A correlated query without its equalities: answered once, its rows looked up by keys."""

    def __init__(
        self,
        inner: Inner,
        apart: Separated,
        keys: tuple[Bound, ...],
        domains: Sequence[Info | None],
        *,
        has_value: bool,
    ) -> None:
        self.keys = keys
        self._domains = domains
        self._inner = inner
        self._apart = apart
        self._has_value = has_value
        self._read: tuple[Lookup | None, Column | None] | None = None

    @classmethod
    def of(
        cls, inner: Inner, *, is_exists: bool = False, is_in: bool = False, operand: Bound | None = None
    ) -> Once | None:
        """Separate the equalities of a query; return None if it uses outer columns in other ways too.

        Parameters
        ----------
        operand
            Value that IN looks for in the result.
        """
        context = inner.context
        apart = separated(inner.query, inner.named.nodes, is_exists=is_exists, is_in=is_in)
        if apart is None:
            return None
        keys = tuple(context.bind(side) for side in apart.outer)
        sides = keys if operand is None else (*keys, operand)
        try:
            infos = list(context.run(apart.query, None, True).infos.values())
            found = [shared([side.info, info]) for side, info in zip(sides, infos, strict=False)]
            keys = tuple(
                key if domain is None else of(key, domain, 0)
                for key, domain in zip(keys, found, strict=False)
            )
        except QueryError:
            return None  # the query is evaluated for each set of values instead, which reports the same error
        found += [None] * (len(infos) - len(found))
        return cls(inner, apart, keys, found, has_value=not (is_exists or is_in))

    def _whole(self) -> tuple[Lookup | None, Column | None]:
        if self._read is None:
            watch = self._inner.context.watch
            relation = self._inner.context.run(self._apart.query, None, False)
            columns = []
            for name, domain in zip(relation.names, self._domains, strict=True):
                watch.tick()
                column = relation.whole(name)
                columns.append(column if domain is None else converted(column, relation.infos[name], domain))
                watch.hold(8 * len(relation))
            value = columns.pop() if self._has_value else None
            lookup = Lookup.of(columns)
            if lookup is not None:
                watch.hold(lookup.nbytes)
            self._read = lookup, value
        return self._read

    def _rows(self, columns: Sequence[Column]) -> Found | None:
        """Return, for each set of keys, the first row with them and the number of such rows; None for array keys."""
        keys = [key for key in map(Key.of, columns) if key is not None]
        lookup = self._whole()[0] if len(keys) == len(columns) else None
        return None if lookup is None else lookup.find(keys)

    def column(self, keys: Sequence[Column]) -> Column | None:
        """Return, for each set of keys, the value of its row, or whether a row exists; None for array keys."""
        found = self._rows(keys)
        if found is None:
            return None
        places, counts = found
        if not self._has_value:
            return Numbers(places >= 0)
        (several,) = np.nonzero(counts > 1)
        if len(several):
            raise QueryError(_SEVERAL.format(1, int(counts[several[0]])), kind="arity", row=int(several[0]))
        _, value = self._whole()
        gone = places < 0
        empty = None
        if self._apart.is_whole and gone.any():
            empty = one_value(self._inner.with_values([None] * len(self._inner.named.found)))
        if value is None or not len(value):
            return collect([empty] * len(places))
        taken = take(value, np.maximum(places, 0))
        if not gone.any():
            return taken
        if isinstance(taken, Numbers) and empty is None:
            return Numbers(taken.values, either(taken.missing, gone))
        return collect([empty if is_gone else v for v, is_gone in zip(rows(taken), gone, strict=True)])


def column_of(relation: Relation, domain: Info | None = None) -> list[Any]:
    """Return the values of the only column, without missing ones, converted to `domain`."""
    found: list[Any] = []
    (name,) = relation.names
    column = relation.whole(name)
    if domain is not None:
        column = converted(column, relation.infos[name], domain)
    if isinstance(column, Ragged):
        return _items(column.flat)
    if isinstance(column, Numbers):
        return _items(column.values if column.missing is None else column.values[~column.missing])
    for value in rows(column):
        if isinstance(value, np.ndarray):
            found.extend(_items(value))
        elif value is not None:
            found.append(value)
    return found


def _items(values: NDArray[Any]) -> list[Any]:
    flat = values.reshape(-1)
    # Keep NumPy's floats: a Python float would take the dtype of the other side of a comparison.
    return list(flat.astype(np.float64)) if flat.dtype.kind == "f" else list(flat.tolist())


def one_value(relation: Relation) -> Any:
    """Return the value of a query with one column and at most one row; None for no row.

    Raises
    ------
    QueryError
        If there are several rows.
    """
    if len(relation.names) != 1 or len(relation) > 1:
        raise QueryError(_SEVERAL.format(len(relation.names), f"{len(relation):,}"), kind="arity")
    return python(row(relation.read(relation.names[0], range(1)), 0)) if len(relation) else None


def _flags(answers: Sequence[bool]) -> Column:
    return Numbers(np.array(answers, np.bool_))


def _in_each(lists: Sequence[list[Any]], values: Column) -> Column:
    """Return for each row whether its value is in its list; rows with the same list are computed together."""
    by_list: dict[int, list[int]] = {}
    for number, wanted in enumerate(lists):
        by_list.setdefault(id(wanted), []).append(number)
    found: list[Column] = []
    places = [np.array(numbers, np.int64) for numbers in by_list.values()]
    for some in places:
        asked = take(values, some)
        given = Given((asked, Constant(lists[int(some[0])], len(some))), len(some), (ANY, JSON))
        told, gone = IN.compute(given), asked.missing
        found.append(told if gone is None else Numbers(truth(told) & ~gone))
    return in_places(found, places) if found else Numbers(np.zeros(0, np.bool_))
