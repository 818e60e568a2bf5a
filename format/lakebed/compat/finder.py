"""The finder for ``import deeplake...``: modules made from a table of names (`modules.py`)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.compat.modules import MODULES, hint
from lakebed.runtime.absent import PAGE, explained

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = "deeplake"
REPLACE = "LAKEBED_COMPAT"


class Stand(ModuleType):
    """A module of Deep Lake 3.x whose names lead to lakebed.

    It is a package, so that ``from deeplake.x import y`` with a missing ``y`` reaches the finder, which names the
    alternative; otherwise Python replaces the message of an AttributeError by its own.
    """

    def __getattr__(self, name: str) -> Any:
        where = MODULES[self.__name__].get(name)
        if name == "__all__":
            return [known for known in dir(self) if not known.startswith("_")]
        if where is None and name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if where is not None:
            value = _found(where)
        elif self.__name__ == ROOT and (ours := _ours(name)) is not None:
            value = ours
        elif f"{self.__name__}.{name}" in MODULES:
            return importlib.import_module(f"{self.__name__}.{name}")
        else:
            raise AttributeError(missing(self.__name__, name))
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Stand):
            # Importing the module deeplake.htype must not replace the class that `deeplake.htype` already is.
            if name not in MODULES[self.__name__]:
                super().__setattr__(name, value)
            return
        if not name.startswith("_") and self.__name__ != ROOT:
            warnings.warn(
                f"{self.__name__}.{name} is set, but lakebed does not read it: {hint(self.__name__)}",
                stacklevel=2,
            )
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled functions may refer to this module, as in deeplake.htype.TEXT: pickle the module by its name.
        return _again, (self.__name__,)

    def __dir__(self) -> list[str]:
        return sorted(
            {
                *MODULES[self.__name__],
                *_below(self.__name__),
                *(lakebed.__all__ if self.__name__ == ROOT else ()),
            }
        )


class Finder(MetaPathFinder, Loader):
    """Finds the modules of `deeplake`, and names alternatives to missing ones."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - required by the protocol
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the specification of a module.

        Raises
        ------
        ModuleNotFoundError
            If the module belongs to `deeplake` and is missing here.
        """
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        if fullname in MODULES:
            return ModuleSpec(fullname, self, is_package=True)
        parent, _, name = fullname.rpartition(".")
        # Do not pass `name=fullname`: for `from module import name`, Python would then take the name for a missing
        # submodule and replace this message by its own.
        raise ModuleNotFoundError(missing(parent, name))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return an empty module."""
        return Stand(spec.name, f"Stands for {spec.name} of Deep Lake 3.x; its names are those of lakebed.")

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: names are looked up on use."""


def missing(module: str, name: str) -> str:
    """Return the message about a missing name."""
    if module == ROOT and (told := explained("lakebed", name)) is not None:
        return told.replace("lakebed.", "deeplake.", 1)
    return f"lakebed has no {module}.{name}: {hint(f'{module}.{name}')} ({PAGE})"


def _found(where: str) -> Any:
    """Return the object that a table's entry means: ``module:name``, ``module``, or a constant ``=NAME``."""
    if where.startswith("="):
        from lakebed.compat import pieces

        return pieces.CONSTANTS[where[1:]]
    module, _, name = where.partition(":")
    value = importlib.import_module(module)
    return attrgetter(name)(value) if name else value


def _again(name: str) -> ModuleType:
    """Return the module of a name when another process unpickles it."""
    install(replace=True)  # as the sending process has done
    return importlib.import_module(name)


def _ours(name: str) -> Any:
    """Return lakebed's object for a name; None for missing names and inner modules."""
    found = getattr(lakebed, name, None)
    return None if isinstance(found, ModuleType) and name not in lakebed.__all__ else found


def _below(module: str) -> list[str]:
    return [known.rpartition(".")[2] for known in MODULES if known.rpartition(".")[0] == module]


_FINDER = Finder()


def install(*, replace: bool | None = None) -> None:
    """Let ``import deeplake`` lead to lakebed, in this process.

    Parameters
    ----------
    replace
        Do so even if Deep Lake is installed; None asks the environment: ``LAKEBED_COMPAT=replace``.

    Raises
    ------
    ImportError
        If Deep Lake is installed and ``replace`` is false, or if it is imported already. Nothing is changed then.
    """
    if _FINDER in sys.meta_path:
        return
    there = sys.modules.get(ROOT)
    if there is not None:
        raise ImportError(
            f"deeplake {_version(there)} is imported already, from {getattr(there, '__file__', None)}, and stays what "
            "`deeplake` means in this process. Import lakebed.compat before it"
        )
    if replace is None:
        replace = os.environ.get(REPLACE) == "replace"
    real = PathFinder.find_spec(ROOT)
    if real is not None and not replace:
        raise ImportError(
            f"Deep Lake is installed, at {real.origin or real.submodule_search_locations}, and `import deeplake` "
            f"still imports it. To import lakebed instead: {REPLACE}=replace in the environment, or python -m "
            "lakebed.compat --replace SCRIPT, or uninstall deeplake"
        )
    sys.meta_path.insert(0, _FINDER)


def uninstall() -> None:
    """Undo :func:`install`, and forget the modules that were imported through it."""
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
        for name in [name for name, module in sys.modules.items() if isinstance(module, Stand)]:
            del sys.modules[name]


def _version(module: ModuleType) -> str:
    return str(getattr(module, "__version__", "of an unknown version"))
