"""Neighbouring files of a large chunk: read at once, a little ahead, and never what nobody asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.documents.manifest import BLOCK
from lakebed.reading.chunk_files import ChunkFiles
from lakebed.reading.fetch import ChunkSource

COUNT = 96


@pytest.fixture(scope="module")
def pixels() -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.integers(0, 256, (100 + n, 120, 3), np.uint8) for n in range(COUNT)]


@pytest.fixture
def dataset(tmp_path: Path, pixels: list[np.ndarray]) -> lakebed.Dataset:
    """One chunk of some megabytes, in a head, where files are not mapped."""
    made = lakebed.empty(tmp_path / "dataset")
    made.create_tensor("photo", htype="image", sample_compression="png")
    made.create_tensor("jpeg", htype="image", sample_compression="jpeg")
    made.extend({"photo": pixels, "jpeg": pixels})
    made.close()
    return lakebed.load(tmp_path / "dataset", read_only=True)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(offset, length) of every read of a part of a chunk."""
    found: list[tuple[int, int]] = []
    read = ChunkFiles.range

    def watched(self: ChunkFiles, key: str, start: int, length: int) -> bytes:
        found.append((start, length))
        return read(self, key, start, length)

    monkeypatch.setattr(ChunkFiles, "range", watched)
    return found


@pytest.mark.parametrize("step", [7, COUNT])
@pytest.mark.parametrize("tensor", ["photo", "jpeg"])
def test_slices_of_any_length_hold_the_same(
    dataset: lakebed.Dataset, pixels: list[np.ndarray], tensor: str, step: int
) -> None:
    """As single rows do; in any order of slices."""
    starts = list(range(0, COUNT, step))
    for start in [*starts, *reversed(starts)]:
        for row, image in enumerate(dataset[tensor][start : start + step].numpy(aslist=True), start):
            assert np.array_equal(image, dataset[tensor][row].numpy())
            assert tensor == "jpeg" or np.array_equal(image, pixels[row])


def test_small_steps_need_few_reads(dataset: lakebed.Dataset, reads: list[tuple[int, int]]) -> None:
    """What lies ahead is read along; and nothing is read twice but the block where one read ends."""
    for start in range(0, COUNT, 4):
        dataset.photo[start : start + 4].numpy(aslist=True)
    ahead = [length for _, length in reads if length > BLOCK]
    size = sum(len(dataset.photo[row].tobytes()) for row in range(COUNT))
    assert len(ahead) <= size // (8 * BLOCK) + 2
    assert sum(ahead) < size + (len(ahead) + 1) * BLOCK


def test_a_slice_somewhere_reads_its_own_blocks_only(
    dataset: lakebed.Dataset, reads: list[tuple[int, int]]
) -> None:
    """Nobody knows that more will be wanted."""
    dataset.photo[50:54].numpy(aslist=True)
    found = max(length for _, length in reads)
    wanted = sum(len(dataset.photo[row].tobytes()) for row in range(50, 54))
    assert found <= wanted + 2 * BLOCK


def test_single_rows_one_after_the_other_need_few_reads_too(
    dataset: lakebed.Dataset, reads: list[tuple[int, int]]
) -> None:
    """Large samples are kept no longer than they lie ahead."""
    size = sum(dataset.photo[row].numpy().size for row in range(COUNT))
    assert size // (8 * BLOCK) <= len(reads) <= size // (8 * BLOCK) + 4
    reads.clear()
    for row in (40, 60, 20):
        dataset.photo[row].numpy()
    assert reads
    assert all(length <= 2 * BLOCK for _, length in reads)


def test_damage_ahead_is_found_when_it_is_reached(dataset: lakebed.Dataset, tmp_path: Path) -> None:
    """Each block is held against its checksum when it is read."""
    (chunk,) = (tmp_path / "dataset").rglob("photo/chunks/*")
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    assert len(dataset.photo[:4].numpy(aslist=True)) == 4
    with pytest.raises(lakebed.errors.ChecksumError, match="photo"):
        dataset.photo[90:96].numpy(aslist=True)


def test_a_shape_that_is_not_the_files_is_damage(dataset: lakebed.Dataset, monkeypatch: Any) -> None:
    """The short way into an array looks at the header too."""
    stretch = ChunkSource.stretch

    def wrong(self: ChunkSource, *arguments: Any) -> Any:
        data, bounds, shapes = stretch(self, *arguments)  # type: ignore[misc]
        return data, bounds, [(1, 1, 3), *shapes[1:]]

    monkeypatch.setattr(ChunkSource, "stretch", wrong)
    with pytest.raises(lakebed.errors.FormatError, match=r"row 3.*\(103, 120, 3\)"):
        dataset.jpeg[3:8].numpy(aslist=True)
