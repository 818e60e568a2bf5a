"""The tensor query language: text to syntax, syntax to a plan over tables, a plan to rows and columns.

Pure reading: nothing here writes, and nothing of a query is ever evaluated as Python. As ``lakebed.query`` is also the
name of the function that users call, this package can be called: ``lakebed.query('SELECT * FROM "path"')``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.dataset.prepared import Prepared
    from lakebed.query.engine.limits import Limits as Limits
    from lakebed.query.functions.registry import register as register
    from lakebed.query.language.parser import parse as parse
    from lakebed.query.result import Result
    from lakebed.storage.credentials import Creds

_F = TypeVar("_F", bound=Callable[..., Any])

_LATER = {
    "Limits": "lakebed.query.engine.limits",
    "parse": "lakebed.query.language.parser",
}


class QueryPackage(ModuleType):
    """A package that answers queries when it is called, and has the functions that users need beside that."""

    def __call__(
        self,
        query_string: str,
        token: str = "",
        *,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        timeout: float | None = None,
        max_memory: int | None = 4 << 30,
        max_rows: int | None = None,
        exact: bool = False,
        namespace: str | None = None,
        device: str | None = None,
        creds: Creds | None = None,
        **options: Any,
    ) -> Dataset | Result:
        """Answer a query that names its datasets; see ``lakebed.api_queries.query``."""
        found: Dataset | Result = import_module("lakebed.api_queries").query(
            query_string,
            token,
            parameters=parameters,
            timeout=timeout,
            max_memory=max_memory,
            max_rows=max_rows,
            exact=exact,
            namespace=namespace,
            device=device,
            creds=creds,
            **options,
        )
        return found

    @staticmethod
    def prepare(
        query_string: str,
        *,
        timeout: float | None = None,
        max_memory: int | None = 4 << 30,
        max_rows: int | None = None,
        exact: bool = False,
        namespace: str | None = None,
        device: str | None = None,
        creds: Creds | None = None,
    ) -> Prepared[Dataset]:
        """Read and check a query whose values are given later; see ``lakebed.api_queries.prepare``."""
        found: Prepared[Dataset] = import_module("lakebed.api_queries").prepare(
            query_string,
            timeout=timeout,
            max_memory=max_memory,
            max_rows=max_rows,
            exact=exact,
            namespace=namespace,
            device=device,
            creds=creds,
        )
        return found

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
    def register(
        name: str, function: _F | None = None, *, vectorised: bool = False, arguments: int | None = None
    ) -> _F | Callable[[_F], _F]:
        """Add a function of Python to the language; see ``lakebed.query.functions.registry.register``."""
        found: _F | Callable[[_F], _F] = import_module("lakebed.query.functions.registry").register(
            name, function, vectorised=vectorised, arguments=arguments
        )
        return found


def __getattr__(name: str) -> Any:
    """Return a public name, whose module is imported once it is asked for."""
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'lakebed.query' has no attribute {name!r}")


sys.modules[__name__].__class__ = QueryPackage
