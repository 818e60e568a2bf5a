"""Schedules of faults, which decide which call of a storage fails, and how: plain data and counters."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from lakebed.errors import StorageError, StorageFullError

When = Literal["before", "after", "torn", "delay"]

TEARABLE = frozenset({"put_many", "copy", "delete_prefix", "list"})
"""Methods that can be done in part; other methods are done as a whole or not at all (``lakebed.storage.base``)."""


class Crash(BaseException):
    """End of the process, which no `except Exception` may catch."""


def refused() -> StorageError:
    """Return a simulated device I/O error that the program is expected to survive."""
    return StorageError("input/output error; this fault was made on purpose", errno=5)


def full() -> StorageFullError:
    """Return a simulated full-disk error that the program is expected to survive."""
    return StorageFullError("no space left; this fault was made on purpose", errno=28)


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a storage: its method, and its keys or prefix."""

    method: str
    keys: tuple[str, ...] = ()

    @property
    def is_tearable(self) -> bool:
        """True if a crash may leave the call half done."""
        return self.method in TEARABLE and (self.method != "put_many" or bool(self.keys))


@dataclass(frozen=True, slots=True)
class Fault:
    """Fault at matching calls.

    Parameters
    ----------
    when
        ``"before"``: the error is raised and nothing done. ``"after"``: the call is made, but its answer is an error,
        as if lost. ``"torn"``: half of the call is done if storages may do so (see ``TEARABLE``): objects of a batch
        are missing, and new ones are cut short. ``"delay"``: the call waits and continues without an error.
    nth
        Number of the matching call, from 0; None for all of them.
    methods
        Names of methods; empty for all.
    keys
        Shell pattern; a call matches if one of its keys does.
    times
        Number of consecutive matching calls that fail.
    error
        Creates the exception. After a `Crash` the storage is dead: all further calls raise it, too.
    seconds
        Length of a delay, on ``lakebed.runtime.clock``.
    seed
        Decides which objects are missing and where other objects are cut.
    """

    when: When = "before"
    nth: int | None = 0
    methods: Collection[str] = ()
    keys: str = "*"
    times: int = 1
    error: Callable[[], BaseException] = Crash
    seconds: float = 0.0
    seed: int = 0

    def matches(self, call: Call) -> bool:
        """Tell whether a call matches."""
        if self.methods and call.method not in self.methods:
            return False
        return self.keys == "*" or any(fnmatchcase(key, self.keys) for key in call.keys)


class Schedule(Protocol):
    """Decides for each call in turn whether the call fails."""

    def next(self, call: Call) -> Fault | None:
        """Return the fault of this call, None if it succeeds."""


class Planned:
    """Faults at chosen calls; if several match, the first one counts.

    Examples
    --------
    >>> plan = Planned(Fault("after", nth=2, methods={"put_if"}, error=refused))
    >>> [plan.next(Call("put_if", ("tree",))) is not None for _ in range(4)]
    [False, False, True, False]
    """

    def __init__(self, *faults: Fault) -> None:
        self.faults: Sequence[Fault] = faults
        self._seen = [0] * len(faults)

    def next(self, call: Call) -> Fault | None:
        """Count the call for each fault, and return the first one whose turn it is."""
        found = None
        for i, fault in enumerate(self.faults):
            if fault.matches(call):
                if found is None and (fault.nth is None or 0 <= self._seen[i] - fault.nth < fault.times):
                    found = fault
                self._seen[i] += 1
        return found


class Sometimes:
    """Random faults, the same ones for the same seed and calls.

    Parameters
    ----------
    seed
        Seed of the random choices.
    probability
        Share of the calls that fail.
    faults
        Possible faults, all equally likely; ``nth`` has no meaning.
    limit
        Number of faults after which all calls succeed; None for no limit.

    Attributes
    ----------
    count
        Number of faults so far.
    """

    def __init__(self, seed: int, probability: float, *faults: Fault, limit: int | None = None) -> None:
        self.count = 0
        self._random = random.Random(seed)
        self._probability = probability
        self._faults = faults or (Fault("before", error=refused), Fault("after", error=refused))
        self._limit = limit

    def next(self, call: Call) -> Fault | None:
        """Draw the fault of a call; None if it succeeds."""
        hit = self._random.random() < self._probability
        fault = self._random.choice(self._faults)
        if not hit or not fault.matches(call) or self.count == self._limit:
            return None
        self.count += 1
        return fault
