"""Folders that take long to make: the processes that share the tests of a run make them once."""

from __future__ import annotations

import fcntl
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that ``make`` has filled; the first process of this run that asks for it calls ``make``."""
    base = factory.getbasetemp()
    return made((base.parent if base.name.startswith("popen-") else base) / "once" / name, make)


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return this folder, which ``make`` fills if it is not there yet."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            make(new)
            new.rename(folder)
    return folder


def extracted(factory: pytest.TempPathFactory, archive: Path) -> Path:
    """Return a folder with the files of an archive; tests do not write into it."""

    def extract(folder: Path) -> None:
        with tarfile.open(archive) as opened:
            # Ours: to look at each name takes as long as to write. Python before 3.11.4 has no filters.
            trusted: Any = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
            opened.extractall(folder, **trusted)

    return made_once(factory, archive.name, extract)
