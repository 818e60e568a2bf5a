"""What the library asks of its process: to hear that it was forked, that it ends, that garbage is collected.

Modules say when they are imported what they want to hear; nothing is registered with the interpreter before a dataset
or a storage is opened. A program that only imports the library has no hooks of it.
"""

from __future__ import annotations

import atexit
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

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
        _is_started = True
