"""Filter for the logs of botocore, which at DEBUG prints answers that hold secrets."""

from __future__ import annotations

import importlib.util
import logging
import pkgutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LOUD = ("botocore", "boto3", "urllib3", "s3transfer")
_state = threading.local()
_covered: set[str] = set()


class _Filter(logging.Filter):
    """Filter that drops records below ERROR of threads that ask for credentials."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or not getattr(_state, "depth", 0)


_filter = _Filter()


@contextmanager
def quiet() -> Iterator[None]:
    """Drop log records of botocore below ERROR from this thread."""
    _cover()
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def _cover() -> None:
    """Put the filter on every logger, since a filter on a parent does not see the records of its children.

    Loggers have the names of modules, so the loggers of modules that are not imported yet get the filter in advance.
    """
    for package in _LOUD:
        if package in _covered:
            continue
        spec = importlib.util.find_spec(package)
        for name in _modules(package, (spec.submodule_search_locations or ()) if spec is not None else ()):
            logging.getLogger(name).addFilter(_filter)
        _covered.add(package)


def _modules(package: str, places: Iterable[str]) -> Iterator[str]:
    """Name a package and all modules in it without importing them."""
    yield package
    for place in places:
        for module in pkgutil.iter_modules([place]):
            name = f"{package}.{module.name}"
            if module.ispkg:
                yield from _modules(name, [f"{place}/{module.name}"])
            else:
                yield name
