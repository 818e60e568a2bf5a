"""Conditions: what a comparison of a whole column asks of each row."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lakebed.dataclass import dataclass
from lakebed.errors import InvalidInputError
from lakebed.reading.index import Index

WORDS = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
"""Methods of comparison -> their words in the query language."""

VALUES = (bool, int, float, str, bytes, np.generic, datetime.date, datetime.timedelta, Decimal)
"""What a column is compared with."""

Holds = Callable[[str, Sequence[Any]], NDArray[np.bool_]]
"""Answers, for an expression and its parameters, whether it is true, for each row: shape (rows,)."""


@dataclass(frozen=True, slots=True)
class Name:
    """A column, by its full name."""

    full: str


@dataclass(frozen=True, slots=True)
class Value:
    """What stands for a ``?``."""

    value: Any


def quoted(name: str) -> str:
    """Return a name of a column as queries write it.

    Raises
    ------
    InvalidInputError
        If no query can name it.
    """
    if '"' in name or "\n" in name:
        raise InvalidInputError(f"queries cannot name {name!r}: rename it with ds.rename_tensor")
    return f'"{name}"'


class RowsOf:
    """The rows of a dataset that a selection means.

    Parameters
    ----------
    handle
        The open dataset.
    index
        Which rows.
    """

    def __init__(self, handle: object, index: Index) -> None:
        self._handle = handle
        self._index = index

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RowsOf)
            and self._handle is other._handle
            and self._index.selects_as(other._index)
        )

    __hash__ = None  # type: ignore[assignment]


class Condition:
    """What is asked of each row: made by comparing a column, used in ``ds[...]``, ``filter`` and ``remove``.

    It is no truth value and holds no values: ``(ds["age"] > 3) & (ds["kind"] == "cat")`` is answered by the rows that it
    is used on. Missing values compare as false, and ``~`` of that is true.

    Parameters
    ----------
    parts
        Text of the query language, names of columns and values, in order.
    source
        What is equal for columns of the same rows.
    holds
        Answers it for those rows.

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

    def __init__(self, parts: Sequence[str | Name | Value], source: object, holds: Holds) -> None:
        self._parts = tuple(parts)
        self._source = source
        self._holds = holds

    def asked_of(self, source: object, group: str = "") -> tuple[str, list[Any]]:
        """Return the expression and the values of its ``?``, as the rows of a source are asked.

        Parameters
        ----------
        source
            What is asked: equal to that of the columns, or an error.
        group
            Group whose names are meant.

        Raises
        ------
        InvalidInputError
            If it compares columns of other rows, or of another group.
        """
        if source != self._source:
            raise InvalidInputError(
                f"{self!r} compares columns of other rows: compare those of the dataset or view that is asked, as in "
                "view[view['age'] > 3]"
            )
        return self._written(group), [part.value for part in self._parts if isinstance(part, Value)]

    def _written(self, group: str = "", *, shown: bool = False) -> str:
        texts = []
        for part in self._parts:
            if isinstance(part, Name):
                prefix = f"{group}/" if group else ""
                if not part.full.startswith(prefix):
                    raise InvalidInputError(f"{part.full!r} is no tensor of the group {group!r}")
                texts.append(quoted(part.full[len(prefix) :]))
            elif isinstance(part, Value):
                texts.append(repr(part.value) if shown else "?")
            else:
                texts.append(part)
        return "".join(texts)

    # -- putting together --------------------------------------------------------------------------------------------

    def _with(self, word: str, other: Any) -> Any:
        if isinstance(other, Condition):
            other.asked_of(self._source)
            parts = ("(", *self._parts, ") ", word, " (", *other._parts, ")")
            return Condition(parts, self._source, self._holds)
        mask = np.asarray(other)
        if mask.dtype != np.bool_:
            return NotImplemented
        return self.numpy() & mask if word == "AND" else self.numpy() | mask

    def __and__(self, other: Any) -> Any:
        return self._with("AND", other)

    def __or__(self, other: Any) -> Any:
        return self._with("OR", other)

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Condition:
        return Condition(("NOT (", *self._parts, ")"), self._source, self._holds)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} is asked of each row and is no truth value: join conditions with &, | and ~, in brackets; "
            ".any() and .all() tell of all rows"
        )

    # -- answers -----------------------------------------------------------------------------------------------------

    def numpy(self) -> NDArray[np.bool_]:
        """Answer it for each row: bool, shape (rows,)."""
        return self._holds(*self.asked_of(self._source))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        return len(self.numpy())

    def sum(self, **_: Any) -> int:
        """Count the rows of which it is true."""
        return int(self.numpy().sum())

    def mean(self, **_: Any) -> float:
        """Return the share of the rows of which it is true."""
        return float(self.numpy().mean())

    def any(self, **_: Any) -> bool:
        """Whether it is true of a row."""
        return bool(self.numpy().any())

    def all(self, **_: Any) -> bool:
        """Whether it is true of all rows."""
        return bool(self.numpy().all())

    def __repr__(self) -> str:
        return f"Condition({self._written(shown=True)})"
