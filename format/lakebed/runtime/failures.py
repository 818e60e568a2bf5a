"""Failures of a block or a call: undo begun work, or pass the error to the caller that requests the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, final

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")


@final
class OnFailure:
    """Context manager that calls a function if its block fails in any way, an interrupt included.

    The error of the block continues; an error of the function is raised with the block's error as its cause.
    """

    __slots__ = ("_arguments", "_undo")

    def __init__(self, undo: Callable[..., object], *arguments: object) -> None:
        self._undo = undo
        self._arguments = arguments

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._undo(*self._arguments)


class Outcome(NamedTuple, Generic[T]):
    """Result of a call, or its error, for another thread or process to raise.

    Attributes
    ----------
    value
        What the call returned; None after an error.
    error
        What the call raised; None if it returned.
    """

    value: T | None
    error: BaseException | None = None

    def result(self) -> T:
        """Return the result.

        Raises
        ------
        BaseException
            The error of the call.
        """
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # None only if the call returned it


def outcome(call: Callable[..., T], *arguments: Any, kind: type[BaseException] = BaseException) -> Outcome[T]:
    """Make a call and return its result or its error.

    Parameters
    ----------
    kind
        Errors that are returned; other errors are raised. ``Exception`` lets interrupts of this thread pass.
    """
    try:
        return Outcome(call(*arguments))
    except kind as error:
        return Outcome(None, error)
