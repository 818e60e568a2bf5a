"""The tensor query language: text to syntax, syntax to a plan over tables, a plan to rows and columns.

Pure reading: nothing here writes, and nothing of a query is ever evaluated as Python. As ``lakebed.query`` is also the
name of the function that users call, this package can be called: ``lakebed.query('SELECT * FROM "path"')``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from lakebed.api_queries import prepare, query
    from lakebed.query.engine.limits import Limits as Limits
    from lakebed.query.language.parser import parse as parse

_F = TypeVar("_F", bound=Callable[..., Any])

_LATER = {
    "Limits": "lakebed.query.engine.limits",
    "parse": "lakebed.query.language.parser",
    "prepare": "lakebed.api_queries",
    "register": "lakebed.query.functions.registry",
}


class QueryPackage(ModuleType):
    """A package that answers queries when it is called; see ``lakebed.api_queries.query``."""

    if TYPE_CHECKING:
        __call__ = staticmethod(query)
        prepare = staticmethod(prepare)

        @overload
        @staticmethod
        def register(
            name: str, function: None = None, *, vectorised: bool = False, arguments: int | None = None
        ) -> Callable[[_F], _F]: ...

        @overload
        @staticmethod
        def register(
            name: str, function: _F, *, vectorised: bool = False, arguments: int | None = None
        ) -> _F: ...

        @staticmethod
        def register(*args: Any, **kwargs: Any) -> Any: ...
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return import_module("lakebed.api_queries").query(*args, **kwargs)

        @property
        def __signature__(self) -> Any:
            return import_module("inspect").signature(import_module("lakebed.api_queries").query)


def __getattr__(name: str) -> Any:
    """Return a public name; its module is imported on first use."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'lakebed.query' has no attribute {name!r}")


sys.modules[__name__].__class__ = QueryPackage
