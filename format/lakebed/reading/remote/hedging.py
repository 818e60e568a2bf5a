"""Policy for repeating slow requests, without threads, clocks or requests of its own.

A few of many requests take many times as long as the others, for reasons that a second request does not meet. That
is made when the first takes twice as long as nearly all recent ones did, for one request in thirty at most: a
store that is slow as a whole, such as an overloaded one, does not get more requests.
"""

from __future__ import annotations

from collections import deque

# Number of recent requests that are remembered, and the least number that gives a usual duration.
_REMEMBERED = 256
_ENOUGH = 32
_USUAL = 0.95
_TIMES = 2.0
# Requests that take longer count as slow; below it the local machine may be the cause.
_LEAST = 0.1
_MOST_PART = 1 / 30


class Hedging:
    """Decides which requests are asked for a second time.

    Attributes
    ----------
    hedged
        How many were.
    """

    def __init__(self) -> None:
        self.hedged = 0
        self._answered = 0
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self._limit = float("inf")

    def answered(self, seconds: float) -> None:
        """Learn how long a request took, one that was hedged as well."""
        self._answered += 1
        self._recent.append(seconds)
        if self._answered >= _ENOUGH and self._answered % (_ENOUGH // 2) == 0:
            usual = sorted(self._recent)[int(_USUAL * (len(self._recent) - 1))]
            self._limit = max(_LEAST, _TIMES * usual)

    def hedge(self, seconds: float) -> bool:
        """Tell whether to repeat a request that has taken ``seconds`` so far, and count it."""
        if seconds <= self._limit or self.hedged >= _MOST_PART * self._answered:
            return False
        self.hedged += 1
        return True
