"""What is forced to disk when, and what happens after the disk failed to take it."""

from __future__ import annotations

import errno
import os
from array import array
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed import config
from lakebed.documents.manifest import block_sums, has_sums
from lakebed.errors import PathNotEmptyException, StorageError, StorageFullError
from lakebed.native import disk as native
from lakebed.storage.base import Buffer, Summed
from lakebed.storage.files import new_files
from lakebed.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "above" / "ds")


class Disk:
    """Notes what is forced to disk, one by one, and fails when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.forced: list[str] = []
        self.fails: Any = lambda path: False
        self._fsync_all, self._fsync = native.fsync_all, os.fsync
        monkeypatch.setattr("lakebed.storage.files.disk.native", self)
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(native, "sync_disk", lambda _: 0)

    def fsync_all(self, descriptors: array[int], errors: array[int]) -> None:
        self._fsync_all(descriptors, errors)
        for i, fd in enumerate(descriptors):
            errors[i] = self._note(fd)

    def fsync(self, fd: int) -> None:
        self._fsync(fd)
        if self._note(fd):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _note(self, fd: int) -> int:
        path = str(Path(f"/proc/self/fd/{fd}").readlink())
        if self.fails(path):
            return errno.EIO
        self.forced.append(path)
        return 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_file_that_could_not_be_forced_is_written_anew(storage: LocalStorage, disk: Disk) -> None:
    """A second fsync after a failed one proves nothing: the content is written again, to another file."""
    storage.put_many([("a/spilled", b"content"), ("a/other", b"o")], durable=False)
    path = Path(storage.url, "a", "spilled")
    disk.fails = lambda path: path.endswith("spilled")
    with pytest.raises(StorageError, match=r"a/.*check") as caught:
        storage.sync(["a/spilled", "a/other"])
    assert caught.value.errno == errno.EIO
    disk.fails = lambda path: False
    disk.forced.clear()
    before = path.stat().st_ino
    storage.sync(["a/spilled", "a/other"])
    assert path.stat().st_ino != before
    assert storage.get("a/spilled") == b"content"
    assert str(path) not in disk.forced
    again = path.stat().st_ino
    storage.sync(["a/spilled", "a/other"])
    assert path.stat().st_ino == again


def test_a_file_that_the_disk_lost_is_not_forced_again(storage: LocalStorage, disk: Disk) -> None:
    """Where another content is read back than was written, it is said to be lost, as often as one tries."""
    storage.put_many([("a/spilled", b"content")], durable=False)
    disk.fails = lambda path: path.endswith("spilled")
    with pytest.raises(StorageError):
        storage.sync(["a/spilled"])
    disk.fails = lambda path: False
    Path(storage.url, "a", "spilled").write_bytes(bytes(7))
    for _ in range(2):
        with pytest.raises(StorageError, match="its content is lost"):
            storage.sync(["a/spilled"])


def test_content_with_checksums_is_compared_by_them(storage: LocalStorage, disk: Disk) -> None:
    """Those that its writer took: no other digest is taken of what is written, and damage is found by them."""
    sums = block_sums((b"con", b"tent"))
    asked: list[bytes] = []

    def is_same(content: Buffer) -> bool:
        asked.append(bytes(content))
        return has_sums(sums, content)

    storage.put_many([("a/spilled", Summed((b"con", b"tent"), is_same))], durable=False)
    path = Path(storage.url, "a", "spilled")
    disk.fails = lambda path: path.endswith("spilled")
    with pytest.raises(StorageError):
        storage.sync(["a/spilled"])
    disk.fails = lambda path: False
    path.write_bytes(bytes(7))
    with pytest.raises(StorageError, match="its content is lost"):
        storage.sync(["a/spilled"])
    path.write_bytes(b"content")
    before = path.stat().st_ino
    storage.sync(["a/spilled"])
    assert path.stat().st_ino != before
    assert asked == [bytes(7), b"content"]


def test_a_full_disk_is_told_before_a_large_file_is_written(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the file system that is asked for all its room at once; nothing stays behind."""
    monkeypatch.setattr(native, "reserve", lambda fd, size: errno.ENOSPC)
    with pytest.raises(StorageFullError, match=r"a/large.*free some space"):
        storage.put_many([("a/small", b"x"), ("a/large", bytes(1 << 20))])
    assert list(storage.list()) == []


def test_a_replacement_whose_folder_was_not_forced_is_made_again(storage: LocalStorage, disk: Disk) -> None:
    """An object that took its place, but whose name may be gone after a power cut, is put there once more by sync."""
    etag = storage.put_if("tree", b"old", None)
    disk.fails = lambda path: path == storage.url
    with pytest.raises(StorageError, match="sync"):
        storage.put_if("tree", b"new", etag)
    assert storage.get("tree") == b"new"
    shown = storage.stat("tree")
    with pytest.raises(StorageError):
        storage.sync(["tree"])
    disk.fails = lambda path: False
    storage.sync(["tree"])
    assert storage.get("tree") == b"new"
    assert storage.stat("tree") != shown


def test_a_failed_batch_is_written_anew(storage: LocalStorage, disk: Disk) -> None:
    """After a batch that could not be forced none of its files is there: trying again writes every byte again."""
    disk.fails = lambda path: path.endswith("7")
    items = [(f"a/{i}", b"x") for i in range(10)]
    with pytest.raises(StorageError):
        storage.put_many(items)
    assert list(storage.list()) == []
    disk.fails = lambda path: False
    storage.put_many(items)
    assert len(list(storage.list())) == 10


