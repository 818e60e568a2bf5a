"""Many files read in one call."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lakebed.native import disk as native


def read(paths: list[Path], room: int) -> tuple[list[bytes], int]:
    buffer = np.zeros(room, np.uint8)
    offsets = np.zeros(len(paths) + 1, np.int64)
    count, problem = native.read_files([os.fsencode(path) for path in paths], buffer, offsets)
    return [bytes(buffer[a:b]) for a, b in pairwise(offsets[: count + 1])], problem


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / str(n) for n in range(4)]
    for n, path in enumerate(paths):
        path.write_bytes(bytes([n]) * (n * 1000))
    return paths


def test_files_lie_back_to_back(files: list[Path]) -> None:
    """Empty ones too."""
    assert read(files, 6000) == ([path.read_bytes() for path in files], 0)


def test_it_ends_before_the_file_that_does_not_fit(files: list[Path]) -> None:
    """That is no error."""
    assert read(files, 5999) == ([path.read_bytes() for path in files[:3]], 0)
    assert read(files, 0) == ([b""], 0)


def test_it_ends_before_what_cannot_be_read(files: list[Path], tmp_path: Path) -> None:
    """A missing file, a folder and a pipe are told by an error number."""
    os.mkfifo(tmp_path / "pipe")
    for path, number in (
        (tmp_path / "none", errno.ENOENT),
        (tmp_path, errno.EINVAL),
        (tmp_path / "pipe", errno.EINVAL),
    ):
        assert read([files[1], path, files[2]], 6000) == ([files[1].read_bytes()], number)


def test_a_file_that_is_longer_than_it_says_is_refused() -> None:
    """Such as those of /proc, which say 0."""
    assert read([Path("/proc/self/status")], 1 << 20) == ([], errno.EIO)


def test_tables_that_are_too_short_are_refused(files: list[Path]) -> None:
    """Nothing is written beyond their end."""
    with pytest.raises(ValueError, match="offsets"):
        native.read_files([b"x"], np.zeros(1, np.uint8), np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="null"):
        native.read_files([b"x\0y"], np.zeros(1, np.uint8), np.zeros(2, np.int64))


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
