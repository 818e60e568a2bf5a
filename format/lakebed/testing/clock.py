"""A clock that stands still until it is told to move: leases run out and grace periods end without waiting."""

from __future__ import annotations

import threading


class VirtualClock:
    """Time that only :meth:`advance` and :meth:`sleep` move; for ``lakebed.runtime.clock.replaced``.

    Parameters
    ----------
    start
        What it shows at first, in POSIX seconds.

    Examples
    --------
    >>> from lakebed.runtime import clock
    >>> virtual = VirtualClock()
    >>> with clock.replaced(virtual):
    ...     began = clock.now()
    ...     virtual.advance(300)
    ...     clock.now() - began
    300.0
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start = self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        """POSIX seconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._now - self._start

    def sleep(self, seconds: float) -> None:
        """Return at once, that much later."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._now += max(0.0, seconds)
