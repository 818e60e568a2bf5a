"""Queries split into tasks: each task answers the query for a run of rows, and the answers are merged.

A task filters its rows. Then it computes the columns of SELECT; or it computes the keys of ORDER BY and keeps the first
rows; or it groups its rows, and reduces each group to partial aggregates. Tensors that the query only selects are not
part of an answer: they are read from the dataset when the result is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.names import Names
from lakebed.query.binding.separate import counts_rows
from lakebed.query.engine.arranging import arranged, cut, limit_of
from lakebed.query.engine.conditions import Condition
from lakebed.query.engine.execution import Execution, by_keys, orders_groups
from lakebed.query.engine.filtering import filtered
from lakebed.query.engine.joins import From
from lakebed.query.engine.outputs import Outputs
from lakebed.query.engine.sources import Sources
from lakebed.query.functions.function import ADDED, Function
from lakebed.query.functions.numeric import weights_of
from lakebed.query.functions.spaces import Ways
from lakebed.query.language import syntax
from lakebed.query.language.errors import query_error
from lakebed.query.relations.bound import COUNT_ALL, Apply, Bound, Input, RowNumber, Value
from lakebed.query.relations.relation import Grouped, Projected, Relation, Stored, stacked
from lakebed.query.values.columns import Column, Numbers, Ragged, Rows, concatenated, take
from lakebed.query.values.info import NUMBER, Given, Info
from lakebed.query.values.keys import codes, groups, joined
from lakebed.query.values.limits import Limits, Watch, ticking
from lakebed.query.values.ordering import Key, ordered
from lakebed.query.values.reductions import reduced
from lakebed.session.table import Table
from lakebed.session.windows import bytes_of_row, windows

MERGED = {
    "COUNT": "SUM",
    "SUM": "SUM",
    "PROD": "PROD",
    "AVG": "AVG",
    "MEAN": "AVG",
    "MIN": "AMIN",
    "AMIN": "AMIN",
    "MAX": "AMAX",
    "AMAX": "AMAX",
    "ANY": "ANY",
    "ALL": "ALL",
    "ALL_STRICT": "ALL_STRICT",
}
"""Aggregates of groups -> reductions of their partial results; those of averages are totals and numbers of values."""

_PLACED = ("BM25_SIMILARITY", "RRF", "ROW_NUMBER", "RANDOM", "DATA", "NOW", "TODAY")
"""Functions whose results depend on other rows or on the moment, so that tasks would disagree."""

_KEY, _AGGREGATE, _TOTAL, _VALUES, _ROWS = " key {}", " aggregate {}", " total {}", " values {}", " rows"
"""Names of columns in the answers of tasks; no tensor has a name that begins with a space."""

Column_ = tuple[Column, Info]


@dataclass(frozen=True, slots=True)
class Part:
    """Answer of a task: the rows that it found, or its groups.

    Attributes
    ----------
    rows
        Numbers of the rows in the dataset, in order; empty for groups.
    columns
        Computed columns, keys and partial aggregates.
    """

    rows: NDArray[np.int64]
    columns: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Job:
    """A query in the form in which other processes answer it for runs of rows.

    Attributes
    ----------
    table
        All rows of the query.
    query
        Query of a run of these rows.
    keys
        Query of the keys of GROUP BY, for the first row of each group; None if the query does not group.
    order, best
        Keys of ORDER BY and the number of rows that are kept, None for all.
    is_cut
        True if LIMIT may leave out rows that a task finds: columns that fail are then left to the merging process,
        which computes them for the rows of the result only.
    functions
        Functions of the program that the query calls.
    """

    text: str
    table: Table
    query: syntax.Query
    keys: syntax.Query | None
    order: tuple[syntax.Order, ...]
    best: int | None
    is_cut: bool
    parameters: Sequence[Any]
    limits: Limits
    ways: Ways
    functions: Mapping[str, Function]

    def answer(self, start: int, stop: int) -> Part:
        """Answer the query for the rows from `start` to `stop` of the table.

        Raises
        ------
        QueryError
            If a row cannot be computed, or a limit is reached.
        """
        ADDED.update(self.functions)
        watch = Watch(self.limits)
        with ticking(watch.tick), watch.waiting():
            relation = Stored(self.table[start:stop])
            execution = self._execution(relation, watch)
            found = execution.run(self.query)
            if self.keys is None:
                return self._rows(execution, found)
            return self._groups(execution, found, watch)

    def _execution(self, relation: Relation, watch: Watch) -> Execution:
        sources = Sources(relation, lambda *_: relation, _no_versions)
        return Execution(self.text, sources, self.parameters, watch, ways=self.ways)

    def _rows(self, execution: Execution, found: Relation) -> Part:
        columns: dict[str, Column] = {}
        if isinstance(found, Projected):
            nodes, base = found.outputs, found.base
            keys = {name: nodes[name] for name in _numbered(_KEY, self.order)}
            columns = {name: execution.context.column(base, key, is_key=True) for name, key in keys.items()}
            if columns:
                # Nulls of JSON come first beside texts, and last among numbers: that needs all values.
                is_sure = all(key.info.kind in ("array", "text") for key in keys.values())
                places = np.sort(_ordered(columns, self.order, self.best if is_sure else None))
                columns = {name: take(column, places) for name, column in columns.items()}
                base = base.select(places)
            for name, node in nodes.items():
                if name not in columns and not isinstance(node, Input | Value):
                    try:
                        columns[name] = execution.context.column(base, node)
                    except QueryError as error:
                        if not self.is_cut or error.kind == "limit":
                            raise
            found = base
        rows = found.base_rows()
        return Part(np.zeros(0, np.int64) if rows is None else rows, columns)

    def _groups(self, execution: Execution, found: Relation, watch: Watch) -> Part:
        if not isinstance(found, Projected) or not isinstance(found.base, Grouped):
            raise TypeError(f"the query of a task with keys makes groups, not {type(found).__name__}")
        base, columns = found.base, dict[str, Column]()
        for number, name in enumerate(found.names):
            node = found.outputs[name]
            columns[name] = execution.context.column(base, node)
            if isinstance(node, Apply) and MERGED.get(node.name) == "AVG":
                for key, compute in ((_TOTAL, _total), (_VALUES, _count_values)):
                    part = Apply(key, compute, node.operands, NUMBER, node.at)
                    columns[key.format(number)] = execution.context.column(base, part)
        if self.keys is not None and self.keys.body.items:  # type: ignore[union-attr]
            firsts = base.base.select(base.members[base.ends[:-1]])
            keys = self._execution(firsts, watch).run(self.keys)
            columns |= {name: keys.whole(name) for name in keys.names}
        return Part(np.zeros(0, np.int64), columns)


def _no_versions(_: Table, first: str, second: str) -> NoReturn:
    raise QueryError(f"a task reads its own rows, not versions {first!r} and {second!r}", kind="unsupported")


def _count_values(given: Given) -> Column:
    return reduced("COUNT", given.columns[0])


def _total(given: Given) -> Column:
    column = given.columns[0]
    if isinstance(column, Numbers):
        column = Numbers(column.values.astype(np.float64), column.missing)
    elif isinstance(column, Ragged):
        column = Ragged(column.flat.astype(np.float64), column.shapes, column.missing)
    return reduced("SUM", column)


def _numbered(name: str, of: Sequence[object]) -> list[str]:
    return [name.format(number) for number in range(len(of))]


def _ordered(
    columns: Mapping[str, Column], order: Sequence[syntax.Order], best: int | None
) -> NDArray[np.int64]:
    pairs = zip(_numbered(_KEY, order), order, strict=True)
    return ordered([Key(columns[name], key.is_descending, key.nulls) for name, key in pairs], best)


class Split:
    """A query that is answered by tasks.

    Parameters
    ----------
    parameters
        Values of the ``?``.
    engine
        Name of the engine, for errors.

    Raises
    ------
    QueryError
        If the query does not fit the data, or cannot be split; the message then names the clause that needs all rows
        at once.
    """

    def __init__(
        self,
        text: str,
        query: syntax.Query,
        sources: Sources,
        parameters: Sequence[Any],
        watch: Watch,
        ways: Ways,
        engine: str,
    ) -> None:
        self._text, self._query, self._engine, self._watch = text, query, engine, watch
        self._parameters, self._ways = parameters, ways
        body = self._body = self._checked(query)
        dry = Execution(text, sources, parameters, watch, is_dry=True, ways=ways)
        self._expected = dry.run(query)
        self._source = dry.source(body.source, {}, body.at)
        relation = self._source.relation
        if not isinstance(relation, Stored):
            self._refuse("rows of another query's result", body.at)
        self._stored = relation
        self._real = Execution(text, sources, parameters, watch, ways=ways)
        limit = self._limit = limit_of(
            self._real.context, query, self._real.binder(self._source, {}), body.top
        )
        self.best = None if limit.count is None or limit.percent is not None else limit.count + limit.offset
        self.is_grouped = bool(body.group) or any(counts_rows(item.expression) for item in body.items)
        self._aggregates: list[syntax.Call] = []
        self._keys: syntax.Query | None = None
        if self.is_grouped:
            self._plan_groups(body)
        else:
            self._plan_rows(body)

    def _refuse(self, what: str, at: int) -> NoReturn:
        message = (
            f"engine={self._engine!r} does not answer a query with {what}: it filters the rows of one dataset, "
            f"computes columns, and groups them with {', '.join(MERGED)}, or sorts them. Leave engine out to run the "
            "query in this process"
        )
        raise query_error(self._text, at, "unsupported", message)

    def _checked(self, query: syntax.Query) -> syntax.Select:
        """Return the SELECT of a query; refuse clauses that need all rows at once."""
        body = query.body
        if not isinstance(body, syntax.Select):
            self._refuse("UNION, INTERSECT or EXCEPT, or one in brackets", query.at)
        clauses = {
            "WITH": query.tables,
            "ARRANGE BY": query.arrange,
            "SAMPLE BY": query.sample,
            "EXPAND BY": body.expand,
            "UNGROUP BY": body.ungroup,
            "DISTINCT": body.is_distinct,
            "several sources, or one that is a query": not isinstance(body.source, syntax.Path | None),
        }
        for clause, is_there in clauses.items():
            if is_there:
                self._refuse(clause, body.at)
        for part in syntax.parts((body, query.order)):
            if isinstance(part, syntax.Query):
                self._refuse("another query in it", part.at)
            if isinstance(part, syntax.Call) and part.name.upper() in _PLACED:
                self._refuse(f"{part.name.upper()}, which needs more than the row itself", part.at)
        return body

    # -- the queries of tasks --------------------------------------------------------------------------------------

    def _plan_rows(self, body: syntax.Select) -> None:
        aliases = {item.alias: item.expression for item in body.items if item.alias}

        def meaning(node: object) -> object:
            if not isinstance(node, syntax.Name) or node.table is not None or node.column not in aliases:
                return None
            return None if self._source.names.find(None, node.column) else aliases[node.column]

        self._order = self._query.order
        keys = [
            syntax.Item(_changed(key.expression, meaning), None, None, (), body.at) for key in self._order
        ]
        named = [replace(key, alias=name) for key, name in zip(keys, _numbered(_KEY, keys), strict=True)]
        limit = None
        if self.best is not None and not self._order:
            limit = syntax.Limit(syntax.Literal(self.best, body.at), False, None, body.at)
        asked = replace(body, items=(*body.items, *named), top=None)
        self._asked = syntax.Query(asked, limit=limit, at=self._query.at)

    def _plan_groups(self, body: syntax.Select) -> None:
        order = self._query.order
        self._is_late = orders_groups(body, self._query, self._source)
        if not self._is_late and (
            self.best is not None or self._limit.percent is not None or self._limit.offset
        ):
            self._refuse("LIMIT of the rows before GROUP BY: sort by a column of the result", body.at)
        bare = [syntax.key_of_groups(key) for key in body.group]

        # A part of a missing result is an empty array.
        parted = {told for told in bare if told is not None and told[0] is not syntax.Name}

        def own(node: object) -> object:
            """Return the column of an answer that stands for a key or an aggregate."""
            if isinstance(node, syntax.Expression) and syntax.bare(node) in bare:
                return syntax.Name(None, _KEY.format(bare.index(syntax.bare(node))), node.at)
            if isinstance(node, syntax.Subscript) and syntax.bare(node.base) in parted:
                self._refuse("a part of an expression in a group", node.at)
            if isinstance(node, syntax.Call) and not node.is_star and node.name.upper() in MERGED:
                return syntax.Name(None, self._aggregate(node), node.at)
            return None

        names = self._expected.names
        if any(item.expression is None for item in body.items):
            self._refuse("GROUP BY and *, which collects the rows of groups", body.at)
        self._outputs = tuple(
            replace(item, expression=_changed(item.expression, own), alias=name)
            for item, name in zip(body.items, names, strict=True)
        )
        self._having = _changed(body.having, own)
        changed = [replace(key, expression=_changed(key.expression, own)) for key in order]
        self._aliases = {
            item.alias: item.expression
            for item in self._outputs
            if item.alias and item.expression is not None and not self._source.names.find(None, item.alias)
        }
        self._check_left([item.expression for item in self._outputs], ())
        self._check_left([self._having, *(key.expression for key in changed)], self._aliases)
        self._order = tuple(changed)
        places = [key.expression.column for key in changed if isinstance(key.expression, syntax.Name)]
        if not self._is_late and order:
            keyed = set(_numbered(_KEY, body.group))
            is_total = set(places) >= keyed
            if (
                len(places) < len(order)
                or not keyed.issuperset(places)
                or (order[-1].is_descending and not is_total)
            ):
                self._refuse("ORDER BY of rows before GROUP BY: sort by a column of the result", body.at)
        items = [*self._aggregates, syntax.Call("COUNT", (), False, True, body.at)]
        aliases = [*_numbered(_AGGREGATE, self._aggregates), _ROWS]
        made = tuple(syntax.Item(i, a, None, (), body.at) for i, a in zip(items, aliases, strict=True))
        self._asked = syntax.Query(replace(body, items=made, having=None, top=None), at=self._query.at)
        pairs = zip(body.group, _numbered(_KEY, body.group), strict=True)
        keys = tuple(syntax.Item(key, name, None, (), body.at) for key, name in pairs)
        plain = replace(body, items=keys, where=None, group=(), having=None, top=None)
        self._keys = syntax.Query(plain, at=self._query.at)

    def _aggregate(self, node: syntax.Call) -> str:
        """Return the column of an aggregate."""
        if node.is_distinct or len(node.arguments) != 1:
            self._refuse(f"{node.name.upper()} of distinct values or along an axis", node.at)
        if not syntax.operators(node.arguments).isdisjoint(("?", "||")):
            self._refuse(f"{node.name.upper()} of anything but a column and arithmetic with it", node.at)
        if node.name.upper() not in ("SUM", "ANY") and not syntax.operators(node.arguments) <= syntax.NUMERIC:
            # Whether a comparison with a missing value is false or has no result depends on the other rows.
            self._refuse(f"{node.name.upper()} of a comparison", node.at)
        for one in (node, _count_of(node)):
            if syntax.bare(one) not in map(syntax.bare, self._aggregates):
                self._aggregates.append(one)
        return _AGGREGATE.format(self._number(node))

    def _number(self, node: syntax.Call) -> int:
        return [syntax.bare(other) for other in self._aggregates].index(syntax.bare(node))

    def _check_left(self, nodes: Sequence[object], known: Any) -> None:
        for part in syntax.parts(tuple(nodes)):
            if isinstance(part, syntax.Name) and not part.column.startswith(" ") and part.column not in known:
                self._refuse(f"all values of {part.column!r} in a group", part.at)

    def job(self) -> Job:
        """Return the query in the form in which other processes answer it."""
        order = () if self.is_grouped else self._order
        ways = Ways(is_exact=True, space=self._ways.space)  # an index would rank all rows, for each task
        limits = replace(self._watch.limits, seconds=self._watch.left)
        parts = syntax.parts((self._body, self._query.order))
        called = {part.name.upper() for part in parts if isinstance(part, syntax.Call)}
        return Job(
            self._text,
            self._table(),
            self._asked,
            self._keys,
            order,
            self.best,
            self.best is not None or self._limit.percent is not None,
            self._parameters,
            limits,
            ways,
            {name: function for name, function in ADDED.items() if name in called},
        )

    def _table(self) -> Table:
        """Return the rows and the columns that the query reads."""
        table = self._stored.as_table()
        asked = syntax.columns_of(self._query)
        named = [n for n in table.names if asked is None or n in asked or n.split("/")[-1] in asked]
        return table.only(named) if named else table

    def runs(self, count: int, most_bytes: int) -> list[tuple[int, int]]:
        """Return about `count` runs of rows, or more of at most `most_bytes` each, cut at the ends of chunks."""
        table = self._table()
        count = max(count, int(len(table) * bytes_of_row(table) / most_bytes))
        return windows(table, count) or [(0, 0)]

    # -- the answers of tasks --------------------------------------------------------------------------------------

    def is_enough(self, count: int) -> bool:
        """Return whether the first tasks, which found `count` rows, found all that LIMIT leaves."""
        return not self.is_grouped and not self._order and self.best is not None and count >= self.best

    def merged(self, parts: Sequence[Part]) -> Relation:
        """Return the answer to the query from the answers of its tasks, in their order."""
        with ticking(self._watch.tick), self._watch.waiting():
            found = self._merged_groups(parts) if self.is_grouped else self._merged_rows(parts)
        self._watch.result(len(found))
        return found

    def _merged_rows(self, parts: Sequence[Part]) -> Relation:
        rows = np.concatenate([part.rows for part in parts])
        computed = [name for name in parts[0].columns if all(name in part.columns for part in parts)]
        columns = {name: concatenated([part.columns[name] for part in parts]) for name in computed}
        self._watch.hold(rows.nbytes)
        if self._order:
            places = _ordered(columns, self._order, self.best)
            rows = rows[places]
            columns = {name: take(column, places) for name, column in columns.items()}
        expected = self._expected
        if not isinstance(expected, Projected):
            table = expected.table if isinstance(expected, Stored) else self._stored.table
            found: Relation = Stored(table, rows)
        else:
            outputs = {
                name: _held(columns[name], node) if name in columns else node
                for name, node in expected.outputs.items()
            }
            found = Projected(Stored(self._stored.table, rows), outputs)
        return cut(self._real.context, found, self._limit)

    def _merged_groups(self, parts: Sequence[Part]) -> Relation:
        keys = _numbered(_KEY, self._body.group)
        if not keys:  # a task without rows has one group, too
            parts = [part for part in parts if weights_of(part.columns[_ROWS])[0]] or parts[:1]
        columns = {name: concatenated([part.columns[name] for part in parts]) for name in parts[0].columns}
        count = len(columns[_ROWS])
        numbers = [codes(columns[name], refuse_arrays=True) for name in keys]
        members, ends = groups(joined(numbers)) if keys else (np.arange(count), np.array([0, count]))
        firsts = {name: take(columns[name], members[ends[:-1]]) for name in keys}
        if not self._is_late and self._order:
            named = {_KEY.format(n): firsts[key.expression.column] for n, key in enumerate(self._order)}  # type: ignore[union-attr]
            members, ends, places = _reordered(members, ends, _ordered(named, self._order, None))
            firsts = {name: take(column, places) for name, column in firsts.items()}
        binder = self._real.binder(self._source, {})
        infos = [binder.bind(key).info for key in self._body.group]
        told = [
            info.grouped(is_key=isinstance(key, syntax.Name))
            for key, info in zip(self._body.group, infos, strict=True)
        ]
        pairs = zip(_numbered(_AGGREGATE, self._aggregates), self._aggregates, strict=True)
        values = {
            name: (
                _merge(
                    columns, number, MERGED[node.name.upper()], *self._of_values(node, columns, members, ends)
                ),
                self._info(node),
            )
            for number, (name, node) in enumerate(pairs)
        }
        sizes = np.add.reduceat(weights_of(columns[_ROWS]).astype(np.int64)[members], ends[:-1])
        made = _Groups(
            sizes, {name: (firsts[name], info) for name, info in zip(keys, told, strict=True)}, values
        )
        return self._outputs_of(made)

    def _of_values(
        self,
        node: syntax.Call,
        columns: Mapping[str, Column],
        members: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the members of groups whose partial results count: those of values, or one if a group has none.

        ALL_STRICT of nothing is false, and is no part of that of a whole group.
        """
        if not syntax.operators(node.arguments) <= syntax.NUMERIC:
            return members, ends  # false where a value is missing
        counts = columns[_AGGREGATE.format(self._number(_count_of(node)))]
        kept = weights_of(counts)[members] > 0
        kept[ends[:-1][~np.logical_or.reduceat(kept, ends[:-1])]] = True
        return members[kept], np.concatenate([[0], np.add.reduceat(kept, ends[:-1], dtype=np.int64).cumsum()])

    def _info(self, node: syntax.Call) -> Info:
        names = Names(
            (replace(e, told=e.info.grouped()) for e in self._source.names.entries), self._source.names.stored
        )
        grouped = From(self._stored, names)
        return self._real.binder(grouped, {}, is_grouped=True).bind(node).info

    def _outputs_of(self, made: Relation) -> Relation:
        """Return the result of HAVING, ORDER BY, LIMIT and SELECT on merged groups."""
        context, query = self._real.context, replace(self._query, order=self._order)
        source = From(made, Names.of(made))

        def binder(of: From) -> Any:
            bound = self._real.binder(of, {}, is_grouped=True)
            bound.aliases = dict(self._aliases)
            return bound

        if self._having is not None:
            condition = Condition.of(binder(source).bind(self._having))
            source = From(filtered(context, made, condition, None), source.names)
        if self._is_late:
            keys = [syntax.Name(None, name, 0) for name in _numbered(_KEY, self._body.group)]
            query = by_keys(query, self._outputs, keys, source)
            source = arranged(context, source, query, binder(source), self._limit)
        return Outputs(self._text, binder(source), source).relation(self._outputs)


