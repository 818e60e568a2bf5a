"""A few bytes that promise much (petabytes, billions of samples, endless nesting) are refused before any allocation."""

from __future__ import annotations

import json
import shutil
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed import limits
from lakebed.chunks.pack import groups
from lakebed.codecs.block import empty_block
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.indexes.version_prefix import PREFIX
from lakebed.documents.manifest import Manifest, digest_of
from lakebed.errors import FormatError, LimitError
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from lakebed.versions.chunk_table import empty_table
from lakebed.versions.manifests import with_digests
from lakebed.versions.opening import TREE_KEY, manifest_key, read_tree
from unit_tests.lakebed.fuzz.datasets import replace

ROWS = 4


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A dataset with one tensor of each layout, without manifest."""
    path = tmp_path / "ds"
    ds = lakebed.empty(path)
    plain = {"create_id_tensor": False, "create_shape_tensor": False, "create_sample_info_tensor": False}
    ds.create_tensor("x", dtype="int32", **plain)
    ds.create_tensor("ragged", dtype="int32", **plain)
    ds.create_tensor("lz4", dtype="uint8", chunk_compression="lz4", **plain)
    ds.create_tensor("json", htype="json", **plain)
    ds.create_tensor("polygon", htype="polygon", **plain)
    ds.create_tensor("items", htype="sequence[generic]", dtype="int32", **plain)
    ds.create_tensor("image", htype="image", sample_compression="png", **plain)
    for i in range(ROWS):
        ds.x.append(i)
        ds.ragged.append(np.zeros((i, 2), "i4"))
        ds.lz4.append(np.zeros(9, "u1"))
        ds.json.append({"a": i})
        ds.polygon.append([np.zeros((3, 2), "f4")])
        ds["items"].append([i, i])
        ds.image.append(np.zeros((4, 4, 3), "u1"))
    ds.flush()
    del ds
    shutil.rmtree(path / ".lakebed")
    tree = json.loads((path / "version_control_info.json").read_bytes())
    del tree["lakebed"]
    replace(path / "version_control_info.json", json.dumps(tree).encode())
    return path


def head(path: Path) -> Path:
    tree = json.loads((path / "version_control_info.json").read_bytes())
    return path / "versions" / str(tree["branches"]["main"])


def edit_json(file: Path, **members: Any) -> None:
    doc = json.loads(file.read_bytes())
    replace(file, json.dumps({**doc, **members}).encode())


def chunk(path: Path, tensor: str) -> Path:
    (found,) = (head(path) / tensor / "chunks").iterdir()
    return found


def ids(path: Path, tensor: str) -> ChunkIds:
    return ChunkIds.from_bytes((head(path) / tensor / "chunks_index" / "unsharded").read_bytes())


def put_index(path: Path, tensor: str, rows: list[tuple[int, int]]) -> None:
    body = np.array(rows, "<u8").tobytes()
    replace(head(path) / tensor / "chunks_index" / "unsharded", PREFIX + b"\x08" + body)


@pytest.fixture
def bounded() -> Iterator[None]:
    """Hold a test to a second of CPU and 64 MiB, as tracemalloc sees them."""
    tracemalloc.start()
    start = time.process_time()
    yield
    took, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20, f"{peak:,} bytes"
    assert took < 1, f"{took:.2f} s"


def refused(path: Path, tensor: str) -> None:
    """Every way to read a tensor, and `verify`, refuses it."""
    for read in READS:
        with pytest.raises((FormatError, LimitError)):
            read(lakebed.load(path, read_only=True), tensor)
    findings = verify(LocalStorage(path), deep=True)
    assert any(damage.tensor == tensor for damage in findings.damage)


READS: list[Callable[[lakebed.Dataset, str], Any]] = [
    lambda ds, name: ds[name].numpy(aslist=True),
    lambda ds, name: ds[name][0].numpy(),
    lambda ds, name: [ds[name][i].numpy() for i in range(len(ds[name]))],
]


@pytest.mark.usefixtures("bounded")
def test_an_index_of_more_samples_than_chunks_can_hold(bare: Path) -> None:
    """2^60 samples in 32 bytes; also where the metadata agrees."""
    first = int(ids(bare, "x").ids[0])
    for count in (2**60, 2**33, limits.MAX_CHUNK_SAMPLES + 1):
        put_index(bare, "x", [(first, count - 1)])
        edit_json(head(bare) / "x" / "tensor_meta.json", length=count)
        with pytest.raises((FormatError, LimitError)):
            lakebed.load(bare, read_only=True).x.numpy()
        assert not verify(LocalStorage(bare)).is_sound


@pytest.mark.usefixtures("bounded")
def test_an_index_of_as_many_samples_as_are_allowed(bare: Path) -> None:
    """The dataset opens with the samples that the chunk holds, as a killed 3.9.52 leaves its index ahead of it."""
    count = limits.MAX_CHUNK_SAMPLES
    rows = len(lakebed.load(bare, read_only=True).x)
    put_index(bare, "x", [(int(ids(bare, "x").ids[0]), count - 1)])
    edit_json(head(bare) / "x" / "tensor_meta.json", length=count)
    ds = lakebed.load(bare, read_only=True)
    assert len(ds.x) == len(ds.x.numpy(aslist=True)) == rows


@pytest.mark.usefixtures("bounded")
def test_metadata_of_huge_samples(bare: Path) -> None:
    """Shapes that only the metadata has are not believed."""
    edit_json(head(bare) / "x" / "tensor_meta.json", min_shape=[2**40], max_shape=[2**40])
    ds = lakebed.load(bare, read_only=True)
    for read in (lambda: ds.x.numpy(), lambda: ds.x[:2].numpy(), lambda: next(iter(ds.batches(2, ["x"])))):
        with pytest.raises((FormatError, LimitError)):
            read()


@pytest.mark.parametrize("shape", [(2**31, 2**31), (2**20, 2**14), (2**16, 2**15)])
@pytest.mark.usefixtures("bounded")
def test_shape_rows_without_data(bare: Path, shape: tuple[int, int]) -> None:
    """A chunk without data reads as zeros of its shape, but not as petabytes of them."""
    header = PREFIX + struct.pack("<ii", 1, 3) + struct.pack("<III", *shape, ROWS - 1) + struct.pack("<i", 0)
    replace(chunk(bare, "ragged"), header)
    with pytest.raises(LimitError, match="MAX_SAMPLE_BYTES") as caught:
        lakebed.load(bare, read_only=True).ragged[0].numpy()
    assert (caught.value.tensor, caught.value.row) == ("ragged", 0)
    assert caught.value.dataset is not None
    refused(bare, "ragged")


@pytest.mark.usefixtures("bounded")
def test_shape_rows_that_disagree_with_the_data(bare: Path) -> None:
    """Shapes are compared with bytes before an array is made."""
    data = chunk(bare, "ragged").read_bytes()
    at = len(PREFIX) + 8
    replace(chunk(bare, "ragged"), data[:at] + struct.pack("<II", 2**32 - 1, 2**32 - 1) + data[at + 8 :])
    refused(bare, "ragged")


@pytest.mark.usefixtures("bounded")
def test_lz4_that_promises_gigabytes(bare: Path) -> None:
    """Neither by its size prefix, nor by a frame of nothing but zeros."""
    data = chunk(bare, "lz4").read_bytes()
    for promised in (2**32 - 1, 2**31, 10**8):
        replace(chunk(bare, "lz4"), data[:-20] + promised.to_bytes(4, "little") + bytes(16))
        refused(bare, "lz4")


@pytest.mark.usefixtures("bounded")
def test_a_sequence_index_of_billions(bare: Path) -> None:
    """Four billion empty sequences in twelve bytes can be opened; nobody writes them out."""
    rows = np.array([[0, 0, 2**32 - 2], [2 * ROWS, 0, 2**32 - 1]], "<u4").tobytes()
    replace(head(bare) / "items" / "sequence_index" / "unsharded", PREFIX + rows)
    ds = lakebed.load(bare, read_only=True)
    with pytest.raises((FormatError, LimitError)):
        ds["items"].numpy(aslist=True)


@pytest.mark.usefixtures("bounded")
def test_tiles_of_petabytes(bare: Path) -> None:
    """A tile index of few tiles whose sample would not fit anywhere, and one of too many tiles."""
    file = head(bare) / "x" / "tiles_index" / "unsharded"
    file.parent.mkdir(exist_ok=True)
    first = int(ids(bare, "x").ids[0])
    put_index(bare, "x", [(first, 0), (first, 0)])
    edit_json(head(bare) / "x" / "tensor_meta.json", length=1)
    for sample, tile in ((2**40, 2**39), (2**40, 1)):
        replace(file, TileIndex.from_entries({0: ((sample,), (tile,))}).to_bytes())
        with pytest.raises((FormatError, LimitError)):
            lakebed.load(bare, read_only=True).x[0].numpy()


@pytest.mark.usefixtures("bounded")
def test_endless_nesting_and_numbers_in_json(bare: Path) -> None:
    """In samples and in documents."""
    data = chunk(bare, "json").read_bytes()
    sample = b"[" * 100_000
    header = PREFIX + struct.pack("<iiIIi", 1, 2, 1, ROWS - 1, 2)
    positions = struct.pack("<IIIIII", len(sample), 0, 0, 2, len(sample), ROWS - 1)
    assert data.startswith(PREFIX)
    replace(chunk(bare, "json"), header + positions + sample + b"{}" * (ROWS - 1))
    with pytest.raises((FormatError, LimitError)):
        lakebed.load(bare, read_only=True).json[0].data()
    assert any(d.rows == (0, 0) for d in verify(LocalStorage(bare), deep=True).damage)
    replace(head(bare) / "dataset_info.json", b'{"a":' * 50_000)
    with pytest.raises((FormatError, LimitError)):
        lakebed.load(bare, read_only=True)


@pytest.mark.usefixtures("bounded")
def test_too_many_tensors(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of tensors has a limit, which a process can change."""
    monkeypatch.setattr(limits, "MAX_TENSORS", 3)
    with pytest.raises(LimitError, match="MAX_TENSORS"):
        lakebed.load(bare, read_only=True)
    monkeypatch.setattr(limits, "MAX_TENSORS", 30)
    assert len(lakebed.load(bare, read_only=True).tensors) == 7


