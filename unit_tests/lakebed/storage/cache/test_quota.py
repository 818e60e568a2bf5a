"""The cache takes no more room than it may, and what was not used for longest goes first."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest
import xxhash

from lakebed.storage.cache.files import CacheFiles, Item
from lakebed.storage.cache.quota import Quota, on_disk
from lakebed.storage.files.disk import lock_file

if TYPE_CHECKING:
    from pathlib import Path

MB = 1_000_000
PIECE = os.urandom(100_000)


def item(number: int) -> Item:
    return Item("s3://bucket", f"chunks/{number:x}")


def keep(files: CacheFiles, *numbers: int) -> None:
    for number in numbers:
        files.keep(item(number), {0: PIECE}, len(PIECE))


def kept(files: CacheFiles, numbers: range) -> list[int]:
    return [number for number in numbers if files.run(item(number), 0, len(PIECE)) == PIECE]


def taken(folder: Path) -> int:
    """Bytes on disk, folders included."""
    return sum(path.lstat().st_blocks * 512 for path in [folder, *folder.rglob("*")])


def counted(folder: Path) -> tuple[int, int]:
    """Bound and use, as the file of the count has it."""
    data = (folder / "room").read_bytes()
    magic, bound, used, _, _ = struct.unpack("<8sQQQ16s", data[:48])
    assert magic == b"LBROOM01"
    assert data[48:] == xxhash.xxh3_64_intdigest(data[:48]).to_bytes(8, "little")
    return bound, used


def age(folder: Path, seconds: float) -> None:
    for path in folder.glob("*/*"):
        stat = path.stat()
        os.utime(path, (stat.st_atime - seconds, stat.st_mtime - seconds))


def test_bound_holds(tmp_path: Path) -> None:
    """Whatever is put in; and most of it is used."""
    files = CacheFiles(str(tmp_path), 3 * MB)
    for number in range(200):
        keep(files, number)
        assert taken(tmp_path) <= 3 * MB
    assert taken(tmp_path) > 2.4 * MB
    assert len(kept(files, range(200))) >= 22


def test_count_is_what_is_there(tmp_path: Path) -> None:
    """However it changed: new, grown, replaced, dropped, made room for."""
    files = CacheFiles(str(tmp_path), 3 * MB)
    for number in range(60):
        files.keep(item(number % 40), {number % 3: PIECE[: number * 999 + 1]})
        if number % 7 == 0:
            files.drop(item(number % 5))
        assert counted(tmp_path)[1] == sum(on_disk(path.stat().st_size) for path in tmp_path.glob("*/*"))


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    """Reading counts as use, not only writing."""
    files = CacheFiles(str(tmp_path), 3 * MB)
    keep(files, *range(25))
    age(tmp_path, 1000)
    assert kept(files, range(10)) == list(range(10))
    keep(files, *range(100, 110))
    assert kept(files, range(10)) == list(range(10))
    assert len(kept(files, range(10, 25))) <= 6


def test_largest_bound_counts(tmp_path: Path) -> None:
    """Who comes with less does not throw away what others keep."""
    keep(CacheFiles(str(tmp_path), 6 * MB), *range(50))
    small = CacheFiles(str(tmp_path), 1 * MB)
    keep(small, 50)
    assert len(kept(small, range(51))) == 51
    assert counted(tmp_path)[0] == 6 * MB


def test_grows_with_a_larger_bound(tmp_path: Path) -> None:
    """As soon as somebody gives more."""
    keep(CacheFiles(str(tmp_path), 1 * MB), *range(20))
    large = CacheFiles(str(tmp_path), 6 * MB)
    keep(large, *range(20, 60))
    assert len(kept(large, range(20, 60))) == 40


def test_what_never_fits_is_not_kept(tmp_path: Path) -> None:
    """And throws nothing out that does; a cache smaller than its folders keeps nothing."""
    files = CacheFiles(str(tmp_path), 1 * MB)
    keep(files, 1)
    files.keep(item(2), {block: os.urandom(1 << 18) for block in range(8)})
    assert kept(files, range(3)) == [1] or not kept(files, range(3))
    assert taken(tmp_path) <= 1 * MB
    keep(CacheFiles(str(tmp_path / "small"), 100_000), 1)
    assert kept(CacheFiles(str(tmp_path / "small"), 100_000), range(3)) == []


@pytest.mark.parametrize("trace", ["busy", "restarted", "damaged", "missing"])
def test_counts_anew_when_the_count_is_doubtful(tmp_path: Path, trace: str) -> None:
    """After a kill, a restart of the machine, damage or loss of the count."""
    files = CacheFiles(str(tmp_path), 3 * MB)
    keep(files, *range(10))
    truth = counted(tmp_path)
    path = tmp_path / "room"
    magic, bound, _, _, boot = struct.unpack("<8sQQQ16s", path.read_bytes()[:48])
    busy = trace == "busy"
    data = struct.pack("<8sQQQ16s", magic, bound, 5, busy, bytes(16) if trace == "restarted" else boot)
    path.write_bytes(data + xxhash.xxh3_64_intdigest(data).to_bytes(8, "little"))
    if trace == "damaged":
        path.write_bytes(b"\x07" * 56)
    elif trace == "missing":
        path.unlink()
    keep(files, 10)
    assert counted(tmp_path) == (truth[0], truth[1] * 11 // 10)


def test_files_removed_by_hand_are_noticed(tmp_path: Path) -> None:
    """Otherwise there would seem to be no room for ever."""
    files = CacheFiles(str(tmp_path), 3 * MB)
    keep(files, *range(25))
    for path in tmp_path.glob("*/*"):
        path.unlink()
    keep(files, *range(100, 130))
    assert len(kept(files, range(100, 130))) >= 20


def test_nobody_waits_for_a_writer_that_hangs(tmp_path: Path) -> None:
    """Then what was read is just not kept."""
    files = CacheFiles(str(tmp_path), 3 * MB)
    keep(files, 1)
    file = lock_file(str(tmp_path / "room"))
    assert file is not None
    try:
        keep(files, 2)
        assert kept(files, range(3)) == [1]
    finally:
        file.unlock()
    keep(files, 2)
    assert kept(files, range(3)) == [1, 2]


def test_failed_writing_leaves_the_count_doubtful(tmp_path: Path) -> None:
    """What is on disk then, only counting tells."""
    room = Quota(str(tmp_path), 3 * MB)
    with pytest.raises(OSError, match="full"), room.writing(1000):
        raise OSError("full")
    with room.writing(500) as ledger:
        assert ledger is not None
        assert ledger.used == 500


def test_processes_count_together(tmp_path: Path) -> None:
    """None of them loses what another has added, or taken away."""
    children = []
    for process in range(4):
        pid = os.fork()
        if pid == 0:
            files = CacheFiles(str(tmp_path), 3 * MB)
            for number in range(150):
                keep(files, number * 4 + process)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert counted(tmp_path)[1] == sum(on_disk(path.stat().st_size) for path in tmp_path.glob("*/*"))
