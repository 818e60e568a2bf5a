"""The time as leases, grace periods and commits see it; tests put a clock of their own in its place.

``lakebed.testing.VirtualClock`` is one that stands still until it is told to move.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """POSIX seconds."""

    def monotonic(self) -> float:
        """Seconds since some moment, never going back."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """POSIX seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since the machine started, or so."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


_clocks: list[Clock] = [SystemClock()]


def now() -> float:
    """Return the time in POSIX seconds."""
    return _clocks[-1].now()


def monotonic() -> float:
    """Return seconds that never go back."""
    return _clocks[-1].monotonic()


def sleep(seconds: float) -> None:
    """Wait."""
    _clocks[-1].sleep(seconds)


def utc(seconds: float) -> str:
    """Return a time in POSIX seconds as ``YYYY-MM-DD hh:mm:ss`` in UTC, or the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s since 1970"


@contextmanager
def replaced(clock: Clock) -> Iterator[None]:
    """Take the time from another clock within a ``with`` block, in all threads of this process."""
    _clocks.append(clock)
    try:
        yield
    finally:
        _clocks.remove(clock)
