"""Every tensor of every golden dataset comes out of a loader as it comes out of the dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import DynamicTensorNumpyError, EmptyTensorError
from lakebed.loaders import columns

GOLDEN = [
    "f01_dtypes",
    "f02_textlike",
    "f03_htypes",
    "f04_images",
    "f05_lz4",
    "f06_tiled",
    "f07_sequences",
    "f08_groups",
    "f09_links",
    "f10_branches_merge",
    "f11_updates_after_commit",
    "f12_pops",
    "f13_views",
    "f14_many_chunks",
    "f15_media",
    "f16_downsample_sparse",
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        one, other = list(one), list(other)
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and one == other


def value(tensor: lakebed.Tensor, row: int) -> Any:
    kind = str(tensor.htype)
    if "text" in kind:
        return tensor[row].text()
    if "json" in kind:
        return tensor[row].dict()
    if "list" in kind or "tag" in kind:
        return tensor[row].list()
    try:
        return tensor[row].numpy()
    except DynamicTensorNumpyError:  # items of a sequence
        return tensor[row].numpy(aslist=True)


@pytest.mark.parametrize("shuffle", [False, True, "exact"])
@pytest.mark.parametrize("name", GOLDEN)
def test_values_are_those_of_the_tensors(
    golden: Path, name: str, shuffle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(golden)  # its links are relative to it
    monkeypatch.setattr(lakebed.config, "LINK_ROOTS", (*lakebed.config.LINK_ROOTS, str(golden)))
    ds = lakebed.load(str(golden / name), read_only=True)
    seen = 0
    for key in ds.tensors:
        if ds[key].holds_nothing:
            with pytest.raises(EmptyTensorError, match=key):
                list(lakebed.Loader(ds, 3, tensors=[key]))
            continue
        found = {}
        for batch in lakebed.Loader(ds, 3, tensors=[key], threads=2, shuffle=shuffle):
            found.update(zip(batch.rows.tolist(), batch[key], strict=True))
        assert sorted(found) == list(range(len(ds[key])))
        for row, loaded in found.items():
            assert same(loaded, value(ds[key], row)), (key, row)
            seen += 1
    assert seen or not any(len(ds[key]) for key in ds.tensors)


@pytest.mark.parametrize("shuffle", [False, True])
def test_clips_of_videos(golden: Path, *, shuffle: bool) -> None:
    """A view with a selection inside of samples: some frames of each video, and no others."""
    ds = lakebed.load(str(golden / "f15_media"), read_only=True)
    (name, *_) = [name for name in ds.tensors if str(ds[name].htype) == "video"]
    videos = ds[name]
    seen = []
    for batch in lakebed.Loader(ds[:, 1:3], 2, shuffle=shuffle, tensors=[name], threads=2):
        for row, clip in zip(batch.rows.tolist(), batch[name], strict=True):
            assert clip.shape[0] == 2
            assert np.array_equal(clip, videos[row].numpy()[1:3])
            seen.append(row)
    assert sorted(seen) == list(range(len(videos)))


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("shuffle", [False, True, "exact"])
def test_large_arrays_that_lie_across_checked_blocks(
    tmp_path: Path, shuffle: Any, *, is_committed: bool
) -> None:
    """Neighbouring arrays of a large chunk are read in whole blocks, which begin and end elsewhere than they do."""
    arrays = np.random.default_rng(1).integers(0, 256, (40, 300, 500, 3), np.uint8)
    with lakebed.empty(str(tmp_path / "ds")) as ds:
        ds.create_tensor("x", dtype="uint8")
        ds.x.extend(arrays)
        if is_committed:
            ds.commit()
    loaded = lakebed.load(str(tmp_path / "ds"), read_only=True)
    assert 8 * arrays[0].nbytes < columns.STREAMED_BYTES < 20 * arrays[0].nbytes
    for size in (8, 20):  # through the cache, and past it
        for batch in lakebed.Loader(loaded, size, shuffle=shuffle, threads=2):
            assert np.array_equal(batch["x"], arrays[batch.rows])


@pytest.mark.parametrize("streamed", [0, 1 << 40])
@pytest.mark.parametrize("dtype", ["bool", "int16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 2), (67,)])
def test_arrays_of_one_shape_and_any_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed: int, dtype: str, shape: tuple[int, ...]
) -> None:
    """Those are copied by bytes."""
    monkeypatch.setattr(columns, "STREAMED_BYTES", streamed)
    monkeypatch.setattr(columns, "RESIDENT_BYTES", 0)
    monkeypatch.setattr(columns, "RESIDENT_SMALL", (0, 0))
    values = (np.random.default_rng(3).random((40, *shape)) * 100).astype(dtype)
    ds = lakebed.empty(str(tmp_path / "ds"))
    with ds:
        ds.create_tensor("x", dtype=dtype)
        ds.x.extend(list(values))
    for shuffle in (False, True):
        for batch in lakebed.Loader(ds, 7, shuffle=shuffle, threads=1):
            expected = values[batch.rows]
            found = np.asarray(batch["x"]).reshape(expected.shape)
            assert found.dtype == expected.dtype
            assert np.array_equal(found, expected)
