"""NumPy 1: releases of pyarrow that do without it are refused by name, at once and not at the first table."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

_FIRST = 26
"""The first release of pyarrow that needs NumPy 2."""


def check_pyarrow(numpy: str) -> None:
    """Refuse a pyarrow that NumPy of this version, before 2, does not go with.

    Raises
    ------
    ImportError
        Which names both, and what goes together.
    """
    try:
        found = version("pyarrow")
    except PackageNotFoundError:
        return  # told where it is needed
    if int(found.partition(".")[0]) >= _FIRST:
        raise ImportError(
            f"pyarrow {found} needs NumPy 2, and this is NumPy {numpy}: pip install 'pyarrow<{_FIRST}', or "
            "pip install 'numpy>=2'"
        )
