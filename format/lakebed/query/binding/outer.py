"""Queries inside others that name columns of these: what they name, and their answers for many rows at once.

Such a query is answered for each distinct set of values that it names. Where all that it says of them are equalities
with what it reads itself, it is answered once, without these, and its rows are found by their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import ANY, FLAG, JSON, Apply, Bound, Given, Info, Unknown, Value
from lakebed.query.binding.constants import python
from lakebed.query.binding.context import Context
from lakebed.query.binding.domains import Domain, converted, shared
from lakebed.query.binding.domains import of as of_domain
from lakebed.query.binding.separate import Separated, separated
from lakebed.query.engine.relation import Relation
from lakebed.query.functions.text import IN
from lakebed.query.language import syntax
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Ragged,
    collect,
    concatenated,
    either,
    row,
    rows,
    take,
    tick,
    truth,
)
from lakebed.query.values.keys import hashable
from lakebed.query.values.lookup import Lookup, is_plain

_COST = 50.0
_ANSWER_BYTES = 64
_TICK_ROWS = 1 << 12
_SEVERAL = "a query that stands for a value has one column and one row, not {} and {}; GROUP BY true makes one of all"

Answer = Callable[[Relation], Any]
"""Makes the answer for one set of values of what a query finds then."""


class Named:
    """The columns of a query that one inside it names: collected while that is checked, as what is not known yet."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.found: dict[tuple[str | None, str], Bound] = {}
        self.nodes: set[int] = set()

    def __call__(self, node: syntax.Name) -> Bound | None:
        """Return what a name means outside; None if nothing."""
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
    """A query inside another, checked; it may name columns of that."""

    def __init__(self, context: Context, query: syntax.Query) -> None:
        self.context = context
        self.query = query
        named = Named(context)
        self.checked = context.run(query, named, True)
        self.named = named
        self._answers: dict[Hashable, Any] = {}

    @property
    def is_alone(self) -> bool:
        """Whether it names nothing of the query around it, and so has one answer."""
        return not self.named.found

    def whole(self) -> Relation:
        """Return what it finds, if it is alone."""
        return self.context.run(self.query, None, False)

    def one_column(self, at: int, what: str) -> Info:
        """Return what is known of its one column.

        Raises
        ------
        QueryError
            If it has several.
        """
        names = self.checked.names
        if len(names) != 1:
            raise self.context.error(at, "arity", f"{what} one column, not {len(names)}")
        return self.checked.infos[names[0]]

    def with_values(self, values: Sequence[Any]) -> Relation:
        """Return what it finds for some values of the columns that it names."""
        meant = {
            name: Unknown(bound.info) if value is None else Value(python(value), bound.info, is_read=True)
            for (name, bound), value in zip(self.named.found.items(), values, strict=True)
        }
        return self.context.run(self.query, lambda node: meant.get((node.table, node.column)), False)

    # -- many rows ---------------------------------------------------------------------------------------------------

    def exists(self, at: int) -> Bound:
        """Return, for each row outside, whether it finds something."""
        once = Once.of(self, is_exists=True)

        def compute(given: _Given) -> Column:
            found = None if once is None else once.rows(given.keys)
            if found is not None:
                return Numbers(found[0] >= 0)
            return Numbers(np.array(self._each(given.named, lambda relation: len(relation) > 0), np.bool_))

        return self._applied("EXISTS", once, FLAG, (), compute, at)

    def among(self, operand: Bound, at: int, domain: Domain | None) -> Bound:
        """Return, for each row outside, whether a value is among those that it finds, taken as those of a domain."""
        once = Once.of(self, is_in=True, operand=operand)

        def compute(given: _Given) -> Column:
            (values,) = given.more
            found = None if once is None else once.rows([*given.keys, values])
            if found is not None:
                return Numbers(found[0] >= 0)
            return _in_each(values, self._each(given.named, lambda relation: column_of(relation, domain)))

        return self._applied("IN SELECT", once, FLAG, (operand,), compute, at)

    def value(self, info: Info, at: int) -> Bound:
        """Return, for each row outside, the one value that it finds."""
        once = Once.of(self)

        def compute(given: _Given) -> Column:
            found = None if once is None else once.values(given.keys)
            return collect(self._each(given.named, one_value)) if found is None else found

        return self._applied("SELECT", once, info, (), compute, at)

    def _applied(
        self,
        name: str,
        once: Once | None,
        info: Info,
        more: tuple[Bound, ...],
        compute: Callable[[_Given], Column],
        at: int,
    ) -> Bound:
        keys = () if once is None else once.keys
        first, second = len(keys), len(keys) + len(self.named.found)

        def apart(given: Given) -> Column:
            columns = given.columns
            return compute(_Given(columns[:first], columns[first:second], columns[second:]))

        return Apply(name, apart, (*keys, *self.named.found.values(), *more), info, at, _COST)

    def _each(self, named: Sequence[Column], answer: Answer) -> list[Any]:
        """Return an answer for each row: asked for once for each distinct set of values."""
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
                    raise QueryError(
                        f"the query inside: {error.message}", kind=error.kind, row=number
                    ) from error
                self.context.watch.hold(_ANSWER_BYTES + 8 * (len(made) if isinstance(made, list) else 1))
                self._answers[key] = made
            found.append(self._answers[key])
        return found


