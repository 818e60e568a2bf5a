"""The tensor query language: text to syntax, syntax to a plan over tables, a plan to rows and columns.

Pure reading: nothing here writes, and nothing of a query is ever evaluated as Python. As ``lakebed.query`` is also the
name of the function that users call, this package can be called: ``lakebed.query('SELECT * FROM "path"')``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_LATER = {
    "Limits": "lakebed.query.limits",
    "parse": "lakebed.query.parser",
    "prepare": "lakebed.api_queries",
    "register": "lakebed.query.functions.registry",
}


class _Callable(ModuleType):
    """A package that answers queries when it is called."""

    def __call__(self, query_string: str, *args: Any, **kwargs: Any) -> Any:
        """Answer a query that names its datasets; see ``lakebed.api_queries.query``."""
        return import_module("lakebed.api_queries").query(query_string, *args, **kwargs)


def __getattr__(name: str) -> Any:
    """Return a public name, whose module is imported once it is asked for."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'lakebed.query' has no attribute {name!r}")


sys.modules[__name__].__class__ = _Callable
