"""Operators of tensors: in-place arithmetic, and comparisons, which make conditions of whole columns."""

# ruff: noqa: SLF001  (both sides are of one class)

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.base import TensorBase
from lakebed.errors import DynamicTensorNumpyError, LakebedError, SampleUpdateError
from lakebed.reading.subscripts import Index
from lakebed.verbs.condition import Compared, Condition, Name, Value


class OperatorMethods(TensorBase):
    """``+=`` and similar operators: they read the selection as an array, compute, and assign the result."""

    def _in_place(self, compute: Callable[[Any, Any], Any], other: Any) -> Self:
        """Apply an operator to the selected samples.

        Raises
        ------
        SampleUpdateError
            If the samples differ in shape, or the result does not fit the tensor; the cause says why.
        """
        if isinstance(other, OperatorMethods):
            other = other._selection.numpy()
        try:
            result = self._computed(compute, other)
        except DynamicTensorNumpyError as error:
            raise SampleUpdateError(
                f"{self!r} has samples of different shapes: select one sample, or some of one shape, and "
                "update those"
            ) from error
        except (LakebedError, TypeError, ValueError, ArithmeticError) as error:
            raise SampleUpdateError(f"Unable to update {self!r} in place: {error}") from error
        from lakebed.session.changes.assign import assign_all

        assign_all(self._session, [(self._name, self._index, result)])
        return self

    def _computed(self, compute: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return the result of an operator; for sequences of different lengths, compute it item by item."""
        try:
            return compute(self._selection.numpy(), other)
        except DynamicTensorNumpyError:
            if not self._state.meta.is_sequence or np.ndim(other):
                raise
            return _each(self._selection.numpy(aslist=True), lambda item: compute(item, other))

    def __iadd__(self, other: Any) -> Self:
        return self._in_place(operator.iadd, other)

    def __isub__(self, other: Any) -> Self:
        return self._in_place(operator.isub, other)

    def __imul__(self, other: Any) -> Self:
        return self._in_place(operator.imul, other)

    def __itruediv__(self, other: Any) -> Self:
        return self._in_place(operator.itruediv, other)

    def __ifloordiv__(self, other: Any) -> Self:
        return self._in_place(operator.ifloordiv, other)

    def __imod__(self, other: Any) -> Self:
        return self._in_place(operator.imod, other)

    def __ipow__(self, other: Any) -> Self:
        return self._in_place(operator.ipow, other)

    def __irshift__(self, other: Any) -> Self:
        return self._in_place(operator.irshift, other)

    def __ilshift__(self, other: Any) -> Self:
        return self._in_place(operator.ilshift, other)

    def __iand__(self, other: Any) -> Self:
        return self._in_place(operator.iand, other)

    def __ior__(self, other: Any) -> Self:
        return self._in_place(operator.ior, other)

    def __ixor__(self, other: Any) -> Self:
        return self._in_place(operator.ixor, other)


def _each(values: Any, compute: Callable[[Any], Any]) -> Any:
    """Apply a function to the arrays in lists of lists of arrays."""
    if isinstance(values, list):
        return [_each(value, compute) for value in values]
    return compute(np.array(values))


class CompareMethods(Compared, TensorBase):
    """Comparisons: tensors with equal selections are equal; a column and a value make a condition on its rows."""

    def _compared(self, compare: Callable[[Any, Any], Any], other: object) -> Any:
        """Return the condition of a comparison.

        The condition of ``==`` or ``!=`` of two tensors, or of a tensor and None, also has a truth value, which Python
        needs to find tensors in lists. For tensors with different rows, or for parts of samples, return only this truth
        value.

        Raises
        ------
        TypeError
            If ``other`` is a list or an array, or this tensor selects parts of samples (docs/design/048-conditions.md).
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
        """Key that is equal for tensors with the same rows selected."""
        return self._handle, self._index

    def _holds(self, condition: Condition) -> NDArray[np.bool_]:
        """Return for each row whether a condition is true: bool, shape (rows,)."""
        from lakebed.query.engine.sources import Sources
        from lakebed.query.run import filtered
        from lakebed.session.table import Table

        text, parameters = condition.asked_of(self._rows_asked)
        names: dict[str, str] = {part: part for part in condition.parts if isinstance(part, Name)}
        table = Table(self._session, names, self._index)
        found = filtered(text, Sources.of(table), parameters=parameters).base_rows()
        rows = table.rows()
        numbers = np.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows
        # `np.isin` also finds rows that are selected several times.
        return np.isin(numbers, [] if found is None else found)

    def _incomparable(self, other: object) -> TypeError:
        name, value = self._name, repr(other)
        shown = value if len(value) <= 40 else "..."
        return TypeError(
            f"a tensor is not an array and cannot be compared with arrays: compare ds[{name!r}].numpy() == {shown}, "
            "which reads it (fill=... if some are null); ds.filter selects rows by an expression"
        )

    def __hash__(self) -> int:
        return hash((id(self._handle), self._name))

    def _is_same(self, other: CompareMethods) -> bool:
        """Return whether both tensors select the same parts of the same tensor."""
        return self._name == other._name and self._rows_asked == other._rows_asked
