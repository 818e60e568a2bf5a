"""Folders that take long to make: the processes that share the tests of a run make them once."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that ``make`` has filled; the first process of this run that asks for it calls ``make``."""
    base = factory.getbasetemp()
    folder = (base.parent if base.name.startswith("popen-") else base) / "once" / name
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = folder.with_suffix(".new")
            new.mkdir()
            make(new)
            new.rename(folder)
    return folder
