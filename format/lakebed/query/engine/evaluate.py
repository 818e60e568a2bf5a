"""Expressions over many rows at once: as values, and as the truth of a condition."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import LakebedError, QueryError
from lakebed.query.binding.bound import (
    Apply,
    Bound,
    Cases,
    Chance,
    Facts,
    Given,
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
    concatenated,
    flags,
    row,
    rows,
    take,
    truth,
)
from lakebed.query.values.elementwise import mapped, on_numbers

_NARROW_BELOW = 0.5
"""Where fewer of the rows are left, what is dear is computed for those alone."""

_DEAR = 4.0


class Source(Protocol):
    """What columns are read from: a relation."""

    def read(self, name: str, places: Rows) -> Column: ...

    def shapes(self, name: str, places: Rows) -> Column: ...

    def facts(self, name: str, places: Rows) -> Column: ...

    def missing(self, name: str, places: Rows) -> Mask | None: ...


class Scope:
    """Some rows of a relation, and the columns of them that were read.

    Parameters
    ----------
    places
        Positions of the rows.
    """

    def __init__(self, source: Source, places: Rows) -> None:
        self.source = source
        self.places = places
        self._read: dict[str, Column] = {}

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.places)

    def column(self, name: str) -> Column:
        """Return a column, which is read once."""
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = self.source.read(name, self.places)
        return found

    def has_read(self, name: str) -> bool:
        """Whether all rows of a column were read."""
        return name in self._read

    def only(self, mask: Mask) -> Scope:
        """Return the scope of the rows where a mask is true."""
        (kept,) = np.nonzero(mask)
        places = self.places
        inner = Scope(self.source, np.asarray(places, np.int64)[kept])
        inner._read = {name: take(column, kept) for name, column in self._read.items()}
        return inner


# -- values ----------------------------------------------------------------------------------------------------------


def evaluate(node: Bound, scope: Scope) -> Column:
    """Return the values of an expression, one for each row.

    Raises
    ------
    QueryError
        If a row cannot be computed; `row` is its place among the rows of the scope.
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
        return _logic(node, scope)
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
    """Compute a function; values that it cannot take, such as numbers that its library has no room for, are named."""
    try:
        return node.compute(given)
    except LakebedError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError) as error:
        raise QueryError(f"{node.name}: {error}", kind="runtime") from error
    except MemoryError as error:
        raise QueryError(f"{node.name} needs more memory than there is: {error}", kind="limit") from error
    except RecursionError as error:
        raise QueryError(f"{node.name}: values lie too deep in each other", kind="limit") from error


def _logic(node: Logic, scope: Scope) -> Column:
    function = np.logical_and if node.operator == "and" else np.logical_or
    found = flags(evaluate(node.operands[0], scope))
    for operand in node.operands[1:]:
        found = on_numbers(found, flags(evaluate(operand, scope)), function, node.operator.upper())
    return found


def missing(node: Missing, scope: Scope) -> Mask:
    """Tell of each row whether a value is missing; an array without anything is there."""
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
            chosen[left] = is_true(condition, scope.only(left))
        if chosen.any():
            inner = scope.only(chosen)
            column = evaluate(value, inner)
            found.append(_spelled_out(column))
            places.append(np.flatnonzero(chosen))
        left &= ~chosen
    if not found:
        return Constant(None, scope.count)
    order = np.concatenate(places)
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return take(concatenated(found), inverse)


def _spelled_out(column: Column) -> Column:
    """Return a constant as a column of the kind that its values make."""
    if not isinstance(column, Constant):
        return column
    return collect(rows(column))


# -- conditions ------------------------------------------------------------------------------------------------------


def is_true(node: Bound, scope: Scope) -> Mask:
    """Tell of each row whether a condition is true: of arrays, for all of their values, of which there is one.

    AND, OR and NOT join what is told of whole rows; so NOT of a comparison with something missing is true.
    """
    if isinstance(node, Not):
        return ~is_true(node.operand, scope)
    if isinstance(node, Logic):
        return _is_true(node, scope)
    if isinstance(node, Missing):
        return missing(node, scope)
    return truth(evaluate(node, scope))


def _is_true(node: Logic, scope: Scope) -> Mask:
    """Join conditions, cheap ones first; dear ones are asked of the rows that are not decided yet."""
    wants = node.operator == "and"
    found = is_true(node.operands[0], scope)
    for operand in node.operands[1:]:
        undecided = found if wants else ~found
        count = int(np.count_nonzero(undecided))
        if count == 0:
            break
        if count < _NARROW_BELOW * scope.count and cost(operand) >= _DEAR:
            told = np.zeros(scope.count, np.bool_)  # whatever it says of rows that are decided
            told[undecided] = is_true(operand, scope.only(undecided))
        else:
            told = is_true(operand, scope)
        found = found & told if wants else found | told
    return found


# -- chance ----------------------------------------------------------------------------------------------------------


def chance(key: int, places: Rows) -> NDArray[np.int32]:
    """Return a number for each position, evenly distributed over 0 to 2**31 - 1; the same again for the same key."""
    words = np.asarray(places, np.int64).astype(np.uint64) ^ np.uint64(key & ((1 << 64) - 1))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(33)).astype(np.int32)


def located(error: QueryError, node: Bound, source: Source, places: range) -> QueryError:
    """Return an error with the first row that cannot be computed; `row` counts in the relation."""
    if error.row is not None or error.kind == "limit":
        if error.row is not None:
            error.row += places.start
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


def folded(node: Bound) -> Any:
    """Return the value of an expression that reads no column."""
    column = evaluate(node, Scope(_NOTHING, range(1)))
    return row(column, 0)


class _Nothing:
    def read(self, name: str, places: Rows) -> Column:
        raise QueryError(f"{name} is no constant ({len(places)} rows)", kind="type")

    shapes = facts = read

    def missing(self, name: str, places: Rows) -> Mask | None:
        return self.read(name, places).missing


_NOTHING = _Nothing()
