"""Local storage: hostile folders, crashes, and the order in which things reach the disk."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lakebed.errors import (
    InvalidInputError,
    KeyNotFound,
    LockedException,
    PreconditionFailed,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageReadOnlyError,
    UnsafePathError,
)
from lakebed.native import disk as native
from lakebed.storage.files import new_files, page_buffers
from lakebed.storage.files.disk import exclusive, write_all, write_file
from lakebed.storage.local import LocalStorage

LEFTOVER = ".lb-1f-2.tmp"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ds"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(root)


def test_creates_nothing_before_the_first_put(root: Path, storage: LocalStorage) -> None:
    """Looking at an address leaves no trace of it."""
    assert storage.stat("a") is None
    assert list(storage.list()) == []
    with pytest.raises(KeyNotFound):
        storage.get("a")
    assert not root.exists()


def test_file_is_where_its_key_says(root: Path, storage: LocalStorage) -> None:
    """Other programs find the same files."""
    storage.put("a/b c", b"1")
    assert (root / "a" / "b c").read_bytes() == b"1"
    (root / "a" / "d").write_bytes(b"2")
    assert storage.get("a/d") == b"2"
    assert storage.url == os.path.realpath(root)


def test_emptying_removes_the_folder_itself(root: Path, storage: LocalStorage) -> None:
    """Nothing of a deleted dataset stays, not even leftovers and lock files."""
    storage.put_if("a/b", b"1", None)
    (root / "a" / LEFTOVER).touch()
    storage.delete_prefix("")
    assert not root.exists()


# -- crash leftovers ----------------------------------------------------------------------------------------


def test_leftovers_and_locks_are_no_objects(root: Path, storage: LocalStorage) -> None:
    """What a killed writer leaves is invisible, and goes with its folder."""
    storage.put_if("a/b", b"1", None)
    (root / "a" / LEFTOVER).touch()
    (root / LEFTOVER).touch()
    assert (root / ".lakebed" / "publish.lock").exists()
    assert {key for key, _ in storage.list()} == {"a/b"}
    storage.delete_prefix("a/")
    assert not (root / "a").exists()


def test_no_key_can_be_taken_for_a_leftover(storage: LocalStorage) -> None:
    """An object that lists would not show cannot be written."""
    with pytest.raises(InvalidInputError, match="temporary"):
        storage.put(f"a/{LEFTOVER}", b"")


def test_killed_writer_leaves_whole_files(tmp_path: Path) -> None:
    """Whenever the process is killed, every file that was there has one of the contents that were put."""
    program = (
        "import itertools, sys\n"
        "from lakebed.storage.local import LocalStorage\n"
        "s = LocalStorage(sys.argv[1])\n"
        "for n in itertools.chain(b'a', [None], itertools.cycle(b'abcd')):\n"
        "    n is None and print(flush=True)\n"
        "    n and s.put_many([(f'f{i}/k', bytes([n]) * 300_000) for i in range(5)], durable=False)\n"
    )
    storage = LocalStorage(tmp_path)
    for wait in (0.0, 0.004, 0.009, 0.015):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout
            process.stdout.readline()
            time.sleep(wait)
            process.send_signal(signal.SIGKILL)
        for key, stat in storage.list():
            assert stat.size == 300_000
            assert len(set(storage.get(key))) == 1


def test_failed_write_leaves_no_litter(
    root: Path, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk in the middle of a batch removes its temporary files and closes what it opened."""
    storage.put("a", b"old")
    before = len(list(Path("/proc/self/fd").iterdir()))
    real, calls = os.writev, 0

    def writev(fd: int, views: list[memoryview]) -> int:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, views)

    monkeypatch.setattr(os, "writev", writev)
    monkeypatch.setattr(new_files, "FEW", 100)
    with pytest.raises(StorageFullError, match="free some space") as caught:
        storage.put_many([("a", b"new"), *((f"b/{i}", b"x") for i in range(9))])
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(StorageFullError):
        storage.put("a", b"new")
    monkeypatch.undo()
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "a"]
    assert storage.get("a") == b"old"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("durable", [True, False])
