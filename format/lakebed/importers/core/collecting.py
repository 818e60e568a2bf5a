"""What the search for unreachable cycles (``gc``) need not look at: what an import reads and plans is in no cycle.

An import holds objects by the million, of annotations and of plans, and each full search looks at all of them.
"""

from __future__ import annotations

import gc
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext

_MANY = 100_000
_MANY_ROWS = 1_000


class _Inside(ABC):
    """``with`` it, something is so, until the last of the threads that are inside leaves."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._inside = 0
        self._is_ours = False

    @abstractmethod
    def _begin(self) -> bool:
        """Let it be so; tell whether it was not before."""

    @abstractmethod
    def _end(self) -> None:
        """Let it be as it was."""

    def __enter__(self) -> None:
        with self._mutex:
            if not self._inside:
                self._is_ours = self._begin()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._inside -= 1
            if not self._inside and self._is_ours:
                self._end()


class _NoSearch(_Inside):
    """The search rests. What was made meanwhile is old then: it is looked at once, not in each generation."""

    def _begin(self) -> bool:
        was_on = gc.isenabled()
        gc.disable()
        return was_on

    def _end(self) -> None:
        # To count what is frozen is to walk all of it, which a few objects are not worth.
        if gc.get_count()[0] >= _MANY and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


class _Aside(_Inside):
    """What there is already is not looked at, only what is made from now on. What the program has frozen stays so."""

    def _begin(self) -> bool:
        if gc.get_freeze_count():
            return False
        gc.freeze()
        return True

    def _end(self) -> None:
        gc.unfreeze()


NO_SEARCH = _NoSearch()
ASIDE = _Aside()


def aside(rows: int | None) -> AbstractContextManager[None]:
    """Return what an import of so many rows, or of a number that is not known, runs in.

    A short one is over before anything is searched in full.
    """
    return nullcontext() if rows is not None and rows < _MANY_ROWS else ASIDE
