"""Tiled samples: whole, in part with only the tiles that are touched, and with what 3.9.52 left behind of old ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.chunks.tiling import touched
from unit_tests.effort import examples
from unit_tests.lakebed.reading.watching import chunk_reads, watched

SAMPLE = np.arange(50 * 60, dtype=np.uint16).reshape(50, 60)
TILE = (13, 15)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One tiled sample of 16 tiles between ordinary ones, raw, and as lz4 and png."""
    path = tmp_path_factory.mktemp("tiles") / "ds"
    with lakebed.empty(path) as ds:
        settings: dict[str, Any] = {
            "raw": {},
            "lz4": {"sample_compression": "lz4"},
            "chunked": {"chunk_compression": "lz4"},
        }
        for name, more in settings.items():
            threshold = 400 if name == "raw" else 200
            tensor = ds.create_tensor(name, dtype="uint16", tiling_threshold=threshold, **more)
            tensor.extend([SAMPLE[:2, :3], SAMPLE, SAMPLE[:1, :1]])
        picture = ds.create_tensor("png", htype="image", sample_compression="png", tiling_threshold=400)
        picture.extend([SAMPLE.astype(np.uint8)[..., None], SAMPLE[:4, :5, None].astype(np.uint8)])
    return path


@pytest.fixture(scope="module")
def raw(path: Path) -> lakebed.Tensor:
    """The raw tensor, opened once."""
    return lakebed.load(path, read_only=True)["raw"]


@pytest.mark.parametrize("name", ["raw", "lz4", "chunked"])
def test_whole_samples(path: Path, name: str) -> None:
    """Tiles are put together; the neighbours of a tiled sample are found."""
    tensor = lakebed.load(path, read_only=True)[name]
    assert list(tensor._state.tiles.entries.values()) == [((50, 60), TILE)]
    assert np.array_equal(tensor[1].numpy(), SAMPLE)
    assert [sample.shape for sample in tensor.numpy(aslist=True)] == [(2, 3), (50, 60), (1, 1)]
    assert tensor[1].shape == (50, 60)
    assert tensor.shapes().tolist() == [[2, 3], [50, 60], [1, 1]]
    with pytest.raises(lakebed.errors.DynamicTensorNumpyError):
        tensor.numpy()


def test_images_in_tiles(path: Path) -> None:
    """Each tile is a file of its own; the channel axis stays whole."""
    tensor = lakebed.load(path, read_only=True).png
    assert tensor._reader.is_tiled(0)
    assert np.array_equal(tensor[0].numpy()[..., 0], SAMPLE.astype(np.uint8))
    assert np.array_equal(tensor[0, 20:30, 40:, 0].numpy(), SAMPLE[20:30, 40:].astype(np.uint8))


BOUND = st.none() | st.integers(-70, 70)
PART = st.one_of(
    st.integers(-50, 49),
    st.builds(slice, BOUND, BOUND, st.sampled_from([None, 1, 3, -1, -7])),
    st.lists(st.integers(-50, 49), min_size=1, max_size=3),
)


@settings(max_examples=examples(80))
@given(
    st.lists(PART, min_size=1, max_size=2).filter(
        lambda items: not all(type(i) is list for i in items) or len(items) == 1
    )
)
def test_parts_are_those_of_numpy(raw: lakebed.Tensor, items: list[Any]) -> None:
    """Any subscript gives what it gives on the whole array."""
    tensor = raw
    found = tensor[(1, *items)].numpy()
    expected = SAMPLE[tuple(items)]
    assert found.shape == expected.shape
    assert np.array_equal(found, expected)
    assert tensor[(1, *items)].shape == expected.shape


@pytest.mark.parametrize(
    "part",
    [
        (slice(0, 13), slice(0, 15)),
        (slice(12, 14), slice(14, 16)),
        (49, slice(None)),
        (slice(None), 59),
        (..., 3),
        (0,),
        (slice(40, 50, 9), slice(50, 40, -5)),
        (slice(0, 0),),
    ],
)
def test_only_touched_tiles_are_read(path: Path, part: tuple[Any, ...]) -> None:
    """A part costs the chunks of the tiles that it lies in, once each."""
    ds, storage = watched(path)
    tensor = ds.raw
    with chunk_reads(storage, "raw") as reads:
        found = tensor[(1, *part)].numpy()
    assert np.array_equal(found, SAMPLE[part])
    table = tensor._state.table
    assert [key for key, _ in reads] == [table.key(1 + n) for n in touched((50, 60), TILE, part)]


