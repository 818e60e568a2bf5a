"""Copies of local files: by shared blocks, by the kernel, or byte by byte, whatever the file system can do."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import StorageError, StorageFullError
from lakebed.storage.files import disk
from lakebed.storage.local import LocalStorage


def refuses(number: int) -> Any:
    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize("clones", [True, False])
@pytest.mark.parametrize("kernel", ["copies", "copies some", "can not"])
def test_every_way_to_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clones: bool, kernel: str
) -> None:
    """Whatever the file system refuses, the copy is whole."""
    data = bytes(range(256)) * 1000
    monkeypatch.setattr(disk, "_COPY_BYTES", 10_000)
    if not clones:
        monkeypatch.setattr(fcntl, "ioctl", refuses(errno.EOPNOTSUPP))
    if kernel == "can not":
        monkeypatch.setattr(os, "copy_file_range", refuses(errno.EXDEV))
    if kernel == "copies some":
        real, calls = os.copy_file_range, iter(range(3))

        def some(source: int, target: int, count: int, *at: int) -> int:
            return real(source, target, 1000, *at) if next(calls) < 2 else refuses(errno.EINVAL)()

        monkeypatch.setattr(os, "copy_file_range", some)
    storage = LocalStorage(tmp_path)
    storage.put("a", data)
    storage.copy("a", "b")
    assert storage.get("b") == data
    assert (tmp_path / "a").stat().st_nlink == 1


def test_a_copy_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is said to be one, and half a copy is no object."""
    storage = LocalStorage(tmp_path)
    storage.put("a", b"12345")
    monkeypatch.setattr(fcntl, "ioctl", refuses(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "copy_file_range", refuses(errno.ENOSPC))
    with pytest.raises(StorageFullError, match="free some space"):
        storage.copy("a", "b")
    assert storage.stat("b") is None
    monkeypatch.setattr(os, "copy_file_range", refuses(errno.EIO))
    with pytest.raises(StorageError):
        storage.copy("a", "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
