"""Conditions: what a comparison of a whole column asks of each row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataclass import dataclass
from lakebed.errors import InvalidInputError, InvalidKeyTypeError
from lakebed.reading.index import Index

WORDS = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
"""Methods of comparison -> their words in the query language."""

VALUES = (bool, int, float, str, bytes, np.generic, dt.date, dt.time, dt.timedelta)
"""What a column is compared with."""

Holds = Callable[["Condition"], NDArray[np.bool_]]
"""Answers whether a condition is true, for each row: shape (rows,)."""


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
    """What is asked of each row, made by comparing a column: used in ``ds[...]``, ``filter`` and ``remove``.

    It is no truth value and holds no values: ``(ds["age"] > 3) & (ds["kind"] == "cat")`` is answered by the rows that
    it is used on. Missing values compare as false, and ``~`` of that is true.

    Parameters
    ----------
    parts
        Text of the query language, names of columns and values, in order.
    source
        What is equal for columns of the same rows.
    holds
        Answers it for those rows.
    is_same
        The truth value that ``==`` and ``!=`` of two columns, or of a column and None, have in Python, which looks for
        columns in lists by it; None of all others.

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

    def __init__(
        self,
        parts: Sequence[str | Name | Value],
        source: object,
        holds: Holds,
        *,
        is_same: bool | None = None,
    ) -> None:
        self.parts = tuple(parts)
        self._source = source
        self._holds = holds
        self._is_same = is_same

    @property
    def names(self) -> list[str]:
        """Full names of the columns that it compares."""
        return list(dict.fromkeys(part.full for part in self.parts if isinstance(part, Name)))

    def asked_of(self, source: object, names: Mapping[str, str] | None = None) -> tuple[str, list[Any]]:
        """Return the expression and the values of its ``?``, as the rows of a source are asked.

        Parameters
        ----------
        source
            What is asked: equal to that of the columns, or an error.
        names
            Full names of columns -> those that they are asked by; None for the same.

        Raises
        ------
        InvalidInputError
            If it compares columns of other rows, or others than these.
        """
        if source != self._source:
            raise InvalidInputError(
                f"{self!r} compares columns of other rows: compare those of the dataset or view that is asked, as in "
                "view[view['age'] > 3]"
            )
        return self._written(names), [part.value for part in self.parts if isinstance(part, Value)]

    def _written(self, names: Mapping[str, str] | None = None, *, shown: bool = False) -> str:
        texts = []
        for part in self.parts:
            if isinstance(part, Name):
                if names is not None and part.full not in names:
                    raise InvalidInputError(
                        f"{part.full!r} is not among the tensors that are asked: {', '.join(names)}"
                    )
                texts.append(quoted(part.full if names is None else names[part.full]))
            elif isinstance(part, Value):
                texts.append(repr(part.value) if shown else "?")
            else:
                texts.append(part)
        return "".join(texts)

    # -- putting together --------------------------------------------------------------------------------------------

    def followed_by(self, *parts: str | Name | Value | Condition) -> Condition:
        """Return it with more behind it.

        Parameters
        ----------
        parts
            Text of the query language, names, values, and conditions on the same rows.

        Raises
        ------
        InvalidInputError
            If a part is a condition on other rows.
        """
        found: list[str | Name | Value] = []
        for part in parts:
            if isinstance(part, Condition):
                part.asked_of(self._source)
            found += part.parts if isinstance(part, Condition) else [part]
        return Condition((*self.parts, *found), self._source, self._holds)

    def enclosed(self, before: str, *behind: str | Name | Value | Condition) -> Condition:
        """Return it with text before and more behind it.

        Parameters
        ----------
        before
            Text of the query language.
        behind
            As :meth:`followed_by` takes.
        """
        return Condition((before, *self.parts), self._source, self._holds).followed_by(*behind)

    def _with(self, word: str, other: Any) -> Any:
        if isinstance(other, Condition):
            return self.enclosed("(", f") {word} (", other, ")")
        if isinstance(other, Compared):
            return self._with(word, other.asked())
        mask = np.asarray(other)
        if mask.dtype != np.bool_:
            return NotImplemented
        return self.numpy() & mask if word == "AND" else self.numpy() | mask

    def __and__(self, other: Any) -> Any:
        return self._with("AND", other)

    def __or__(self, other: Any) -> Any:
        return self._with("OR", other)

    __rand__, __ror__ = __and__, __or__

    def known_as(self, is_same: bool) -> Condition:
        """Return it with a truth value.

        Parameters
        ----------
        is_same
            What ``bool`` of it is.
        """
        return Condition(self.parts, self._source, self._holds, is_same=is_same)

    def __invert__(self) -> Condition:
        return self.enclosed("NOT (", ")")

    def __bool__(self) -> bool:
        if self._is_same is not None:
            return self._is_same
        raise TypeError(
            f"{self!r} is asked of each row and is no truth value: join conditions with &, | and ~, in brackets; "
            ".any() and .all() tell of all rows"
        )

    # -- answers -----------------------------------------------------------------------------------------------------

    def numpy(self) -> NDArray[np.bool_]:
        """Return the answer for each row: bool, shape (rows,)."""
        return self._holds(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found = self.numpy()
        return found if dtype is None else found.astype(dtype)

    def __len__(self) -> int:
        return len(self.numpy())

    def tolist(self) -> list[bool]:
        """Return the answer for each row, as a list."""
        found: list[bool] = self.numpy().tolist()
        return found

    def __iter__(self) -> Iterator[bool]:
        return iter(self.tolist())

    def sum(self, **_: Any) -> int:
        """Return the number of rows of which it is true."""
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

    def __str__(self) -> str:
        return self._written(shown=True)

    def __repr__(self) -> str:
        return f"Condition({self})"


class Compared:
    """Comparisons of a column, all of which go by their method's name to ``_compared``."""

    if TYPE_CHECKING:
        dtype: Any

        def _compared(self, method: str, other: object) -> Any: ...

    def asked(self) -> Condition:
        """Return the condition that a column of bools is.

        Raises
        ------
        InvalidKeyTypeError
            If it holds others.
        """
        if self.dtype != np.bool_:
            raise InvalidKeyTypeError(
                f"a column of bools chooses rows, and {self!r} is none: compare it, as in ds['age'] > 3"
            )
        found: Condition = self._compared("__eq__", True)
        return found

    def __invert__(self) -> Condition:
        return ~self.asked()

    def __and__(self, other: Any) -> Any:
        return self.asked() & other if isinstance(other, Compared) else NotImplemented

    def __or__(self, other: Any) -> Any:
        return self.asked() | other if isinstance(other, Compared) else NotImplemented

    def __eq__(self, other: object) -> Any:
        return self._compared("__eq__", other)

    def __ne__(self, other: object) -> Any:
        return self._compared("__ne__", other)

    def __lt__(self, other: object) -> Any:
        return self._compared("__lt__", other)

    def __le__(self, other: object) -> Any:
        return self._compared("__le__", other)

    def __gt__(self, other: object) -> Any:
        return self._compared("__gt__", other)

    def __ge__(self, other: object) -> Any:
        return self._compared("__ge__", other)

    __hash__ = object.__hash__
