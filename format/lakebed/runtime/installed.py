"""Installed packages: their entry points, and the check for a pyarrow that is incompatible with NumPy 1."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from importlib.metadata import entry_points as _found
from pathlib import Path

_NUMPY_2 = 26
"""First release of pyarrow that needs NumPy 2."""


def check_pyarrow(numpy: str) -> None:
    """Refuse a pyarrow that is incompatible with this version of NumPy, which is before 2.

    Raises
    ------
    ImportError
        If pyarrow needs NumPy 2; the message names both versions and compatible pairs.
    """
    try:
        found = version("pyarrow")
    except PackageNotFoundError:
        return  # the code that needs PyArrow reports that it is missing
    if int(found.partition(".")[0]) >= _NUMPY_2:
        raise ImportError(
            f"pyarrow {found} needs NumPy 2, and this is NumPy {numpy}: pip install 'pyarrow<{_NUMPY_2}', or "
            "pip install 'numpy>=2'"
        )


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, in the order of the path on which packages are found.

    Each search opens a file of every package, so the result is remembered. A package that is installed while the
    program runs is found at once, because its installation changes the time of a folder.
    """
    return _of(group, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    """Return the time in nanoseconds at which names in a folder, or an archive, changed; 0 if it does not exist."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@lru_cache(16)
def _of(group: str, path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:  # noqa: ARG001 - the result depends on it
    return tuple(_found(group=group))
