"""How long a query may run, and how much it may hold."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lakebed.errors import QueryError
from lakebed.query.functions.spaces import NUMPY, Space
from lakebed.storage.deadline import deadline


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one query; None is none.

    Attributes
    ----------
    seconds
        Until it ends.
    memory
        Bytes of sort keys, groups and pairs that it holds.
    rows
        Of its result.
    depth
        How deep expressions and queries may lie in each other.
    """

    seconds: float | None = None
    memory: int | None = 4 << 30
    rows: int | None = None
    depth: int = 100


@dataclass(frozen=True, slots=True)
class Ways:
    """How a query is answered, where answers would be the same.

    Attributes
    ----------
    is_exact
        Use no index.
    space
        Where vectors are computed.
    """

    is_exact: bool = False
    space: Space = NUMPY


class Watch:
    """What a running query has used."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._end = None if limits.seconds is None else time.monotonic() + limits.seconds
        self._held = 0

    @property
    def left(self) -> float | None:
        """Seconds until it ends, not below 0; None for no end."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def waiting(self) -> AbstractContextManager[None]:
        """Return a context in which storage is waited for no longer than the query may run."""
        return deadline(self.left, self.limits.seconds)

    def tick(self) -> None:
        """Go on, if there is time.

        Raises
        ------
        QueryError
            If there is none.
        """
        if self._end is not None and time.monotonic() > self._end:
            raise QueryError(f"the query ran for more than {self.limits.seconds:g} seconds", kind="limit")

    def hold(self, count: int) -> None:
        """Note bytes that are kept until the query ends.

        Raises
        ------
        QueryError
            If they are too many.
        """
        self.tick()
        self._held += count
        if self.limits.memory is not None and self._held > self.limits.memory:
            raise QueryError(
                f"the query holds more than {self.limits.memory:,} bytes; pass a larger max_memory=, or choose "
                "fewer rows",
                kind="limit",
            )

    def result(self, count: int) -> None:
        """Take note of the rows of the result.

        Raises
        ------
        QueryError
            If they are too many.
        """
        if self.limits.rows is not None and count > self.limits.rows:
            raise QueryError(
                f"the result has {count:,} rows, more than the {self.limits.rows:,} allowed", kind="limit"
            )
