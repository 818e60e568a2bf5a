"""What the library asks of its process: to hear that it was forked, that it ends, that garbage is collected.

Modules say when they are imported what they want to hear; nothing is registered with the interpreter before a dataset
or a storage is opened. A program that only imports the library has no hooks of it.

What is rarely needed is imported when it is first called for (docs/design/036), which takes a file descriptor at a time
when a program may have none left. From the first opened dataset on, that is an error that says so.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from lakebed.errors import StorageError

Call = Callable[[], object]
Register = Callable[[], object]

_mutex = threading.RLock()
_waiting: list[Register] = []
_is_started = False
_process = os.getpid()


def after_fork(call: Call) -> None:
    """Call something in each child that this process forks once a dataset was opened, in the order of these calls."""
    _add(lambda: os.register_at_fork(after_in_child=call))


def at_exit(call: Call) -> None:
    """Call something when the interpreter ends, if a dataset was opened; the last one to ask is called first."""
    _add(lambda: atexit.register(call))


def on_collection(call: Callable[[str, dict[str, int]], Any]) -> None:
    """Call something before and after each garbage collection, once a dataset was opened; see ``gc.callbacks``."""
    _add(lambda: gc.callbacks.append(call))


def was_forked() -> bool:
    """Whether this process was forked after the library was imported, by whatever process."""
    return os.getpid() != _process


def _add(register: Register) -> None:
    with _mutex:
        if _is_started:
            register()
        else:
            _waiting.append(register)


def start() -> None:
    """Register what is wanted, and from now on at once what will be."""
    global _is_started  # noqa: PLW0603 - hooks are the process's
    if _is_started:
        return
    with _mutex:
        while _waiting:
            _waiting[0]()
            del _waiting[0]
        sys.meta_path.insert(0, _Finder())
        _is_started = True


class _Finder:
    """Finds modules of the library that are imported late; of other modules it knows nothing."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is, with a loader that says what stopped it."""
        if not name.startswith("lakebed."):
            return None
        with _telling(name):
            spec = PathFinder.find_spec(name, path, target)
        if spec is not None:
            kind = _LOADERS.get(type(spec.loader))
            if kind is not None:
                spec.loader = kind(name, spec.origin)
        return spec


class _Source(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        """Run a module, and what it imports of others."""
        with _telling(self.name):
            super().exec_module(module)


class _Extension(ExtensionFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load a compiled module."""
        with _telling(self.name):
            return super().create_module(spec)


_LOADERS: dict[type, Callable[..., Any]] = {SourceFileLoader: _Source, ExtensionFileLoader: _Extension}
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    """Say what to do where a module cannot be loaded because no file can be opened any more."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, ImportError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(error, ImportError):  # of a shared library the system gives the text alone
            number = next((one for one in _OUT_OF_FILES if os.strerror(one) in str(error)), None)
        if number is None or number not in _OUT_OF_FILES:
            raise
        raise StorageError(
            f"cannot load {name}, which this call is the first to need: {os.strerror(number)}; close files or raise "
            "the limit (ulimit -n), and call it again",
            errno=number,
        ) from error
