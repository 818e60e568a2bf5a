"""Limits of one query, and the clock that long computations check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from lakebed.errors import QueryError
from lakebed.storage.deadline import deadline

_STRETCH_ROWS = 1 << 12
"""Number of rows that a Python loop handles between two checks of the clock: about a microsecond each."""

_TICK: ContextVar[Callable[[], None] | None] = ContextVar("tick", default=None)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one query; None means no bound.

    Attributes
    ----------
    seconds
        Longest running time.
    memory
        Maximum number of bytes of sort keys, groups and pairs.
    rows
        Maximum number of rows in the result.
    """

    seconds: float | None = None
    memory: int | None = 4 << 30
    rows: int | None = None


class Watch:
    """Resources that a running query has used; exceeding a limit raises `QueryError`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = None if limits.seconds is None else time.monotonic() + limits.seconds
        self._held = 0

    @property
    def left(self) -> float | None:
        """Seconds until the query must end, at least 0; None if it has no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context that also limits the time spent waiting for storage."""
        return deadline(self.left, self.limits.seconds)

    def tick(self) -> None:
        """Raise the error of the time limit if the query has run for too long."""
        if self._end is not None and time.monotonic() > self._end:
            raise QueryError(f"the query ran for more than {self.limits.seconds:g} seconds", kind="limit")

    def hold(self, count: int) -> None:
        """Count bytes that are kept until the query ends."""
        self.tick()
        self._held += count
        if self.limits.memory is not None and self._held > self.limits.memory:
            raise QueryError(
                f"the query holds more than {self.limits.memory:,} bytes; pass a larger max_memory=, or choose "
                "fewer rows",
                kind="limit",
            )

    def result(self, count: int) -> None:
        """Check the number of rows of the result."""
        if self.limits.rows is not None and count > self.limits.rows:
            raise QueryError(
                f"the result has {count:,} rows, more than the {self.limits.rows:,} allowed", kind="limit"
            )


@contextmanager
def ticking(tick: Callable[[], None]) -> Iterator[None]:
    """Make :func:`tick` call a function inside a ``with``; an error of the function ends the computation."""
    token = _TICK.set(tick)
    try:
        yield
    finally:
        _TICK.reset(token)


def tick() -> None:
    """Call the function that :func:`ticking` set, if any; it raises an error if the query has run for too long."""
    found = _TICK.get()
    if found is not None:
        found()


def stretches(count: int, size: int = _STRETCH_ROWS) -> Iterator[range]:
    """Yield consecutive ranges of at most `size` rows, and check the time limit before each."""
    for start in range(0, count, size):
        tick()
        yield range(start, min(count, start + size))
