"""Evaluation of expressions over many rows: to values, or to the truth of a condition."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import LakebedError, QueryError
from lakebed.query.relations.bound import (
    Apply,
    Bound,
    Cases,
    Chance,
    Facts,
    Input,
    Logic,
    Missing,
    Not,
    RowNumber,
    Shape,
    Unknown,
    Value,
    cost,
    on_record,
)
from lakebed.query.values.columns import (
    Column,
    Constant,
    Mask,
    Numbers,
    Rows,
    collect,
    flags,
    in_places,
    row,
    rows,
    take,
    truth,
)
from lakebed.query.values.elementwise import mapped, on_numbers
from lakebed.query.values.info import Given

_NARROW_BELOW = 0.5
"""Share of undecided rows below which an expensive condition is computed for the undecided rows only."""

_DEAR = 4.0
"""Cost at which a condition counts as expensive."""

_Found = TypeVar("_Found", Column, Mask)


class Source(Protocol):
    """A relation, from which columns are read."""

    def read(self, name: str, places: Rows) -> Column: ...

    def shapes(self, name: str, places: Rows) -> Column: ...

    def facts(self, name: str, places: Rows) -> Column: ...

    def missing(self, name: str, places: Rows) -> Mask | None: ...


class Scope:
    """Some rows of a relation, and the columns that were read for these rows.

    Parameters
    ----------
    places
        Positions of the rows.
    """

    def __init__(self, source: Source, places: Rows, read: dict[str, Column] | None = None) -> None:
        self.source = source
        self.places = places
        self._read = {} if read is None else read

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.places)

    def column(self, name: str) -> Column:
        """Return a column, reading it the first time."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self.source.read(name, self.places)
        return found

    def has_read(self, name: str) -> bool:
        """Return whether a column was read."""
        return name in self._read

    def only(self, mask: Mask) -> Scope:
        """Return the scope of the rows that a mask selects."""
        (kept,) = np.nonzero(mask)
        read = {name: take(column, kept) for name, column in self._read.items()}
        return Scope(self.source, np.asarray(self.places, np.int64)[kept], read)


# -- values ----------------------------------------------------------------------------------------------------------


def evaluate(node: Bound, scope: Scope) -> Column:
    """Return the value of an expression for each row.

    Raises
    ------
    QueryError
        If a row cannot be computed; the error's `row` is the position of that row in the scope.
    """
    if isinstance(node, Input):
        return scope.column(node.name)
    if isinstance(node, Value):
        return Constant(node.value, scope.count)
    if isinstance(node, Apply):
        columns = [evaluate(operand, scope) for operand in node.operands]
        return _applied(node, Given(columns, scope.count, [operand.info for operand in node.operands]))
    if isinstance(node, Shape):
        return scope.source.shapes(node.name, scope.places)
    if isinstance(node, Facts):
        return scope.source.facts(node.name, scope.places)
    if isinstance(node, Logic):
        function = np.logical_and if node.operator == "and" else np.logical_or
        sides = (flags(evaluate(operand, scope)) for operand in node.operands)
        return reduce(lambda a, b: on_numbers(a, b, function, node.operator.upper()), sides)
    if isinstance(node, Not):
        return mapped(flags(evaluate(node.operand, scope)), np.logical_not, "NOT")
    if isinstance(node, Missing):
        return Numbers(missing(node, scope))
    if isinstance(node, RowNumber):
        return Numbers(np.asarray(scope.places, np.int64))
    if isinstance(node, Unknown):
        return Constant(None, scope.count)
    if isinstance(node, Chance):
        return Numbers(chance(node.key, scope.places))
    return _cases(node, scope)


def _applied(node: Apply, given: Given) -> Column:
    """Compute a function; errors of the libraries that it uses become query errors with its name."""
    try:
        return node.compute(given)
    except LakebedError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError) as error:
        raise QueryError(f"{node.name}: {error}", kind="runtime") from error
    except MemoryError as error:
        raise QueryError(f"{node.name} ran out of memory: {error}", kind="limit") from error
    except RecursionError as error:
        raise QueryError(f"{node.name}: the values are nested too deeply", kind="limit") from error


