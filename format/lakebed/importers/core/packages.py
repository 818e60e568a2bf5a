"""Packages that only some formats need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from lakebed.errors import IngestionError, LakebedError

_MODULES = {"protobuf": "google.protobuf"}


def is_installed(package: str) -> bool:
    """Return whether a package is installed, by the name of its distribution."""
    try:
        return find_spec(_MODULES.get(package, package.replace("-", "_"))) is not None
    except ModuleNotFoundError:  # the parent package is not installed
        return False


@contextmanager
def foreign(what: str, hint: str = "") -> Iterator[None]:
    """Convert the errors of another package to `IngestionError`.

    Raises
    ------
    IngestionError
        If the package raises anything; the message begins with `what`.
    """
    try:
        yield
    except LakebedError:
        raise
    # Functions in a Dask graph may raise anything, and the package of Deep Lake 4 does not document its errors.
    except Exception as error:
        raise IngestionError(f"{what}: {type(error).__name__}: {error}{hint}") from error


def check_installed(what: str, extra: str, *packages: str) -> None:
    """Check that the packages of a format are installed.

    Raises
    ------
    IngestionError
        If one of them is missing.
    """
    if not all(map(is_installed, packages)):
        told = " and ".join(packages)
        raise IngestionError(f"{what} need {told}: pip install 'lakebed[{extra}]'")
