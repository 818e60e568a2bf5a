"""Binding of expressions: names to columns, class names to numbers, constants to values; types are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lakebed.query.binding import domains
from lakebed.query.binding.calls import applied, call, cases, weights
from lakebed.query.binding.comparing import SIGNS, among, between, compared, like
from lakebed.query.binding.constants import array_value, constant
from lakebed.query.binding.context import Context
from lakebed.query.binding.outer import Inner, one_value
from lakebed.query.functions import casts, dates
from lakebed.query.functions.text import JOINED
from lakebed.query.language import syntax
from lakebed.query.language.errors import near, placed
from lakebed.query.language.parameters import shown
from lakebed.query.relations.bound import Bound, Logic, Missing, Not, Unknown, Value
from lakebed.query.values.columns import Column
from lakebed.query.values.elementwise import arithmetic, negative
from lakebed.query.values.info import ANY, FLAG, JSON, NUMBER, TEXT, Given, Info
from lakebed.query.values.subscripts import subscript

_PROPERTIES = {
    "shape": "SHAPE",
    "size": "COUNT",
    "mean": "AVG",
    "min": "AMIN",
    "max": "AMAX",
    "any": "ANY",
    "all": "ALL",
}
"""Name of a tensor's property in filters of Deep Lake 3.x -> the function that computes it."""


class Binder(Context):
    """Binds the expressions of one query to one relation."""

    def bind(self, node: syntax.Expression) -> Bound:
        """Return an expression over columns.

        Raises
        ------
        QueryError
            If a name is unknown, or types do not fit.
        """
        return _BINDERS[type(node)](self, node)

    # -- names -----------------------------------------------------------------------------------------------------

    def name(self, node: syntax.Name) -> Bound:
        """Return the column, alias or property that a name means."""
        if node.table is None:
            if not self.names.find(None, node.column) and node.column in self.aliases:
                # Remove the alias while its expression is bound, because the expression may not use its own alias.
                meaning = self.aliases.pop(node.column)
                try:
                    return self.bind(meaning)
                finally:
                    self.aliases[node.column] = meaning
            return self._column(node)
        if node.table not in self.names.tables:
            inside = f"{node.table}/{node.column}"
            if self.names.find(None, inside):
                return self.names.one(self.text, node.at, None, inside)
            function = _PROPERTIES.get(node.column)
            if function is not None and self.names.find(None, node.table):
                column = syntax.Name(None, node.table, node.at)
                return self.bind(syntax.Call(function, (column,), False, False, node.at))
        return self._column(node)

    def _column(self, node: syntax.Name) -> Bound:
        """Return a column of the relation, or else of the outer query."""
        if self.outer is not None and not self.names.find(node.table, node.column):
            is_own = node.table is not None and node.table in self.names.tables
            found = None if is_own else self.outer(node)
            if found is not None:
                return found
        clause = self.later.get(node.column) if node.table is None else None
        if clause is not None and not self.names.find(None, node.column):
            raise self.error(
                node.at,
                "unknown_column",
                f"{node.column!r} is computed by SELECT, after {clause}: write its expression there, or put the "
                "SELECT into brackets after FROM",
            )
        return self.names.one(self.text, node.at, node.table, node.column)

    def parameter(self, node: syntax.Parameter) -> Bound:
        """Return the value of a parameter."""
        if self.parameters is None:
            return Unknown()
        count = len(self.parameters)
        if node.number >= count:
            message = f"this ? is number {node.number + 1}, and {count} values were given"
            raise self.error(node.at, "arity", message)
        try:
            return constant(self.parameters[node.number])
        except TypeError as error:
            raise self.error(node.at, "type", f"{shown(node)}: {error}") from None

    # -- operators -------------------------------------------------------------------------------------------------

    def unary(self, node: syntax.Unary) -> Bound:
        """Return ``-x`` or ``NOT x``."""
        operand = self.bind(node.operand)
        if node.operator == "not":
            return self.folded(Not(operand))
        self._check_number(operand, node.at, "-")
        return self.apply("-", lambda given: negative(given.columns[0]), (operand,), NUMBER, node.at)

    def binary(self, node: syntax.Binary) -> Bound:
        """Return a comparison, sum or other operation on two operands."""
        left, right = self.bind(node.left), self.bind(node.right)
        sign = node.operator
        if sign in SIGNS:
            return compared(self, sign, left, right, node.at)
        if sign == "||":
            return self.apply("||", JOINED.compute, (left, right), TEXT, node.at, 1.0)
        self._check_number(left, node.at, sign)
        self._check_number(right, node.at, sign)
        ranks = left.info.rank, right.info.rank
        rank = None if ranks[0] is None or ranks[1] is None else max(ranks[0], ranks[1])
        if sign in ("+", "-"):
            left, right = (self.folded(side) for side in domains.in_one_unit((left, right), node.at))
        info = Info("array", None, rank)
        return self.apply(sign, lambda given: arithmetic(sign, *given.columns), (left, right), info, node.at)

    def _check_number(self, node: Bound, at: int, sign: str) -> None:
        if node.info.kind == "text" or (isinstance(node, Value) and isinstance(node.value, str)):
            raise self.error(at, "type", f"{sign} needs numbers, not text; || joins texts")

    def case(self, node: syntax.Case) -> Bound:
        """Return ``CASE``."""
        branches: list[tuple[Bound | None, Bound]] = []
        operand = None if node.operand is None else self.bind(node.operand)
        for condition, value in node.branches:
            told = self.bind(condition)
            if operand is not None:
                told = compared(self, "=", operand, told, node.at)
            branches.append((told, self.bind(value)))
        branches.append((None, Value(None, ANY) if node.otherwise is None else self.bind(node.otherwise)))
        return cases(self, branches, node.at)

    def cast(self, node: syntax.Cast) -> Bound:
        """Return ``CAST``."""
        try:
            function = casts.cast(node.type_name)
        except KeyError:
            hint = near(node.type_name, casts.TYPES)
            raise self.error(node.at, "type", f"there is no type {node.type_name!r}{hint}") from None
        return applied(self, function, (self.bind(node.operand),), node.at)

    def extract(self, node: syntax.Extract) -> Bound:
        """Return ``EXTRACT``."""
        operand = self.bind(node.operand)
        with placed(self.text, node.at):
            unit = dates.unit_of(node.unit)

        def compute(given: Given) -> Column:
            return dates.part(unit, given.columns[0], given.infos[0])

        return self.apply("EXTRACT", compute, (operand,), NUMBER, node.at, 2.0)

    def nested(self, node: syntax.Nested) -> Bound:
        """Return a subquery that is used as a value, or EXISTS."""
        inner = Inner(self, node.query)
        info = FLAG if node.is_exists else inner.one_column(node.at, "a subquery used as a value has")
        if self.is_dry:
            return Unknown(info)
        if not inner.is_alone:
            return inner.exists(node.at) if node.is_exists else inner.value(info, node.at)
        relation = inner.whole()
        if node.is_exists:
            return Value(len(relation) > 0, FLAG)
        with placed(self.text, node.at):
            value = one_value(relation)
        info = ANY if value is None else relation.infos[relation.names[0]]
        return Value(value, info, is_read=True)

    # -- subscripts and arrays -------------------------------------------------------------------------------------

    def subscripted(
        self, base: Bound, items: Sequence[syntax.Expression | syntax.Slice | syntax.Dots], at: int
    ) -> Bound:
        """Return ``base[items]``: a part of each sample of an expression."""
        parts = [self._part(item) for item in items]
        dynamic = tuple(part for part in parts if isinstance(part, Bound))
        count = sum(1 for part in parts if part is not Ellipsis)
        rank = base.info.rank
        if base.info.kind == "array" and rank is not None and count > rank:
            raise self.error(at, "rank", f"{count} indices for samples of {rank} axes")
        if base.info.kind == "array" and any(isinstance(part, str) for part in parts):
            raise self.error(at, "type", "an array has no keys; a text in brackets is a key of a JSON value")

        def compute(given: Given) -> Column:
            columns = iter(given.columns[1:])
            return subscript(given.columns[0], [next(columns) if isinstance(p, Bound) else p for p in parts])

        return self.apply("[]", compute, (base, *dynamic), _part_info(base.info, parts), at)

    def _part(self, item: syntax.Expression | syntax.Slice | syntax.Dots) -> Any:
        if isinstance(item, syntax.Dots):
            return Ellipsis
        if isinstance(item, syntax.Slice):
            ends = [None if end is None else self._whole(end) for end in (item.start, item.stop, item.step)]
            if ends[2] == 0:
                raise self.error(item.at, "index", "the step of a slice must not be 0")
            return slice(*ends)
        bound = self.bind(item)
        return bound.value if isinstance(bound, Value) and type(bound.value) in (int, str) else bound

    def _whole(self, node: syntax.Expression) -> int:
        bound = self.bind(node)
        if isinstance(bound, Unknown) and self.is_dry:
            return 1
        if not isinstance(bound, Value) or type(bound.value) is not int:
            raise self.error(node.at, "type", "the ends of a slice are whole numbers, the same for all rows")
        return bound.value

    def array(self, node: syntax.Array) -> Bound:
        """Return an array literal."""
        items = [self.bind(item) for item in node.items]
        if not all(isinstance(item, Value | Unknown) for item in items):
            raise self.error(node.at, "type", "an array literal holds constants, not columns")
        values = [item.value for item in items if isinstance(item, Value)]
        if len(values) < len(items):
            return Unknown()
        if values and all(isinstance(value, str) for value in values):
            return Value(values, JSON)
        try:
            return array_value(values)
        except (ValueError, TypeError) as error:
            message = f"the items of an array must be numbers of equal shape: {error}"
            raise self.error(node.at, "type", message) from None


