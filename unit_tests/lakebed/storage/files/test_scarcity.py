"""Too few open files, forbidden folders, coarse clocks, and children that inherit what is open."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import StorageError, StoragePermissionError
from lakebed.maintenance.verify import verify
from lakebed.session.process import finalizer
from lakebed.storage.files.disk import exclusive, lock_file
from lakebed.storage.local import LocalStorage
from unit_tests.effort import IS_SOAK


def collect() -> None:
    """Close all that nobody holds any more, here and in the thread that closes what the collector finds."""
    gc.collect()
    finalizer.drain()


def open_files() -> set[int]:
    """Descriptors that are open now."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def all_closed(before: set[int]) -> bool:
    """Whether nothing is left open; a thread that another test left behind may look at a file just now."""
    for _ in range(100):
        if open_files() <= before:
            return True
        time.sleep(0.05)
    return False


@contextlib.contextmanager
def files_left(count: int) -> Iterator[None]:
    """Let this process open only so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = open_files()
    lowest = next(
        limit for limit in range(max(soft, 1)) if limit - len({fd for fd in taken if fd < limit}) == count
    )
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_a_batch_needs_few_open_files(count: int, tmp_path: Path) -> None:
    """A batch of many files is written with as many open ones as there may be, and leaks none."""
    storage = LocalStorage(tmp_path / "ds")
    items = [(f"folder{i % 5}/{i}", bytes([i])) for i in range(40)]
    storage.put("first", b"")
    collect()  # what other tests left would be closed meanwhile
    before = open_files()
    with files_left(count):
        storage.put_many(items)
        storage.put_many([("spilled/a", b"a"), ("spilled/b", b"b")], durable=False)
        storage.sync(["spilled/a", "spilled/b", "missing"])
    assert all_closed(before)
    assert all(storage.get(key) == data for key, data in items)


def test_too_few_open_files_are_said_and_nothing_is_lost(tmp_path: Path) -> None:
    """However many files may be open, a dataset is written, or the error names the limit and it is written later."""
    url = str(tmp_path / "ds")
    with lakebed.empty(url) as ds:
        for number in range(8):
            ds.create_tensor(f"t{number}", dtype="int32")
    # Modules are loaded when they are first used, and take a file while they are: what follows is of datasets.
    with lakebed.empty(tmp_path / "other") as other:
        other.create_tensor("t", dtype="int32")
        other.append({"t": 1})
    ds = lakebed.load(url, read_only=False)
    published, refused = 0, []
    counts = range(0, 24, 1 if IS_SOAK else 4)
    for count in counts:
        collect()  # what other tests left would be closed meanwhile
        before = open_files()
        row = {f"t{number}": np.int32(count) for number in range(8)}
        with files_left(count):
            try:
                ds.append(row)
                ds.flush()
            except StorageError as caught:
                refused.append((count, caught))
        ds.flush()
        published = len(ds)
        ds.close()
        assert open_files() - before <= open_files()
        ds = lakebed.load(url, read_only=False)
        assert len(ds) == published
    ds.close()
    assert all(error.errno == errno.EMFILE and "ulimit -n" in str(error) for _, error in refused)
    assert 0 < len(refused) < len(counts) * 2 // 3
    assert verify(LocalStorage(url), deep=True).is_sound


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A folder that this user may use."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


@contextlib.contextmanager
def nobody() -> Iterator[None]:
    """Be a user without rights for a moment; whoever is one already stays it."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_forbidden_folder_is_said_and_its_data_stay(foreign: Path) -> None:
    """Without the right to write, reading works, writing tells so, and works again once it is allowed."""
    with nobody():
        url = str(foreign / "ds")
        with lakebed.empty(url) as ds:
            ds.create_tensor("n", dtype="int32")
            ds.n.extend([1, 2])
        folders = [path for path in (foreign / "ds", *(foreign / "ds").rglob("*")) if path.is_dir()]
        ds = lakebed.load(url, read_only=False)
        for folder in folders:
            folder.chmod(0o555)
        assert lakebed.load(url, read_only=True).n.numpy().tolist() == [[1], [2]]
        with pytest.raises(StoragePermissionError, match=r"ds.*ask for access") as caught:
            ds.n.append(3)
        assert caught.value.errno == errno.EACCES
        for folder in folders:
            folder.chmod(0o755)
        ds.n.append(3)
        (foreign / "ds" / "versions").chmod(0o555)
        with pytest.raises(StoragePermissionError):
            ds.flush()
        (foreign / "ds" / "versions").chmod(0o755)
        ds.close()
        assert lakebed.load(url, read_only=True).n.numpy().tolist() == [[1], [2], [3]]


