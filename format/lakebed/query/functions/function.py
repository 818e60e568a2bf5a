"""What a function is, and those that a program adds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from lakebed.errors import InvalidInputError, QueryError
from lakebed.query.binding.bound import ANY, Given, Info
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    by_row,
    collect,
    computed_rows,
    concatenated,
    stretches,
    take,
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    Attributes
    ----------
    name
        In capitals.
    least, most
        How many arguments it takes; `most` is None for any number.
    compute
        Makes one column of those that it is given.
    info
        What is known of its values; a function of what is known of the arguments.
    cost
        How dear a row is to compute, in no unit.
    key
        Of values that are no single numbers, what ORDER BY goes by.
    """

    name: str
    least: int
    most: int | None
    compute: Callable[[Given], Column]
    info: Info | Callable[[Sequence[Info]], Info] = ANY
    cost: float = 0.1
    key: Callable[[Column], Column] | None = field(default=None)

    def told(self, infos: Sequence[Info]) -> Info:
        """Return what is known of the values for these arguments."""
        return self.info if isinstance(self.info, Info) else self.info(infos)


_AT_ONCE = 1 << 14
"""Rows that a vectorised function of a program is given at once: between two calls the clock is looked at."""

_ADDED: dict[str, Function] = {}


def added() -> Mapping[str, Function]:
    """Return the functions that programs have added, by name."""
    return _ADDED


def added_function(
    name: str, function: Callable[..., Any], *, is_vectorised: bool, arguments: int | None
) -> Function:
    """Add a function to the language, for this process.

    Raises
    ------
    InvalidInputError
        If the name is none, or the function's arguments cannot be counted.
    """
    if not name.replace("_", "").isalnum() or not name[:1].isalpha():
        raise InvalidInputError(f"{name!r} is no name of a function: letters, digits and underscores")
    if not callable(function):
        raise InvalidInputError(f"a function is called, which {type(function).__name__} cannot be")
    least, most = (arguments, arguments) if arguments is not None else _counted(function)
    upper = name.upper()

    def compute(given: Given) -> Column:
        if is_vectorised:
            return _vectorised(upper, function, given)
        called = partial(_called, upper, function)
        return by_row(given.count, lambda *values: called(values), given.columns, upper, every=1)

    made = Function(upper, least, most, compute, ANY, 50.0)
    _ADDED[upper] = made
    return made


def _called(name: str, function: Callable[..., Any], values: Sequence[Any]) -> Any:
    try:
        return _result(function(*[np.asarray(v) if isinstance(v, int | float) else v for v in values]))
    except (
        Exception
    ) as error:  # a program's own function may raise anything: the row is named, and it is kept
        raise QueryError(f"{name} raised {type(error).__name__}: {error}", kind="runtime") from error


def _result(value: Any) -> Any:
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, tuple):
        return np.asarray(value)
    return value


def _vectorised(name: str, function: Callable[..., Any], given: Given) -> Column:
    """Call a function once for many rows: arrays of one shape as one array, everything else as a list."""
    if given.count > _AT_ONCE:
        parts = []
        for some in stretches(given.count, _AT_ONCE):
            rows = np.arange(some.start, some.stop, dtype=np.int64)
            columns = [take(column, rows) for column in given.columns]
            parts.append(_vectorised(name, function, Given(columns, len(some), given.infos)))
        return concatenated(parts)
    arguments = [_many(column) for column in given.columns]
    try:
        found = function(*arguments)
    except Exception as error:
        raise QueryError(f"{name} raised {type(error).__name__}: {error}", kind="runtime") from error
    if not hasattr(found, "__len__") or len(found) != given.count:
        told = f"{len(found)} values" if hasattr(found, "__len__") else type(found).__name__
        raise QueryError(f"{name} returned {told} for {given.count} rows", kind="runtime")
    if isinstance(found, np.ndarray) and found.dtype.kind in "biufc":
        return Numbers(found)
    values = [_result(value) for value in found]
    return collect(values) if values else Objects([])


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
    """Remove a function that a program has added."""
    _ADDED.pop(name.upper(), None)
