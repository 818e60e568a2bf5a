"""Functions of the language, and functions that programs register."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.errors import InvalidInputError, QueryError
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    by_row,
    collect,
    computed_rows,
    concatenated,
    take,
)
from lakebed.query.values.info import ANY, Given, Info
from lakebed.query.values.limits import stretches


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    Attributes
    ----------
    name
        Name in capitals.
    least, most
        Bounds of the number of arguments; `most` is None if it is unlimited.
    compute
        Computes the result column from the arguments.
    info
        Properties of the result, or a function of the properties of the arguments.
    cost
        Relative cost of computing a row.
    key
        Computes the column that ORDER BY sorts by, for values that are not single numbers.
    """

    name: str
    least: int
    most: int | None
    compute: Callable[[Given], Column]
    info: Info | Callable[[Sequence[Info]], Info] = ANY
    cost: float = 0.1
    key: Callable[[Column], Column] | None = field(default=None)

    def told(self, infos: Sequence[Info]) -> Info:
        """Return the properties of the result for arguments with the given properties."""
        return self.info if isinstance(self.info, Info) else self.info(infos)


_AT_ONCE = 1 << 14
"""Maximum number of rows per call of a vectorised function; the clock is checked between calls."""

ADDED: dict[str, Function] = {}
"""Functions that programs have registered."""


def add_function(
    name: str, function: Callable[..., Any], *, is_vectorised: bool, arguments: int | None
) -> None:
    """Add a function to the language, for this process.

    Raises
    ------
    InvalidInputError
        If the name is invalid, or the function cannot be called.
    """
    if not name.replace("_", "").isalnum() or not name[:1].isalpha():
        raise InvalidInputError(
            f"{name!r} is not a valid name of a function: use letters, digits and underscores"
        )
    if not callable(function):
        raise InvalidInputError(
            f"{type(function).__name__} is not callable and cannot be a function of queries"
        )
    least, most = (arguments, arguments) if arguments is not None else _counted(function)
    upper = name.upper()

    def of_row(*values: Any) -> Any:
        given = [np.asarray(v) if isinstance(v, int | float) else v for v in values]
        return _result(_called(upper, function, given))

    def compute(given: Given) -> Column:
        if is_vectorised:
            return _vectorised(upper, function, given)
        return by_row(given.count, of_row, given.columns, upper, every=1)

    ADDED[upper] = Function(upper, least, most, compute, ANY, 50.0)


def _called(name: str, function: Callable[..., Any], values: Sequence[Any]) -> Any:
    try:
        return function(*values)
    except Exception as error:  # the user's function may raise anything; the error of the query names the row
        raise QueryError(f"{name} raised {type(error).__name__}: {error}", kind="runtime") from error


def _result(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic | tuple) else value


def _vectorised(name: str, function: Callable[..., Any], given: Given) -> Column:
    """Call a function for many rows at once; it gets arrays of one shape as one array, other values as a list."""
    if given.count > _AT_ONCE:
        parts = []
        for some in stretches(given.count, _AT_ONCE):
            rows = np.arange(some.start, some.stop, dtype=np.int64)
            columns = [take(column, rows) for column in given.columns]
            parts.append(_vectorised(name, function, Given(columns, len(some), given.infos)))
        return concatenated(parts)
    found = _called(name, function, [_many(column) for column in given.columns])
    if not hasattr(found, "__len__") or len(found) != given.count:
        told = f"{len(found)} values" if hasattr(found, "__len__") else type(found).__name__
        raise QueryError(f"{name} returned {told} for {given.count} rows", kind="runtime")
    if isinstance(found, np.ndarray) and found.dtype.kind in "biufc":
        return Numbers(found)
    return collect([_result(value) for value in found])


def _many(column: Column) -> Any:
    if isinstance(column, Numbers) and column.missing is None:
        return column.values
    return column.value if isinstance(column, Constant) else computed_rows(column)


def _counted(function: Callable[..., Any]) -> tuple[int, int | None]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0, None
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(1 for p in places if p.default is p.empty)
    return least, None if any(p.kind is p.VAR_POSITIONAL for p in parameters) else len(places)


def forget(name: str) -> None:
    """Remove a function that a program has registered."""
    ADDED.pop(name.upper(), None)
