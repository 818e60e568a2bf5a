"""Execution of queries: sources, conditions, groups, order, results; each step makes a relation from the previous."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lakebed.query.binding.binding import Binder
from lakebed.query.binding.context import Outer
from lakebed.query.binding.names import Names
from lakebed.query.binding.separate import counts_rows
from lakebed.query.engine.arranging import Limit, arranged, cut, limit_of, number
from lakebed.query.engine.conditions import Condition, asked_before
from lakebed.query.engine.context import QueryContext
from lakebed.query.engine.filtering import expanded, filtered
from lakebed.query.engine.groups import distinct, grouped, ungrouped
from lakebed.query.engine.joins import From, join
from lakebed.query.engine.outputs import Outputs
from lakebed.query.engine.sets import combined
from lakebed.query.engine.sources import Opened, Sources
from lakebed.query.functions.spaces import Ways
from lakebed.query.language import syntax
from lakebed.query.language.errors import placed
from lakebed.query.relations.relation import Relation
from lakebed.query.values.limits import Watch

Tables = dict[str, Relation]
"""Results of WITH by name."""


class Execution:
    """Execution of one query.

    Parameters
    ----------
    parameters
        Values of the ``?``; None while they are not known.
    is_dry
        True to look up names and plan the query without reading values.
    is_told
        True to record the steps, for EXPLAIN.
    ways
        Use of indexes, and the library that computes vectors.
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
        self.context = QueryContext(text, parameters, watch, ways or Ways(), is_dry, is_told)
        self.opened = Opened(sources)
        self.outer: Outer | None = None

    def run(self, query: syntax.Query, outer: Tables | None = None) -> Relation:
        """Answer a query.

        Parameters
        ----------
        outer
            Results of WITH that the query may name.

        Raises
        ------
        QueryError
            If the query does not fit the data, or reaches a limit.
        """
        self.opened.ask(query)
        tables = dict(outer or {})
        for name, inner in query.tables:
            tables[name] = self.run(inner, tables)
        self.context.depth += 1
        body = query.body
        if isinstance(body, syntax.Select):
            found = self._select(body, query, tables)
        else:
            found = self.run(body, tables) if isinstance(body, syntax.Query) else self._combined(body, tables)
            source = From(found, Names.of(found))
            binder = self.binder(source, tables)
            limit = limit_of(self.context, query, binder, None)
            found = arranged(self.context, source, query, binder, limit).relation
        self.context.depth -= 1
        return found

    def binder(
        self, source: From, tables: Tables, *, is_grouped: bool = False, whole: Relation | None = None
    ) -> Binder:
        """Return a binder of expressions to the columns of a source.

        DATA reads the rows of `whole`, by default the rows of the source.
        """
        context = self.context
        return Binder(
            context.text,
            source.names,
            source.relation if whole is None else whole,
            context.parameters,
            lambda query, outer, is_dry: self._inside(query, tables, outer, is_dry=is_dry),
            context.watch,
            outer=self.outer,
            is_grouped=is_grouped,
            is_dry=context.is_dry,
            space=context.ways.space,
        )

    def _inside(self, query: syntax.Query, tables: Tables, outer: Outer | None, *, is_dry: bool) -> Relation:
        """Answer a subquery; if `is_dry`, only check its names and types."""
        inner = copy.copy(self)
        inner.outer = outer or self.outer
        if not self.context.is_dry and (is_dry or outer is not None):
            inner.context = replace(self.context, is_dry=is_dry, is_told=False, steps=[])
        return inner.run(query, tables)

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, node: syntax.Select, query: syntax.Query, tables: Tables) -> Relation:
        context = self.context
        source = whole = self.source(node.source, tables, node.at)
        aliases = {
            item.alias: item.expression for item in node.items if item.alias and item.expression is not None
        }
        is_grouped = bool(node.group) or any(counts_rows(item.expression) for item in node.items)
        is_late = is_grouped and orders_groups(node, query, source)
        binder = self.binder(source, tables)
        binder.aliases = aliases
        limit = limit_of(context, query, binder, node.top)
        first_limit = None if node.is_distinct else limit
        if node.where is not None:
            wanted = None if is_grouped else _wanted(node, query, limit)
            source = self._filtered(source, node.where, aliases, tables, wanted)
        apart = None
        if node.expand is not None:
            relation, apart = expanded(context, whole.relation, source.relation, node.expand)
            source = From(relation, source.names)
        if not is_late:
            source = arranged(context, source, query, binder, first_limit)
        if is_grouped:
            source = self._grouped(source, node, aliases, tables)
        if node.ungroup is not None:
            source = self._ungrouped(source, node.ungroup, tables)
        if is_late:
            binder = self.binder(source, tables, is_grouped=True)
            binder.aliases = aliases
            asked = by_keys(query, node.items, node.group, whole)
            source = arranged(context, source, asked, binder, first_limit)
        is_same = not is_grouped and node.ungroup is None
        binder = self.binder(source, tables, is_grouped=is_grouped, whole=whole.relation if is_same else None)
        outputs = Outputs(context.text, binder, source)
        if apart is not None and not is_late and node.expand is not None and node.expand.alias is not None:
            outputs.add_numbers(node.expand.alias, apart)
        found = outputs.relation(node.items)
        if node.is_distinct:
            found = cut(context, distinct(context, found, node, source, binder), limit)
        return found

    def _filtered(
        self,
        source: From,
        where: syntax.Expression,
        aliases: Iterable[str],
        tables: Tables,
        wanted: int | None,
    ) -> From:
        """Return the rows for which WHERE is true, but only the first `wanted` ones if `wanted` is not None."""
        binder = self.binder(source, tables)
        # SELECT computes these names after WHERE, so WHERE must not use them.
        binder.later = dict.fromkeys(aliases, "WHERE")
        if self.context.is_dry or self.outer is not None:
            condition = Condition.of(binder.bind(where))
        else:
            condition = asked_before(source.relation, where, binder.bind)
        return From(filtered(self.context, source.relation, condition, wanted), source.names)

    def _grouped(
        self, source: From, node: syntax.Select, aliases: dict[str, syntax.Expression], tables: Tables
    ) -> From:
        """Return the groups of GROUP BY for which HAVING is true."""
        binder = self.binder(source, tables)
        binder.later = {item.alias: "GROUP BY" for item in node.items if item.alias}
        found = grouped(self.context, source, node, binder)
        if node.having is None or self.context.is_dry:
            return found
        binder = self.binder(found, tables, is_grouped=True)
        binder.aliases = aliases
        condition = Condition.of(binder.bind(node.having))
        return From(filtered(self.context, found.relation, condition, None), found.names)

    def _ungrouped(self, source: From, node: syntax.Ungroup, tables: Tables) -> From:
        self.context.note("ungroup")
        count = None
        if node.count is not None:
            wanted = number(self.context, node.count, self.binder(source, tables), "UNGROUP BY")
            count = 1 if wanted == math.inf else int(wanted)
        with placed(self.context.text, node.at):
            relation = ungrouped(source.relation, count, self.context.watch)
        return From(relation, Names.of(relation))

    # -- sources ---------------------------------------------------------------------------------------------------

    def source(self, node: syntax.Source | None, tables: Tables, at: int) -> From:
        """Return the rows that FROM names, or those of a query without FROM, and the names of their columns."""
        context = self.context
        if node is None:
            relation = self.opened.implicit(context, at)
            return From(relation, Names.of(relation))
        if isinstance(node, syntax.Join):
            left, right = self.source(node.left, tables, at), self.source(node.right, tables, at)
            if context.is_dry:
                left, right = _without_rows(left), _without_rows(right)
            found = join(
                context.text, node, left, right, lambda s: self.binder(s, tables), context.watch.hold
            )
            context.note(f"{node.kind} join" + ("" if context.is_dry else f", {len(found.relation):,} rows"))
            return found
        if isinstance(node, syntax.Derived):
            relation = self.run(node.query, tables)
            return From(relation, Names.of(relation, node.alias))
        if isinstance(node, syntax.Difference):
            return self.opened.difference(context, node)
        is_named = node.version is None and node.path in tables
        relation = tables[node.path] if is_named else self.opened.dataset(context, node)
        name = node.alias or (None if node.is_quoted and "/" in node.path else node.path)
        return From(relation, Names.of(relation, name))

    # -- UNION, INTERSECT, EXCEPT ----------------------------------------------------------------------------------

    def _combined(self, node: syntax.Combined, tables: Tables) -> Relation:
        left, right = self._side(node.left, tables), self._side(node.right, tables)
        self.context.note(node.operator + (" all" if node.keeps_all else ""))
        self.context.watch.hold(8 * (len(left) + len(right)))
        with placed(self.context.text, node.at):
            return combined(node.operator, node.keeps_all, left, right)

    def _side(self, node: syntax.Select | syntax.Combined | syntax.Query, tables: Tables) -> Relation:
        if isinstance(node, syntax.Combined):
            return self._combined(node, tables)
        return self.run(syntax.Query(node, at=node.at) if isinstance(node, syntax.Select) else node, tables)