def test_failed_write_among_new_files_leaves_no_litter(
    root: Path, storage: LocalStorage, durable: bool
) -> None:
    """Files of a new folder that are there when one of them cannot be written are gone afterwards, and closed."""
    storage.put("a", b"old")
    before = len(list(Path("/proc/self/fd").iterdir()))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    items = [("a", b"new"), *((f"b/{i}/c", b"x" * (1 << i)) for i in range(20))]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, limit[1]))
    try:
        with pytest.raises(StorageError, match="/b/18/c") as caught:
            storage.put_many(items, durable=durable)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.errno == errno.EFBIG
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "a"]
    assert storage.get("a") == b"old"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    storage.put_many(items, durable=durable)
    assert [len(storage.get(f"b/{i}/c")) for i in range(20)] == [1 << i for i in range(20)]


def test_new_files_of_every_shape(storage: LocalStorage) -> None:
    """Empty, of several pieces, in folders of any order and depth, more than may be open: each holds its own."""
    items: dict[str, tuple[bytes, ...]] = {
        "v/first": (b"1",),
        "v/a/b/c/d": (b"", b"x", b"", b"yz"),
        "v/none": (),
    }
    items |= {f"v/{i % 7}/{i % 5}/{i}": (b"ab" * i, bytes(i % 3)) for i in range(700)}
    items |= {"w/other": (b"o",), "v/0/late": (b"l",), "w/x/deep": (b"d" * 5_000_000,), "w/after": (b"a",)}
    storage.put_many(items.items())
    assert {key: storage.get(key) for key, _ in storage.list()} == {
        key: b"".join(p) for key, p in items.items()
    }
    again = dict.fromkeys(items, (b"again",))
    storage.put_many(again.items())
    assert all(storage.get(key) == b"again" for key, _ in storage.list())


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, StorageFullError, "free"),
        (errno.EDQUOT, StorageFullError, "free"),
        (errno.EACCES, StoragePermissionError, "access"),
        (errno.EROFS, StorageReadOnlyError, "read"),
        (errno.EIO, StorageError, "disk"),
        (errno.EMFILE, StorageError, "ulimit"),
    ],
)
def test_errors_of_the_system_say_what_to_do(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StorageError], advice: str
) -> None:
    """They name the file, keep the number, and stay an OSError."""
    storage.put("a", b"1")

    def refuse(*args: object, **options: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    for call in (lambda: storage.get("a"), lambda: storage.put("a", b"2")):
        with pytest.raises(OSError, match=advice) as caught:
            call()
        assert type(caught.value) is kind
        assert caught.value.errno == number
        assert storage.url in str(caught.value)


def test_too_long_names_are_an_error(storage: LocalStorage) -> None:
    """The limit of the file system is reported as such."""
    with pytest.raises(StorageError, match="shorter"):
        storage.put("x" * 300, b"")


# -- hostile folders ----------------------------------------------------------------------------------------


def test_folder_link_out_of_the_root_is_refused(tmp_path: Path, root: Path, storage: LocalStorage) -> None:
    """A dataset cannot make its reader open, list or change files elsewhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"s")
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "sibling").symlink_to(tmp_path / "ds2")
    for key in ("link/secret", "link/new/deep", "sibling/a"):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            storage.get(key)
        with pytest.raises(UnsafePathError):
            storage.put(key, b"")
        with pytest.raises(PermissionError):
            storage.delete(key)
    with pytest.raises(UnsafePathError):
        storage.delete_prefix("link/")
    assert list(storage.list()) == []
    storage.delete_prefix("")
    assert (outside / "secret").exists()


def test_file_link_is_refused(tmp_path: Path, root: Path, storage: LocalStorage) -> None:
    """Even a link inside the root: a put would replace the link and not its target."""
    (tmp_path / "secret").write_bytes(b"s")
    root.mkdir()
    (root / "link").symlink_to(tmp_path / "secret")
    (root / "dangling").symlink_to(root / "nothing")
    for key in ("link", "dangling"):
        with pytest.raises(UnsafePathError, match="link"):
            storage.get(key)
        assert storage.stat(key) is None
    storage.put("link", b"mine")
    assert (tmp_path / "secret").read_bytes() == b"s"
    assert storage.get("link") == b"mine"


def test_link_inside_the_root_and_root_that_is_a_link_are_fine(tmp_path: Path, root: Path) -> None:
    """Links do no harm as long as they stay inside."""
    root.mkdir()
    (root / "real").mkdir()
    (root / "alias").symlink_to(root / "real")
    (tmp_path / "entry").symlink_to(root)
    storage = LocalStorage(tmp_path / "entry")
    storage.put("alias/a", b"1")
    assert storage.get("real/a") == b"1"
    assert storage.url == LocalStorage(root).url


def test_dangling_folder_link_ends_in_an_error(root: Path, storage: LocalStorage) -> None:
    """It can neither be entered nor created."""
    root.mkdir()
    (root / "a").symlink_to(root / "nowhere")
    with pytest.raises(StorageError):
        storage.put("a/b", b"")
    with pytest.raises(KeyNotFound):
        storage.get("a/b")


def test_special_files_do_not_hang_the_reader(root: Path, storage: LocalStorage) -> None:
    """A FIFO in the place of a file is refused at once."""
    root.mkdir()
    os.mkfifo(root / "pipe")
    with pytest.raises(UnsafePathError, match="not a regular file"):
        storage.get("pipe")
    assert storage.stat("pipe") is None
    assert list(storage.list()) == []


def test_file_in_the_place_of_a_folder_is_an_error(root: Path, storage: LocalStorage) -> None:
    """And the other way round; neither is an endless loop."""
    storage.put("a", b"")
    with pytest.raises(StorageError):
        storage.put("a/b", b"")
    storage.put("c/d", b"")
    with pytest.raises(StorageError):
        storage.put("c", b"")


# -- what reaches the disk, and when ------------------------------------------------------------------------


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Forced writes and renames of this test, by path; files are forced one by one."""
    calls: list[str] = []
    fsync, fsync_all, rename = os.fsync, native.fsync_all, os.rename

    def note(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        calls.append(f"fsync {'folder' if path.is_dir() else 'file'} {path}")

    def spy_fsync(fd: int) -> None:
        note(fd)
        fsync(fd)

    def spy_fsync_all(descriptors: array[int], errors: array[int]) -> None:
        for fd in descriptors:
            note(fd)
        fsync_all(descriptors, errors)

    def spy_rename(old: str, new: str) -> None:
        calls.append(f"rename {new}")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(native, "fsync_all", spy_fsync_all)
    monkeypatch.setattr(native, "sync_disk", lambda _: 0)
    monkeypatch.setattr(os, "rename", spy_rename)
    return calls


def steps(log: list[str]) -> list[str]:
    return [entry.split(" /")[0] for entry in log]


def test_batch_is_forced_file_by_file_then_renamed_then_folders(
    tmp_path: Path, storage: LocalStorage, log: list[str]
) -> None:
    """No file replaces another before all contents are on disk; each folder that changed is forced once."""
    storage.put_many([(f"v/{i % 3}/{i}", b"x") for i in range(10)])
    root = storage.url
    assert steps(log) == ["fsync folder"] + ["fsync file"] * 10 + ["fsync folder"] * 5
    assert log[0] == f"fsync folder {os.path.realpath(tmp_path)}"
    assert {entry.split(" ")[-1] for entry in log[-5:]} == {
        root,
        f"{root}/v",
        *(f"{root}/v/{i}" for i in range(3)),
    }
    log.clear()
    storage.put_many([(f"v/{i % 3}/{i}", b"y") for i in range(10)])
    assert steps(log) == ["fsync file"] * 10 + ["rename"] * 10 + ["fsync folder"] * 3


def test_a_large_batch_is_forced_by_one_call(
    tmp_path: Path, storage: LocalStorage, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file is written and open when it comes; renames follow it, and after them only their folders are left."""
    storage.put_many([("live/old", b""), ("v/old", b"")])
    items = [(f"v/new/{i % 3}/{i}", b"x") for i in range(10)] + [("live/new", b"n")]
    log.clear()

    def sync_disk(descriptors: array[int]) -> int:
        paths = [Path(f"/proc/self/fd/{fd}").readlink() for fd in descriptors]
        assert [path.read_bytes() for path in paths] == [content for _, content in items]
        log.append("disk /")
        return 1

    monkeypatch.setattr(native, "sync_disk", sync_disk)
    monkeypatch.setattr(new_files, "_waiting_bytes", lambda: 0)
    storage.put_many(items)
    assert steps(log) == ["disk", "rename", "fsync folder"]
    assert log[1:] == [f"rename {storage.url}/live/new", f"fsync folder {storage.url}/live"]
    log.clear()
    storage.put_many([("v/new/0/another", b"")])
    assert steps(log) == ["fsync file", "rename", "fsync folder"]


@pytest.mark.parametrize("why", ["cannot", "others wait", "old kernel", "few"])
def test_what_one_call_does_not_force_is_forced_file_by_file(
    storage: LocalStorage, log: list[str], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Where it is not to be relied on, or would write much of what others have written, nothing is left out."""
    storage.put("a", b"")
    log.clear()
    asked = []

    def sync_disk(descriptors: array[int]) -> int:
        asked.append(len(descriptors))
        return 0 if why == "cannot" else 1

    count = new_files.FEW - 1 if why == "few" else 10
    monkeypatch.setattr(native, "sync_disk", sync_disk)
    monkeypatch.setattr(new_files, "_waiting_bytes", lambda: 10 << 20 if why == "others wait" else 0)
    monkeypatch.setattr(new_files, "_tells_errors", lambda: why != "old kernel")
    storage.put_many([(f"v/{i}", b"x") for i in range(count)])
    assert asked == ([10] if why == "cannot" else [])
    assert steps(log) == ["fsync file"] * count + ["fsync folder"] * 2


def test_a_call_for_all_that_fails_is_not_made_up_for(
    root: Path, storage: LocalStorage, log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system tells it once: nothing takes its place, what was new is gone, and folders are changed anew."""
    storage.put("a", b"old")
    log.clear()
    numbers = [-errno.EIO, 1, 0]
    monkeypatch.setattr(native, "sync_disk", lambda _: numbers.pop(0))
    monkeypatch.setattr(new_files, "_waiting_bytes", lambda: 0)
    items = [("a", b"new"), *((f"v/{i}", b"x") for i in range(10))]
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(StorageError, match="dmesg") as caught:
        storage.put_many(items)
    assert caught.value.errno == errno.EIO
    assert log == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [path for path in root.rglob("*") if path.is_file()] == [root / "a"]
    assert storage.get("a") == b"old"
    changed = root.stat().st_mtime_ns
    storage.put_many(items)
    assert steps(log) == ["rename"] * 11 + ["fsync folder"] * 2
    assert root.stat().st_mtime_ns > changed
    assert {key: storage.get(key) for key, _ in storage.list()} == dict(items)
    log.clear()
    storage.put_many([(f"w/{i}", b"x") for i in range(10)])
    assert steps(log) == ["fsync file"] * 10 + ["fsync folder"] * 2


def test_the_system_tells_what_waits_for_the_disk() -> None:
    """Its answer is a number of bytes, and the release of its kernel is understood."""
    waiting = new_files._waiting_bytes()
    assert waiting is not None
    assert 0 <= waiting < 1 << 50
    assert new_files._tells_errors() == (tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 17))


@pytest.mark.parametrize("durable", [True, False])
def test_large_objects_are_written_one_by_one(root: Path, storage: LocalStorage, durable: bool) -> None:
    """Each before the next is asked for, as the processor still holds what was just made; small ones in groups."""
    seen: list[tuple[int, int]] = []

    def sizes() -> list[int]:
        return [path.stat().st_size for path in root.rglob("*") if path.is_file()]

    def items() -> Iterator[tuple[str, bytes]]:
        for i in range(3):
            yield f"v/c/{i}", bytes(new_files.LARGE)
            seen.append((sizes().count(new_files.LARGE), sizes().count(1)))
        for i in range(20):
            yield f"v/s/{i}", b"x"
            seen.append((sizes().count(new_files.LARGE), sizes().count(1)))
        yield "v/c/last", bytes(new_files.LARGE)
        seen.append((sizes().count(new_files.LARGE), sizes().count(1)))

    storage.put_many(items(), durable=durable)
    assert seen == [(1, 0), (2, 0), (3, 0), *[(3, 0)] * 20, (4, 20)]
    assert len(sizes()) == 24


def test_batch_that_fails_leaves_nothing_new(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the files that were new, nor half of one that was to replace another."""
    storage.put("v/1", b"before")
    write, calls = os.writev, itertools.count()

    def failing(fd: int, views: list[memoryview]) -> int:
        if next(calls) == 2:
            raise OSError(errno.ENOSPC, "no space")
        return write(fd, views)

    monkeypatch.setattr(os, "writev", failing)
    with pytest.raises(StorageFullError):
        storage.put_many([("v/0", b"new"), ("v/1", b"after"), ("v/2", b"new")])
    assert [(key, storage.get(key)) for key, _ in storage.list("")] == [("v/1", b"before")]


def test_sync_makes_up_for_what_a_batch_left_out(storage: LocalStorage, log: list[str]) -> None:
    """A batch that is not durable forces nothing; `sync` forces its files and all folders up to the root."""
    storage.put("a", b"")
    log.clear()
    storage.put_many([("v/w/1", b"x"), ("v/w/2", b"x"), ("v/w/3", b"x")], durable=False)
    assert steps(log) == []
    log.clear()
    LocalStorage(storage.url).sync(["v/w/1", "v/w/2", "v/w/3"])
    assert steps(log) == ["fsync file"] * 3 + ["fsync folder"] * 3


def test_durable_put_into_a_folder_that_is_not_durable(storage: LocalStorage, log: list[str]) -> None:
    """The folders above it are forced too, or the file would be lost with them; others are not."""
    storage.put_many([("v/w/1", b"x"), ("other/1", b"x")], durable=False)
    log.clear()
    storage.put("v/w/2", b"x")
    root = storage.url
    assert steps(log) == ["fsync file", "rename"] + ["fsync folder"] * 3
    assert {entry.split(" ")[-1] for entry in log[2:]} == {root, f"{root}/v", f"{root}/v/w"}


def test_more_files_than_may_be_open(storage: LocalStorage) -> None:
    """A durable batch of a thousand files stays below the usual limit of open files."""
    storage.put_many((f"{i % 40}/{i}", b"x") for i in range(1100))
    assert sum(1 for _ in storage.list()) == 1100


def test_write_goes_on_after_a_short_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The system may take fewer bytes than offered, ending inside any piece."""
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, views: real(fd, [b"".join(views)[:7]]))
    with (tmp_path / "f").open("wb") as file:
        write_all(file.fileno(), [memoryview(bytes([i]) * i) for i in range(1, 30)])
    assert (tmp_path / "f").read_bytes() == b"".join(bytes([i]) * i for i in range(1, 30))


@pytest.mark.parametrize("is_free", [True, False])
def test_large_files_come_from_a_buffer_of_pages(
    is_free: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The bytes are the same, with a free buffer and without one."""
    random = np.random.default_rng(1)
    views = [memoryview(random.bytes(size)) for size in (47, 700_000, 1_500_000, 1, 1_200_000)]
    filled: list[int] = []
    real = native.fill
    monkeypatch.setattr(native, "slow_bytes", lambda _: 3_400_048)
    monkeypatch.setattr(native, "fill", lambda room, step: filled.append(real(room, step)) or filled[-1])
    if not is_free:
        monkeypatch.setattr(page_buffers.buffers, "_slots", threading.Semaphore(0))
    with (tmp_path / "f").open("wb") as file:
        write_file(file.fileno(), views)
    assert (tmp_path / "f").read_bytes() == b"".join(views)
    assert filled == ([1 << 20, 1 << 20, 1 << 20, 3_400_048 - (3 << 20)] if is_free else [])


# -- several processes --------------------------------------------------------------------------------------


def count_up(root: str, times: int) -> None:
    storage = LocalStorage(root)
    while times:
        before = storage.stat("n")
        number = int(storage.get("n"))
        try:
            storage.put_if("n", b"%d" % (number + 1), before.etag if before else None)
            times -= 1
        except PreconditionFailed:
            pass


def test_processes_that_count_in_one_object_lose_no_step(storage: LocalStorage) -> None:
    """A conditional put is atomic across processes."""
    storage.put("n", b"0")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=count_up, args=(storage.url, 15)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert storage.get("n") == b"30"


def test_publish_lock_that_never_comes_free_is_an_error(tmp_path: Path) -> None:
    """A hanging process cannot hang the others for ever."""
    path = str(tmp_path / "l")
    with (
        exclusive(path),
        pytest.raises(LockedException, match="locked for"),
        exclusive(path, wait=0.05),
    ):
        pass
    with exclusive(path, wait=0.0):
        pass


def test_works_after_a_fork_and_a_pickle(storage: LocalStorage) -> None:
    """Workers of a data loader get the same folder."""
    storage.put_many((f"a/{i}", b"x") for i in range(9))
    pid = os.fork()
    if not pid:
        storage.put_many((f"b/{i}", b"y") for i in range(9))
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert pickle.loads(pickle.dumps(storage)).get("b/8") == b"y"


def test_another_process_that_makes_the_same_folders_at_the_same_time_is_no_conflict_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only two names of one batch that are one folder are: a file system that folds case would mix them up."""
    storage = LocalStorage(tmp_path / "new")
    make = storage._folders.make

    def shared(folder: str, fresh: set[str] | None = None) -> None:
        make(folder, fresh)
        Path(folder, "sub").mkdir(exist_ok=True)  # the other one goes on below what this one made

    monkeypatch.setattr(storage._folders, "make", shared)
    storage.put_many([("a", b"1"), ("sub/b", b"2")])
    assert storage.get("sub/b") == b"2"


def test_two_names_that_are_one_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(tmp_path / "new")
    make_inside = storage._folders.make_inside

    def folding(folder: str) -> object:
        lower = Path(folder).with_name(Path(folder).name.lower())
        return set() if folder != str(lower) and lower.is_dir() else make_inside(folder)

    monkeypatch.setattr(storage._folders, "make_inside", folding)
    with pytest.raises(StorageError, match="ignores case"):
        storage.put_many([("a", b"1"), ("sub/b", b"2"), ("SUB/b", b"3")])


@pytest.mark.parametrize(
    "key",
    ["v/a/../../../out", "v/a//b", "v/a/.", "v/./b", "v/a\0", "v/b\\c/d", "v/a/.lb-1-1.tmp", "v/\ud800/a"],
)
@pytest.mark.parametrize("at", [0, 12])
def test_a_key_that_leads_nowhere_is_refused_in_a_batch_of_new_files_too(
    tmp_path: Path, storage: LocalStorage, key: str, at: int
) -> None:
    """However many there are before it in folders that the batch makes."""
    items = [(f"v/{'abc'[i % 3]}/{i // 3}", b"x") for i in range(24)]
    items.insert(at, (key, b"x"))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidInputError):
        storage.put_many(items)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_files_of_a_batch_lie_where_their_keys_say(storage: LocalStorage) -> None:
    """Whether their folder, one above, or none was there, and in whatever order they come."""
    storage.put_many([("old/a", b"0"), ("old/deep/b", b"0")])
    keys = [f"new/{i % 4}/{'x/' * (i % 3)}{'ab'[i % 2]}{i}" for i in range(30)]
    keys += [f"old/deep/new/{i % 2}/{i}" for i in range(12)] + [
        "top",
        "new/top",
        "old/deep/c",
        "new/0/x/x/x/y",
    ]
    items = {key: key.encode() for key in keys}
    random.Random(5).shuffle(keys)
    storage.put_many([(key, items[key]) for key in keys])
    assert {key: storage.get(key) for key, _ in storage.list()} == {
        "old/a": b"0",
        "old/deep/b": b"0",
        **items,
    }