def _changed(node: Any, found: Callable[[object], object]) -> Any:
    """Return an expression in which a function has replaced parts; the function returns None for other parts."""
    if isinstance(node, tuple):
        return tuple(_changed(part, found) for part in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    new = found(node)
    if new is not None:
        return new
    return replace(node, **{part.name: _changed(getattr(node, part.name), found) for part in fields(node)})


def _count_of(node: syntax.Call) -> syntax.Call:
    """Return the number of values of the column that an aggregate reads."""
    name = next(part for part in syntax.parts(node.arguments) if isinstance(part, syntax.Name))
    return syntax.Call("COUNT", (name,), False, False, node.at)


def _held(column: Column, node: Bound) -> Bound:
    """Return an expression whose values were computed by tasks."""

    def compute(given: Given) -> Column:
        (places,) = given.columns
        return take(column, places.values) if isinstance(places, Numbers) else places

    return Apply("COMPUTED", compute, (RowNumber(),), node.info, 0)


def _reordered(
    members: NDArray[np.int64], ends: NDArray[np.int64], places: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the members of groups in another order of the groups, and that order."""
    runs = [members[ends[place] : ends[place + 1]] for place in places]
    stops = np.cumsum([0, *map(len, runs)])
    return np.concatenate([members[:0], *runs]), stops, places


def _merge(
    columns: Mapping[str, Column],
    number: int,
    how: str,
    members: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> Column:
    """Merge the partial results of an aggregate."""
    column = columns[_AGGREGATE.format(number)]
    if how != "AVG":
        return reduced(how, stacked(take(column, members), np.diff(ends)))
    weights = [weights_of(columns[key.format(number)])[members] for key in (_TOTAL, _VALUES)]
    dtype = column.values.dtype if isinstance(column, Numbers) else np.dtype(np.float64)
    with np.errstate(all="ignore"):
        totals, sizes = (np.add.reduceat(each, ends[:-1]) for each in weights)
        means = (totals / sizes).astype(dtype)
    return Numbers(means, sizes == 0 if (sizes == 0).any() else None)


class _Groups(Relation):
    """Groups whose rows stay with the tasks: their sizes, keys and aggregates.

    A key has a value for each row of the group, as in `Grouped`.
    """

    def __init__(
        self, sizes: NDArray[np.int64], keys: Mapping[str, Column_], values: Mapping[str, Column_]
    ) -> None:
        self._sizes, self._keys, self._values = sizes, keys, values
        self.infos = {name: info for name, (_, info) in {**keys, **values}.items()}

    def __len__(self) -> int:
        return len(self._sizes)

    def read(self, name: str, places: Rows) -> Column:
        """Return rows of a column by position."""
        at = np.asarray(places, np.int64)
        if name == COUNT_ALL:
            return Numbers(self._sizes[at])
        if name in self._values:
            return take(self._values[name][0], at)
        sizes = self._sizes[at]
        return stacked(take(self._keys[name][0], np.repeat(at, sizes)), sizes)
