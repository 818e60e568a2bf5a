"""The clock of leases, grace periods and commits, and random numbers for pauses; tests replace the clock.

``lakebed.testing.VirtualClock`` does not move until a test advances it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from random import Random


class Clock(Protocol):
    """Source of the time."""

    def now(self) -> float:
        """Return POSIX seconds."""

    def monotonic(self) -> float:
        """Return seconds since some moment; they never decrease."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return POSIX seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since about the start of the machine."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


_clocks: list[Clock] = [SystemClock()]


def now() -> float:
    """Return the time in POSIX seconds."""
    return _clocks[-1].now()


def monotonic() -> float:
    """Return seconds that never decrease."""
    return _clocks[-1].monotonic()


def sleep(seconds: float) -> None:
    """Wait."""
    _clocks[-1].sleep(seconds)


def utc(seconds: float) -> str:
    """Return a time in POSIX seconds as ``YYYY-MM-DD hh:mm:ss`` in UTC, or the number if no calendar has that time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s since 1970"


@cache
def chance() -> Random:
    """Return the source of random numbers for pauses and for choices without consequence.

    The numbers of the module `random` belong to the program, whose seeded run must not change because it waits for a
    lease. Forked processes must draw different numbers.
    """
    from random import SystemRandom

    return SystemRandom()


@contextmanager
def replaced(clock: Clock) -> Iterator[None]:
    """Take the time from another clock within a ``with`` block, in all threads of this process."""
    _clocks.append(clock)
    try:
        yield
    finally:
        _clocks.remove(clock)
