"""Binding of function calls: functions of single values, and functions that need whole columns or constants."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from lakebed import random
from lakebed.errors import QueryError
from lakebed.query.binding import domains
from lakebed.query.binding.constants import python
from lakebed.query.binding.context import Context
from lakebed.query.functions import registry
from lakebed.query.functions.function import Function
from lakebed.query.functions.numeric import count_distinct, weighed
from lakebed.query.functions.spaces import NUMPY, Space, computing_in
from lakebed.query.functions.text import IN, matching_classes
from lakebed.query.language import syntax
from lakebed.query.language.errors import near, placed
from lakebed.query.relations.bound import (
    COUNT_ALL,
    Apply,
    Bound,
    Cases,
    Chance,
    Facts,
    Input,
    RowNumber,
    Shape,
    Unknown,
    Value,
    column_and_vector,
)
from lakebed.query.values.columns import Column, row
from lakebed.query.values.info import FLAG, JSON, NUMBER, TIME, Given, Info, merged
from lakebed.query.values.subscripts import shape_of
from lakebed.runtime import clock

Operands = tuple[Bound, ...]


def call(context: Context, node: syntax.Call) -> Bound:
    """Return the call of a function.

    Raises
    ------
    QueryError
        If the function is unknown, or does not take these arguments.
    """
    name = node.name.upper()
    if node.is_star:
        return _count_all(context, node)
    if name in _SPECIAL:
        least, most, special = _SPECIAL[name]
        return special(context, node, _operands(context, node, least, most))
    function = registry.find(name)
    if function is None:
        raise context.error(node.at, "unknown_function", f"there is no function {name}{registry.hint(name)}")
    operands = _operands(context, node, function.least, function.most)
    constant = operands[0].value if operands and isinstance(operands[0], Value) else ()
    if name == "COUNT" and not isinstance(constant, list | tuple | np.ndarray):
        raise context.error(node.at, "type", "COUNT of one constant does not count rows: say COUNT(*)")
    if node.is_distinct:
        if name != "COUNT":
            raise context.error(node.at, "unsupported", f"DISTINCT is allowed in COUNT, not in {name}")
        return context.apply("COUNT", count_distinct, operands, NUMBER, node.at, 2.0)
    if name in _OF_ONE_KIND:
        operands = _aligned(context, operands, node.at)
    if name == "CONTAINS":
        return _contains(context, function, operands, node.at)
    return applied(context, function, operands, node.at)


def applied(context: Context, function: Function, operands: tuple[Bound, ...], at: int) -> Bound:
    """Return the call of a function that needs only the values of its arguments.

    Functions of vectors are computed by the array library that the query names.
    """
    distance = _DISTANCES.get(function.name)
    if distance is not None and (apart := _difference(operands[0])) is not None:
        function, operands = registry.FUNCTIONS[distance], apart
    info = function.told([operand.info for operand in operands])
    compute = function.compute
    if context.space is not NUMPY:
        compute = _computed_in(context.space, compute)
    return context.apply(function.name, compute, operands, info, at, function.cost, function.key)


_DISTANCES = {"L1_NORM": "L1_DISTANCE", "L2_NORM": "L2_DISTANCE", "LINF_NORM": "LINF_DISTANCE"}
"""Norm -> the distance of two vectors that equals this norm of their difference."""


def _difference(node: Bound) -> tuple[Bound, Bound] | None:
    """Return the column and the constant of ``column - vector`` or ``vector - column``; None for other expressions.

    Columns of integers that float32 would round also give None.
    """
    column, vector = column_and_vector(node) if isinstance(node, Apply) and node.name == "-" else (None, None)
    if column is None or vector is None:
        return None
    dtype = column.info.dtype
    is_float = dtype is not None and (dtype.kind == "f" or (dtype.kind in "iu" and dtype.itemsize <= 2))
    is_vector = column.info.rank == 1 and vector.value.ndim == 1 and vector.value.size > 1
    return (column, vector) if is_float and is_vector else None


def _operands(context: Context, node: syntax.Call, least: int, most: int | None) -> tuple[Bound, ...]:
    """Return the arguments of a call; refuse a wrong number of arguments."""
    count = len(node.arguments)
    if count < least or (most is not None and count > most):
        wanted = f"{least} or more" if most is None else str(least) if most == least else f"{least} to {most}"
        raise context.error(node.at, "arity", f"{node.name.upper()} takes {wanted} arguments, not {count}")
    return tuple(map(context.bind, node.arguments))


def _contains(context: Context, function: Function, operands: tuple[Bound, ...], at: int) -> Bound:
    column, wanted = operands
    names = column.info.class_names
    if names is not None and isinstance(wanted, Value) and isinstance(wanted.value, str):
        numbers = matching_classes(names, wanted.value)
        if not numbers:
            message = f"no class is named {wanted.value!r}{near(wanted.value, names)}"
            raise context.error(at, "bad_class_name", message)
        inside = context.apply("IN", IN.compute, (column, Value(numbers, JSON)), FLAG, at, 1.0)
        return applied(context, registry.FUNCTIONS["ANY"], (inside,), at)
    return applied(context, function, operands, at)


def _count_all(context: Context, node: syntax.Call) -> Bound:
    if node.name.upper() != "COUNT":
        raise context.error(node.at, "arity", f"{node.name.upper()} takes no *")
    if not context.is_grouped:
        message = "COUNT(*) counts rows of groups: it goes into SELECT or HAVING"
        raise context.error(node.at, "unsupported", message)
    return Input(COUNT_ALL, NUMBER)


def _shape(context: Context, node: syntax.Call, operands: Operands) -> Bound:
    info = Info("array", np.dtype(np.uint32), 1)
    if isinstance(operands[0], Input):
        return Shape(operands[0].name, info)
    return context.apply("SHAPE", lambda given: shape_of(given.columns[0]), operands, info, node.at)


def _sample_info(context: Context, node: syntax.Call, operands: Operands) -> Bound:
    if not isinstance(operands[0], Input):
        raise context.error(node.at, "type", "SAMPLE_INFO takes a column")
    return Facts(operands[0].name)


def _random(_context: Context, node: syntax.Call, _operands: Operands) -> Bound:
    seed = random.get_seed()
    return Chance((secrets.randbits(63) if seed is None else seed) ^ (node.at << 32))


def _data(context: Context, node: syntax.Call, operands: Operands) -> Bound:
    column, number = operands
    if isinstance(column, Input) and isinstance(number, Unknown):
        return Unknown(column.info)
    if not isinstance(column, Input) or not isinstance(number, Value) or type(number.value) is not int:
        raise context.error(node.at, "type", "DATA(column, k) takes a column and a constant whole number")
    length = len(context.relation)
    at = number.value if number.value >= 0 else length + number.value
    if not 0 <= at < length:
        raise context.error(node.at, "index", f"there is no row {number.value}: there are {length} rows")
    return Value(python(row(context.relation.read(column.name, range(at, at + 1)), 0)), column.info)


def _if(context: Context, node: syntax.Call, operands: Operands) -> Bound:
    condition, then, otherwise = operands
    return cases(context, [(condition, then), (None, otherwise)], node.at)


def cases(context: Context, branches: Sequence[tuple[Bound | None, Bound]], at: int) -> Bound:
    """Return an expression: the value of the first branch whose condition is true; the last branch has none (None).

    Raises
    ------
    QueryError
        If one column cannot hold all of the values.
    """
    values = _aligned(context, [value for _, value in branches], at)
    info = merged([v.info for v in values if not (isinstance(v, Value) and v.value is None)])
    return Cases(tuple((told, value) for (told, _), value in zip(branches, values, strict=True)), info)


def _aligned(context: Context, operands: Sequence[Bound], at: int) -> tuple[Bound, ...]:
    """Convert values to a common domain, so that one column can hold them; raise an error if that is impossible."""
    with placed(context.text, at):
        return tuple(map(context.folded, domains.aligned(operands, at)))


def _now(_context: Context, node: syntax.Call, _operands: Operands) -> Bound:
    """Return the current moment or day in UTC."""
    moment = int(clock.now() * 1_000_000)
    if node.name.upper() == "TODAY":
        moment -= moment % 86_400_000_000
    return Value(moment, TIME)


def _bm25(context: Context, node: syntax.Call, operands: Operands) -> Bound:
    column, words = operands
    if not isinstance(column, Input) or column.info.kind not in ("text", "any"):
        raise context.error(node.at, "type", "BM25_SIMILARITY takes a column of text")
    if isinstance(words, Unknown):
        return Unknown(NUMBER)
    if not isinstance(words, Value) or not isinstance(words.value, str):
        raise context.error(node.at, "type", "BM25_SIMILARITY needs the same words for all rows, as one text")
    from lakebed.query.indexes.corpus import scorer

    compute = scorer(context.relation, column.name, words.value)
    return Apply("BM25_SIMILARITY", compute, operands, NUMBER, node.at, 20.0)


def _rrf(_context: Context, node: syntax.Call, operands: Operands) -> Bound:
    def compute(given: Given) -> Column:
        message = f"RRF ranks all rows, not {given.count}: use it as the only expression after ORDER BY"
        raise QueryError(message, kind="unsupported")

    return Apply("RRF", compute, operands, NUMBER, node.at, 50.0)


def weights(context: Context, node: syntax.Weights) -> Bound:
    """Return the call of MAX_WEIGHT or SUM_WEIGHT, whose arguments are pairs of a condition and a weight."""
    name = node.name.upper()
    function = {"MAX_WEIGHT": np.maximum, "SUM_WEIGHT": np.add}.get(name)
    if function is None:
        message = f"{name} takes no pairs of a condition and a weight; MAX_WEIGHT and SUM_WEIGHT do"
        raise context.error(node.at, "unknown_function", message)
    operands = tuple(context.bind(side) for pair in node.pairs for side in pair)
    return context.apply(name, partial(weighed, function=function), operands, NUMBER, node.at, 1.0)


def _computed_in(space: Space, compute: Callable[[Given], Column]) -> Callable[[Given], Column]:
    def there(given: Given) -> Column:
        with computing_in(space):
            return compute(given)

    return there


_OF_ONE_KIND = ("COALESCE", "IFNULL", "NULLIF", "GREATEST", "LEAST")
"""Functions whose arguments must be convertible to one type."""

_SPECIAL: dict[str, tuple[int, int | None, Callable[[Context, syntax.Call, Operands], Bound]]] = {
    "BM25_SIMILARITY": (2, 2, _bm25),
    "RRF": (1, None, _rrf),
    "DATA": (2, 2, _data),
    "ROW_NUMBER": (0, 0, lambda *_: RowNumber()),
    "RANDOM": (0, 0, _random),
    "SHAPE": (1, 1, _shape),
    "SAMPLE_INFO": (1, 1, _sample_info),
    "IF": (3, 3, _if),
    "IIF": (3, 3, _if),
    "NOW": (0, 0, _now),
    "TODAY": (0, 0, _now),
}
"""Function -> bounds of the number of its arguments, and its binder."""
