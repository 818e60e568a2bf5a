"""Files written past the cache of the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import StorageFullError
from lakebed.storage import direct
from lakebed.storage.direct import BLOCK, write_uncached
from lakebed.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIB = 1 << 20
SIZES = st.integers(1, 3 * BLOCK) | st.integers(MIB - 2, MIB + 2) | st.integers(4 * MIB - 2, 4 * MIB + 2)


def views(sizes: Sequence[int]) -> list[memoryview]:
    """Return pieces of these sizes with random bytes."""
    random = np.random.default_rng(sum(sizes))
    return [memoryview(random.bytes(size)) for size in sizes]


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
    with (tmp_path / "probe").open("wb") as probe:
        if not direct._turn(probe.fileno(), on=True):
            pytest.skip("the file system of the temporary folder has no direct writes")


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


@settings(max_examples=30, deadline=None)
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
    assert not direct._lock.locked()


def test_nobody_waits_for_the_buffer(
    write: Callable[[list[memoryview]], bytes], is_direct: list[bool]
) -> None:
    """A child may have been forked while another thread had it."""
    pieces = views([2 * MIB])
    with direct._lock:
        thread = threading.Thread(target=write, args=(pieces,))
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert not is_direct


@pytest.mark.usefixtures("capable")
def test_child_has_a_buffer_of_its_own(
    tmp_path: Path, write: Callable[[list[memoryview]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a forked child writes in the middle of a write of its parent goes into its own file only."""
    mine, other = memoryview(b"m" * 2 * MIB), memoryview(b"o" * 2 * MIB)
    write([mine])
    real = os.pwrite
    path = tmp_path / "child"

    def pwrite(fd: int, data: memoryview, at: int) -> int:
        monkeypatch.undo()
        child = os.fork()
        if not child:
            direct._lock = threading.Lock()  # as if the fork had been a moment earlier
            with path.open("wb") as file:
                write_uncached(file.fileno(), [other])
            os._exit(0)
        os.waitpid(child, 0)
        return real(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    assert write([mine]) == bytes(mine)
    assert path.read_bytes() == bytes(other)