def test_a_folder_that_cannot_be_made_is_said(foreign: Path) -> None:
    """Creating a dataset where nobody may write tells so and leaves nothing."""
    foreign.chmod(0o555)
    with nobody(), pytest.raises(StoragePermissionError, match="create"):
        lakebed.empty(str(foreign / "new" / "ds"))
    assert not list(foreign.iterdir())


def test_names_that_are_too_long_are_said(tmp_path: Path) -> None:
    """A path or name beyond what the file system takes is refused with advice, and the rest goes on."""
    with pytest.raises(StorageError, match="shorter names"):
        lakebed.empty(str(tmp_path / ("x" * 300)))
    deep = tmp_path.joinpath(*["y" * 200] * 19)
    with pytest.raises(StorageError, match="shorter names"):
        LocalStorage(deep).put("z" * 250 + "/" + "z" * 250, b"")
    room = 4096 - len(str(tmp_path)) - 120
    url = str(tmp_path.joinpath(*["d" * 200] * (room // 201)))
    ds = lakebed.empty(url)
    ds.create_tensor("n", dtype="int32")
    ds.n.append(1)
    ds.flush()
    ds.create_tensor("/".join(["group" * 40] * 3), dtype="int32")
    with pytest.raises(StorageError, match="shorter names"):
        ds.flush()
    ds.delete_tensor("/".join(["group" * 40] * 3))
    ds.n.append(2)
    ds.flush()
    assert lakebed.load(url, read_only=True).n.numpy().tolist() == [[1], [2]]


# -- identity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000])
def test_an_etag_never_comes_back(unit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file system rounds times to, and whichever way clocks step, each replacement has its own etag."""
    storage = LocalStorage(tmp_path)
    real, now = os.utime, time.time_ns()
    monkeypatch.setattr(os, "utime", lambda fd, ns: real(fd, ns=tuple(t // unit * unit for t in ns)))
    monkeypatch.setattr("lakebed.storage.files.disk.time.time_ns", lambda: now)
    seen, etag = set(), None
    for step in range(60):
        now -= step * 250_000_000
        etag = storage.put_if("k", b"same", etag)
        stat = storage.stat("k")
        assert stat is not None
        assert stat.etag == etag
        seen.add(stat.modified)
    assert len(seen) == 60


# -- locks ---------------------------------------------------------------------------------------------------


def test_a_child_forked_while_something_is_published_holds_up_nobody(tmp_path: Path) -> None:
    """The publish lock ends with the publish, also where a forked child has its file open for ever after."""
    path = str(tmp_path / "publish.lock")
    with exclusive(path):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        file = lock_file(path)
        assert file is not None
        file.unlock()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_file_system_without_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where flock(2) is not supported the error says what is missing."""

    def flock(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("lakebed.storage.files.disk.fcntl.flock", flock)
    collect()  # what other tests left would be closed meanwhile
    uuid.getnode()  # libuuid keeps a file open from the first call on
    before = open_files()
    with pytest.raises(StorageError, match="no locks") as caught:
        lakebed.empty(str(tmp_path / "ds"))
    assert caught.value.errno == errno.ENOLCK
    assert all_closed(before)
