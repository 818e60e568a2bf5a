"""Hooks of the library in its process: after a fork, at exit, around garbage collections.

Modules register hooks when they are imported; the interpreter learns of them when the first dataset or storage is
opened. A program that only imports the library gets no hooks.

Rarely needed modules are imported on first use (docs/design/036), which takes a file descriptor when a program may have
none left. Once a dataset was opened, such a failure raises an error with this reason.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from lakebed.errors import StorageError
from lakebed.errors.stores import OUT_OF_FILES

Call = Callable[[], object]
Register = Callable[[], object]

_mutex = threading.RLock()
_waiting: list[Register] = []
_is_started = False
_process = os.getpid()


def after_fork(call: Call) -> None:
    """Call a function in each child that is forked after a dataset was opened, in the order of registration."""
    _add(lambda: os.register_at_fork(after_in_child=call))


def new_lock_after_fork(owner: object, name: str) -> None:
    """Replace a lock of a module or object in forked children: the thread that holds it may not exist there."""
    after_fork(lambda: setattr(owner, name, threading.Lock()))


def at_exit(call: Call) -> None:
    """Call a function when the interpreter ends, if a dataset was opened; the last one registered is called first."""
    _add(lambda: atexit.register(call))


def on_collection(call: Callable[[str, dict[str, int]], Any]) -> None:
    """Call a function around each garbage collection after a dataset was opened; see ``gc.callbacks``."""
    _add(lambda: gc.callbacks.append(call))


def was_forked() -> bool:
    """Tell whether this process was forked after the library was imported."""
    return os.getpid() != _process


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine exists."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _add(register: Register) -> None:
    with _mutex:
        if _is_started:
            register()
        else:
            _waiting.append(register)


def start() -> None:
    """Register all hooks with the interpreter; hooks that modules add later are then registered at once."""
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
    """Finder of the library's own modules, with loaders that explain errors from a lack of file descriptors."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module, with a loader that explains failures."""
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
        """Run a module and its imports."""
        with _telling(self.name):
            super().exec_module(module)


class _Extension(ExtensionFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load a compiled module."""
        with _telling(self.name):
            return super().create_module(spec)


_LOADERS: dict[type, Callable[..., Any]] = {SourceFileLoader: _Source, ExtensionFileLoader: _Extension}


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    """Add advice to the error if a module cannot be loaded because no file can be opened any more."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, ImportError) as error:
        number = error.errno if isinstance(error, OSError) else None
        # For a shared library that cannot be loaded, the system only gives a text.
        if isinstance(error, ImportError):
            number = next((one for one in OUT_OF_FILES if os.strerror(one) in str(error)), None)
        if number is None or number not in OUT_OF_FILES:
            raise
        raise StorageError(
            f"cannot load {name}, which this call is the first to need: {os.strerror(number)}; close files or raise "
            "the limit (ulimit -n), and call it again",
            errno=number,
        ) from error
