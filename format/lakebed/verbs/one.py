"""Single values of a row, with the operators of Python and NumPy, and rows that are read like dictionaries."""

# ruff: noqa: SLF001  (both sides of an operator are of one class)

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import Comparing

_NUMBERS = (bool, int, float, np.number, np.bool_)


def _sided(apply: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the methods for a value on the left and on the right of an operator."""

    def operands(self: OneValue, other: Any) -> tuple[Any, Any]:
        return self._both(self._known(), other._known() if isinstance(other, OneValue) else other)

    return (
        lambda self, other: apply(*operands(self, other)),
        lambda self, other: apply(*reversed(operands(self, other))),
    )


def _of_one(apply: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *given: apply(self._known(), *given)


class OneValue(Comparing, ABC):
    """A single value such as ``row["age"]``, used like the stored number, text, array or list; labels also by name.

    Comparing a missing value gives false, as in queries; computing with it is an error. If the other operand is an
    array or number of NumPy, NumPy computes with arrays: ``row["age"] * np.float32(2)`` has the shape (1,), as in 3.x.
    """

    __slots__ = ()

    @abstractmethod
    def _value(self) -> Any:
        """Return the stored array or Python value; labels are numbers, missing values None."""

    @abstractmethod
    def _words(self) -> Sequence[str] | None:
        """Return the class names, if this is a label."""

    @abstractmethod
    def _is_array(self) -> bool:
        """Return whether this is an array or a sequence of arrays; such a value is true, and prints like the tensor."""

    def _shown(self) -> Any:
        """Return the stored value, labels by name."""
        value, words = self._value(), self._words()
        return value if words is None else _named(value, words)

    def _known(self, value: Any = ...) -> Any:
        """Return the value for a computation; raise an error if the value is missing."""
        value = self._value() if value is ... else value
        if value is None:
            raise InvalidInputError(
                f"{self!r} is missing: check .isna() before, or filter with '... IS NOT NULL'"
            )
        return self.numpy() if isinstance(value, list) and self._is_array() else value

    def _number(self) -> Any:
        value = self._known()
        return value.item() if isinstance(value, np.ndarray) and value.size == 1 else value

    def _both(self, value: Any, other: Any) -> tuple[Any, Any]:
        """Return both operands in types that Python or NumPy can compute with."""
        if isinstance(other, str) and (words := self._words()) is not None:
            value = _named(value, words)
            value = np.asarray(value) if isinstance(value, list) else value
        elif isinstance(other, np.ndarray | np.generic) and not isinstance(other, str | bytes):
            value = value if isinstance(value, np.ndarray) else self.numpy()
        return value, other

    def _compared(self, apply: Callable[[Any, Any], Any], other: Any) -> Any:
        value = self._value()
        if other is None:
            return apply is operator.ne and value is not None
        if isinstance(other, OneValue):  # labels of two columns may have different numbers for the same name
            other = other._value() if self._words() == other._words() else other._shown()
        if value is None or other is None:
            return False
        return apply(*self._both(self._known(value), other))

    __add__, __radd__ = _sided(operator.add)
    __sub__, __rsub__ = _sided(operator.sub)
    __mul__, __rmul__ = _sided(operator.mul)
    __truediv__, __rtruediv__ = _sided(operator.truediv)
    __floordiv__, __rfloordiv__ = _sided(operator.floordiv)
    __mod__, __rmod__ = _sided(operator.mod)
    __divmod__, __rdivmod__ = _sided(divmod)
    __pow__, __rpow__ = _sided(operator.pow)
    __matmul__, __rmatmul__ = _sided(operator.matmul)
    __and__, __rand__ = _sided(operator.and_)
    __or__, __ror__ = _sided(operator.or_)
    __xor__, __rxor__ = _sided(operator.xor)

    __neg__, __pos__, __abs__ = _of_one(operator.neg), _of_one(operator.pos), _of_one(abs)
    __invert__ = _of_one(lambda value: not value if isinstance(value, bool) else ~value)
    __round__ = _of_one(
        lambda value, *given: (np.round if isinstance(value, np.ndarray) else round)(value, *given)
    )

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __bool__(self) -> bool:
        return self._is_array() or isinstance(value := self._value(), np.ndarray) or bool(value)

    def __len__(self) -> int:
        value = self._value()
        if not hasattr(value, "__len__") or (isinstance(value, np.ndarray) and not value.ndim):
            return int(value is not None)
        return len(value)

    def __hash__(self) -> int:
        value = self._value()
        return hash(value) if isinstance(value, (str, *_NUMBERS)) else super().__hash__()

    def __contains__(self, item: Any) -> bool:
        if (value := self._value()) is None:
            return False
        value, item = self._both(self._known(value), item)
        return item in ([value] if isinstance(value, _NUMBERS) else value)

    def __str__(self) -> str:
        return str(self._shown())

    def __format__(self, spec: str) -> str:
        is_number = spec[-1:] in tuple("bcdeEfFgGnoxX%")  # such as {:d}, which formats the number of a label
        if not spec:
            return str(self) if self._is_array() else str(self._shown())
        return format(self._number() if is_number else self._shown(), spec)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the stored text, number, array or list: ``row["name"].lower()``."""
        if not name.startswith("_") and (value := self._value()) is not None:
            for held in (self.numpy(), self._shown()) if isinstance(value, _NUMBERS) else (self._shown(),):
                if (found := getattr(held, name, None)) is not None:
                    return found
        return getattr(super(), "__getattr__", self.__getattribute__)(name)

    # -- tests, for which a column returns conditions ------------------------------------------------------------

    def isna(self) -> Any:
        """Return whether the value is missing."""
        return self._value() is None

    def notna(self) -> Any:
        """Return whether the value is not missing."""
        return self._value() is not None

    isnull, notnull = isna, notna

    def isin(self, values: Iterable[Any]) -> Any:
        """Return whether the value is one of the given values."""
        if isinstance(values, str | bytes):
            raise InvalidInputError(f"isin takes several values: isin([{values!r}])")
        return any(self.isna() if value is None else bool(np.all(self == value)) for value in values)

    def contains(self, value: Any) -> Any:
        """Return whether ``value`` is an element of this array, list or set of labels, or a part of this text."""
        return value in self

    def between(self, low: Any, high: Any) -> Any:
        """Return whether the value is from ``low`` to ``high``, both included."""
        return self >= low and self <= high


def _named(value: Any, words: Sequence[str]) -> Any:
    """Return the class names of labels, or of lists and arrays of them."""
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim):
        return [_named(one, words) for one in value]
    return value if value is None else words[value] if 0 <= value < len(words) else str(value)


class Key(str):
    """A name of a tensor from ``keys()``: ``row[key]`` is the plain value, so that ``{**row}`` has plain values."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str(self),)


_OF_ROWS: dict[str, Callable[..., Any]] = {
    "keys": lambda row: dict.fromkeys(map(Key, row._names())).keys(),
    "values": lambda row: row.to_dict().values(),
    "items": lambda row: row.to_dict().items(),
    "get": lambda row, name, default=None: row[name] if name in row else default,  # noqa: SIM401
}
"""Methods of dictionaries that rows have; all but ``get`` give plain values; tensors of the same name hide them."""


def of_row(row: Any, name: str) -> Callable[..., Any] | None:
    """Return a method of dictionaries for a row; None if rows have no method of this name."""
    return partial(_OF_ROWS[name], row) if name in _OF_ROWS else None
