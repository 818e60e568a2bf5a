"""A tensor's facade: comparisons, which make conditions of whole columns."""

# ruff: noqa: SLF001  (both sides are of one class)

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset._base import TensorBase
from lakebed.reading.index import Index
from lakebed.verbs.condition import Compared, Condition, Name, Value


class CompareMethods(Compared, TensorBase):
    """Tensors are equal where they select the same; a column and a value make a condition on its rows."""

    def _compared(self, compare: Callable[[Any, Any], Any], other: object) -> Any:
        """Return the condition that a comparison makes.

        ``==`` and ``!=`` of two tensors, or with None, have the truth value that they have in Python, which looks for
        tensors in lists by it; of tensors of other rows, or parts of samples, they are no more than that.

        Raises
        ------
        TypeError
            If the other is a list or an array, or this is a part of samples (docs/design/048-conditions.md).
        """
        if isinstance(other, list | np.ndarray):
            raise self._incomparable(other)
        if compare not in (operator.eq, operator.ne) or not isinstance(other, CompareMethods | None):
            return super()._compared(compare, other)
        truth = (other is not None and self._is_same(other)) == (compare is operator.eq)
        if self._index.inside or not (other is None or self._rows_asked == other._rows_asked):
            return truth
        return replace(super()._compared(compare, other), is_same=truth)

    def _condition(self, *parts: str | Value | Condition) -> Condition:
        """Return the condition that begins with this column."""
        if self._index.inside:
            raise self._incomparable(...)
        return Condition((Name(self._name),), self._rows_asked, self._holds).followed_by(*parts)

    @property
    def _rows_asked(self) -> tuple[object, Index]:
        """What is equal for tensors of the same rows."""
        return self._handle, self._index

    def _holds(self, condition: Condition) -> NDArray[np.bool_]:
        """Return whether a condition is true, for each row: bool, shape (rows,)."""
        from lakebed.query.engine.sources import Sources
        from lakebed.query.run import filtered
        from lakebed.session.table import Table

        text, parameters = condition.asked_of(self._rows_asked)
        names: dict[str, str] = {part: part for part in condition.parts if isinstance(part, Name)}
        table = Table(self._session, names, self._index)
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
        return self._name == other._name and self._rows_asked == other._rows_asked
