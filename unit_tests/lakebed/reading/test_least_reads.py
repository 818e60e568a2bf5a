"""What reading needs, and no more: arrays copied chunk by chunk, samples by their own checksums; damage is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.reading import bulk
from lakebed.reading.chunk_files import ChunkFiles

ROWS = 12_000
WIDTH = 400
"""Columns of float32: 19 MB in several chunks, more than one thread is given."""
PHOTOS = 24


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((ROWS, WIDTH), dtype=np.float32)


@pytest.fixture(scope="module", params=["head", "committed"])
def path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, vectors: np.ndarray
) -> Path:
    """Vectors, and files of about 40 KB, in a head and in a commit, whose files are mapped."""
    path = tmp_path_factory.mktemp("least") / "ds"
    random = np.random.default_rng(4)
    with lakebed.empty(path) as ds:
        ds.create_tensor("vector", dtype="float32")
        ds.vector.extend(vectors)
        ds.create_tensor("photo", htype="image", sample_compression="png")
        ds.photo.extend([random.integers(0, 256, (110 + n, 120, 3), np.uint8) for n in range(PHOTOS)])
        if request.param == "committed":
            ds.commit("made")
    return path


def flip(file: Path, at: int) -> None:
    """Flip one bit of a file, which nobody has open, in place."""
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 4]))


def chunk_of(path: Path, tensor: str, row: int) -> Path:
    """The file of the chunk that holds a row."""
    return path / lakebed.load(path, read_only=True)[tensor]._reader.whereabouts(row)[0]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("rows", [slice(None), slice(1, None), slice(700, 11_003), slice(5_000, 5_900)])
def test_arrays_of_many_chunks(
    path: Path, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch, threads: int, rows: slice
) -> None:
    """They are the same on any number of threads, on both sides of the size that is worth several, and again."""
    monkeypatch.setattr(lakebed.config, "THREADS", threads)
    ds = lakebed.load(path, read_only=True)
    assert len(ds.vector._reader.state.table) > 2
    assert vectors.nbytes > bulk._THREADED_COPY_FROM > 900 * vectors[0].nbytes
    for _ in range(2):
        found = ds.vector[rows].numpy()
        assert found.tobytes() == vectors[rows].tobytes()
        found[:] = 0  # the caller's own


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("row", [0, 4_000, ROWS - 1])
def test_a_bit_in_any_chunk_of_an_array(
    path: Path, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch, threads: int, row: int
) -> None:
    """It is found wherever it is, before anything is returned; rows of other chunks are read all the same."""
    monkeypatch.setattr(lakebed.config, "THREADS", threads)
    file = chunk_of(path, "vector", row)
    place = lakebed.load(path, read_only=True).vector._reader.whereabouts(row)[1]
    assert place is not None
    flip(file, place[0] + 17)
    try:
        ds = lakebed.load(path, read_only=True)
        for _ in range(2):
            with pytest.raises(lakebed.errors.ChecksumError, match=f"tensor 'vector', row .*{file.name}"):
                ds.vector.numpy()
        with pytest.raises(lakebed.errors.ChecksumError):
            ds.vector[row].numpy()
        other = ROWS - 1 if row < ROWS // 2 else 0
        assert np.array_equal(ds.vector[other].numpy(), vectors[other])
    finally:
        flip(file, place[0] + 17)


def test_a_row_of_an_array_needs_no_header(path: Path, vectors: np.ndarray) -> None:
    """Samples of one shape lie where the file's size says: damage of the header is no damage of a row far from it."""
    row = 2_000
    file = chunk_of(path, "vector", row)
    assert file == chunk_of(path, "vector", row - 300)
    flip(file, 9)
    try:
        assert np.array_equal(lakebed.load(path, read_only=True).vector[row].numpy(), vectors[row])
        with pytest.raises(lakebed.errors.CorruptError):
            lakebed.load(path, read_only=True).vector.numpy()
    finally:
        flip(file, 9)


def test_a_random_file_is_all_that_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a chunk that is not mapped: not the blocks that it lies in."""
    lengths: list[int] = []
    read = ChunkFiles.range

    def watched(self: ChunkFiles, key: str, start: int, length: int) -> bytes:
        lengths.append(length)
        return read(self, key, start, length)

    monkeypatch.setattr(ChunkFiles, "range", watched)
    ds = lakebed.load(path, read_only=True)
    sizes = [ds.photo._reader.whereabouts(row)[1] for row in range(PHOTOS)]
    lengths.clear()
    wanted = [17, 3, 11, 20]
    for row in wanted:
        ds.photo[row].numpy()
    expected: list[Any] = [] if ds.photo._reader._ranged[0].mapped else [sizes[row] for row in wanted]
    assert lengths == [size[1] for size in expected]


@pytest.mark.parametrize("row", [0, 7, PHOTOS - 1])
def test_a_bit_of_a_file(path: Path, row: int) -> None:
    """Its row is not read, whatever was read before; its neighbours are."""
    ds = lakebed.load(path, read_only=True)
    before = [ds.photo[n].numpy() for n in range(PHOTOS)]
    file, place = chunk_of(path, "photo", row), ds.photo._reader.whereabouts(row)[1]
    assert place is not None
    del ds
    for at in (place[0], place[0] + place[1] // 2, place[0] + place[1] - 1):
        flip(file, at)
        try:
            ds = lakebed.load(path, read_only=True)
            for other in (row - 1, row + 1):
                if 0 <= other < PHOTOS:
                    assert np.array_equal(ds.photo[other].numpy(), before[other])
            for _ in range(2):
                with pytest.raises(
                    lakebed.errors.ChecksumError, match=f"tensor 'photo', row {row}.*{file.name}"
                ):
                    ds.photo[row].numpy()
        finally:
            flip(file, at)
    assert np.array_equal(lakebed.load(path, read_only=True).photo[row].numpy(), before[row])
