"""The number of concurrent read requests to a store, and their counts.

More requests than the network can carry gain nothing, and an overloaded store refuses them. So the limit grows by a
quarter as long as that brings more bytes per second, shrinks if it does not, and is halved if the store refuses or does
not answer in time.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.runtime import clock
from lakebed.storage.base import innermost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakebed.storage.base import Storage

# Minimum number of seconds over which a rate is measured; over a shorter time, chance decides.
_WINDOW = 0.2
# A step is kept if it multiplies the rate by at least this factor.
_GAIN = 1.1
# Number of windows without a new step, after a step without gain or after a refusal.
_REST = 16
# Number of requests that any store can handle: the limit never falls below it, unless it began lower.
_LEAST = 8
GROWTH = 4
"""Maximum number of requests, as a multiple of the initial number."""

_widest = 0


@dataclass(slots=True)
class Counts:
    """Counts of read requests.

    Parameters
    ----------
    requests
        Requests, each repetition counted.
    retried
        Requests that repeat a failed one.
    refused
        Requests that the store refused because it was too busy, or did not answer in time.
    nbytes
        Bytes received.
    """

    requests: int = 0
    retried: int = 0
    refused: int = 0
    nbytes: int = 0

    def plus(self, other: Counts, sign: int = 1) -> Counts:
        """Return the sum of both counts."""
        names = [field.name for field in fields(self)]
        return Counts(*(getattr(self, name) + sign * getattr(other, name) for name in names))

    def since(self, before: Counts) -> Counts:
        """Return the requests since another count."""
        return self.plus(before, -1)


class Concurrency:
    """Number of requests that may be under way at the same time: a policy without threads, clocks or requests.

    Parameters
    ----------
    start
        Initial limit.
    now
        Seconds on any clock; the methods take times of the same clock.

    Attributes
    ----------
    limit
        Present limit.
    """

    def __init__(self, start: int, now: float) -> None:
        self.limit = start
        self._least, self._most = min(start, _LEAST), start * (GROWTH if start >= _LEAST else 1)
        # The limit before the step that is being tried, and the rate in bytes per second at that limit.
        self._base, self._rate = start, 0.0
        self._rest = 0
        self._reduced = now
        self._measure_from(now)

    def _measure_from(self, now: float) -> None:
        self._since, self._bytes, self._answers, self._is_full = now, 0, 0, False

    def began(self, under_way: int) -> None:
        """Record how many requests are under way, including the one that begins."""
        self._is_full = self._is_full or under_way >= self.limit

    def answered(self, now: float, nbytes: int) -> None:
        """Record that a request has returned `nbytes`."""
        self._bytes += nbytes
        self._answers += 1
        seconds = now - self._since
        if self._answers < self.limit or seconds < _WINDOW:
            return
        rate, is_full = self._bytes / seconds, self._is_full
        self._measure_from(now)
        if not is_full:
            return  # requests did not reach the limit, so the rate says nothing about it
        if self._rest:
            self._rest -= 1
        elif self.limit > self._base and rate < _GAIN * self._rate:
            self.limit, self._rest = self._base, _REST
        else:
            self._base, self._rate = self.limit, rate
            self.limit = min(self._most, self.limit + max(1, self.limit // 4))

    def refused(self, now: float, began: float) -> None:
        """Record that the store refused a request that began at a time, or did not answer in time."""
        if began < self._reduced:
            return  # all requests from before the last reduction count as one refusal
        self.limit = self._base = max(self._least, self.limit // 2)
        self._rest, self._reduced = _REST, now
        self._measure_from(now)


class Asked:
    """A request under way; the caller records its bytes, or its refusal."""

    __slots__ = ("began", "is_refused", "nbytes")

    def __init__(self, began: float) -> None:
        self.began = began
        self.nbytes = 0
        self.is_refused = False


class Traffic:
    """Read requests of this process to one store."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._concurrency = Concurrency(max(1, config.REQUESTS), clock.monotonic())
        self._under_way = 0
        self._counts = Counts()

    @property
    def limit(self) -> int:
        """Number of requests that may be under way at the same time."""
        return self._concurrency.limit

    def counts(self) -> Counts:
        """Return the counts so far."""
        with self._change:
            return self._counts.since(Counts())

    @contextmanager
    def request(self) -> Iterator[Asked]:
        """Wait until one more request may be under way, and record how the request of the block ends."""
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


def traffic_of(storage: Storage) -> Traffic | None:
    """Return the traffic of a storage below its caches; None if it does not count requests."""
    found: Traffic | None = getattr(innermost(storage), "traffic", None)
    return found


def widest() -> int:
    """Return the largest number of requests to one store that this process ever allowed at the same time."""
    return _widest
