"""Any protocol of fsspec keeps the promises of every storage: shown with its memory and its local files."""

from __future__ import annotations

import pickle
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.errors import WeakStoreWarning
from lakebed.storage.base import Storage
from lakebed.storage.fsspec_store import FsspecStorage, is_known
from lakebed.storage.url import open_storage
from lakebed.testing.storage_conformance import StorageConformance

pytest.importorskip("fsspec")


class Fsspec(StorageConformance):
    """A storage of fsspec names small contents by their checksum."""

    etags_name_contents = True

    @pytest.fixture(autouse=True)
    def _quiet(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakStoreWarning)
            yield


class TestMemory(Fsspec):
    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage(f"memory://{uuid.uuid4().hex}/ds")


class TestLocal(Fsspec):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return FsspecStorage("local", str(tmp_path / "not" / "yet"))


def test_knows_what_fsspec_knows() -> None:
    """And nothing else."""
    assert is_known("ftp")
    assert is_known("sftp")
    assert not is_known("nothing-like-that")


def test_warns_once_of_missing_conditions() -> None:
    """With the address, and what to do."""
    storage = open_storage(f"memory://{uuid.uuid4().hex}/ds")
    with pytest.warns(WeakStoreWarning, match="one process at a time"):
        etag = storage.put_if("k", b"1", None)
    storage.put_if("k", b"2", etag)
    assert storage.get("k") == b"2"
    assert not getattr(storage, "conditional", True)


def test_a_password_does_not_travel(tmp_path: Path) -> None:
    """Nor is it shown."""
    storage = FsspecStorage("memory", "place", {"password": "topsecret"})
    data = pickle.dumps(storage)
    assert b"topsecret" not in data
    assert "topsecret" not in repr(storage)
    assert pickle.loads(data).url == "memory://place"
