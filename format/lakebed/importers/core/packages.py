"""Packages that only some formats need, and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lakebed.errors import IngestionError, LakebedError, ModuleNotInstalledException

_MODULES = {"protobuf": "google.protobuf"}


def is_installed(package: str) -> bool:
    """Return whether a package is installed, by the name of its distribution."""
    try:
        return find_spec(_MODULES.get(package, package.replace("-", "_"))) is not None
    except ModuleNotFoundError:  # the parent package is not installed
        return False


@contextmanager
def damaged(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Convert the errors of a package that reads damaged data to `IngestionError`.

    Raises
    ------
    IngestionError
        If the package raises one of the errors; the message begins with `what`.
    """
    try:
        yield
    except LakebedError:
        raise
    except errors as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise IngestionError(f"{what}: {reason}") from error


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


def module(name: str, needs: str, extra: str) -> Any:
    """Import a module of a package that only some files need.

    Raises
    ------
    ModuleNotInstalledException
        If it is missing; the message begins with `needs`.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotInstalledException(f"{needs}: pip install 'lakebed[{extra}]'") from error


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
