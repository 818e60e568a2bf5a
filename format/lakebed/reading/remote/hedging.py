"""When to ask a second time for what a reader waits for: a policy without threads, clocks or requests of its own.

Of many requests a few take many times as long as the others, for reasons that a second one does not meet. It is made
when the first takes twice as long as nearly all lately did, and of one in thirty at most: a store that is slow as a
whole, as one that is asked for too much, is not asked for more.
"""

from __future__ import annotations

from collections import deque

# Requests that are remembered, and those without which nothing can be said of what is usual.
_REMEMBERED = 256
_ENOUGH = 32
_USUAL = 0.95
_TIMES = 2.0
# Seconds that any request may take: below them it may be this machine that is slow.
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
        """Tell whether to ask again for what was asked for so many seconds ago, and count it."""
        if seconds <= self._limit or self.hedged >= _MOST_PART * self._answered:
            return False
        self.hedged += 1
        return True
