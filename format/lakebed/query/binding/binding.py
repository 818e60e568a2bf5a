"""Names to columns, class names to numbers, constants to their values; types that cannot go together are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakebed.errors import QueryError
from lakebed.query.binding import domains
from lakebed.query.binding.bound import (
    ANY,
    FLAG,
    JSON,
    NUMBER,
    TEXT,
    Bound,
    Given,
    Info,
    Logic,
    Missing,
    Not,
    Unknown,
    Value,
)
from lakebed.query.binding.calls import applied, call, cases, weights
from lakebed.query.binding.comparing import SIGNS, among, between, compared, like
from lakebed.query.binding.constants import array_value, constant
from lakebed.query.binding.context import Context
from lakebed.query.binding.outer import Inner, one_value
from lakebed.query.functions import casts, dates
from lakebed.query.functions.text import JOINED
from lakebed.query.language import syntax
from lakebed.query.language.errors import near
from lakebed.query.language.parameters import shown
from lakebed.query.values.columns import Column
from lakebed.query.values.elementwise import arithmetic, negative
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
"""Properties of tensors in the filters of 3.x -> functions."""


class Binder(Context):
    """Binds the expressions of one query to one relation."""

    # -- expressions -----------------------------------------------------------------------------------------------

    def bind(self, node: syntax.Expression) -> Bound:
        """Return an expression over columns.

        Raises
        ------
        QueryError
            If a name means nothing, or types do not go together.
        """
        if isinstance(node, syntax.Literal):
            return constant(node.value)
        if isinstance(node, syntax.Name):
            return self._name(node)
        if isinstance(node, syntax.Parameter):
            return self._parameter(node)
        if isinstance(node, syntax.Logical):
            return Logic(node.operator, tuple(self.bind(operand) for operand in node.operands))
        if isinstance(node, syntax.Binary):
            return self._binary(node)
        if isinstance(node, syntax.Unary):
            return self._unary(node)
        if isinstance(node, syntax.Subscript):
            return self._subscript(node)
        if isinstance(node, syntax.Call):
            return call(self, node)
        if isinstance(node, syntax.Array):
            return self._array(node)
        return self._rest(node)

    def _rest(self, node: syntax.Expression) -> Bound:
        if isinstance(node, syntax.In):
            return among(self, node)
        if isinstance(node, syntax.Between):
            return between(self, node)
        if isinstance(node, syntax.Like):
            return like(self, node)
        if isinstance(node, syntax.IsNull):
            found: Bound = Missing(self.bind(node.operand))
            return Not(found) if node.is_negated else found
        if isinstance(node, syntax.Case):
            return self._case(node)
        if isinstance(node, syntax.Cast):
            return self._cast(node)
        if isinstance(node, syntax.Extract):
            return self._extract(node)
        if isinstance(node, syntax.Weights):
            return weights(self, node)
        if isinstance(node, syntax.Nested):
            return self._nested(node)
        raise self.error(0, "unsupported", f"{type(node).__name__} cannot stand here")

    def _name(self, node: syntax.Name) -> Bound:
        if node.table is None:
            if not self.names.find(None, node.column) and node.column in self.aliases:
                # What an alias stands for may not name it again.
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
        """Return a column of the relation; what that lacks may be one of the query around this one."""
        if self.outer is not None and not self.names.find(node.table, node.column):
            is_own = node.table is not None and node.table in self.names.tables
            found = None if is_own else self.outer(node)
            if found is not None:
                return found
        clause = self.later.get(node.column) if node.table is None else None
        if clause is not None and not self.names.find(None, node.column):
            told = f"{node.column!r} is what SELECT computes, which {clause} does not know yet"
            advice = "write its expression there, or put the SELECT into brackets behind FROM"
            raise self.error(node.at, "unknown_column", f"{told}: {advice}")
        return self.names.one(self.text, node.at, node.table, node.column)

    def _parameter(self, node: syntax.Parameter) -> Bound:
        if self.parameters is None:
            return Unknown()
        if node.number >= len(self.parameters):
            raise self.error(
                node.at,
                "arity",
                f"there are {len(self.parameters)} parameters, and this ? is number {node.number + 1}",
            )
        try:
            return constant(self.parameters[node.number])
        except TypeError as error:
            raise self.error(node.at, "type", f"{shown(node)}: {error}") from None

    def _unary(self, node: syntax.Unary) -> Bound:
        operand = self.bind(node.operand)
        if node.operator == "not":
            return self.folded(Not(operand))
        self._check_number(operand, node.at, "-")
        return self.apply("-", lambda given: negative(given.columns[0]), (operand,), NUMBER, node.at)

    # -- operators -------------------------------------------------------------------------------------------------

    def _binary(self, node: syntax.Binary) -> Bound:
        left, right = self.bind(node.left), self.bind(node.right)
        sign = node.operator
        if sign in SIGNS:
            return compared(self, sign, left, right, node.at)
        if sign == "||":
            return self.apply("||", JOINED.compute, (left, right), TEXT, node.at, 1.0)
        self._check_number(left, node.at, sign)
        self._check_number(right, node.at, sign)
        rank = (
            None
            if left.info.rank is None or right.info.rank is None
            else max(left.info.rank, right.info.rank)
        )
        if sign in ("+", "-"):
            left, right = (self.folded(side) for side in domains.in_one_unit((left, right), node.at))
        info = Info("array", None, rank)
        return self.apply(sign, lambda given: arithmetic(sign, *given.columns), (left, right), info, node.at)

    def _check_number(self, node: Bound, at: int, sign: str) -> None:
        if node.info.kind == "text" or (isinstance(node, Value) and isinstance(node.value, str)):
            raise self.error(at, "type", f"{sign} needs numbers, not text; || puts texts together")

    def _case(self, node: syntax.Case) -> Bound:
        branches: list[tuple[Bound | None, Bound]] = []
        operand = None if node.operand is None else self.bind(node.operand)
        for condition, value in node.branches:
            told = self.bind(condition)
            if operand is not None:
                told = compared(self, "=", operand, told, node.at)
            branches.append((told, self.bind(value)))
        otherwise = Value(None, ANY) if node.otherwise is None else self.bind(node.otherwise)
        branches.append((None, otherwise))
        return cases(self, branches, node.at)

    def _cast(self, node: syntax.Cast) -> Bound:
        try:
            function = casts.cast(node.type_name)
        except KeyError:
            raise self.error(
                node.at, "type", f"there is no type {node.type_name!r}{near(node.type_name, casts.TYPES)}"
            ) from None
        operand = self.bind(node.operand)
        return applied(self, function, (operand,), node.at)

    def _extract(self, node: syntax.Extract) -> Bound:
        operand = self.bind(node.operand)
        try:
            unit = dates.unit_of(node.unit)
        except QueryError as error:
            raise self.error(node.at, "type", error.message) from None
        return self.apply(
            "EXTRACT",
            lambda given: dates.part(unit, given.columns[0], given.infos[0]),
            (operand,),
            NUMBER,
            node.at,
            2.0,
        )

    def _nested(self, node: syntax.Nested) -> Bound:
        inner = Inner(self, node.query)
        info = FLAG if node.is_exists else inner.one_column(node.at, "a query that stands for a value has")
        if self.is_dry:
            return Unknown(info)
        if not inner.is_alone:
            return inner.exists(node.at) if node.is_exists else inner.value(info, node.at)
        relation = inner.whole()
        if node.is_exists:
            return Value(len(relation) > 0, FLAG)
        try:
            value = one_value(relation)
        except QueryError as error:
            raise self.error(node.at, error.kind, error.message) from error
        info = ANY if value is None else relation.infos[relation.names[0]]
        return Value(value, info, is_read=True)

    # -- subscripts ------------------------------------------------------------------------------------------------

    def _subscript(self, node: syntax.Subscript) -> Bound:
        base = self.bind(node.base)
        return self.subscripted(base, node.items, node.at)

    def subscripted(
        self, base: Bound, items: Sequence[syntax.Expression | syntax.Slice | syntax.Dots], at: int
    ) -> Bound:
        """Return a part of each sample of an expression."""
        parts = [self._part(item) for item in items]
        dynamic = tuple(part for part in parts if isinstance(part, Bound))
        count = sum(1 for part in parts if part is not Ellipsis)
        rank = base.info.rank
        if base.info.kind == "array" and rank is not None and count > rank:
            raise self.error(at, "rank", f"{count} indices for samples of {rank} axes")
        if base.info.kind == "array" and any(isinstance(part, str) for part in parts):
            raise self.error(
                at, "type", "an array has no keys; a text between brackets is a key of a JSON value"
            )

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
                raise self.error(item.at, "index", "the step of a slice is not 0")
            return slice(*ends)
        bound = self.bind(item)
        if isinstance(bound, Value) and type(bound.value) in (int, str):
            return bound.value
        return bound

    def _whole(self, node: syntax.Expression) -> int:
        bound = self.bind(node)
        if isinstance(bound, Unknown) and self.is_dry:
            return 1
        if not isinstance(bound, Value) or type(bound.value) is not int:
            raise self.error(
                _at(node), "type", "the ends of a slice are whole numbers, the same for all rows"
            )
        return bound.value

    # -- functions -------------------------------------------------------------------------------------------------

    def _array(self, node: syntax.Array) -> Bound:
        items = [self.bind(item) for item in node.items]
        if not all(isinstance(item, Value | Unknown) for item in items):
            raise self.error(node.at, "type", "an array literal holds constants, no columns")
        if any(isinstance(item, Unknown) for item in items):
            return Unknown()
        values = [item.value for item in items if isinstance(item, Value)]
        if values and all(isinstance(value, str) for value in values):
            return Value(values, JSON)
        try:
            return array_value(values)
        except (ValueError, TypeError) as error:
            raise self.error(
                node.at, "type", f"the items of an array are numbers of equal shape: {error}"
            ) from None


def _part_info(info: Info, parts: Sequence[Any]) -> Info:
    """Return what is known of a part of each sample."""
    if info.kind != "array":
        return Info("text") if info.kind == "text" else ANY
    rank = info.rank
    if rank is not None:
        rank = (
            None
            if any(isinstance(part, Bound) for part in parts)
            else rank - sum(type(p) is int for p in parts)
        )
    return Info("array", info.dtype, rank, info.class_names, info.htype, info.coords, info.logical)


def _at(node: syntax.Expression) -> int:
    return int(node.at)