def test_folders_that_a_process_left_unforced_are_forced_once(storage: LocalStorage, disk: Disk) -> None:
    """Folders that are there already may be there in memory only: whoever relies on them forces those above them."""
    root = Path(storage.url)
    (root / "versions" / "1").mkdir(parents=True)
    storage.put_many([("versions/1/a", b"")])
    assert {str(root), str(root / "versions"), str(root / "versions" / "1")} <= set(disk.forced)
    disk.forced.clear()
    storage.put_many([("versions/1/b", b"")])
    assert str(root) not in disk.forced
    storage.put_if("tree", b"", None)
    assert {str(root), str(root.parent), str(root.parent.parent)} <= set(disk.forced)


def test_what_was_written_while_nothing_is_forced_does_not_count_as_forced(
    storage: LocalStorage, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config.FSYNC` may be put on later."""
    root = Path(storage.url)
    with monkeypatch.context() as without:
        without.setattr(config, "FSYNC", False)
        storage.put_many([(f"v/{i % 3}/{i}", b"x") for i in range(20)])
        storage.put("other", b"x")
    assert not disk.forced
    storage.put("v/0/last", b"x")
    assert {str(root), str(root / "v"), str(root / "v" / "0")} <= set(disk.forced)


def test_a_folder_changed_while_it_is_forced_is_forced_again(storage: LocalStorage, disk: Disk) -> None:
    """What another thread adds to a folder during its fsync is not taken for forced."""
    root = Path(storage.url)

    def meanwhile(path: str) -> bool:
        if path == str(root):
            storage._folders.changed([path])
        return False

    storage.put_many([("a/b/1", b"")])
    storage.put_many([("late/c", b"")], durable=False)
    disk.fails = meanwhile
    storage.sync(["late/c"])
    disk.fails = lambda path: False
    disk.forced.clear()
    storage.put_many([("a/b/2", b"")])
    assert str(root) in disk.forced


def test_a_folder_that_could_not_be_forced_is_not_covered_by_one_call(
    storage: LocalStorage, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may take it for written: it is changed, and forced by itself, also after everything was forced."""
    items = [(f"v/{i}", b"") for i in range(10)]
    disk.fails = lambda path: path == storage.url
    with pytest.raises(StorageError):
        storage.put_many(items)
    disk.fails = lambda path: False
    disk.forced.clear()
    monkeypatch.setattr(native, "sync_disk", lambda _: 1)
    monkeypatch.setattr(new_files, "_waiting_bytes", lambda: 0)
    before = Path(storage.url).stat().st_mtime_ns
    storage.put_many([(f"w/{i}", b"") for i in range(10)])
    assert storage.url in disk.forced
    assert Path(storage.url).stat().st_mtime_ns > before


def test_nothing_half_written_is_seen_in_a_folder_that_others_read(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that was there before, also a new object appears as a whole: a kill or power cut leaves no half."""
    storage.put_many([("live/old", b"")])
    real, path, seen = os.writev, Path(storage.url, "live", "new"), []

    def writev(fd: int, views: list[memoryview]) -> int:
        seen.append(path.exists())
        return real(fd, views)

    monkeypatch.setattr(os, "writev", writev)
    storage.put_many([("live/new", b"content")])
    assert seen == [False]
    assert path.read_bytes() == b"content"


def test_a_creation_that_was_cut_off_does_not_block_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a creation leaves that a full disk ended is no foreign data; a dataset that lost its version file is."""
    url = str(tmp_path / "ds")

    def full(*_: object) -> str:
        raise StorageFullError("no space; free some space", errno=errno.ENOSPC)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put_if", full)
        with pytest.raises(StorageFullError):
            lakebed.empty(url)
    assert not lakebed.exists(url)
    with lakebed.empty(url) as ds:
        ds.create_tensor("n", dtype="int32")
        ds.n.append(1)
    (tmp_path / "ds" / "version_control_info.json").unlink()
    with pytest.raises(PathNotEmptyException):
        lakebed.empty(url)


def test_reading_needs_no_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of another dataset of this process that a full disk does not take keep nobody from reading, and wait."""
    url = str(tmp_path / "ds")
    with lakebed.empty(url) as ds:
        ds.create_tensor("n", dtype="int32")
        ds.n.append(1)
    ds.n.append(2)

    def full(*_: object, **__: object) -> str:
        raise StorageFullError("no space; free some space", errno=errno.ENOSPC)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put_many", full)
        assert len(lakebed.load(url, read_only=True)) == 1
        with pytest.raises(StorageFullError):
            ds.flush()
    assert len(ds) == 2
    ds.flush()
    assert len(lakebed.load(url, read_only=True)) == 2


def test_folders_made_before_too_many_files_were_open_are_still_new(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the second of two new folders fails at first, the first one is not taken for a name that was there."""
    real, failed = os.mkdir, []

    def mkdir(path: str) -> None:
        if path.endswith("chunks") and not failed:
            failed.append(path)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        real(path)

    monkeypatch.setattr(os, "mkdir", mkdir)
    storage.put_many([("v/meta", b""), ("v/n/chunks/1", b"1"), ("v/n/meta", b"2")])
    assert failed
    assert storage.get("v/n/meta") == b"2"


def test_a_lock_file_that_stays_does_not_undo_a_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was published counts as published, also where the lock file cannot be removed afterwards."""

    def delete(*_: object) -> None:
        raise StorageError("cannot delete", errno=errno.EIO)

    with lakebed.empty(str(tmp_path / "ds")) as ds:
        ds.create_tensor("n", dtype="int32")
    ds.commit()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "delete", delete)
        ds.checkout("side", create=True)
        lakebed.empty(str(tmp_path / "other")).close()
    assert ds.branch == "side"
    ds.close()
