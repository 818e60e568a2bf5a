"""Files written and read past the cache of the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed import config
from lakebed.errors import StorageFullError
from lakebed.native.disk import resident
from lakebed.storage.files import direct, page_buffers
from lakebed.storage.files.direct import BLOCK, read_uncached, write_uncached
from lakebed.storage.local import LocalStorage
from unit_tests.effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MIB = 1 << 20
SIZES = (
    st.integers(1, 3 * BLOCK)
    | st.integers(MIB // 4 - 2, MIB // 4 + 2)
    | st.integers(4 * MIB - 2, 4 * MIB + 2)
)


def views(sizes: Sequence[int]) -> list[memoryview]:
    """Return pieces of these sizes with random bytes."""
    random = np.random.default_rng(sum(sizes))
    return [memoryview(random.bytes(size)) for size in sizes]


def is_all_given_back() -> bool:
    """Whether no buffer is in use."""
    return direct.buffers._slots._value == page_buffers._MOST >= len(direct.buffers._free)


def evict(path: Path) -> None:
    """Put a file on the disk and out of the cache."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def part_in_cache(path: Path) -> float:
    """Which part of a file the cache has, from 0 to 1."""
    with path.open("rb") as file:
        return resident(file.fileno(), path.stat().st_size)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[list[memoryview]], bytes]:
    """Write a file uncached and read it back."""
    path = tmp_path / "file"

    def write(pieces: list[memoryview]) -> bytes:
        with path.open("wb") as file:
            write_uncached(file.fileno(), pieces)
        return path.read_bytes()

    return write


@pytest.fixture
def capable(tmp_path: Path) -> None:
    """Leave out a test where the file system of temporary files has no direct writes."""
    if not is_capable(tmp_path):
        pytest.skip("the file system of the temporary folder has no direct writes")