class Once:
    """A query inside another, taken apart: asked once, its rows found by their keys."""

    def __init__(
        self,
        inner: Inner,
        apart: Separated,
        keys: tuple[Bound, ...],
        domains: Sequence[Domain | None],
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
        """Take a query apart, if it can be; `operand` is what is looked for among its values."""
        context = inner.context
        apart = separated(inner.query, inner.named.nodes, is_exists=is_exists, is_in=is_in)
        if apart is None:
            return None
        keys = tuple(context.bind(side) for side in apart.outer)
        sides = keys if operand is None else (*keys, operand)
        try:
            infos = list(context.run(apart.query, None, True).infos.values())
            found = [shared([side.info, info]) for side, info in zip(sides, infos, strict=False)]
            keys = tuple(_as_domain(key, domain) for key, domain in zip(keys, found, strict=False))
        except QueryError:
            return None  # it is asked for each set of values, and tells then what is wrong
        return cls(inner, apart, keys, found, has_value=not (is_exists or is_in))

    def _whole(self) -> tuple[Lookup | None, Column | None]:
        if self._read is None:
            watch = self._inner.context.watch
            relation = self._inner.context.run(self._apart.query, None, False)
            columns = []
            for name in relation.names:
                watch.tick()
                columns.append(whole_column(relation, name))
                watch.hold(8 * len(relation))
            for number, domain in enumerate(self._domains):
                if domain is not None:
                    info = relation.infos[relation.names[number]]
                    columns[number] = converted(columns[number], info, domain)
            value = columns.pop() if self._has_value else None
            lookup = Lookup.of(columns)
            if lookup is not None:
                watch.hold(lookup.nbytes)
            self._read = lookup, value
        return self._read

    def rows(self, keys: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the first row that has each set of keys, and how many have; None where keys are no single values."""
        if not all(map(is_plain, keys)):
            return None
        lookup, _ = self._whole()
        return None if lookup is None else lookup.find(keys)

    def values(self, keys: Sequence[Column]) -> Column | None:
        """Return the value of the row that has each set of keys."""
        found = self.rows(keys)
        if found is None:
            return None
        places, counts = found
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
        return collect(
            [empty if is_gone else v for v, is_gone in zip(rows(taken), gone.tolist(), strict=True)]
        )


@dataclass(frozen=True, slots=True)
class _Given:
    """Columns of rows outside: keys of rows inside, what the query names, and what else it is asked of."""

    keys: Sequence[Column]
    named: Sequence[Column]
    more: Sequence[Column]


def whole_column(relation: Relation, name: str) -> Column:
    """Return all rows of a column."""
    found = []
    for window in relation.windows([name]):
        tick()
        found.append(relation.read(name, window))
    return concatenated(found) if found else relation.read(name, range(0))


def _as_domain(node: Bound, domain: Domain | None) -> Bound:
    return node if domain is None else of_domain(node, domain, 0)


def column_of(relation: Relation, domain: Domain | None = None) -> list[Any]:
    """Return the values of the one column of a query, as those of a domain; what is missing is none of them."""
    found: list[Any] = []
    (name,) = relation.names
    column = whole_column(relation, name)
    if domain is not None:
        column = converted(column, relation.infos[name], domain)
    if isinstance(column, Numbers | Ragged):
        flat = column.flat if isinstance(column, Ragged) else column.values
        if isinstance(column, Numbers) and column.missing is not None:
            flat = flat[~column.missing]
        flat = flat.reshape(-1)
        # Floats of NumPy are those that do not take the type of what they are compared with.
        return list(flat.astype(np.float64)) if flat.dtype.kind == "f" else list(flat.tolist())
    for value in rows(column):
        if isinstance(value, np.ndarray):
            flat = value.reshape(-1)
            found.extend(flat.astype(np.float64) if flat.dtype.kind == "f" else flat.tolist())
        elif value is not None:
            found.append(value)
    return found


def one_value(relation: Relation) -> Any:
    """Return what a query stands for that is one value; None if it finds nothing.

    Raises
    ------
    QueryError
        If it finds several rows.
    """
    if len(relation.names) != 1 or len(relation) > 1:
        raise QueryError(_SEVERAL.format(len(relation.names), f"{len(relation):,}"), kind="arity")
    return python(row(relation.read(relation.names[0], range(1)), 0)) if len(relation) else None


def _in_each(values: Column, lists: Sequence[list[Any]]) -> Column:
    """Tell of each row whether its value is one of its own list; rows with the same list are asked together."""
    by_list: dict[int, list[int]] = {}
    for number, wanted in enumerate(lists):
        by_list.setdefault(id(wanted), []).append(number)
    found: list[Column] = []
    order: list[int] = []
    for numbers in by_list.values():
        some = take(values, np.array(numbers, np.int64))
        told = IN.compute(Given((some, Constant(lists[numbers[0]], len(numbers))), len(numbers), (ANY, JSON)))
        gone = some.missing
        found.append(told if gone is None else Numbers(truth(told) & ~gone))
        order += numbers
    if not found:
        return Numbers(np.zeros(0, np.bool_))
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return take(concatenated(found), inverse)
