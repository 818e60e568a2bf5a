"""The writer lock: one holder per branch, whoever and wherever it is, and never a stale one."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakebed.errors import LockedException, StorageError
from lakebed.storage.local import LocalStorage
from lakebed.storage.lock import WriterLock
from lakebed.storage.memory import MemoryStorage, open_memory
from unit_tests.effort import PATIENCE

HOLD = """
import sys
from lakebed.storage.local import LocalStorage
from lakebed.storage.lock import WriterLock
lock = WriterLock(LocalStorage(sys.argv[1]), "main")
lock.acquire()
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStorage | MemoryStorage:
    return LocalStorage(tmp_path / "ds") if request.param == "local" else open_memory(f"lock-{tmp_path}")


def test_second_dataset_of_the_same_process_is_refused(storage: LocalStorage | MemoryStorage) -> None:
    """The message says who holds it and since when; after the release it is free."""
    first, second = WriterLock(storage, "main"), WriterLock(storage, "main")
    first.acquire()
    first.acquire()
    assert first.held
    with pytest.raises(
        LockedException, match=r"branch 'main' of .*this process since 20\d\d-.* UTC, 0 s ago; wait"
    ):
        second.acquire()
    assert not second.held
    second.release()
    first.release()
    first.release()
    with second:
        assert second.held
    assert not second.held


def test_branches_and_datasets_are_locked_apart(
    storage: LocalStorage | MemoryStorage, tmp_path: Path
) -> None:
    """Writers of two branches do not wait for each other."""
    locks = [
        WriterLock(storage, "main"),
        WriterLock(storage, "dev/ü\ud800"),
        WriterLock(LocalStorage(tmp_path / "other"), "main"),
        WriterLock(MemoryStorage(), "main"),
    ]
    for lock in locks:
        lock.acquire()
    for lock in locks:
        lock.release()


def test_waits_as_long_as_it_is_told(storage: LocalStorage | MemoryStorage) -> None:
    """A lock that comes free in time is taken."""
    first, second = WriterLock(storage, "main"), WriterLock(storage, "main")
    first.acquire()
    timer = threading.Timer(0.05, first.release)
    timer.start()
    second.acquire(timeout=PATIENCE)
    timer.join()
    assert second.held
    second.release()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_lock_of_a_forgotten_dataset_comes_free(storage: LocalStorage | MemoryStorage) -> None:
    """A dataset that was never closed does not lock out the rest of the process."""
    WriterLock(storage, "main").acquire()
    gc.collect()
    with WriterLock(storage, "main"):
        pass


def test_other_process_is_refused_and_named_until_it_dies(tmp_path: Path) -> None:
    """A killed owner leaves no stale lock."""
    mine = WriterLock(LocalStorage(tmp_path), "main")
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        with pytest.raises(LockedException, match=f"process {process.pid} on .* since"):
            mine.acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
        mine.acquire()
    mine.release()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": null}', "[" * 100_000])
def test_unreadable_owner_is_an_unknown_one(tmp_path: Path, text: str) -> None:
    """The text in the lock file is for people; the lock does not depend on it."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        (file,) = (tmp_path / ".lakebed").iterdir()
        file.write_text(text)
        with pytest.raises(LockedException, match="another process"):
            WriterLock(LocalStorage(tmp_path), "main").acquire()
        process.kill()


def test_forked_child_neither_holds_nor_keeps_the_lock(tmp_path: Path) -> None:
    """The parent's lock is not the child's, and a child that lives on does not keep it from others."""
    storage = LocalStorage(tmp_path)
    lock = WriterLock(storage, "main")
    lock.acquire()
    ready, done = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        ok = not lock.held
        try:
            WriterLock(storage, "main").acquire()
            ok = False
        except LockedException:
            pass
        lock.release()
        os.write(ready[1], b"y" if ok else b"n")
        os.close(done[1])
        os.read(done[0], 1)
        os._exit(0)
    assert os.read(ready[0], 1) == b"y"
    with pytest.raises(LockedException):
        WriterLock(storage, "main").acquire()
    lock.release()
    with WriterLock(storage, "main"):
        pass
    os.close(done[1])
    os.waitpid(pid, 0)
    for fd in (*ready, done[0]):
        os.close(fd)


def test_lock_of_a_deleted_dataset_excludes_nobody(tmp_path: Path) -> None:
    """A new dataset in the same place gets a lock file of its own, and that one counts."""
    storage = LocalStorage(tmp_path / "ds")
    with WriterLock(storage, "main"):
        storage.delete_prefix("")
    with (
        WriterLock(storage, "main"),
        subprocess.Popen(
            [sys.executable, "-c", HOLD, storage.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert b"LockedException" in process.communicate()[1]


def test_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    """The caller learns that it is not about another writer, and can try again."""
    (tmp_path / ".lakebed").write_bytes(b"")
    lock = WriterLock(LocalStorage(tmp_path), "main")
    for _ in range(2):
        with pytest.raises(StorageError, match="lock"):
            lock.acquire()
    (tmp_path / ".lakebed").unlink()
    lock.acquire()
    lock.release()