def _part_info(info: Info, parts: Sequence[Any]) -> Info:
    """Return the properties of ``sample[parts]`` from the properties of the samples."""
    if info.kind != "array":
        return TEXT if info.kind == "text" else ANY
    rank = info.rank
    if rank is not None:
        is_dynamic = any(isinstance(part, Bound) for part in parts)
        rank = None if is_dynamic else rank - sum(type(part) is int for part in parts)
    return Info("array", info.dtype, rank, info.class_names, info.htype, info.coords, info.unit, info.logical)


def _is_null(binder: Binder, node: syntax.IsNull) -> Bound:
    found = Missing(binder.bind(node.operand))
    return Not(found) if node.is_negated else found


_BINDERS: Mapping[type, Callable[[Binder, Any], Bound]] = {
    syntax.Literal: lambda _, node: constant(node.value),
    syntax.Name: Binder.name,
    syntax.Parameter: Binder.parameter,
    syntax.Logical: lambda binder, node: Logic(node.operator, tuple(map(binder.bind, node.operands))),
    syntax.Binary: Binder.binary,
    syntax.Unary: Binder.unary,
    syntax.Subscript: lambda binder, node: binder.subscripted(binder.bind(node.base), node.items, node.at),
    syntax.Call: call,
    syntax.Array: Binder.array,
    syntax.In: among,
    syntax.Between: between,
    syntax.Like: like,
    syntax.IsNull: _is_null,
    syntax.Case: Binder.case,
    syntax.Cast: Binder.cast,
    syntax.Extract: Binder.extract,
    syntax.Weights: weights,
    syntax.Nested: Binder.nested,
}
"""Syntax -> its binder."""
