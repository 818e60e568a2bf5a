"""The query language: text to syntax (`language`), to bound expressions (`binding`), to relations (`engine`).

The floors below: `indexes` and `statistics`, which find rows without reading all; `relations`, named columns over
rows; `functions` and `values`. Everything here reads, nothing writes, and no part of a query is run as Python. As
``lakebed.query`` is also the name of the function that users call, the package is callable:
``lakebed.query('SELECT * FROM "path"')``.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakebed.api_queries import prepare, query
    from lakebed.query.functions.registry import register
    from lakebed.query.language.parser import parse as parse
    from lakebed.query.values.limits import Limits as Limits

_LATER = {
    "Limits": "lakebed.query.values.limits",
    "parse": "lakebed.query.language.parser",
    "prepare": "lakebed.api_queries",
    "register": "lakebed.query.functions.registry",
}


class QueryPackage(ModuleType):
    """A package that answers queries when it is called; see ``lakebed.api_queries.query``."""

    if TYPE_CHECKING:
        __call__ = staticmethod(query)
        prepare = staticmethod(prepare)
        register = staticmethod(register)
    else:

        def __call__(self, *args: Any, **options: Any) -> Any:
            """Answer a query; see ``lakebed.api_queries.query``."""
            return import_module("lakebed.api_queries").query(*args, **options)

        @property
        def __signature__(self) -> inspect.Signature:
            return inspect.signature(import_module("lakebed.api_queries").query)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'lakebed.query' has no attribute {name!r}")


sys.modules[__name__].__class__ = QueryPackage
