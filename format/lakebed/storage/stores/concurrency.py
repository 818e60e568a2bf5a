"""How many requests a store is asked for at the same time: a policy without threads, clocks or requests of its own.

More requests than those that keep the line busy bring nothing, and a store that is asked for too much refuses. So the
number grows by a quarter as long as that brings more bytes per second, goes back where it does not, and is halved when
the store refuses, or does not answer in time.
"""

from __future__ import annotations

# Seconds over which a rate is measured, at least: shorter ones tell of chance.
_WINDOW = 0.2
# Bytes per second by which a step must bring more, to be kept.
_GAIN = 1.1
# Such windows that pass before the next step is tried, after one that brought nothing, or a refusal.
_REST = 16
# Requests that any store bears. A program that begins with fewer wants no more than that.
_LEAST = 8
GROWTH = 4
"""Times as many requests as at first, at most."""


class Concurrency:
    """The number of requests that may be under way at the same time.

    Parameters
    ----------
    start
        The number at first.
    now
        Seconds on any clock; so is every other moment.

    Attributes
    ----------
    limit
        The number now.
    """

    def __init__(self, start: int, now: float) -> None:
        self.limit = start
        self._least, self._most = min(start, _LEAST), start * (GROWTH if start >= _LEAST else 1)
        # What the limit was, and brought in bytes per second, before the step that is being tried.
        self._base, self._rate = start, 0.0
        self._rest = 0
        self._reduced = now
        self._measure_from(now)

    def _measure_from(self, now: float) -> None:
        self._since, self._bytes, self._answers, self._is_full = now, 0, 0, False

    def began(self, under_way: int) -> None:
        """Learn how many requests are under way, with the one that begins."""
        self._is_full = self._is_full or under_way >= self.limit

    def answered(self, now: float, nbytes: int) -> None:
        """Learn that a request has brought so many bytes."""
        self._bytes += nbytes
        self._answers += 1
        seconds = now - self._since
        if self._answers < self.limit or seconds < _WINDOW:
            return
        rate, is_full = self._bytes / seconds, self._is_full
        self._measure_from(now)
        if not is_full:
            return  # it was not the limit that kept more from being under way
        if self._rest:
            self._rest -= 1
        elif self.limit > self._base and rate < _GAIN * self._rate:
            self.limit, self._rest = self._base, _REST
        else:
            self._base, self._rate = self.limit, rate
            self.limit = min(self._most, self.limit + max(1, self.limit // 4))

    def refused(self, now: float, began: float) -> None:
        """Learn that the store refused a request which began at some moment, or did not answer it in time."""
        if began < self._reduced:
            return  # one of those that were under way when the limit fell: they all tell of the same
        self.limit = self._base = max(self._least, self.limit // 2)
        self._rest, self._reduced = _REST, now
        self._measure_from(now)
