"""Schedules of faults: which call of a storage fails, and how. Plain data and counters; no storage is touched here."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, Protocol

from lakebed.errors import StorageError, StorageFullError

When = Literal["before", "after", "torn", "delay"]

TEARABLE = frozenset({"put_many", "copy", "delete_prefix", "list"})
"""Methods that can be done in part; all others are done whole or not at all (``lakebed.storage.base``)."""


class Crash(BaseException):
    """The process ends here; nothing that catches `Exception` may swallow it."""


def refused() -> StorageError:
    """Return an error that a program survives: the device failed."""
    return StorageError("input/output error; this fault was made on purpose", errno=5)


def full() -> StorageFullError:
    """Return an error that a program survives: there is no space left."""
    return StorageFullError("no space left; this fault was made on purpose", errno=28)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a storage: its method, and the keys or the prefix that it names."""

    method: str
    keys: tuple[str, ...] = ()

    @property
    def is_tearable(self) -> bool:
        """Whether a crash may leave half of it done."""
        return self.method in TEARABLE and (self.method != "put_many" or bool(self.keys))


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the calls that match.

    Parameters
    ----------
    when
        ``"before"``: nothing is done, the error is raised. ``"after"``: all is done, but the answer is an error, as
        when it is lost. ``"torn"``: half is done, as far as storages may do half of it (see ``TEARABLE``): objects of
        a batch are missing, and new ones are cut short. ``"delay"``: the call waits, and then goes on without error.
    nth
        Which of the calls that match, from 0; None is each of them.
    methods
        Names of methods; empty is all.
    keys
        Shell pattern; a call matches if one of its keys does.
    times
        How many calls of those that match, one after the other, fail.
    error
        Makes what is raised. After a `Crash` the storage is dead: all further calls raise it too.
    seconds
        Length of a delay, on ``lakebed.runtime.clock``.
    seed
        Decides what is missing and where it is cut.
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
        """Whether it is about calls like this one."""
        if self.methods and call.method not in self.methods:
            return False
        return self.keys == "*" or any(fnmatchcase(key, self.keys) for key in call.keys)


class Schedule(Protocol):
    """Says for one call after the other whether it fails."""

    def next(self, call: Call) -> Fault | None:
        """Return what goes wrong with this call, None if nothing does."""


class Planned:
    """Faults at chosen calls; where several match, the first one counts.

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
    """Faults by chance: the same ones for the same seed and calls.

    Parameters
    ----------
    seed
        Of the random choices.
    probability
        Share of the calls that fail.
    faults
        What may happen; each is as likely as the others, and ``nth`` has no meaning.
    limit
        Number of faults after which all goes well; None is no limit.

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
        """Throw the dice for one call."""
        hit = self._random.random() < self._probability
        fault = self._random.choice(self._faults)
        if not hit or not fault.matches(call) or self.count == self._limit:
            return None
        self.count += 1
        return fault
