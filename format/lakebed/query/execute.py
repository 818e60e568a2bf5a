"""Answers queries: sources, conditions, order, groups, and what is computed, one relation made of another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed import random
from lakebed.errors import LakebedError, QueryError
from lakebed.query import pruning, syntax
from lakebed.query.binding import Binder
from lakebed.query.bound import Apply, Bound, Input, Logic, Value, inputs
from lakebed.query.columns import Column, concatenated
from lakebed.query.errors import query_error
from lakebed.query.evaluate import Scope, evaluate, is_true, located
from lakebed.query.functions.numeric import weights_of
from lakebed.query.joins import From, join
from lakebed.query.keys import codes, firsts, groups, joined
from lakebed.query.limits import Watch, Ways
from lakebed.query.names import Names
from lakebed.query.ordering import Key, ordered
from lakebed.query.outputs import Outputs
from lakebed.query.plan import conjuncts, described, reads
from lakebed.query.relation import Grouped, Relation, Stored
from lakebed.query.sampling import drawn
from lakebed.query.sets import combined
from lakebed.query.unpack import ungrouped

if TYPE_CHECKING:
    from lakebed.query.indexes.search import Order
    from lakebed.session.table import Table

Rows = NDArray[np.int64]
SEARCHED = ("BM25_SIMILARITY", "RRF", "COSINE_SIMILARITY", "DOT", "L2_DISTANCE")
"""Functions whose order may be found otherwise than by computing them for all rows."""

Open = Callable[[str, str | None], "Table"]
"""Opens a dataset by its address and a version."""

Differing = Callable[["Table", str, str], tuple["Table", Rows]]
"""Returns the table of the second version, and the rows that the first lacks or has otherwise."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a query finds datasets.

    Attributes
    ----------
    implicit
        What a query without FROM asks; None if it needs one.
    """

    implicit: Table | None
    open: Open
    differing: Differing


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
        Values of the ``?``.
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
        parameters: Sequence[Any],
        watch: Watch,
        *,
        is_dry: bool = False,
        is_told: bool = False,
        ways: Ways | None = None,
    ) -> None:
        self.text = text
        self.ways = ways or Ways()
        self.sources = sources
        self.parameters = parameters
        self.watch = watch
        self.is_dry = is_dry
        self.is_told = is_told
        self.steps: list[tuple[int, str]] = []
        self._depth = 0
        self._opened: dict[tuple[str, str | None], Relation] = {}

    def run(self, query: syntax.Query, outer: _Tables | None = None) -> Relation:
        """Answer a query.

        Raises
        ------
        QueryError
            If it does not fit the data, or a limit is reached.
        """
        tables = _Tables(dict(outer.queries), dict(outer.found)) if outer is not None else _Tables()
        for name, inner in query.tables:
            tables.found[name] = self.run(inner, tables)
        self._depth += 1
        body = query.body
        if isinstance(body, syntax.Select):
            found = self._select(body, query, tables)
        else:
            found = self.run(body, tables) if isinstance(body, syntax.Query) else self._combined(body, tables)
            found = self._finished(found, query, tables)
        self._depth -= 1
        return found

    def note(self, text: str) -> None:
        """Note a step, for an explanation."""
        self.steps.append((self._depth, text))

    def binder(
        self, source: From, tables: _Tables, *, is_grouped: bool = False, whole: Relation | None = None
    ) -> Binder:
        """Return what binds expressions to a source; DATA reads all of its rows, `whole`."""
        return Binder(
            self.text,
            source.names,
            source.relation if whole is None else whole,
            self.parameters,
            lambda query: self.run(query, tables),
            is_grouped=is_grouped,
            space=self.ways.space,
        )

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, node: syntax.Select, query: syntax.Query, tables: _Tables) -> Relation:
        source = self._source(node.source, tables, node.at)
        binder = self.binder(source, tables)
        binder.aliases = {i.alias: i.expression for i in node.items if i.alias and i.expression is not None}
        counts_all = any(_counts_rows(item.expression) for item in node.items)
        is_grouped = bool(node.group) or counts_all
        late = is_grouped and self._orders_groups(node, query, source)
        limit = self._limit(query, binder, node.top)
        is_plain = not (
            query.order or query.arrange or query.sample or is_grouped or node.expand or node.is_distinct
        )
        wanted = limit[0] if is_plain and node.ungroup is None and not limit[2] else None
        relation = source.relation
        if node.where is not None:
            # Aliases may not be used here: they name what is computed of the rows that this leaves.
            inner = self.binder(source, tables)
            relation = self._filtered(
                relation, inner.bind(node.where), limit[1] + wanted if wanted is not None else None
            )
        expanded = None
        if node.expand is not None:
            relation, expanded = self._expanded(source.relation, relation, node.expand)
        whole = source.relation
        source = From(relation, source.names)
        if not late:
            source = self._in_order(source, query, binder)
            if not node.is_distinct:
                source = From(self._cut(source.relation, limit), source.names)
            source = self._arranged(source, query, binder)
            source = self._sampled(source, query, binder)
        return self._projected(node, query, source, tables, whole, is_grouped, late, limit, expanded)

    def _projected(
        self,
        node: syntax.Select,
        query: syntax.Query,
        source: From,
        tables: _Tables,
        whole: Relation,
        is_grouped: bool,
        late: bool,
        limit: tuple[int | None, int, float | None],
        expanded: Rows | None,
    ) -> Relation:
        """Group rows, take groups apart, and compute what is behind SELECT."""
        if is_grouped:
            source = self._grouped(source, node, tables)
        if node.ungroup is not None:
            source = self._ungrouped(source, node.ungroup, tables)
        is_same = not is_grouped and node.ungroup is None
        binder = self.binder(source, tables, is_grouped=is_grouped, whole=whole if is_same else None)
        outputs = Outputs(self.text, binder, source)
        if expanded is not None and node.expand is not None and node.expand.alias is not None:
            outputs.add_numbers(node.expand.alias, expanded)
        if late:
            binder.aliases = {
                i.alias: i.expression for i in node.items if i.alias and i.expression is not None
            }
            source = self._in_order(source, query, binder)
            source = From(self._cut(source.relation, limit), source.names)
            source = self._arranged(source, query, binder)
            source = self._sampled(source, query, binder)
            binder = self.binder(source, tables, is_grouped=True)
            outputs = Outputs(self.text, binder, source)
        found = outputs.relation(node.items)
        if node.is_distinct:
            found = self._distinct(found, node, source, binder)
            found = self._cut(found, limit)
        return found

    def _orders_groups(self, node: syntax.Select, query: syntax.Query, source: From) -> bool:
        """Whether ORDER BY is said of groups: by what SELECT names, or by COUNT(*)."""
        aliases = {item.alias for item in node.items if item.alias}
        return any(
            _counts_rows(key.expression)
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
            if self.sources.implicit is None:
                raise query_error(self.text, at, "unknown_source", 'the query needs FROM "path/of/a/dataset"')
            relation = self._opened.get(("", None))
            if relation is None:
                relation = self._opened["", None] = Stored(self.sources.implicit)
            if self.is_told:
                self.note(f"the dataset, {len(relation):,} rows")
            return From(relation, Names.of(relation))
        if isinstance(node, syntax.Join):
            left, right = self._source(node.left, tables, at), self._source(node.right, tables, at)
            found = join(self.text, node, left, right, lambda s: self.binder(s, tables), self.watch.hold)
            self.note(f"{node.kind} join, {len(found.relation):,} rows")
            return found
        if isinstance(node, syntax.Derived):
            relation = self.run(node.query, tables)
            return From(relation, Names.of(relation, node.alias))
        if isinstance(node, syntax.Difference):
            return self._difference(node)
        relation = self._dataset(node, tables)
        name = node.alias or (None if node.is_quoted and "/" in node.path else node.path)
        return From(relation, Names.of(relation, name))

    def _dataset(self, node: syntax.Path, tables: _Tables) -> Relation:
        if node.version is None and node.path in tables.found:
            return tables.found[node.path]
        key = node.path, node.version
        found = self._opened.get(key)
        if found is None:
            try:
                found = Stored(self.sources.open(node.path, node.version))
            except QueryError:
                raise
            except (LakebedError, OSError, ValueError) as error:
                raise query_error(
                    self.text, node.at, "unknown_source", f"{node.path!r} cannot be read: {error}"
                ) from error
            self._opened[key] = found
        self.note(f"dataset {node.path}{'@' + node.version if node.version else ''}, {len(found):,} rows")
        return found

    def _difference(self, node: syntax.Difference) -> From:
        table = self.sources.implicit if node.path is None else self.sources.open(node.path, None)
        if table is None:
            raise query_error(
                self.text, node.at, "unknown_source", "DIFF needs a dataset: DIFF(\"path\", 'a', 'b')"
            )
        try:
            second, rows = self.sources.differing(table, node.first, node.second)
        except LakebedError as error:
            raise query_error(self.text, node.at, "unknown_source", f"DIFF: {error}") from error
        relation = Stored(second).select(rows)
        self.note(f"rows of {node.second} that {node.first} lacks or has otherwise, {len(relation):,} rows")
        return From(relation, Names.of(relation, node.alias))

    # -- WHERE -----------------------------------------------------------------------------------------------------

    def _filtered(self, relation: Relation, condition: Bound, wanted: int | None) -> Relation:
        """Return the rows for which a condition is true; the first `wanted` of them, if that is not None."""
        parts = conjuncts(condition)
        read = reads(*parts)
        names = [name for name, kind in read.items() if kind == "data" and name]
        asked_of = list(dict.fromkeys(name for part in parts for name in pruning.asked_columns(part)))
        if self.is_told:
            told = ", ".join(f"{name}: {kind}" for name, kind in read.items())
            self.note(f"where {' and then '.join(map(described, parts))} (reads {told or 'nothing'})")
        if self.is_dry:
            for line in pruning.expected(pruning.kept(relation, parts, asked_of), relation, names):
                self.note(line)
            return relation
        if wanted == 0:
            return relation.select(np.zeros(0, np.int64))
        if all(isinstance(part, Value) for part in parts):
            kept = is_true(condition, Scope(relation, range(len(relation) and 1)))
            return relation if not len(kept) or kept[0] else relation.select(np.zeros(0, np.int64))
        found: list[Rows] = []
        count = asked = 0
        before = pruning.traffic(relation, names) if self.is_told else None
        left = pruning.kept(relation, parts, asked_of)
        all_windows = relation.windows(names, is_soon=wanted is not None)
        for window in pruning.windows(left, relation, all_windows):
            self.watch.tick()
            scope = Scope(relation, window)
            mask = self._asked(parts, relation, scope, window)
            pruning.learn(relation, scope, asked_of, window)
            places = np.flatnonzero(mask)
            if window.start:
                places += window.start
            found.append(places)
            count += len(places)
            asked += len(window)
            self.watch.hold(places.nbytes)
            if wanted is not None and count >= wanted:
                break
        if self.is_told:
            for line in pruning.expected(left, relation, names):
                self.note(line)
            self.note(f"asked of {asked:,} of {len(relation):,} rows, true of {count:,}")
            after = pruning.traffic(relation, names)
            if before is not None and after is not None:
                came = after.since(before)
                self.note(f"{came.requests:,} requests brought {came.nbytes:,} bytes")
        pruning.save(relation, asked_of)
        rows = found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0, np.int64)
        return relation.select(rows if wanted is None else rows[:wanted])

    def _asked(
        self, parts: Sequence[Bound], relation: Relation, scope: Scope, window: range
    ) -> NDArray[np.bool_]:
        node = parts[0] if len(parts) == 1 else Logic("and", tuple(parts))
        try:
            return is_true(node, scope)
        except QueryError as error:
            raise _at_row(error, node, relation, window) from error

    def _expanded(self, whole: Relation, found: Relation, node: syntax.Expand) -> tuple[Relation, Rows]:
        """Add the rows around each that was found; tell how far each lies from it."""
        self.note(f"expand by {node.before} before and {node.after} after")
        rows, all_rows = found.base_rows(), whole.base_rows()
        if rows is None or all_rows is None:
            raise query_error(self.text, node.at, "unsupported", "EXPAND BY needs the rows of one dataset")
        order = np.argsort(all_rows, kind="stable")
        places = order[np.searchsorted(all_rows[order], rows)]
        self.watch.hold(16 * len(places) * (node.before + node.after + 1))
        apart = np.arange(-node.before, node.after + 1)
        around = (places[:, None] + apart).reshape(-1)
        offsets = np.tile(apart, len(places))
        inside = (around >= 0) & (around < len(whole))
        around, offsets = around[inside], offsets[inside]
        if not node.keeps_repeats:
            around, first = np.unique(around, return_index=True)
            offsets = offsets[first]
        return whole.select(around), offsets

    # -- ORDER BY, LIMIT, SAMPLE BY --------------------------------------------------------------------------------

    def _in_order(self, source: From, query: syntax.Query, binder: Binder) -> From:
        if not query.order:
            return source
        keys = [binder.bind(key.expression) for key in query.order]
        told = ", ".join(
            f"{described(k)}{' descending' if o.is_descending else ''}"
            for k, o in zip(keys, query.order, strict=True)
        )
        limit = self._limit(query, binder, None)
        best = None if limit[0] is None or limit[2] or binder.is_grouped else limit[0] + limit[1]
        relation = source.relation
        searched = self._searched(relation, keys, query, best)
        found = searched.rows(is_dry=self.is_dry) if searched is not None else None
        way = f" ({searched.told})" if searched is not None and searched.told else ""
        self.note(f"order by {told}{f', the first {best}' if best is not None else ''}{way}")
        if self.is_dry:
            return source
        if found is not None:
            self.watch.hold(found.nbytes)
            return From(relation.select(found), source.names)
        columns = [self._column(relation, key, is_key=True) for key in keys]
        try:
            rows = ordered(
                [Key(c, o.is_descending, o.nulls) for c, o in zip(columns, query.order, strict=True)], best
            )
        except QueryError as error:
            raise query_error(self.text, query.order[0].expression.at, error.kind, error.message) from error
        return From(relation.select(rows), source.names)

    def _searched(
        self, relation: Relation, keys: Sequence[Bound], query: syntax.Query, best: int | None
    ) -> Order | None:
        """Return the search that one key asks for; None where ORDER BY goes by values alone."""
        key = keys[0]
        if len(keys) != 1 or not isinstance(key, Apply) or key.name not in SEARCHED:
            return None
        from lakebed.query.indexes.search import Order

        order = query.order[0]
        return Order(relation, key, order.is_descending, order.nulls, best, self.ways.is_exact, self._column)

    def _column(self, relation: Relation, node: Bound, *, is_key: bool = False) -> Column:
        """Return an expression over all rows."""
        found: list[Column] = []
        key = node.key if is_key and isinstance(node, Apply) else None
        for window in relation.windows([name for name in inputs(node) if name]):
            self.watch.tick()
            try:
                part = evaluate(node, Scope(relation, window))
                found.append(part if key is None else key(part))
            except QueryError as error:
                raise _at_row(error, node, relation, window) from error
            self.watch.hold(8 * len(window))
        return concatenated(found) if found else evaluate(node, Scope(relation, range(0)))

    def _arranged(self, source: From, query: syntax.Query, binder: Binder) -> From:
        """Put rows with equal keys beside each other; inside each key they keep their order."""
        if not query.arrange:
            return source
        keys = [binder.bind(key) for key in query.arrange]
        self.note(f"arrange by {', '.join(map(described, keys))}")
        if self.is_dry:
            return source
        columns = [self._column(source.relation, key) for key in keys]
        try:
            rows = ordered([Key(column, False, "") for column in columns])
        except QueryError as error:
            raise query_error(self.text, query.arrange[0].at, error.kind, error.message) from error
        return From(source.relation.select(rows), source.names)

    def _limit(
        self, query: syntax.Query, binder: Binder, top: int | None
    ) -> tuple[int | None, int, float | None]:
        """Return how many rows are wanted, how many are left out before them, and the part of all in percent."""
        count: int | None = top
        percent = None
        offset = 0
        if query.limit is not None:
            if query.limit.count is not None:
                number = self._number(query.limit.count, binder, "LIMIT")
                if query.limit.is_percent:
                    percent = float(number)
                else:
                    limit = max(0, int(number))
                    count = limit if count is None else min(count, limit)
            if query.limit.offset is not None:
                offset = max(0, int(self._number(query.limit.offset, binder, "OFFSET")))
        return count, offset, percent

    def _number(self, node: syntax.Expression, binder: Binder, what: str) -> int | float:
        bound = binder.bind(node)
        is_number = isinstance(bound, Value) and isinstance(bound.value, int | float)
        if not is_number or not isinstance(bound, Value) or isinstance(bound.value, bool):
            raise query_error(
                self.text, node.at, "type", f"{what} needs a number that is the same for all rows"
            )
        value: int | float = bound.value
        if value != value or abs(value) > 1 << 62:
            raise query_error(self.text, node.at, "type", f"{what} cannot be {value}")
        return value

    def _cut(self, relation: Relation, limit: tuple[int | None, int, float | None]) -> Relation:
        count, offset, percent = limit
        total = len(relation)
        if percent is not None:
            share = int(np.ceil(total * min(max(percent, 0.0), 100.0) / 100))
            count = share if count is None else min(count, share)
        stop = total if count is None else min(total, offset + count)
        if offset == 0 and stop == total:
            return relation
        self.note(f"limit: rows {min(offset, stop)} to {stop}")
        return relation.select(np.arange(min(offset, stop), stop, dtype=np.int64))

    def _sampled(self, source: From, query: syntax.Query, binder: Binder) -> From:
        node = query.sample
        if node is None:
            return source
        weight = binder.bind(node.weight)
        self.note(f"sample by {described(weight)}")
        relation = source.relation
        if self.is_dry:
            return source
        count = len(relation)
        if node.count is not None:
            number = self._number(node.count, binder, "LIMIT")
            count = round(len(relation) * number / 100) if node.is_percent else int(number)
        seed = None if node.seed is None else int(self._number(node.seed, binder, "SEED"))
        try:
            weights = weights_of(self._column(relation, weight))
            rows = drawn(weights, count, replace=node.replace, seed=_seed() if seed is None else abs(seed))
        except QueryError as error:
            raise query_error(self.text, node.at, error.kind, error.message) from error
        return From(relation.select(rows), source.names)

    # -- groups ----------------------------------------------------------------------------------------------------

    def _grouped(self, source: From, node: syntax.Select, tables: _Tables) -> From:
        relation = source.relation
        binder = self.binder(source, tables)
        keys = [binder.bind(key) for key in node.group]
        self.note(f"group by {', '.join(map(described, keys)) or 'all rows'}")
        if not keys:
            rows = np.arange(len(relation), dtype=np.int64)
            made = Grouped(relation, rows, np.array([0, len(relation)]))
        elif self.is_dry:
            made = Grouped(relation, np.zeros(0, np.int64), np.zeros(1, np.int64))
        else:
            numbers = []
            for key, given in zip(keys, node.group, strict=True):
                try:
                    numbers.append(codes(self._column(relation, key), scalars=True))
                except QueryError as error:
                    raise query_error(self.text, given.at, error.kind, error.message) from error
            made = Grouped(relation, *groups(joined(numbers)))
            self.watch.hold(made.members.nbytes)
        names = Names(
            type(entry)(entry.table, entry.column, entry.name, entry.info.grouped())
            for entry in source.names.entries
        )
        found = From(made, names)
        if node.having is not None and not self.is_dry:
            inner = self.binder(found, tables, is_grouped=True)
            inner.aliases = {
                i.alias: i.expression for i in node.items if i.alias and i.expression is not None
            }
            found = From(self._filtered(made, inner.bind(node.having), None), names)
        return found

    def _ungrouped(self, source: From, node: syntax.Ungroup, tables: _Tables) -> From:
        self.note("ungroup")
        count = None
        if node.count is not None:
            count = int(self._number(node.count, self.binder(source, tables), "UNGROUP BY"))
        try:
            relation = ungrouped(source.relation, count, self.watch)
        except QueryError as error:
            raise query_error(self.text, node.at, error.kind, error.message) from error
        return From(relation, Names.of(relation, None))

    def _distinct(self, found: Relation, node: syntax.Select, source: From, binder: Binder) -> Relation:
        """Return the first of the rows that are equal."""
        self.note("distinct")
        if self.is_dry:
            return found
        if node.distinct_on:
            keys = [self._column(source.relation, binder.bind(key)) for key in node.distinct_on]
        else:
            keys = [self._column(found, Input(name, found.infos[name])) for name in found.names]
        numbers = joined([codes(key, scalars=False) for key in keys])
        return found.select(firsts(numbers))

    # -- UNION, INTERSECT, EXCEPT ----------------------------------------------------------------------------------

    def _combined(self, node: syntax.Combined, tables: _Tables) -> Relation:
        sides = [self._side(side, tables) for side in (node.left, node.right)]
        self.note(node.operator + (" all" if node.keeps_all else ""))
        self.watch.hold(8 * (len(sides[0]) + len(sides[1])))
        try:
            return combined(node.operator, node.keeps_all, sides[0], sides[1])
        except QueryError as error:
            raise query_error(self.text, node.at, error.kind, error.message) from error

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
        source = self._in_order(source, query, binder)
        source = From(self._cut(source.relation, self._limit(query, binder, None)), source.names)
        source = self._arranged(source, query, binder)
        return self._sampled(source, query, binder).relation


def _counts_rows(node: Any) -> bool:
    """Whether an expression counts the rows of groups: COUNT(*) stands in it."""
    if isinstance(node, syntax.Call) and node.is_star:
        return True
    if isinstance(node, syntax.Nested | syntax.Literal) or node is None:
        return False
    if isinstance(node, tuple):
        return any(map(_counts_rows, node))
    names = getattr(node, "__slots__", ())
    return any(_counts_rows(getattr(node, name)) for name in names if name not in ("at", "query"))


def _at_row(error: QueryError, node: Bound, relation: Relation, window: range) -> QueryError:
    """Return an error of a row that names it as the dataset counts it."""
    found = located(error, node, relation, window)
    if found.row is None:
        return found
    rows = relation.base_rows()
    number = found.row if rows is None else int(rows[found.row])
    made = QueryError(f"row {number}: {found.message}", kind=found.kind, row=number)
    made.line, made.column = found.line, found.column
    return made


def _seed() -> int | None:
    return random.get_seed()
