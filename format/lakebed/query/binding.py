"""Names to columns, class names to numbers, constants to their values; types that cannot go together are refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lakebed import random
from lakebed.errors import QueryError
from lakebed.query import syntax
from lakebed.query.bound import (
    ANY,
    COUNT_ALL,
    FLAG,
    JSON,
    NUMBER,
    TEXT,
    TIME,
    Apply,
    Bound,
    Cases,
    Chance,
    Facts,
    Given,
    Info,
    Input,
    Logic,
    Missing,
    Not,
    RowNumber,
    Shape,
    Value,
)
from lakebed.query.columns import Column, row, rows
from lakebed.query.elementwise import arithmetic, compare, negative
from lakebed.query.errors import near, query_error
from lakebed.query.evaluate import folded
from lakebed.query.functions import casts, dates, registry
from lakebed.query.functions.function import Function
from lakebed.query.functions.numeric import count_distinct, max_weight, sum_weight
from lakebed.query.functions.spaces import NUMPY, Space, computing_in
from lakebed.query.functions.text import ILIKE, IN, JOINED, LIKE, matching_classes
from lakebed.query.functions.vectors import DISTANCES, difference
from lakebed.query.names import Names
from lakebed.query.relation import Relation
from lakebed.query.subscripts import subscript

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
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


class Binder:
    """Binds the expressions of one query to one relation.

    Parameters
    ----------
    text
        The query, for errors.
    relation
        What the names are columns of; DATA reads it.
    parameters
        Values of the ``?``.
    run
        Runs a query inside this one.
    space
        Where vectors are computed.
    """

    def __init__(
        self,
        text: str,
        names: Names,
        relation: Relation,
        parameters: Sequence[Any],
        run: Callable[[syntax.Query], Relation],
        *,
        is_grouped: bool = False,
        space: Space = NUMPY,
    ) -> None:
        self.text = text
        self.names = names
        self.relation = relation
        self.parameters = parameters
        self.run = run
        self.is_grouped = is_grouped
        self.space = space
        self.aliases: dict[str, syntax.Expression] = {}

    def error(self, at: int, kind: str, message: str) -> QueryError:
        """Return an error at a place."""
        return query_error(self.text, at, kind, message)

    # -- expressions -----------------------------------------------------------------------------------------------

    def bind(self, node: syntax.Expression) -> Bound:
        """Return an expression over columns.

        Raises
        ------
        QueryError
            If a name means nothing, or types do not go together.
        """
        if isinstance(node, syntax.Literal):
            return _value(node.value)
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
            return self._call(node)
        if isinstance(node, syntax.Array):
            return self._array(node)
        return self._rest(node)

    def _rest(self, node: syntax.Expression) -> Bound:
        if isinstance(node, syntax.In):
            return self._in(node)
        if isinstance(node, syntax.Between):
            return self._between(node)
        if isinstance(node, syntax.Like):
            return self._like(node)
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
            return self._weights(node)
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
            return self.names.one(self.text, node.at, None, node.column)
        if node.table not in self.names.tables:
            inside = f"{node.table}/{node.column}"
            if self.names.find(None, inside):
                return self.names.one(self.text, node.at, None, inside)
            function = _PROPERTIES.get(node.column)
            if function is not None and self.names.find(None, node.table):
                column = syntax.Name(None, node.table, node.at)
                return self.bind(syntax.Call(function, (column,), False, False, node.at))
        return self.names.one(self.text, node.at, node.table, node.column)

    def _parameter(self, node: syntax.Parameter) -> Bound:
        if node.number >= len(self.parameters):
            raise self.error(
                node.at,
                "arity",
                f"there are {len(self.parameters)} parameters, and this ? is number {node.number + 1}",
            )
        try:
            return _value(self.parameters[node.number])
        except (TypeError, ValueError) as error:
            raise self.error(node.at, "type", f"parameter {node.number + 1}: {error}") from None

    def _unary(self, node: syntax.Unary) -> Bound:
        operand = self.bind(node.operand)
        if node.operator == "not":
            return self._folded(Not(operand))
        self._check_number(operand, node.at, "-")
        return self.apply("-", lambda given: negative(given.columns[0]), (operand,), NUMBER, node.at)

    def apply(
        self,
        name: str,
        compute: Callable[[Given], Column],
        operands: tuple[Bound, ...],
        info: Info,
        at: int,
        cost: float = 0.1,
        key: Callable[[Column], Column] | None = None,
    ) -> Bound:
        """Return a function of operands, computed now if all of them are constants."""
        return self._folded(Apply(name, compute, operands, info, at, cost, key))

    def _folded(self, node: Bound) -> Bound:
        operands = (
            node.operands if isinstance(node, Apply) else (node.operand,) if isinstance(node, Not) else ()
        )
        if not operands or not all(isinstance(operand, Value) for operand in operands):
            return node
        at = node.at if isinstance(node, Apply) else 0
        try:
            return Value(_python(folded(node)), node.info)
        except QueryError as error:
            raise self.error(at, error.kind, error.message) from error

    # -- operators -------------------------------------------------------------------------------------------------

    def _binary(self, node: syntax.Binary) -> Bound:
        left, right = self.bind(node.left), self.bind(node.right)
        sign = node.operator
        if sign in _COMPARISONS:
            return self._compared(sign, left, right, node.at)
        if sign == "||":
            return self.apply("||", JOINED.compute, (left, right), TEXT, node.at, 1.0)
        self._check_number(left, node.at, sign)
        self._check_number(right, node.at, sign)
        rank = (
            None
            if left.info.rank is None or right.info.rank is None
            else max(left.info.rank, right.info.rank)
        )
        info = Info("array", None, rank)
        return self.apply(sign, lambda given: arithmetic(sign, *given.columns), (left, right), info, node.at)

    def _check_number(self, node: Bound, at: int, sign: str) -> None:
        if node.info.kind == "text" or (isinstance(node, Value) and isinstance(node.value, str)):
            raise self.error(at, "type", f"{sign} needs numbers, not text; || puts texts together")

    def _compared(self, sign: str, left: Bound, right: Bound, at: int) -> Bound:
        if any(isinstance(side, Value) and side.value is None for side in (left, right)):
            raise self.error(at, "type", "nothing is compared with NULL: say IS NULL or IS NOT NULL")
        left, right = self._alike(left, right, at), self._alike(right, left, at)
        left, right = self._same_times(left, right, at)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Value) and isinstance(one.value, str) and other.info.kind == "array":
                raise self.error(at, "type", f"{_shown(other)} holds numbers, and {one.value!r} is text")
            is_number = isinstance(one, Value) and isinstance(one.value, bool | int | float | np.ndarray)
            if is_number and other.info.kind == "text" and not isinstance(other, Value):
                raise self.error(
                    at, "type", f"{_shown(other)} holds text, which is not compared with numbers"
                )
        return self.apply(sign, lambda given: compare(sign, *given.columns), (left, right), FLAG, at)

    def _alike(self, node: Bound, other: Bound, at: int) -> Bound:
        """Return a text as the number of the class, or the moment, that it names in the other column."""
        if not isinstance(node, Value) or not isinstance(node.value, str):
            return node
        if other.info.class_names is not None:
            return Value(self._class(node.value, other.info.class_names, at), NUMBER)
        if dates.is_time(other.info):
            moment = dates.microseconds(node.value)
            if moment is None:
                raise self.error(
                    at, "type", f"{node.value!r} is no date such as '2026-01-31' or '2026-01-31 12:00'"
                )
            stored = dates.stored_as(moment, other.info.logical)
            return Value(int(stored) if stored == int(stored) else stored, other.info)
        return node

    def _same_times(self, left: Bound, right: Bound, at: int) -> tuple[Bound, Bound]:
        if left.info.logical == right.info.logical or not (
            dates.is_time(left.info) and dates.is_time(right.info)
        ):
            return left, right
        sides = [
            self.apply(
                "TIMESTAMP",
                lambda given: dates.as_moments(given.columns[0], given.infos[0], "comparison"),
                (side,),
                TIME,
                at,
            )
            for side in (left, right)
        ]
        return sides[0], sides[1]

    def _class(self, name: str, names: Sequence[str], at: int) -> int:
        if name not in names:
            raise self.error(at, "bad_class_name", f"there is no class {name!r}{near(name, names)}")
        return names.index(name)

    def _between(self, node: syntax.Between) -> Bound:
        operand = self.bind(node.operand)
        low = self._compared(">=", operand, self.bind(node.low), node.at)
        high = self._compared("<=", operand, self.bind(node.high), node.at)
        found = Logic("and", (low, high))
        return Not(found) if node.is_negated else found

    def _like(self, node: syntax.Like) -> Bound:
        operand, pattern = self.bind(node.operand), self.bind(node.pattern)
        if operand.info.kind == "array":
            hint = "; CONTAINS(label, 'pattern*') finds class names" if operand.info.class_names else ""
            raise self.error(node.at, "type", f"LIKE needs text{hint}")
        function = ILIKE if node.any_case else LIKE
        found = self.apply(function.name, function.compute, (operand, pattern), FLAG, node.at, function.cost)
        return self._folded(Not(found)) if node.is_negated else found

    def _in(self, node: syntax.In) -> Bound:
        operand = self.bind(node.operand)
        if node.query is not None:
            values = self._column_of(node.query, node.at)
        else:
            items = [self._alike(self.bind(item), operand, node.at) for item in node.items]
            if not all(isinstance(item, Value) for item in items):
                # Columns among them: one comparison each.
                found: Bound = Logic(
                    "or", tuple(self._compared("=", operand, item, node.at) for item in items)
                )
                return Not(found) if node.is_negated else found
            values = [item.value for item in items if isinstance(item, Value)]
        if any(isinstance(value, np.ndarray) and value.ndim for value in values):
            found = Logic("or", tuple(self._compared("=", operand, _value(v), node.at) for v in values))
        else:
            plain = [v.item() if isinstance(v, np.ndarray | np.generic) else v for v in values]
            found = self.apply("IN", IN.compute, (operand, Value(plain, JSON)), FLAG, node.at, 1.0)
        return self._folded(Not(found)) if node.is_negated else found

    def _column_of(self, query: syntax.Query, at: int) -> list[Any]:
        """Return the values of the one column of a query."""
        relation = self.run(query)
        if len(relation.names) != 1:
            raise self.error(at, "arity", f"IN needs a query of one column, not {len(relation.names)}")
        found: list[Any] = []

        for window in relation.windows(relation.names):
            for value in rows(relation.read(relation.names[0], window)):
                if isinstance(value, np.ndarray):
                    found.extend(value.reshape(-1).tolist())
                elif value is not None:
                    found.append(value)
        return found

    def _case(self, node: syntax.Case) -> Bound:
        branches: list[tuple[Bound | None, Bound]] = []
        operand = None if node.operand is None else self.bind(node.operand)
        for condition, value in node.branches:
            told = self.bind(condition)
            if operand is not None:
                told = self._compared("=", operand, told, node.at)
            branches.append((told, self.bind(value)))
        otherwise = Value(None, ANY) if node.otherwise is None else self.bind(node.otherwise)
        branches.append((None, otherwise))
        kinds = {
            value.info.kind for _, value in branches if not (isinstance(value, Value) and value.value is None)
        }
        return Cases(tuple(branches), Info(kinds.pop() if len(kinds) == 1 else "any"))

    def _cast(self, node: syntax.Cast) -> Bound:
        try:
            function = casts.cast(node.type_name)
        except KeyError:
            raise self.error(
                node.at, "type", f"there is no type {node.type_name!r}{near(node.type_name, casts.TYPES)}"
            ) from None
        operand = self.bind(node.operand)
        return self._applied(function, (operand,), node.at)

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
        relation = self.run(node.query)
        if node.is_exists:
            return Value(len(relation) > 0, FLAG)
        if len(relation.names) != 1 or len(relation) > 1:
            raise self.error(
                node.at,
                "arity",
                f"a query that stands for a value has one column and one row, not {len(relation.names)} and "
                f"{len(relation)}",
            )
        name = relation.names[0]
        if not len(relation):
            return Value(None, ANY)
        return Value(_python(row(relation.read(name, range(1)), 0)), relation.infos[name])

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
        if not isinstance(bound, Value) or type(bound.value) is not int:
            raise self.error(
                _at(node), "type", "the ends of a slice are whole numbers, the same for all rows"
            )
        return bound.value

    # -- functions -------------------------------------------------------------------------------------------------

    def _array(self, node: syntax.Array) -> Bound:
        items = [self.bind(item) for item in node.items]
        if not all(isinstance(item, Value) for item in items):
            raise self.error(node.at, "type", "an array literal holds constants, no columns")
        values = [item.value for item in items if isinstance(item, Value)]
        if values and all(isinstance(value, str) for value in values):
            return Value(values, JSON)
        try:
            return Value(_literal_array(values), Info("array"))
        except (ValueError, TypeError) as error:
            raise self.error(
                node.at, "type", f"the items of an array are numbers of equal shape: {error}"
            ) from None

    def _call(self, node: syntax.Call) -> Bound:
        name = node.name.upper()
        special = getattr(self, f"_call_{name.lower()}", None) if name in registry.SPECIAL else None
        if node.is_star:
            return self._count_all(node)
        if special is not None:
            found: Bound = special(node)
            return found
        function = registry.find(name)
        if function is None:
            meant = registry.meant(name)
            hint = f"; say {meant}" if meant else near(name, registry.names())
            raise self.error(node.at, "unknown_function", f"there is no function {name}{hint}")
        self._check_count(node, function.least, function.most)
        operands = tuple(self.bind(argument) for argument in node.arguments)
        if node.is_distinct:
            if name != "COUNT":
                raise self.error(node.at, "unsupported", f"DISTINCT goes with COUNT, not with {name}")
            return self.apply("COUNT", count_distinct, operands, NUMBER, node.at, 2.0)
        if name == "CONTAINS":
            return self._contains(function, operands, node.at)
        return self._applied(function, operands, node.at)

    def _applied(self, function: Function, operands: tuple[Bound, ...], at: int) -> Bound:
        distance = DISTANCES.get(function.name)
        if distance is not None and (apart := difference(operands[0])) is not None:
            function, operands = registry.FUNCTIONS[distance], apart
        info = function.told([operand.info for operand in operands])
        compute = function.compute
        if self.space is not NUMPY:
            compute = _computed_in(self.space, compute)
        return self.apply(function.name, compute, operands, info, at, function.cost, function.key)

    def _check_count(self, node: syntax.Call, least: int, most: int | None) -> None:
        count = len(node.arguments)
        if count < least or (most is not None and count > most):
            wanted = (
                str(least)
                if most == least
                else f"{least} to {most}"
                if most is not None
                else f"{least} or more"
            )
            raise self.error(node.at, "arity", f"{node.name.upper()} takes {wanted} arguments, not {count}")

    def _contains(self, function: Function, operands: tuple[Bound, ...], at: int) -> Bound:
        column, wanted = operands
        names = column.info.class_names
        if names is not None and isinstance(wanted, Value) and isinstance(wanted.value, str):
            numbers = matching_classes(names, wanted.value)
            if not numbers:
                raise self.error(
                    at, "bad_class_name", f"no class is named {wanted.value!r}{near(wanted.value, names)}"
                )
            inside = self.apply("IN", IN.compute, (column, Value(numbers, JSON)), FLAG, at, 1.0)
            return self._applied(registry.FUNCTIONS["ANY"], (inside,), at)
        return self._applied(function, operands, at)

    def _count_all(self, node: syntax.Call) -> Bound:
        if node.name.upper() != "COUNT":
            raise self.error(node.at, "arity", f"{node.name.upper()} takes no *")
        if not self.is_grouped:
            raise self.error(
                node.at, "unsupported", "COUNT(*) counts rows of groups: it stands behind SELECT or HAVING"
            )
        return Input(COUNT_ALL, NUMBER)

    def _call_shape(self, node: syntax.Call) -> Bound:
        self._check_count(node, 1, 1)
        operand = self.bind(node.arguments[0])
        info = Info("array", np.dtype(np.uint32), 1)
        if isinstance(operand, Input):
            return Shape(operand.name, info)
        from lakebed.query.subscripts import shape_of

        return self.apply("SHAPE", lambda given: shape_of(given.columns[0]), (operand,), info, node.at)

    def _call_sample_info(self, node: syntax.Call) -> Bound:
        self._check_count(node, 1, 1)
        operand = self.bind(node.arguments[0])
        if not isinstance(operand, Input):
            raise self.error(node.at, "type", "SAMPLE_INFO is of a column")
        return Facts(operand.name)

    def _call_row_number(self, node: syntax.Call) -> Bound:
        self._check_count(node, 0, 0)
        return RowNumber()

    def _call_random(self, node: syntax.Call) -> Bound:
        self._check_count(node, 0, 0)
        seed = random.get_seed()
        return Chance((secrets.randbits(63) if seed is None else seed) ^ (node.at << 32))

    def _call_data(self, node: syntax.Call) -> Bound:
        self._check_count(node, 2, 2)
        column, number = self.bind(node.arguments[0]), self.bind(node.arguments[1])
        if not isinstance(column, Input) or not isinstance(number, Value) or type(number.value) is not int:
            raise self.error(node.at, "type", "DATA(column, k) takes a column and a constant whole number")
        length = len(self.relation)
        at = number.value if number.value >= 0 else length + number.value
        if not 0 <= at < length:
            raise self.error(node.at, "index", f"there is no row {number.value} among {length}")
        return Value(_python(row(self.relation.read(column.name, range(at, at + 1)), 0)), column.info)

    def _call_if(self, node: syntax.Call) -> Bound:
        self._check_count(node, 3, 3)
        condition, then, otherwise = (self.bind(argument) for argument in node.arguments)
        return Cases(((condition, then), (None, otherwise)), then.info)

    def _call_bm25_similarity(self, node: syntax.Call) -> Bound:
        self._check_count(node, 2, 2)
        column, words = (self.bind(argument) for argument in node.arguments)
        if not isinstance(column, Input) or column.info.kind not in ("text", "any"):
            raise self.error(node.at, "type", "BM25_SIMILARITY is of a column of text")
        if not isinstance(words, Value) or not isinstance(words.value, str):
            raise self.error(
                node.at, "type", "BM25_SIMILARITY looks for words that are the same for all rows: a text"
            )
        from lakebed.query.indexes.corpus import scorer

        compute = scorer(self.relation, column.name, words.value)
        return Apply("BM25_SIMILARITY", compute, (column, words), NUMBER, node.at, 20.0)

    def _call_rrf(self, node: syntax.Call) -> Bound:
        self._check_count(node, 1, None)
        operands = tuple(self.bind(argument) for argument in node.arguments)

        def compute(given: Given) -> Column:
            raise QueryError(
                f"RRF ranks all rows ({given.count} are not all): it stands alone behind ORDER BY",
                kind="unsupported",
            )

        return Apply("RRF", compute, operands, NUMBER, node.at, 50.0)

    def _weights(self, node: syntax.Weights) -> Bound:
        name = node.name.upper()
        if name not in ("MAX_WEIGHT", "SUM_WEIGHT"):
            raise self.error(
                node.at, "unknown_function", f"{name} takes no pairs; MAX_WEIGHT and SUM_WEIGHT do"
            )
        operands = tuple(self.bind(side) for pair in node.pairs for side in pair)
        function = max_weight if name == "MAX_WEIGHT" else sum_weight
        return self.apply(name, function, operands, NUMBER, node.at, 1.0)


def _computed_in(space: Space, compute: Callable[[Given], Column]) -> Callable[[Given], Column]:
    def there(given: Given) -> Column:
        with computing_in(space):
            return compute(given)

    return there


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


def _value(value: Any) -> Value:
    """Return a constant.

    Raises
    ------
    TypeError
        If the language has no such values.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float):
        return Value(value, NUMBER if value is not None else ANY)
    if isinstance(value, str):
        return Value(value, TEXT)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return Value(value, Info("array", value.dtype, value.ndim))
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, str) for item in value):
            return Value(list(value), JSON)
        return Value(_literal_array(list(value)), Info("array"))
    if isinstance(value, dict):
        return Value(value, JSON)
    raise TypeError(f"a query has no values of type {type(value).__name__}")


def _literal_array(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return numbers as float32, or as numbers of 64 bits if float32 does not hold integers, or has no room."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError("not all of them are numbers")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    exact = array.astype(np.float64)
    if array.dtype.kind in "iu" and not (np.all(np.abs(exact) < 1 << 53) and np.array_equal(narrow, exact)):
        return array if array.dtype == np.uint64 else array.astype(np.int64)
    return narrow if np.array_equal(np.isfinite(narrow), np.isfinite(array)) else array.astype(np.float64)


def _python(value: Any) -> Any:
    """Return arrays without axes as numbers of Python, which take the type of what they are compared with."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value


def _shown(node: Bound) -> str:
    return node.name if isinstance(node, Input | Apply) else "it"


def _at(node: syntax.Expression) -> int:
    return int(node.at)
