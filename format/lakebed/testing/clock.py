"""A clock that moves only on request: leases expire and grace periods end without waiting."""

from __future__ import annotations

import threading


class VirtualClock:
    """Time that only :meth:`advance` and :meth:`sleep` move; for ``lakebed.runtime.clock.replaced``.

    Parameters
    ----------
    start
        Initial time in POSIX seconds.

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
        """Return POSIX seconds."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds since this clock was created."""
        return self._now - self._start

    def sleep(self, seconds: float) -> None:
        """Let time pass and return at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._now += max(0.0, seconds)
