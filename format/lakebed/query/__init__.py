"""The tensor query language: text to syntax, syntax to a plan over tables, a plan to rows and columns.

Pure reading: nothing here writes, and nothing of a query is ever evaluated as Python. As ``lakebed.query`` is also the
name of the function that users call, this package can be called: ``lakebed.query('SELECT * FROM "path"')``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar, overload

    from lakebed.api_queries import prepare as _prepare
    from lakebed.api_queries import prepare as prepare
    from lakebed.api_queries import query as _query
    from lakebed.query import syntax
    from lakebed.query.functions.registry import register as register
    from lakebed.query.limits import Limits as Limits
    from lakebed.query.limits import Limits as _Limits
    from lakebed.query.parser import parse as parse

    _F = TypeVar("_F", bound=Callable[..., Any])

_LATER = {
    "Limits": "lakebed.query.limits",
    "parse": "lakebed.query.parser",
    "prepare": "lakebed.api_queries",
    "register": "lakebed.query.functions.registry",
}


class QueryPackage(ModuleType):
    """A package that answers queries when it is called, as ``lakebed.api_queries.query`` does."""

    if TYPE_CHECKING:
        # What is found here by name, with the types that it has where it is defined.
        Limits = _Limits
        prepare = staticmethod(_prepare)
        __call__ = staticmethod(_query)

        @staticmethod
        def parse(text: str, *, depth: int = ...) -> syntax.Query:
            """Read a query; see ``lakebed.query.parser``."""

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
        def register(name: str, function: Any = None, **settings: Any) -> Any:
            """Add a function of Python to the query language; see ``lakebed.query.functions.registry``."""

    else:

        def __call__(self, query_string: str, *args: Any, **kwargs: Any) -> Any:
            """Answer a query that names its datasets; see ``lakebed.api_queries.query``."""
            return import_module("lakebed.api_queries").query(query_string, *args, **kwargs)


def __getattr__(name: str) -> Any:
    """Return a public name, whose module is imported once it is asked for."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'lakebed.query' has no attribute {name!r}")


sys.modules[__name__].__class__ = QueryPackage
