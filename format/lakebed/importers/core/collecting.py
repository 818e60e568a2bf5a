"""Pauses of the garbage collector: a full collection would visit an import's millions of objects without cycles.

Pauses of several threads may overlap: the thread that began the pause ends it, and others then run without one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 100_000
_MANY_ROWS = 1_000


@contextmanager
def no_search() -> Iterator[None]:
    """Return a context in which the collector does not run."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            # Move the objects that were made during the pause into the oldest generation. Do it only for many objects,
            # because counting the frozen objects visits each of them.
            if gc.get_count()[0] >= _MANY and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def aside(rows: int | None) -> Iterator[None]:
    """Return a context in which the collector visits only new objects, for an import of `rows` rows.

    It has no effect if the program has frozen objects, or if the import ends before a full collection.
    """
    is_ours = (rows is None or rows >= _MANY_ROWS) and not gc.get_freeze_count()
    if is_ours:
        gc.freeze()
    try:
        yield
    finally:
        if is_ours:
            gc.unfreeze()
