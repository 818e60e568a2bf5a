"""The query language: text to syntax (`language`), to bound expressions (`binding`), to relations (`engine`).

Below these are: `indexes` and `statistics`, which find rows without reading all of them; `relations`, named columns
over rows; `functions` and `values`. No query writes, and no part of a query is run as Python. As
``lakebed.query`` is also the name of the function that users call, the package is callable: ``lakebed.query('SELECT *
FROM "path"')``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from lakebed.api.queries import prepare, query
    from lakebed.query.language.parser import parse as parse
    from lakebed.query.values.limits import Limits as Limits

_F = TypeVar("_F", bound=Callable[..., Any])

_LATER = {
    "Limits": "lakebed.query.values.limits",
    "parse": "lakebed.query.language.parser",
    "prepare": "lakebed.api.queries",
}


class QueryPackage(ModuleType):
    """The package `lakebed.query`, which is also a function; see ``lakebed.api.queries.query``."""

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
    def register(name: str, function: Any = None, **options: Any) -> Any:
        """Add a function of Python to the language; see ``lakebed.query.functions.registry.register``."""
        return import_module("lakebed.query.functions.registry").register(name, function, **options)

    if TYPE_CHECKING:
        __call__ = staticmethod(query)
        prepare = staticmethod(prepare)
    else:

        def __call__(self, *args: Any, **options: Any) -> Any:
            """Answer a query; see ``lakebed.api.queries.query``."""
            return import_module("lakebed.api.queries").query(*args, **options)

        @property
        def __signature__(self) -> inspect.Signature:
            return inspect.signature(import_module("lakebed.api.queries").query)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'lakebed.query' has no attribute {name!r}")


sys.modules[__name__].__class__ = QueryPackage
