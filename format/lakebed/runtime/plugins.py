"""Entry points of installed packages, found once: each search opens a file of every package there is."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint
from importlib.metadata import entry_points as _found
from pathlib import Path


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, in the order of the path on which packages are found.

    What is installed while the program runs is there at once: it changes the folder that it comes into.
    """
    return _of(group, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    """Return when names in a folder, or an archive, changed: nanoseconds; 0 where there is none."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(16)
def _of(group: str, path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - what it depends on
    return tuple(_found(group=group))
