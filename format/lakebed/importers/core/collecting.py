"""Pauses of the garbage collector: a full collection would visit an import's millions of objects without cycles."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

_MANY = 100_000
_MANY_ROWS = 1_000


class _Rest:
    """A pause that several threads may enter: the first one begins the pause, the last one ends it.

    Parameters
    ----------
    begin
        Function that begins the pause; it returns False if another caller has begun the pause and will end it.
    """

    def __init__(self, begin: Callable[[], bool], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end
        self._mutex = threading.Lock()
        self._inside = 0
        self._is_ours = False

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


def _disable() -> bool:
    was_on = gc.isenabled()
    gc.disable()
    return was_on


def _enable() -> None:
    # Move the objects that were made during the pause into the oldest generation. Do it only for many objects, because
    # counting the frozen objects visits each of them.
    if gc.get_count()[0] >= _MANY and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    gc.enable()


def _freeze() -> bool:
    if gc.get_freeze_count():
        return False
    gc.freeze()
    return True


NO_SEARCH = _Rest(_disable, _enable)
"""Context in which the collector does not run."""

ASIDE = _Rest(_freeze, gc.unfreeze)
"""Context in which the collector visits only new objects; objects that the program has frozen stay frozen."""


def aside(rows: int | None) -> AbstractContextManager[None]:
    """Return the pause for an import of `rows` rows; a context without effect if it ends before a full collection."""
    return nullcontext() if rows is not None and rows < _MANY_ROWS else ASIDE
