"""Answers queries: sources, conditions, order, groups, and what is computed, one relation made of another."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.binding import Binder
from lakebed.query.binding.bound import Input
from lakebed.query.binding.context import Outer
from lakebed.query.binding.names import Entry, Names
from lakebed.query.binding.separate import counts_rows
from lakebed.query.engine.arranging import Limit, arranged, cut, in_order, limit_of, number, sampled
from lakebed.query.engine.conditions import Condition, asked_before
from lakebed.query.engine.filtering import expanded, filtered
from lakebed.query.engine.joins import From, join
from lakebed.query.engine.limits import Watch, Ways
from lakebed.query.engine.outputs import Outputs
from lakebed.query.engine.plan import described
from lakebed.query.engine.relation import Grouped, Relation
from lakebed.query.engine.sets import combined
from lakebed.query.engine.sources import Opened, Sources
from lakebed.query.engine.unpack import ungrouped
from lakebed.query.engine.work import Work
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.values.keys import codes, firsts, groups, joined

Rows = NDArray[np.int64]


@dataclass(slots=True)
class _Tables:
    """The queries of WITH that a query may name, and what was read for it."""

    queries: dict[str, syntax.Query] = field(default_factory=dict)
    found: dict[str, Relation] = field(default_factory=dict)


class Execution:
    """One query on its way.

    Parameters
    ----------
    parameters
        Values of the ``?``; None while they are not known.
    is_dry
        Find names and decide how to go about it, and read nothing.
    is_told
        Note the steps, for an explanation.
    ways
        Where vectors are computed, and whether indexes are used.
    """

    def __init__(
        self,
        text: str,
        sources: Sources,
        parameters: Sequence[Any] | None,
        watch: Watch,
        *,
        is_dry: bool = False,
        is_told: bool = False,
        ways: Ways | None = None,
    ) -> None:
        self.work = Work(text, parameters, watch, ways or Ways(), is_dry, is_told)
        self.opened = Opened(sources)
        self.outer: Outer | None = None

    def run(self, query: syntax.Query, outer: _Tables | None = None) -> Relation:
        """Answer a query.

        Raises
        ------
        QueryError
            If it does not fit the data, or a limit is reached.
        """
        self.opened.ask(query)
        tables = _Tables(dict(outer.queries), dict(outer.found)) if outer is not None else _Tables()
        for name, inner in query.tables:
            tables.found[name] = self.run(inner, tables)
        self.work.depth += 1
        body = query.body
        if isinstance(body, syntax.Select):
            found = self._select(body, query, tables)
        else:
            found = self.run(body, tables) if isinstance(body, syntax.Query) else self._combined(body, tables)
            found = self._finished(found, query, tables)
        self.work.depth -= 1
        return found

    def binder(
        self, source: From, tables: _Tables, *, is_grouped: bool = False, whole: Relation | None = None
    ) -> Binder:
        """Return what binds expressions to a source; DATA reads all of its rows, `whole`."""
        return Binder(
            self.work.text,
            source.names,
            source.relation if whole is None else whole,
            self.work.parameters,
            lambda query, outer, is_dry: self._inside(query, tables, outer, is_dry=is_dry),
            self.work.watch,
            outer=self.outer,
            is_grouped=is_grouped,
            is_dry=self.work.is_dry,
            space=self.work.ways.space,
        )

    def _inside(self, query: syntax.Query, tables: _Tables, outer: Outer | None, *, is_dry: bool) -> Relation:
        """Answer a query inside this one, or check it only."""
        inner = copy.copy(self)
        inner.outer = outer or self.outer
        if not self.work.is_dry and (is_dry or outer is not None):
            inner.work = replace(self.work, is_dry=is_dry, is_told=False, steps=[])
        return inner.run(query, tables)

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, node: syntax.Select, query: syntax.Query, tables: _Tables) -> Relation:
        source = self._source(node.source, tables, node.at)
        binder = self.binder(source, tables)
        binder.aliases = {i.alias: i.expression for i in node.items if i.alias and i.expression is not None}
        counts_all = any(counts_rows(item.expression) for item in node.items)
        is_grouped = bool(node.group) or counts_all
        late = is_grouped and self._orders_groups(node, query, source)
        limit = limit_of(self.work, query, binder, node.top)
        is_plain = not (
            query.order or query.arrange or query.sample or is_grouped or node.expand or node.is_distinct
        )
        wanted = limit[0] if is_plain and node.ungroup is None and not limit[2] else None
        relation = source.relation
        if node.where is not None:
            # Aliases may not be used here: they name what is computed of the rows that this leaves.
            inner = self.binder(source, tables)
            inner.later = dict.fromkeys(binder.aliases, "WHERE")
            if self.work.is_dry or self.outer is not None:
                condition = Condition.of(inner.bind(node.where))
            else:
                condition = asked_before(relation, node.where, inner.bind)
            relation = filtered(
                self.work, relation, condition, limit[1] + wanted if wanted is not None else None
            )
        apart = None
        if node.expand is not None:
            relation, apart = expanded(self.work, source.relation, relation, node.expand)
        whole = source.relation
        source = From(relation, source.names)
        if not late:
            source = in_order(self.work, source, query, binder)
            if not node.is_distinct:
                source = From(cut(self.work, source.relation, limit), source.names)
            source = arranged(self.work, source, query, binder)
            source = sampled(self.work, source, query, binder)
        return self._projected(node, query, source, tables, whole, is_grouped, late, limit, apart)

    def _projected(
        self,
        node: syntax.Select,
        query: syntax.Query,
        source: From,
        tables: _Tables,
        whole: Relation,
        is_grouped: bool,
        late: bool,
        limit: Limit,
        apart: Rows | None,
    ) -> Relation:
        """Group rows, take groups apart, and compute what is behind SELECT."""
        if is_grouped:
            source = self._grouped(source, node, tables)
        if node.ungroup is not None:
            source = self._ungrouped(source, node.ungroup, tables)
        is_same = not is_grouped and node.ungroup is None
        binder = self.binder(source, tables, is_grouped=is_grouped, whole=whole if is_same else None)
        outputs = Outputs(self.work.text, binder, source)
        if apart is not None and node.expand is not None and node.expand.alias is not None:
            outputs.add_numbers(node.expand.alias, apart)
        if late:
            binder.aliases = {
                i.alias: i.expression for i in node.items if i.alias and i.expression is not None
            }
            source = in_order(self.work, source, query, binder)
            source = From(cut(self.work, source.relation, limit), source.names)
            source = arranged(self.work, source, query, binder)
            source = sampled(self.work, source, query, binder)
            binder = self.binder(source, tables, is_grouped=True)
            outputs = Outputs(self.work.text, binder, source)
        found = outputs.relation(node.items)
        if node.is_distinct:
            found = self._distinct(found, node, source, binder)
            found = cut(self.work, found, limit)
        return found

    def _orders_groups(self, node: syntax.Select, query: syntax.Query, source: From) -> bool:
        """Whether ORDER BY is said of groups: by what SELECT names, or by COUNT(*)."""
        aliases = {item.alias for item in node.items if item.alias}
        return any(
            counts_rows(key.expression)
            or (
                isinstance(key.expression, syntax.Name)
                and key.expression.table is None
                and key.expression.column in aliases
                and not source.names.find(None, key.expression.column)
            )
            for key in query.order
        )

    # -- sources ---------------------------------------------------------------------------------------------------

    def _source(self, node: syntax.Source | None, tables: _Tables, at: int) -> From:
        if node is None:
            relation = self.opened.implicit(self.work, at)
            return From(relation, Names.of(relation))
        if isinstance(node, syntax.Join):
            left, right = self._source(node.left, tables, at), self._source(node.right, tables, at)
            if self.work.is_dry:
                left, right = _nothing_of(left), _nothing_of(right)
            found = join(
                self.work.text, node, left, right, lambda s: self.binder(s, tables), self.work.watch.hold
            )
            count = "" if self.work.is_dry else f", {len(found.relation):,} rows"
            self.work.note(f"{node.kind} join{count}")
            return found
        if isinstance(node, syntax.Derived):
            relation = self.run(node.query, tables)
            return From(relation, Names.of(relation, node.alias))
        if isinstance(node, syntax.Difference):
            return self.opened.difference(self.work, node)
        is_named = node.version is None and node.path in tables.found
        relation = tables.found[node.path] if is_named else self.opened.dataset(self.work, node)
        name = node.alias or (None if node.is_quoted and "/" in node.path else node.path)
        return From(relation, Names.of(relation, name))

    # -- groups ----------------------------------------------------------------------------------------------------

    def _grouped(self, source: From, node: syntax.Select, tables: _Tables) -> From:
        relation = source.relation
        binder = self.binder(source, tables)
        binder.later = {item.alias: "GROUP BY" for item in node.items if item.alias}
        keys = [binder.bind(key) for key in node.group]
        self.work.note(f"group by {', '.join(map(described, keys)) or 'all rows'}")
        if not keys:
            rows = np.arange(len(relation), dtype=np.int64)
            made = Grouped(relation, rows, np.array([0, len(relation)]))
        elif self.work.is_dry:
            made = Grouped(relation, np.zeros(0, np.int64), np.zeros(1, np.int64))
        else:
            numbers = []
            for key, given in zip(keys, node.group, strict=True):
                try:
                    numbers.append(codes(self.work.column(relation, key), scalars=True))
                except QueryError as error:
                    raise query_error(self.work.text, given.at, error.kind, error.message) from error
            made = Grouped(relation, *groups(joined(numbers)))
            self.work.watch.hold(made.members.nbytes)
        named = {key.name for key in keys if isinstance(key, Input)}
        entries = (
            Entry(
                entry.table,
                entry.column,
                entry.name,
                entry.info.grouped(is_key=entry.name in named),
                entry.is_behind,
            )
            for entry in source.names.entries
        )
        names = Names(entries, source.names.stored)
        found = From(made, names)
        if node.having is not None and not self.work.is_dry:
            inner = self.binder(found, tables, is_grouped=True)
            inner.aliases = {
                i.alias: i.expression for i in node.items if i.alias and i.expression is not None
            }
            found = From(filtered(self.work, made, Condition.of(inner.bind(node.having)), None), names)
        return found

    def _ungrouped(self, source: From, node: syntax.Ungroup, tables: _Tables) -> From:
        self.work.note("ungroup")
        count = None
        if node.count is not None:
            wanted = number(self.work, node.count, self.binder(source, tables), "UNGROUP BY")
            count = 1 if wanted == math.inf else int(wanted)
        try:
            relation = ungrouped(source.relation, count, self.work.watch)
        except QueryError as error:
            raise query_error(self.work.text, node.at, error.kind, error.message) from error
        return From(relation, Names.of(relation, None))

    def _distinct(self, found: Relation, node: syntax.Select, source: From, binder: Binder) -> Relation:
        """Return the first of the rows that are equal."""
        self.work.note("distinct")
        if self.work.is_dry:
            return found
        if node.distinct_on:
            keys = [self.work.column(source.relation, binder.bind(key)) for key in node.distinct_on]
        else:
            keys = [self.work.column(found, Input(name, found.infos[name])) for name in found.names]
        numbers = joined([codes(key, scalars=False) for key in keys])
        return found.select(firsts(numbers))

    # -- UNION, INTERSECT, EXCEPT ----------------------------------------------------------------------------------

    def _combined(self, node: syntax.Combined, tables: _Tables) -> Relation:
        sides = [self._side(side, tables) for side in (node.left, node.right)]
        self.work.note(node.operator + (" all" if node.keeps_all else ""))
        self.work.watch.hold(8 * (len(sides[0]) + len(sides[1])))
        try:
            return combined(node.operator, node.keeps_all, sides[0], sides[1])
        except QueryError as error:
            raise query_error(self.work.text, node.at, error.kind, error.message) from error

    def _side(self, node: syntax.Select | syntax.Combined | syntax.Query, tables: _Tables) -> Relation:
        if isinstance(node, syntax.Query):
            return self.run(node, tables)
        if isinstance(node, syntax.Combined):
            return self._combined(node, tables)
        return self.run(syntax.Query(node, at=node.at), tables)

    def _finished(self, relation: Relation, query: syntax.Query, tables: _Tables) -> Relation:
        """Order, cut and sample the rows of a set operation."""
        source = From(relation, Names.of(relation))
        binder = self.binder(source, tables)
        source = in_order(self.work, source, query, binder)
        source = From(cut(self.work, source.relation, limit_of(self.work, query, binder, None)), source.names)
        source = arranged(self.work, source, query, binder)
        return sampled(self.work, source, query, binder).relation


def _nothing_of(source: From) -> From:
    """Return a source without its rows: what can be named stays."""
    return From(source.relation.select(np.zeros(0, np.int64)), source.names)