def is_capable(folder: Path) -> bool:
    """Whether the file system of a folder takes direct writes."""
    with (folder / "probe").open("wb") as probe:
        return direct._turn(probe.fileno(), on=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk with a cache before it: temporary files may lie in memory, as those of `make test` do."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        for folder in (tmp_path, Path(other)):
            file = folder / "evicted"
            file.write_bytes(bytes(2 * MIB))
            evict(file)
            if is_capable(folder) and part_in_cache(file) == 0:
                yield folder
                return
        pytest.skip("neither temporary folder lies on a disk with direct writes")


@pytest.fixture
def is_direct(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each aligned write whether it went past the cache."""
    seen: list[bool] = []
    real = os.pwrite

    def pwrite(fd: int, data: memoryview, at: int) -> int:
        seen.append(bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT))
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return seen


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(SIZES, max_size=3))
def test_file_holds_what_was_written(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    """Whatever the sizes of pieces and blocks, and nothing that fills up the last block."""
    pieces = views(sizes)
    path = tmp_path_factory.mktemp("direct") / "file"
    with path.open("wb") as file:
        write_uncached(file.fileno(), pieces)
    assert path.read_bytes() == b"".join(pieces)


@pytest.mark.usefixtures("capable")
def test_large_file_goes_past_the_cache(
    write: Callable[[list[memoryview]], bytes], is_direct: list[bool]
) -> None:
    """By way of one buffer, with its last part cut to size."""
    pieces = views([9 * MIB + 5])
    assert write(pieces) == bytes(pieces[0])
    assert is_direct == [True] * 3
    assert write(views([100])) == bytes(views([100])[0])
    assert len(is_direct) == 3


@pytest.mark.usefixtures("capable")
@pytest.mark.parametrize("where", ["flag", "write"])
def test_file_system_that_cannot_do_it(
    write: Callable[[list[memoryview]], bytes], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It may refuse the flag, or take it and refuse the blocks; the file is written through the cache."""
    real, refused = fcntl.fcntl, []

    def refuse(fd: int, command: int, flags: int = 0) -> int:
        if command == fcntl.F_SETFL and flags & os.O_DIRECT:
            refused.append(fd)
            raise OSError(errno.EINVAL, "no direct writes")
        return real(fd, command, flags)

    def fail(fd: int, data: memoryview, at: int) -> int:
        if at:
            refused.append(fd)
            raise OSError(errno.EINVAL, "larger blocks, please")
        return real_write(fd, data, at)

    real_write = os.pwrite
    if where == "flag":
        monkeypatch.setattr(fcntl, "fcntl", refuse)
    else:
        monkeypatch.setattr(os, "pwrite", fail)
    pieces = views([3 * MIB, 4 * MIB + 7])
    assert write(pieces) == b"".join(pieces)
    assert refused


@pytest.mark.usefixtures("capable")
def test_disk_that_is_nearly_full_writes_less(
    write: Callable[[list[memoryview]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left begins in the middle of a block, which only the cache can do."""
    real = os.pwrite

    def cut(fd: int, data: memoryview, at: int) -> int:
        size = min(len(data), 64 * BLOCK + (0 if at < MIB else 3))
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        if at % BLOCK:
            assert not flags & os.O_DIRECT
        elif size % BLOCK:  # only the disk can end a direct write there
            fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
        try:
            return real(fd, data[:size], at)
        finally:
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)

    monkeypatch.setattr(os, "pwrite", cut)
    pieces = views([2 * MIB + 11, 3 * MIB])
    assert write(pieces) == b"".join(pieces)


@pytest.mark.usefixtures("capable")
def test_errors_of_the_disk_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left of the file, nor of what guards the buffer."""
    storage = LocalStorage(tmp_path / "root")

    def full(fd: int, data: memoryview, at: int) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageFullError, match="free"):
            storage.put_uncached([("a/b", views([2 * MIB])[0])])
    assert not [*storage.list()]
    storage.put_uncached([("a/b", views([2 * MIB])[0])])
    storage.sync(["a/b"])
    assert storage.get("a/b") == bytes(views([2 * MIB])[0])
    assert is_all_given_back()


def test_nobody_waits_for_a_buffer(
    tmp_path: Path,
    write: Callable[[list[memoryview]], bytes],
    is_direct: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever comes while all are in use goes through the cache."""
    pieces, into = views([2 * MIB]), bytearray(2 * MIB)
    monkeypatch.setattr(direct.buffers, "_slots", threading.Semaphore(0))
    assert write(pieces) == pieces[0]
    evict(tmp_path / "file")
    with (tmp_path / "file").open("rb") as file:
        assert read_uncached(file.fileno(), memoryview(into)) == 0
    assert not is_direct


@pytest.mark.usefixtures("capable")
def test_child_has_a_buffer_of_its_own(
    tmp_path: Path, write: Callable[[list[memoryview]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a forked child writes in the middle of a write of its parent goes into its own file only."""
    mine, other = memoryview(b"m" * 2 * MIB), memoryview(b"o" * 2 * MIB)
    with direct.buffers.lent(), direct.buffers.lent():
        pass  # there are two now: one is in use, and the other waits, when the child is forked
    real = os.pwrite
    path = tmp_path / "child"

    def pwrite(fd: int, data: memoryview, at: int) -> int:
        monkeypatch.undo()
        child = os.fork()
        if not child:
            if direct.buffers._free:
                os._exit(1)  # the parent has the same memory
            with path.open("wb") as file:
                write_uncached(file.fileno(), [other])
            os._exit(0)
        assert direct.buffers._free
        assert os.waitpid(child, 0)[1] == 0
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    assert write([mine]) == bytes(mine)
    assert path.read_bytes() == bytes(other)


# -- reading -------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(30), deadline=None)
@given(
    st.integers(0, 2 * BLOCK) | st.integers(MIB // 4 - 2, MIB // 4 + 2) | st.integers(4 * MIB - 2, 9 * MIB)
)
def test_read_is_what_was_written(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    """All of it or nothing, and the file stands where what is missing begins."""
    folder = tmp_path_factory.mktemp("direct")
    path, data = folder / "file", views([size])[0]
    path.write_bytes(data)
    evict(path)
    into = bytearray(size)
    with path.open("rb", buffering=0) as file:
        done = read_uncached(file.fileno(), memoryview(into))
        assert done in (0, size)
        assert file.tell() == done
        assert bytes(into[:done]) + file.read() == data


def test_read_leaves_the_cache_alone(disk: Path) -> None:
    """What is in the cache is read from there, what is not does not get there."""
    path, data, into = disk / "file", views([6 * MIB + 1])[0], bytearray(6 * MIB + 1)
    path.write_bytes(data)
    assert part_in_cache(path) == 1
    with path.open("rb") as file:
        assert read_uncached(file.fileno(), memoryview(into)) == 0
    evict(path)
    assert part_in_cache(path) == 0
    with path.open("rb") as file:
        assert read_uncached(file.fileno(), memoryview(into)) == len(data)
    assert bytes(into) == data
    assert part_in_cache(path) == 0


@pytest.mark.parametrize("cut", [3 * MIB, 3 * MIB + 5])
def test_file_that_ends_early(disk: Path, cut: int) -> None:
    """What is there is read; who asked finds out that the rest is missing."""
    path, data, into = disk / "file", views([cut])[0], bytearray(5 * MIB)
    path.write_bytes(data)
    evict(path)
    with path.open("rb") as file:
        assert read_uncached(file.fileno(), memoryview(into)) == cut
    assert bytes(into[:cut]) == data


def test_reading_where_the_file_system_refuses(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are too small for it are read through the cache; an error of the disk is told."""
    path, data, into = disk / "file", views([5 * MIB])[0], bytearray(5 * MIB)
    path.write_bytes(data)
    evict(path)

    def refuse(fd: int, buffers: Sequence[memoryview], at: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", refuse)
    with path.open("rb", buffering=0) as file:
        number = errno.EINVAL
        assert read_uncached(file.fileno(), memoryview(into)) == 0
        assert file.read() == data
        evict(path)
        number = errno.EIO
        with pytest.raises(OSError, match="Input/output error"):
            read_uncached(file.fileno(), memoryview(into))
    assert is_all_given_back()


def test_process_that_leaves_the_cache_to_others(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes new rows past the cache, changes them, and reads them whole, and they are what they should be."""
    monkeypatch.setattr(config, "OS_CACHE", False)
    monkeypatch.setattr(config, "CACHE_BYTES", 0)
    rows = np.random.default_rng(1).integers(0, 256, (6000, 4096), np.uint8)
    ds = lakebed.empty(disk / "ds")
    ds.create_tensor("x", dtype="uint8").extend(rows)
    ds.commit("first")
    chunks = [path for path in (disk / "ds").rglob("chunks/*") if path.stat().st_size > MIB]
    assert len(chunks) > 2
    assert [path for path in chunks if part_in_cache(path)] == []
    np.testing.assert_array_equal(lakebed.load(disk / "ds").x.numpy(), rows)
    assert [path for path in chunks if part_in_cache(path)] == []
    where = np.arange(0, 6000, 3)
    ds.update_rows(where, {"x": rows[where] ^ 1})
    ds.flush()
    assert [path for path in chunks if part_in_cache(path)] == []
    expected = rows.copy()
    expected[where] ^= 1
    np.testing.assert_array_equal(lakebed.load(disk / "ds").x.numpy(), expected)
