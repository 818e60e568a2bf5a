"""Empty folders and temporary files of dead writers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from lakebed.storage.files.orphan_files import prune, remove, remove_temporary, temporary_files
from lakebed.storage.local import LocalStorage
from unit_tests.lakebed.datasets import new_memory


def test_removing_files_removes_the_folders_that_this_empties(tmp_path: Path) -> None:
    """Folders that still hold something stay, and so does the root."""
    storage = LocalStorage(tmp_path)
    for key in ("versions/a/t/chunks/1", "versions/a/t/meta", "versions/a/meta", "versions/b/meta"):
        storage.put(key, b"x")
    remove(storage, ["versions/a/t/meta", "versions/a/meta"])
    assert (tmp_path / "versions/a/t/chunks/1").exists()
    remove(storage, ["versions/a/t/chunks/1"])
    assert sorted(p.name for p in (tmp_path / "versions").iterdir()) == ["b"]
    prune(storage, ["versions/b", "versions/none"])
    assert storage.get("versions/b/meta") == b"x"
    storage.put("versions/a/t/chunks/2", b"y")  # the storage makes again what went
    assert storage.get("versions/a/t/chunks/2") == b"y"


def test_memory_has_neither(tmp_path: Path) -> None:
    """In memory there are no folders and no temporary files."""
    storage = new_memory()
    storage.put("a/b", b"x")
    remove(storage, ["a/b"])
    assert list(storage.list()) == []
    assert list(temporary_files(storage)) == []
    del tmp_path


def test_temporary_files_of_dead_writers_are_found(tmp_path: Path) -> None:
    """Those of living processes are not among them: they may be on their way to their place."""
    storage = LocalStorage(tmp_path)
    storage.put("a/b", b"x")
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    left = tmp_path / "a" / f".lb-{int(dead.stdout):x}-1.tmp"
    left.write_bytes(b"123")
    (tmp_path / f".lb-{os.getpid():x}-2.tmp").write_bytes(b"45")
    ((key, size, changed),) = temporary_files(storage)
    assert (key, size) == (f"a/{left.name}", 3)
    assert abs(changed - left.stat().st_mtime) < 1
    remove_temporary(storage, key)
    remove_temporary(storage, key)
    assert not left.exists()
