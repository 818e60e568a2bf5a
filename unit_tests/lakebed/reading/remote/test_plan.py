"""How much is read: single samples by range, verified once; many by whole chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.documents.manifest import BLOCK
from lakebed.reading.fetch import RANGES_ABOVE
from unit_tests.lakebed.reading.watching import chunk_reads, watched

RNG = np.random.default_rng(3)
PICTURES = [RNG.integers(0, 256, (40 + i % 7, 50, 3)).astype(np.uint8) for i in range(260)]


@pytest.fixture(scope="module", params=["head", "committed"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples that fill several blocks of one chunk: files, raw ragged arrays, numbers."""
    path = tmp_path_factory.mktemp("ranges") / "ds"
    with lakebed.empty(path) as ds:
        ds.create_tensor("files", htype="image", sample_compression="png").extend(PICTURES)
        ds.create_tensor("raw", dtype="uint8").extend(PICTURES)
        ds.create_tensor("numbers").extend(np.arange(300_000))
        if request.param == "committed":
            ds.commit("sealed")
    return path


@pytest.mark.parametrize("tensor", ["files", "raw"])
def test_a_single_sample_costs_one_range(path: Path, tensor: str) -> None:
    """After the header, a sample costs one read of its own blocks, and none when they were read before."""
    ds, storage = watched(path)
    size = int(ds[tensor]._state.table.places.sizes[0])
    assert size > 2 * RANGES_ABOVE
    mapped = ds[tensor]._state.table.folder(0)[0] not in ds._session.source.heads
    for row in (100, 101, 250):
        with chunk_reads(storage, tensor) as reads:
            assert np.array_equal(ds[tensor][row].numpy(), PICTURES[row])
        if not mapped:
            assert sum(length for _, length in reads) <= 3 * BLOCK
            assert len(reads) <= (2 if row == 100 else 1)
    with chunk_reads(storage, tensor) as reads:
        assert np.array_equal(ds[tensor][100].numpy(), PICTURES[100])
    assert reads == []


@pytest.mark.parametrize("tensor", ["files", "raw"])
def test_many_samples_cost_the_chunk_once(path: Path, tensor: str) -> None:
    """Slices read the chunk in a few large pieces, and no piece of it twice."""
    ds, storage = watched(path)
    size = int(ds[tensor]._state.table.places.sizes[0])
    total = 0
    for start in (0, 60, 120):
        with chunk_reads(storage, tensor) as reads:
            found = ds[tensor][start : start + 60].numpy(aslist=True)
        assert all(map(np.array_equal, found, PICTURES[start : start + 60]))
        assert len(reads) <= (2 if start == 0 else 1)
        total += sum(length for _, length in reads)
    assert total <= size + 6 * BLOCK


def test_shapes_cost_the_header(path: Path) -> None:
    """Shapes of all samples are read without their data."""
    ds, storage = watched(path)
    with chunk_reads(storage, "files") as reads:
        assert ds.files.shapes().tolist() == [list(p.shape) for p in PICTURES]
        assert ds.files[7].shape == PICTURES[7].shape
    assert sum(length for _, length in reads) <= BLOCK or len(reads) == 1


def test_a_part_of_raw_numbers(path: Path) -> None:
    """Rows, slices, lists and parts of a tensor of numbers are the right ones."""
    ds = lakebed.load(path, read_only=True)
    assert np.array_equal(ds.numbers.numpy().reshape(-1), np.arange(300_000))
    assert np.array_equal(ds.numbers[7:250_000:9].numpy().reshape(-1), np.arange(7, 250_000, 9))
    rows = RNG.integers(0, 300_000, 500).tolist()
    assert ds.numbers[rows].numpy().reshape(-1).tolist() == rows
    assert ds.numbers[::-1][:3].numpy().reshape(-1).tolist() == [299_999, 299_998, 299_997]
    assert [int(ds.numbers[i].numpy()[0]) for i in rows[:20]] == rows[:20]


def test_the_cache_is_bounded(path: Path) -> None:
    """However many blocks are read, no more than the bound is kept; what was dropped is read again."""
    ds, _ = watched(path)
    source = ds._session.source
    source.cache.limit = 3 * BLOCK
    for row in [*range(0, 260, 9), *range(0, 260, 13)]:
        assert np.array_equal(ds.files[row].numpy(), PICTURES[row])
        assert source.cache.used <= 4 * BLOCK
    source.clear()
    assert source.cache.used == 0
    assert np.array_equal(ds.files[3].numpy(), PICTURES[3])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_slices_are_decoded_on_several_threads(
    path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of threads changes nothing of what comes out, as a list or as one array."""
    monkeypatch.setattr(config, "THREADS", threads)
    ds = lakebed.load(path, read_only=True)
    assert all(map(np.array_equal, ds.files.numpy(aslist=True), PICTURES))
    assert np.array_equal(ds.files[0:260:7].numpy(), np.stack(PICTURES[0:260:7]))
    rows = [5, 259, 5, 0]
    assert all(map(np.array_equal, ds.files[rows].numpy(aslist=True), [PICTURES[i] for i in rows]))
    parts = [image for batch in ds.batches(64, ["files"]) for image in batch["files"]]
    assert all(map(np.array_equal, parts, PICTURES))


def test_decoded_arrays_are_the_readers_own(path: Path) -> None:
    """Memory is used again only once nobody holds an array: what is kept stays as it was, and may be changed."""
    ds = lakebed.load(path, read_only=True)
    kept = [ds.files[i].numpy() for i in range(0, 260, 20)]
    views = [ds.raw[i : i + 30].numpy(aslist=True)[3] for i in range(0, 230, 20)]
    for _ in range(3):
        for i in range(0, 260, 64):
            ds.files[i : i + 64].numpy(aslist=True)
            ds.raw[i : i + 64].numpy(aslist=True)
    assert all(np.array_equal(a, PICTURES[i]) for a, i in zip(kept, range(0, 260, 20), strict=True))
    assert all(np.array_equal(a, PICTURES[i + 3]) for a, i in zip(views, range(0, 230, 20), strict=True))
    for array in (*kept, *views):
        array[...] = 0
    assert np.array_equal(ds.files[20].numpy(), PICTURES[20])
    assert np.array_equal(ds.raw[23].numpy(), PICTURES[23])
    assert all(map(np.array_equal, ds.raw.numpy(aslist=True), PICTURES))


def test_a_part_of_a_large_raw_sample_is_read_alone(tmp_path: Path) -> None:
    """Rows of an uncompressed sample cost the blocks they lie in, whatever subscript picks them."""
    volume = np.arange(40 * 100 * 300, dtype=np.int32).reshape(40, 100, 300)
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("volume", dtype="int32").extend([volume[:1], volume])
    ds, storage = watched(tmp_path / "ds")
    parts = [
        7,
        -1,
        slice(3, 5),
        (slice(39, 37, -1), 5),
        ([4, 3], slice(2, 4)),
        (..., 6),
        (0, 0, 0),
        slice(5, 5),
    ]
    for part in parts:
        with chunk_reads(storage, "volume") as reads:
            found = ds.volume[(1, *part) if isinstance(part, tuple) else (1, part)].numpy()
        assert found.shape == volume[part].shape
        assert np.array_equal(found, volume[part])
        if part != (..., 6):
            assert sum(length for _, length in reads) <= 4 * BLOCK or part == slice(5, 5)
    found = ds.volume[1, 2:4].numpy()
    found[...] = 0
    assert np.array_equal(ds.volume[1, 2:4].numpy(), volume[2:4])
