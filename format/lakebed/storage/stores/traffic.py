"""What a store was asked to read and what came of it, and how many requests for that are under way at the same time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lakebed import config
from lakebed.runtime import clock
from lakebed.storage.base import innermost
from lakebed.storage.stores.concurrency import Concurrency

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakebed.storage.base import Storage

_widest = 0


@dataclass(slots=True)
class Counts:
    """Requests that read.

    Parameters
    ----------
    requests
        Those that were made, each time anew if one is repeated.
    retried
        Those that repeat one that failed.
    refused
        Those that the store was too busy for, or did not answer in time.
    nbytes
        Bytes that came.
    """

    requests: int = 0
    retried: int = 0
    refused: int = 0
    nbytes: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return both together."""
        return Counts(
            self.requests + other.requests,
            self.retried + other.retried,
            self.refused + other.refused,
            self.nbytes + other.nbytes,
        )

    def since(self, before: Counts) -> Counts:
        """Return what came after another count."""
        return Counts(
            self.requests - before.requests,
            self.retried - before.retried,
            self.refused - before.refused,
            self.nbytes - before.nbytes,
        )


class Asked:
    """One request under way; its maker puts in how many bytes it brings, or that the store refuses it."""

    __slots__ = ("began", "is_refused", "nbytes")

    def __init__(self, began: float) -> None:
        self.began = began
        self.nbytes = 0
        self.is_refused = False


class Traffic:
    """The requests of this process that read from one store."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._concurrency = Concurrency(max(1, config.REQUESTS), clock.monotonic())
        self._under_way = 0
        self._counts = Counts()

    @property
    def limit(self) -> int:
        """Requests that may be under way at the same time."""
        return self._concurrency.limit

    def counts(self) -> Counts:
        """Return what has happened so far."""
        with self._change:
            return self._counts.since(Counts())

    @contextmanager
    def request(self) -> Iterator[Asked]:
        """Wait until one more request may be under way, and note how the one that the block makes ends."""
        with self._change:
            self._change.wait_for(lambda: self._under_way < self._concurrency.limit)
            self._under_way += 1
            self._counts.requests += 1
            self._concurrency.began(self._under_way)
        asked = Asked(clock.monotonic())
        try:
            yield asked
        finally:
            self._ended(asked)

    def _ended(self, asked: Asked) -> None:
        global _widest  # noqa: PLW0603 - of this process
        with self._change:
            before = self._concurrency.limit
            self._under_way -= 1
            self._counts.nbytes += asked.nbytes
            self._counts.refused += asked.is_refused
            if asked.is_refused:
                self._concurrency.refused(clock.monotonic(), asked.began)
            else:
                self._concurrency.answered(clock.monotonic(), asked.nbytes)
            _widest = max(_widest, self._concurrency.limit)
            self._change.notify(1 + max(0, self._concurrency.limit - before))

    def retried(self) -> None:
        """Count a request that is about to be repeated."""
        with self._change:
            self._counts.retried += 1


class MeteredStorage(Protocol):
    """A storage that notes its requests itself."""

    @property
    def traffic(self) -> Traffic:
        """The requests that read from it."""


def traffic_of(storage: Storage) -> Traffic | None:
    """Return the traffic of a storage that notes it, below its caches."""
    found: Traffic | None = getattr(innermost(storage), "traffic", None)
    return found


def widest() -> int:
    """Return how many requests were ever allowed to be under way at the same time to one store of this process."""
    return _widest
