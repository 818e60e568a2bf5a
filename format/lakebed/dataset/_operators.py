"""A tensor's facade: in-place operators, which read what is selected, compute, and assign it back."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from lakebed.errors import DynamicTensorNumpyError, LakebedError, SampleUpdateError


class OperatorMethods(ABC):
    """``+=`` and its kin for what can be read as an array and assigned to."""

    @abstractmethod
    def numpy(self, aslist: bool = False, fetch_chunks: bool = False) -> Any:
        """Read what is selected."""

    @property
    @abstractmethod
    def is_sequence(self) -> bool:
        """Whether samples are sequences of items."""

    @abstractmethod
    def assign(self, value: Any) -> None:
        """Replace what is selected.

        Parameters
        ----------
        value
            Samples, or one sample where one is selected.
        """

    def _in_place(self, compute: Callable[[Any, Any], Any], other: Any) -> Self:
        """Apply an operator to what is selected.

        Raises
        ------
        SampleUpdateError
            If the samples differ in shape, or the result does not fit the tensor; the cause says why.
        """
        if isinstance(other, OperatorMethods):
            other = other.numpy()
        try:
            result = self._computed(compute, other)
        except DynamicTensorNumpyError as error:
            raise SampleUpdateError(
                f"{self!r} has samples of different shapes: select one sample, or some of one shape, and "
                "update those"
            ) from error
        except (LakebedError, TypeError, ValueError, ArithmeticError) as error:
            raise SampleUpdateError(f"Unable to update {self!r} in place: {error}") from error
        self.assign(result)
        return self

    def _computed(self, compute: Callable[[Any, Any], Any], other: Any) -> Any:
        """Return what an operator makes of what is selected; of sequences that differ in length, item by item."""
        try:
            return compute(self.numpy(), other)
        except DynamicTensorNumpyError:
            if not self.is_sequence or np.ndim(other):
                raise
            return _each(self.numpy(aslist=True), lambda item: compute(item, other))

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
