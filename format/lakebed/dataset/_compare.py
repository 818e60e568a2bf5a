"""A tensor's facade: comparisons, which make conditions of whole columns."""

# ruff: noqa: SLF001  (both sides are of one class)

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset._base import TensorBase
from lakebed.verbs.condition import VALUES, WORDS, Compared, Condition, Name, RowsOf, Value


class CompareMethods(Compared, TensorBase):
    """Tensors are equal where they select the same; a column and a value make a condition on its rows."""

    def _compared(self, method: str, other: object) -> Any:
        """Return the condition that a comparison with a value, or by ``<`` with another column, makes.

        Raises
        ------
        TypeError
            If the other is a list or an array, or this is a part of samples (docs/design/048-conditions.md).
        """
        if (other is None or isinstance(other, CompareMethods)) and method in ("__eq__", "__ne__"):
            return self._equal(other, is_equal=method == "__eq__")
        if not isinstance(other, (CompareMethods, *VALUES)):
            if isinstance(other, list | np.ndarray):
                raise self._incomparable(other)
            return method == "__ne__" if method in ("__eq__", "__ne__") else NotImplemented
        given = other._condition() if isinstance(other, CompareMethods) else Value(other)
        return self._condition(f" {WORDS[method]} ", given)

    def _equal(self, other: CompareMethods | None, *, is_equal: bool) -> Any:
        """Return whether both select the same; of whole columns of the same rows the condition, with this truth."""
        truth = (other is not None and self._is_same(other)) == is_equal
        rows = RowsOf(self._handle, self._index)
        if self._index.inside or not (other is None or rows == RowsOf(other._handle, other._index)):
            return truth
        if other is None:
            return self._condition(" IS NULL" if is_equal else " IS NOT NULL").known_as(truth)
        return self._condition(f" {'==' if is_equal else '!='} ", other._condition()).known_as(truth)

    def _condition(self, *parts: str | Value | Condition) -> Condition:
        """Return the condition that begins with this column."""
        if self._index.inside:
            raise self._incomparable(...)
        return Condition((Name(self._name),), RowsOf(self._handle, self._index), self._holds).followed_by(
            *parts
        )

    def _holds(self, condition: Condition) -> NDArray[np.bool_]:
        """Return whether a condition is true, for each row: bool, shape (rows,)."""
        from lakebed.query.run import filtered
        from lakebed.query.sources import Sources
        from lakebed.session.table import Table

        text, parameters = condition.asked_of(RowsOf(self._handle, self._index))
        table = Table(self._session, {name: name for name in condition.names}, self._index)
        found = filtered(text, Sources.of(table), parameters=parameters).base_rows()
        rows = table.rows()
        numbers = np.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows
        return np.isin(numbers, [] if found is None else found)  # of rows that come twice both or none

    def _incomparable(self, other: object) -> TypeError:
        name, value = self._name, repr(other)
        shown = value if len(value) <= 40 else "..."
        return TypeError(
            f"a tensor is no array and is not compared with arrays: compare ds[{name!r}].numpy() == {shown}, which "
            "reads it (fill=... if some are null); ds.filter chooses rows by an expression"
        )

    def __hash__(self) -> int:
        return hash((id(self._handle), self._name))

    def _is_same(self, other: CompareMethods) -> bool:
        """Whether both select the same of the same tensor."""
        return (
            self._handle is other._handle
            and self._name == other._name
            and self._index.selects_as(other._index)
        )
