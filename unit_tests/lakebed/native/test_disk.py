"""Many files read, made or forced in one call."""

from __future__ import annotations

import errno
import os
import platform
from array import array
from pathlib import Path

import numpy as np
import pytest

from lakebed.native import disk as native


def test_a_reserved_file_keeps_its_length(tmp_path: Path) -> None:
    """What is cut off while it is written looks cut off; and where it does nothing, it says nothing."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        assert native.reserve(fd, 1 << 20) == 0
        assert os.fstat(fd).st_size == 0
        os.write(fd, b"begun")
        assert os.fstat(fd).st_size == 5
    finally:
        os.close(fd)
    pipe, other = os.pipe()
    assert native.reserve(other, 1 << 20) == 0
    os.close(pipe)
    os.close(other)


def test_new_files_end_before_the_one_that_cannot_be_made(tmp_path: Path) -> None:
    """Those before it are there, open if that is wanted; what was there is not touched."""
    (tmp_path / "there").write_bytes(b"there")
    paths = [str(tmp_path / name) for name in ("a", "b", "there", "c")]
    opened = array("i", [-1] * 4)
    pieces = [b"1", b"", memoryview(b"23"), b"4", b"5"]
    assert native.write_new_files(paths, pieces, array("i", [3, 0, 1, 1]), opened) == (2, errno.EEXIST)
    assert [os.fstat(fd).st_size for fd in opened[:2]] == [3, 0]
    assert list(opened[2:]) == [-1, -1]
    for fd in opened[:2]:
        os.close(fd)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a": b"123",
        "b": b"",
        "there": b"there",
    }
    assert native.write_new_files([str(tmp_path / "c")], [b"4"], array("i", [1]), array("i")) == (
        1,
        0,
    )
    assert native.write_new_files([], [], array("i"), array("i")) == (0, 0)


def test_new_folders_end_before_the_one_that_cannot_be_made(tmp_path: Path) -> None:
    """Folders inside of others come after them."""
    names = [str(tmp_path / name) for name in ("a", "a/b", "c/d", "e")]
    assert native.make_folders(names) == (2, errno.ENOENT)
    assert native.make_folders(names) == (0, errno.EEXIST)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b"]


def test_contents_that_do_not_fit_their_paths_are_refused() -> None:
    """Nothing is read beyond their end."""
    for pieces, counts, opened in (([], [1], 0), ([b""], [2], 0), ([b"", b""], [1], 0), ([b""], [1], 2)):
        with pytest.raises(ValueError, match="as many as counted"):
            native.write_new_files(["/none/x"], pieces, array("i", counts), array("i", bytes(4 * opened)))
    with pytest.raises(ValueError, match="negative"):
        native.write_new_files(["/none/x", "/none/y"], [], array("i", [1, -1]), array("i"))
    with pytest.raises(ValueError, match="descriptors"):
        native.sync_disk(array("i"))


def test_a_disk_is_forced_as_a_whole_where_that_is_sure(tmp_path: Path) -> None:
    """Files of two file systems, or of one that is held in memory, are not."""
    with (tmp_path / "a").open("wb") as here, Path("/proc/self/status").open("rb") as elsewhere:
        assert native.sync_disk(array("i", [elsewhere.fileno()])) == 0
        assert native.sync_disk(array("i", [here.fileno(), elsewhere.fileno()])) == 0
        assert native.sync_disk(array("i", [here.fileno()])) in (0, 1)
        assert native.sync_disk(array("i", [-1])) == 0


def lying_at(place: int, size: int) -> memoryview:
    """Bytes that begin at a place of a page of memory."""
    found = np.arange(size + 8192, dtype=np.uint8)
    start = (place - found.ctypes.data) % 4096
    return found[start : start + size].data


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors do not mind")
def test_pieces_that_the_kernel_copies_slowly() -> None:
    """Those whose place in the file is 1 to 39 bytes beyond that in memory, modulo 4096; each counts by itself."""
    for beyond, is_slow in ((0, False), (1, True), (39, True), (40, False), (4095, False)):
        piece = lying_at(4096 - beyond, 100)
        assert native.slow_bytes([piece]) == 100 * is_slow
        assert native.slow_bytes([lying_at(0, 8192), piece]) == 100 * is_slow
    assert native.slow_bytes([lying_at(0, 30), lying_at(0, 50), lying_at(0, 7)]) == 50
    assert native.slow_bytes([]) == 0


def test_filling_a_buffer() -> None:
    """With pieces back to back, of any size; what does not fit is refused before it is copied."""
    buffer = memoryview(bytearray(300))
    pieces = [lying_at(n, size) for n, size in enumerate((0, 1, 63, 64, 65, 100))]
    assert native.fill(buffer, pieces) == 293
    assert buffer[:293] == b"".join(pieces)
    assert buffer[293:] == bytes(7)
    with pytest.raises(ValueError, match="more than 300 bytes"):
        native.fill(buffer, [*pieces, lying_at(0, 8)])
    assert buffer[293:] == bytes(7)
    with pytest.raises(BufferError):
        native.fill(memoryview(bytes(3)), [lying_at(0, 3)])


def test_a_mapping_needs_no_open_file_and_keeps_writes_to_itself(tmp_path: Path) -> None:
    """Views hold the mapping after the file is closed and removed; ranges need not begin at a page."""
    content = np.random.default_rng(0).integers(0, 256, 20_000, dtype=np.uint8).tobytes()
    (tmp_path / "file").write_bytes(content)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    free = os.dup(fd)  # the lowest number that is free
    os.close(free)
    views = [native.mapped(fd, start, length) for start, length in ((0, 20_000), (4096, 10), (5001, 14_999))]
    assert native.mapped(fd, 20_000, 0) == b""
    opened = os.dup(fd)
    os.close(opened)
    assert opened == free
    for start, length in (
        (0, 20_001),
        (20_001, 0),
        (19_999, 2),
        (-1, 2),
        (0, -1),
        (1 << 62, 1),
        (1, (1 << 63) - 1),
    ):
        with pytest.raises(OSError, match="too short"):
            native.mapped(fd, start, length)
    os.close(fd)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        native.mapped(fd, 0, 1)
    pipe, other = os.pipe()
    with pytest.raises(OSError, match="too short"):
        native.mapped(pipe, 0, 1)
    os.close(pipe)
    os.close(other)
    views[0][0:3] = b"xyz"
    assert (tmp_path / "file").read_bytes() == content
    (tmp_path / "file").unlink()
    found = np.frombuffer(views.pop(2), np.uint8)
    assert found.tobytes() == content[5001:]
    assert views == [b"xyz" + content[3:], content[4096:4106]]