def test_untouched_tiles_may_be_missing(path: Path, tmp_path: Path) -> None:
    """A part is readable while other tiles are gone; the whole names tensor, row and chunk."""
    shutil.copytree(path, tmp_path / "ds")
    state = lakebed.load(path, read_only=True).raw._state
    gone = state.table.key(1 + 15)
    (tmp_path / "ds" / gone).unlink()
    tensor = lakebed.load(tmp_path / "ds", read_only=True).raw
    assert np.array_equal(tensor[1, :30, :40].numpy(), SAMPLE[:30, :40])
    for read in (tensor[1].numpy, tensor[1, 45:, 50:].numpy, lambda: tensor.numpy(aslist=True)):
        with pytest.raises(lakebed.errors.GetChunkError, match=Path(gone).name) as caught:
            read()
        assert (caught.value.tensor, caught.value.row) == ("raw", 1)


def test_tiles_that_were_never_written_are_zeros(tmp_path: Path) -> None:
    """Of a placeholder only what was assigned is stored; the rest reads as zeros."""
    with lakebed.empty(tmp_path / "ds") as ds:
        tensor = ds.create_tensor("t", dtype="uint8")
        tensor.append(lakebed.tiled((40, 50), (10, 20)))
        tensor[0][5:15, 10:30] = np.ones((10, 20), dtype=np.uint8)
    tensor = lakebed.load(tmp_path / "ds", read_only=True).t
    expected = np.zeros((40, 50), dtype=np.uint8)
    expected[5:15, 10:30] = 1
    assert np.array_equal(tensor[0].numpy(), expected)
    assert np.array_equal(tensor[0, 30:, 40:].numpy(), expected[30:, 40:])


def test_stale_entries_of_the_tile_index(golden: Path) -> None:
    """3.9.52 may keep the old shapes of a replaced sample: the chunks' headers decide (format.md 15.6)."""
    ds = lakebed.load(golden / "f06_tiled", read_only=True)
    for name, tensor in ds.tensors.items():
        if tensor.is_sequence:
            continue
        for row in range(len(tensor)):
            whole = tensor[row].numpy()
            assert np.array_equal(tensor[row, 1:3, -2:].numpy(), whole[1:3, -2:]), (name, row)
            assert tensor[row].shape == whole.shape, (name, row)


def test_tiled_samples_have_no_bytes_of_their_own(path: Path) -> None:
    """tobytes() says so, as in 3.x."""
    tensor = lakebed.load(path, read_only=True).raw
    with pytest.raises(NotImplementedError, match="tiles"):
        tensor[1].tobytes()
    assert tensor[0].tobytes() == SAMPLE[:2, :3].tobytes()


def test_batches_and_lists_of_tiled_samples(path: Path) -> None:
    """Column reads give tiled samples like any other."""
    ds = lakebed.load(path, read_only=True)
    for size in (1, 2, 5):
        rows = [row for batch in ds.batches(size, ["raw"]) for row in batch["raw"]]
        assert [row.shape for row in rows] == [(2, 3), (50, 60), (1, 1)]
        assert np.array_equal(rows[1], SAMPLE)
    assert np.array_equal(ds.raw[[2, 1]].numpy(aslist=True)[1], SAMPLE)


def test_a_sample_updated_before_tiles_that_wait_leaves_them_alone(tmp_path: Path) -> None:
    """The tiles appended since the last publish are not taken for small chunks to merge."""
    ds = lakebed.empty(str(tmp_path / "waiting"))
    ds.create_tensor("x", dtype="int32", sample_compression="lz4", tiling_threshold=4000)
    ds.x.extend([np.ones((37, 20), "int32")] * 5)
    big = np.arange(45 * 45, dtype="int32").reshape(45, 45)
    ds.x.append(big)
    ds.x[4] = np.zeros((45, 26), "int32")
    assert (ds.x[5].numpy() == big).all()
    assert (ds.x[4].numpy() == 0).all()
