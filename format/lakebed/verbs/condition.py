"""Conditions on rows, made by comparing a column."""

from __future__ import annotations

import datetime as dt
import operator as op
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, InvalidKeyTypeError

WORDS = {op.eq: "==", op.ne: "!=", op.lt: "<", op.le: "<=", op.gt: ">", op.ge: ">="}
"""Comparison -> operator of the query language."""

VALUES = (bool, int, float, str, bytes, np.generic, dt.date, dt.time, dt.timedelta)
"""Types that a column can be compared with."""


class Name(str):
    """The full name of a column."""

    __slots__ = ()


class Value(NamedTuple):
    """The value of a ``?``."""

    value: Any


def quoted(name: str) -> str:
    """Return the name of a column in double quotes.

    Raises
    ------
    InvalidInputError
        If no query can name the column.
    """
    if '"' in name or "\n" in name:
        raise InvalidInputError(f"queries cannot name {name!r}: rename it with ds.rename_tensor")
    return f'"{name}"'


def listed(names: str | Iterable[str]) -> list[str]:
    """Return one or several names as a list."""
    return [names] if isinstance(names, str) else list(names)


@dataclass(frozen=True, eq=False)
class Condition:
    """A condition on each row, made by comparing a column: used in ``ds[...]``, ``filter`` and ``remove``.

    A condition has no truth value and holds no values: ``(ds["age"] > 3) & (ds["kind"] == "cat")`` is computed when it
    is used. Comparing a missing value gives false, and ``~`` turns this false into true.

    Parameters
    ----------
    parts
        Text of the query language, names of columns, and values, in the order of the expression.
    source
        Value that is equal for all columns of the same rows.
    holds
        Function that computes the condition for the rows of `source`.
    is_same
        Truth value in Python of ``==`` and ``!=`` of two columns, or of a column and None, which Python needs to find
        columns in lists; None for other conditions.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://condition-example")
    >>> _ = ds.create_tensor("age", dtype="int64")
    >>> ds.extend({"age": [1, 5, 7, 3]})
    >>> old = (ds["age"] > 3) & ~ds["age"].isin([7])
    >>> old
    Condition(("age" > 3) AND (NOT ("age" IN ([7]))))
    >>> ds[old].age.tolist(), old.sum()
    ([5], 1)
    """

    parts: tuple[str | Name | Value, ...]
    source: object
    holds: Callable[[Condition], NDArray[np.bool_]]
    is_same: bool | None = None

    def asked_of(self, source: object, names: Mapping[str, str] | None = None) -> tuple[str, list[Any]]:
        """Return the expression and the values of its ``?``, for the rows of a source.

        Parameters
        ----------
        source
            The source, which must equal the source of the condition's columns.
        names
            Full names of columns -> names in the expression; None if the names are the same.

        Raises
        ------
        InvalidInputError
            If the condition compares columns of other rows, or columns that are not among `names`.
        """
        if source != self.source:
            raise InvalidInputError(
                f"{self!r} compares columns of other rows: compare those of the same dataset or view, as in "
                "view[view['age'] > 3]"
            )
        return self._written(names), [part.value for part in self.parts if isinstance(part, Value)]

    def _written(self, names: Mapping[str, str] | None = None, *, shown: bool = False) -> str:
        def text(part: str | Name | Value) -> str:
            if isinstance(part, Value):
                return repr(part.value) if shown else "?"
            if not isinstance(part, Name):
                return part
            if names is not None and part not in names:
                raise InvalidInputError(f"{part!r} is not among the tensors: {', '.join(names)}")
            return quoted(part if names is None else names[part])

        return "".join(map(text, self.parts))

    # -- combination -------------------------------------------------------------------------------------------------

    def followed_by(self, *parts: str | Name | Value | Condition) -> Condition:
        """Return the condition with more parts appended.

        Parameters
        ----------
        parts
            Text of the query language, names, values, and conditions on the same rows.

        Raises
        ------
        InvalidInputError
            If a part is a condition on other rows.
        """
        found = list(self.parts)
        for part in parts:
            if isinstance(part, Condition):
                part.asked_of(self.source)
            found += part.parts if isinstance(part, Condition) else [part]
        return replace(self, parts=tuple(found), is_same=None)

    def _with(self, word: str, other: Any) -> Any:
        if isinstance(other, Condition | Compared):
            return replace(self, parts=("(",)).followed_by(self, f") {word} (", other.asked(), ")")
        mask = np.asarray(other)
        if mask.dtype != np.bool_:
            return NotImplemented
        return self.numpy() & mask if word == "AND" else self.numpy() | mask

    def __and__(self, other: Any) -> Any:
        return self._with("AND", other)

    def __or__(self, other: Any) -> Any:
        return self._with("OR", other)

    __rand__, __ror__ = __and__, __or__

    def asked(self) -> Condition:
        """Return this condition; for a column of bools, return the condition that its value is true."""
        return self

    def __invert__(self) -> Condition:
        return replace(self, parts=("NOT (",)).followed_by(self, ")")

    def __bool__(self) -> bool:
        if self.is_same is not None:
            return self.is_same
        raise TypeError(
            f"{self!r} has a value per row and is not a single truth value: join conditions with &, | and ~, in "
            "brackets; .any() and .all() combine all rows"
        )

    # -- answers -----------------------------------------------------------------------------------------------------

    def numpy(self) -> NDArray[np.bool_]:
        """Return whether the condition is true for each row: bool, shape (rows,)."""
        return self.holds(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.numpy(), dtype)

    def __len__(self) -> int:
        return len(self.numpy())

    def tolist(self) -> list[bool]:
        """Return whether the condition is true for each row, as a list."""
        return self.numpy().tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[bool]:
        return iter(self.tolist())

    def sum(self, **_: Any) -> int:
        """Return the number of rows for which the condition is true."""
        return int(self.numpy().sum())

    def mean(self, **_: Any) -> float:
        """Return the share of rows for which the condition is true."""
        return float(self.numpy().mean())

    def any(self, **_: Any) -> bool:
        """Return whether the condition is true for some row."""
        return bool(self.numpy().any())

    def all(self, **_: Any) -> bool:
        """Return whether the condition is true for all rows."""
        return bool(self.numpy().all())

    def __str__(self) -> str:
        return self._written(shown=True)

    def __repr__(self) -> str:
        return f"Condition({self})"