def missing(node: Missing, scope: Scope) -> Mask:
    """Return whether the value of each row is missing; an empty array does not count as missing."""
    name = on_record(node)
    if name is not None and not scope.has_read(name):
        found = scope.source.missing(name, scope.places)
    else:
        found = evaluate(node.operand, scope).missing
    return np.zeros(scope.count, np.bool_) if found is None else found


def _cases(node: Cases, scope: Scope) -> Column:
    left = np.ones(scope.count, np.bool_)
    found: list[Column] = []
    places: list[NDArray[np.int64]] = []
    for condition, value in node.branches:
        if condition is None:
            chosen = left
        else:
            chosen = np.zeros(scope.count, np.bool_)
            chosen[left] = _of_part(is_true, condition, scope, left)
        if chosen.any():
            column = _of_part(evaluate, value, scope, chosen)
            found.append(collect(rows(column)) if isinstance(column, Constant) else column)
            places.append(np.flatnonzero(chosen))
        left &= ~chosen
    return in_places(found, places) if found else Constant(None, scope.count)


def _of_part(compute: Callable[[Bound, Scope], _Found], node: Bound, scope: Scope, mask: Mask) -> _Found:
    """Compute an expression for the rows that a mask selects; an error names the row of the scope."""
    try:
        return compute(node, scope.only(mask))
    except QueryError as error:
        if error.row is not None:
            error.row = int(np.flatnonzero(mask)[error.row])
        raise


# -- conditions ------------------------------------------------------------------------------------------------------


def is_true(node: Bound, scope: Scope) -> Mask:
    """Return for each row whether a condition is true; an array is true if it has values and all of them are true.

    AND, OR and NOT combine the truth of rows, which is never null; so NOT of a comparison with a missing value is true.
    """
    if isinstance(node, Not):
        return ~is_true(node.operand, scope)
    if isinstance(node, Logic):
        return _is_true(node, scope)
    if isinstance(node, Missing):
        return missing(node, scope)
    return truth(evaluate(node, scope))


def _is_true(node: Logic, scope: Scope) -> Mask:
    """Combine conditions in order; expensive ones are computed for undecided rows only."""
    wants = node.operator == "and"
    found = is_true(node.operands[0], scope)
    for operand in node.operands[1:]:
        undecided = found if wants else ~found
        count = int(np.count_nonzero(undecided))
        if count == 0:
            break
        if count < _NARROW_BELOW * scope.count and cost(operand) >= _DEAR:
            told = np.zeros(scope.count, np.bool_)  # decided rows may have any value here
            told[undecided] = _of_part(is_true, operand, scope, undecided)
        else:
            told = is_true(operand, scope)
        found = found & told if wants else found | told
    return found


# -- chance ----------------------------------------------------------------------------------------------------------


def chance(key: int, places: Rows) -> NDArray[np.int32]:
    """Return a number for each position, evenly distributed over 0 to 2**31 - 1 and reproducible by key."""
    words = np.asarray(places, np.int64).astype(np.uint64) ^ np.uint64(key & ((1 << 64) - 1))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(33)).astype(np.int32)


def located(error: QueryError, node: Bound, source: Source, places: range) -> QueryError:
    """Set the row of an error to the first row that cannot be computed, by its position in the relation."""
    if error.row is not None:
        error.row += places.start
    if error.row is not None or error.kind == "limit":
        return error
    while len(places) > 1:
        middle = places[: len(places) // 2]
        try:
            evaluate(node, Scope(source, middle))
            places = places[len(places) // 2 :]
        except QueryError:
            places = middle
    error.row = places.start if len(places) else None
    return error


def folded(node: Apply | Not) -> Any:
    """Return the value of an expression whose operands are constants."""
    return row(evaluate(node, Scope(cast(Source, None), range(1))), 0)  # constants do not read the source
