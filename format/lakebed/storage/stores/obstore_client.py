"""The obstore module that works in this process: a forked child loads its own copy.

obstore runs requests on threads that it starts once per loaded library. In a forked child these threads do not exist,
and every request would wait forever. A second copy of the library, loaded under another file name, has its own threads;
loading it takes about 20 ms, once per child that uses a store.

A limit remains: glibc (seen in 2.36) does not free the loader's lock in a forked child. If another thread was loading a
library or walking through the loaded libraries at the moment of the fork, loading a library in the child waits forever.
Spawned processes are not concerned.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from lakebed.runtime import process_hooks

_LIBRARY = "obstore._obstore"

_lock = threading.Lock()
_store: ModuleType | None = None
_is_of_parent = False
# Libraries that parent processes loaded; kept, because their objects may still exist.
_ancestors: list[ModuleType] = []


def client() -> ModuleType:
    """Return ``obstore``, usable in this process.

    Raises
    ------
    ImportError
        If obstore is not installed or cannot be loaded again after a fork.
    """
    global _is_of_parent, _store  # noqa: PLW0603 - one copy of the library per process
    if _store is not None:
        return _store
    process_hooks.start()
    with _lock:
        if _store is None:
            # Before the first dataset is opened, no hook notices a fork, and the program may have used obstore
            # itself.
            if _is_of_parent or (process_hooks.was_forked() and _LIBRARY in sys.modules):
                _replace_library()
                _is_of_parent = False
            found = importlib.import_module("obstore")
            importlib.import_module("obstore.store")
            importlib.import_module("obstore.exceptions")
            _store = found
    return _store


def _replace_library() -> None:
    """Load another copy of the compiled library, which later imports use."""
    old = sys.modules[_LIBRARY]
    source = old.__spec__.origin if old.__spec__ is not None else None
    if source is None:
        raise ImportError("the library of obstore cannot be found again after a fork")
    names = [name for name in sys.modules if name == "obstore" or name.startswith("obstore.")]
    _ancestors.extend(sys.modules.pop(name) for name in names)
    with _copied(Path(source)) as path:
        loader = importlib.machinery.ExtensionFileLoader(_LIBRARY, path)
        spec = importlib.util.spec_from_file_location(_LIBRARY, path, loader=loader)
        if spec is None:
            raise ImportError(f"the library {source} cannot be loaded again after a fork")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    module.__spec__ = importlib.machinery.ModuleSpec(_LIBRARY, loader, origin=source)
    sys.modules[_LIBRARY] = module


@contextlib.contextmanager
def _copied(source: Path) -> Iterator[str]:
    """Copy a file to a path that no related process has used, in memory if possible."""
    if hasattr(os, "memfd_create"):
        # Prefer memory, because a temporary folder may be mounted without permission to load code.
        with open(os.memfd_create("obstore"), "wb") as file:  # noqa: PTH123
            file.write(source.read_bytes())
            file.flush()
            yield f"/proc/{os.getpid()}/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile(suffix=source.suffix) as file:
        file.write(source.read_bytes())
        file.flush()
        yield file.name


def _after_fork() -> None:
    global _is_of_parent, _lock, _store  # noqa: PLW0603 - another thread of the parent may hold the lock
    _lock = threading.Lock()
    _store = None
    _is_of_parent = _is_of_parent or _LIBRARY in sys.modules


process_hooks.after_fork(_after_fork)