@pytest.mark.usefixtures("bounded")
def test_an_image_that_is_larger_than_its_shape(bare: Path) -> None:
    """The header of a PNG that says 60,000 x 60,000 is not believed, and not decoded."""
    data = chunk(bare, "image").read_bytes()
    at = data.index(b"IHDR") + 4
    replace(chunk(bare, "image"), data[:at] + struct.pack(">II", 60_000, 60_000) + data[at + 8 :])
    with pytest.raises((FormatError, LimitError)):
        lakebed.load(bare, read_only=True).image[0].numpy()


@pytest.mark.parametrize("gone", ["dataset_meta.json", "x/tensor_meta.json", "chunks", "places"])
def test_a_sealed_manifest_that_lacks_something(tmp_path: Path, gone: str) -> None:
    """A manifest that somebody made up and sealed is damage where it contradicts itself."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int32")
    ds.x.extend([1, 2, 3])
    ds.flush()
    del ds
    storage = LocalStorage(tmp_path / "ds")
    tree = read_tree(storage)
    version = tree.branches["main"]
    made = Manifest.from_bytes(storage.get(manifest_key(version)))
    files = {name: data for name, data in made.files.items() if name != gone}
    chunks = {} if gone == "chunks" else dict(made.chunks)
    if gone == "places":
        chunks["x"] = empty_table().places
    data = Manifest(version, files, chunks).to_bytes()
    storage.put(manifest_key(version), data)
    storage.put(TREE_KEY, with_digests(tree, {version: digest_of(data)}, time.time_ns()).to_bytes())
    with pytest.raises(lakebed.DatasetCorruptError, match=version):
        lakebed.load(tmp_path / "ds", read_only=True).x.numpy()  # a tensor is looked at when it is asked for
    assert not verify(storage).is_sound


def test_writers_stay_below_the_limits_of_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples without bytes are cut into chunks that a reader takes."""
    monkeypatch.setattr(limits, "MAX_EMPTY_SAMPLES", 10)
    parts = groups([empty_block(25, 1), empty_block(3, 1)], 1000)
    assert [sum(block.count for block in group) for group in parts] == [10, 10, 8]
    parts = groups([empty_block(12, 4)], 1000)
    assert [sum(block.count for block in group) for group in parts] == [5, 5, 2]


def test_a_limit_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which limit, and the error carries its name."""
    with pytest.raises(LimitError, match=r"lakebed\.limits\.MAX_TILES") as caught:
        limits.check("MAX_TILES", 2**40, "a grid")
    assert caught.value.limit == "MAX_TILES"
    assert limits.check_sample((10, 10), 4, "sample") == 400
    for shape, stored, name in (
        ((2**40,), None, "SAMPLE_BYTES"),
        ((1,) * 65, None, "AXES"),
        ((2**28,), 10, "RATIO"),
    ):
        with pytest.raises(LimitError, match=name):
            limits.check_sample(shape, 1, "sample", stored)
    monkeypatch.setattr(limits, "MAX_TILES", 2**50)
    limits.check("MAX_TILES", 2**40, "a grid")
