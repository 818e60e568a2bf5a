"""Damage in every kind of sample: with and without checksums, the error names dataset, tensor, row and chunk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed

RNG = np.random.default_rng(5)
SOUND = RNG.integers(0, 256, (3, 12, 14, 3)).astype(np.uint8)
LARGE = RNG.integers(0, 256, (110, 50, 40, 3)).astype(np.uint8)

KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "png": ({"htype": "image", "sample_compression": "png"}, SOUND),
    "jpeg": ({"htype": "image", "sample_compression": "jpeg"}, SOUND),
    "tiff": ({"htype": "image", "sample_compression": "tiff"}, SOUND),
    "many": ({"htype": "image", "sample_compression": "png"}, LARGE),
    "canvas": ({"htype": "image", "chunk_compression": "png"}, SOUND),
    "lz4": ({"sample_compression": "lz4"}, SOUND // 128),
    "chunk_lz4": ({"chunk_compression": "lz4"}, SOUND // 128),
    "tiles": ({"tiling_threshold": 300, "dtype": "uint8"}, SOUND),
    "sequence": ({"htype": "sequence", "dtype": "uint8"}, SOUND),
    "sequence_png": ({"htype": "sequence[image]", "sample_compression": "png"}, SOUND),
    "polygon": ({"htype": "polygon"}, [[np.ones((3, 2), np.float32)]] * 3),
    "words": ({"htype": "sequence[text]"}, [["a", "b"]] * 3),
    "json": ({"htype": "json"}, [{"a": 1}] * 3),
    "link": ({"htype": "link[image]", "sample_compression": "png", "verify": False}, [lakebed.link("ü")] * 3),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a tensor of each kind."""
    path = tmp_path_factory.mktemp("kinds") / "ds"
    with lakebed.empty(path) as ds:
        for name, (settings, samples) in KINDS.items():
            tensor = ds.create_tensor(name, create_id_tensor=False, create_shape_tensor=False, **settings)
            if name == "sequence_png":
                tensor.extend([[image, image] for image in samples])
            else:
                tensor.extend(samples)
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    shutil.copytree(whole, tmp_path / "ds")
    return tmp_path / "ds"


def chunks(path: Path, tensor: str) -> list[Path]:
    """Chunk files of a tensor, in order."""
    state = lakebed.load(path, read_only=True)[tensor]._state
    return [path / state.table.key(row) for row in range(len(state.table))]


READS: dict[str, Callable[[lakebed.Dataset, str], Any]] = {
    "all": lambda ds, name: ds[name].numpy(aslist=True),
    "values": lambda ds, name: list(ds[name].values()),
    "single": lambda ds, name: [ds[name][i].numpy(aslist=True) for i in range(len(ds[name]))],
    "batches": lambda ds, name: [list(batch[name]) for batch in ds.batches(2, [name])],
    "part": lambda ds, name: [ds[name][i, 0:1].numpy(aslist=True) for i in range(len(ds[name]))],
}


def check(error: Any, path: Path, tensor: str, chunk: Path) -> None:
    """Compare what an error says of where the damage is."""
    assert error.tensor == tensor
    assert isinstance(error.row, int)
    assert str(path) in error.dataset
    assert chunk.name in str(error)
    assert f"tensor {tensor!r}, row {error.row}" in str(error)


def check_all(path: Path, tensor: str, chunk: Path, kinds: Any, ways: set[str]) -> None:
    """Expect that each way of reading reports the damage of a chunk."""
    for how in ways:
        ds = lakebed.load(path, read_only=True)
        with pytest.raises(kinds) as caught:
            READS[how](ds, tensor)
        check(caught.value, path, tensor, chunk)


@pytest.mark.parametrize("tensor", KINDS)
def test_a_flipped_bit_in_a_sample(path: Path, tensor: str) -> None:
    """With checksums, a flipped bit in the last chunk of any kind is found by whoever reads what it is in."""
    file = chunks(path, tensor)[-1]
    data = bytearray(file.read_bytes())
    data[-1] ^= 4
    file.write_bytes(data)
    check_all(path, tensor, file, lakebed.errors.ChecksumError, set(READS))


@pytest.mark.parametrize("tensor", sorted(KINDS.keys() - {"sequence", "link"}))
def test_garbage_without_checksums(path: Path, tensor: str) -> None:
    """Without checksums, samples overwritten with 0xFF are refused by their decoders, or are numbers like any other."""
    for manifest in (path / ".lakebed").glob("manifest-*"):
        manifest.unlink()
    file = chunks(path, tensor)[0]
    data = file.read_bytes()
    kept = {"words": len(data) - 2, "json": len(data) - 5, "polygon": len(data) - 28}
    keep = kept.get(tensor, len(data) * 2 // 3)
    file.write_bytes(data[:keep] + b"\xff" * (len(data) - keep))
    if tensor == "tiles":
        assert READS["all"](lakebed.load(path, read_only=True), tensor)
        return
    kinds = (lakebed.errors.CorruptError, lakebed.errors.LimitError)
    # Documents are decoded late.
    ways = READS.keys() - ({"part", "batches"} if tensor == "json" else {"part"})
    check_all(path, tensor, file, kinds, ways)


@pytest.mark.parametrize("tensor", KINDS)
def test_a_missing_chunk(path: Path, tensor: str) -> None:
    """A chunk that is gone is named with tensor and row."""
    file = chunks(path, tensor)[0]
    file.unlink()
    check_all(path, tensor, file, lakebed.errors.GetChunkError, set(READS))


@pytest.mark.parametrize("tensor", ["many", "png", "tiles", "polygon"])
def test_shape_rows_that_lie(path: Path, tensor: str) -> None:
    """A shape row that promises another sample than there is gives an error and allocates nothing."""
    for manifest in (path / ".lakebed").glob("manifest-*"):
        manifest.unlink()
    file = chunks(path, tensor)[0]
    data = bytearray(file.read_bytes())
    data[15:19] = (70_000).to_bytes(4, "little")
    file.write_bytes(data)
    ds = lakebed.load(path, read_only=True)
    for read in (READS["all"], READS["single"]):
        if tensor == "polygon":
            read(ds, tensor)  # the counts in the sample decide
            continue
        with pytest.raises((lakebed.errors.CorruptError, lakebed.errors.LimitError)) as caught:
            read(ds, tensor)
        assert getattr(caught.value, "tensor", None) == tensor