def orders_groups(node: syntax.Select, query: syntax.Query, source: From) -> bool:
    """Return whether ORDER BY sorts groups: by a name that SELECT gives, or by COUNT(*)."""
    aliases = {item.alias for item in node.items if item.alias}

    def is_of_groups(key: syntax.Expression) -> bool:
        if not isinstance(key, syntax.Name):
            return counts_rows(key)
        return key.table is None and key.column in aliases and not source.names.find(None, key.column)

    return any(is_of_groups(key.expression) for key in query.order)


def by_keys(
    query: syntax.Query, items: Sequence[syntax.Item], group: Sequence[syntax.Expression], source: From
) -> syntax.Query:
    """Sort groups by the first value of a key where ORDER BY names it, because a group has the key once per row."""
    keys = {syntax.key_of_groups(key) for key in group} - {None}
    meaning = {item.alias: item.expression for item in items if syntax.bare(item.expression) in keys}

    def changed(key: syntax.Order) -> syntax.Order:
        name = key.expression
        if not isinstance(name, syntax.Name) or source.names.find(None, name.column):
            return key
        of = meaning.get(name.column)
        first = (syntax.Literal(0, name.at),)
        return key if of is None else replace(key, expression=syntax.Subscript(of, first, name.at))

    return replace(query, order=tuple(map(changed, query.order)))


def _wanted(node: syntax.Select, query: syntax.Query, limit: Limit) -> int | None:
    """Return the number of rows that WHERE must find for LIMIT; None if other clauses need all rows."""
    if query.order or query.arrange or query.sample or node.expand or node.ungroup or node.is_distinct:
        return None
    return None if limit.count is None or limit.percent else limit.offset + limit.count


def _without_rows(source: From) -> From:
    """Return a source that has the columns of another one, but no rows."""
    return From(source.relation.select(np.zeros(0, np.int64)), source.names)