def _comparing(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: self._compared(compare, other)


class Comparing:
    """Base of classes whose comparisons all call ``_compared``."""

    __slots__ = ()

    __eq__, __ne__ = _comparing(op.eq), _comparing(op.ne)
    __lt__, __le__ = _comparing(op.lt), _comparing(op.le)
    __gt__, __ge__ = _comparing(op.gt), _comparing(op.ge)
    __hash__ = object.__hash__


def _refused(sign: str) -> Callable[..., Any]:
    """Return the operator that says how to compute with a column; arrays of other libraries compute by themselves."""

    def refused(self: Any, other: Any = 0) -> Any:
        if not isinstance(other, int | float | complex | str | Compared) or isinstance(other, np.generic):
            return NotImplemented
        name = getattr(self, "key", None) or self.name
        raise TypeError(
            f"columns are compared, but have no {sign}: compute with the array, ds[{name!r}].numpy(), or in a query, "
            f"as in ds.query('SELECT {name} + 1 AS more')"
        )

    return refused


class Compared(Comparing):
    """A column, whose comparisons with values and other columns are conditions."""

    if TYPE_CHECKING:
        dtype: Any

        def _condition(self, *parts: str | Value | Condition) -> Condition: ...

    def _compared(self, compare: Callable[[Any, Any], Any], other: object) -> Any:
        """Return the condition of a comparison with a value, another column of the rows, or None."""
        if other is None and compare in (op.eq, op.ne):
            asked = self._condition(" IS NULL" if compare is op.eq else " IS NOT NULL")
            return replace(asked, is_same=compare is op.ne)
        if not isinstance(other, (Compared, *VALUES)):
            return NotImplemented
        given = other._condition() if isinstance(other, Compared) else Value(other)  # noqa: SLF001 - its own class
        return self._condition(f" {WORDS[compare]} ", given)

    def asked(self) -> Condition:
        """Return the condition that a column of bools is true.

        Raises
        ------
        InvalidKeyTypeError
            If the column has another dtype.
        """
        if self.dtype != np.bool_:
            raise InvalidKeyTypeError(
                f"only a column of bools chooses rows, but {self!r} is not one: compare it, as in ds['age'] > 3"
            )
        return self._condition(" == ", Value(value=True))

    def __invert__(self) -> Condition:
        return ~self.asked()

    def __and__(self, other: Any) -> Any:
        return self.asked() & other if isinstance(other, Compared) else NotImplemented

    def __or__(self, other: Any) -> Any:
        return self.asked() | other if isinstance(other, Compared) else NotImplemented

    __add__, __sub__, __mul__, __truediv__ = _refused("+"), _refused("-"), _refused("*"), _refused("/")
    __radd__, __rsub__, __rmul__, __rtruediv__ = _refused("+"), _refused("-"), _refused("*"), _refused("/")
    __floordiv__, __mod__, __pow__ = _refused("//"), _refused("%"), _refused("**")
    __neg__, __abs__ = _refused("-"), _refused("abs")
