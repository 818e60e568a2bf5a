"""Opening: two reads when lakebed wrote last, the truth when Deep Lake 3.9.52 did."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lakebed.dataset.dataset import Dataset
from lakebed.documents.manifest import Manifest
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import ChecksumError, DatasetCorruptError
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY
from unit_tests.lakebed.datasets import open_on


def dataset(rows: int = 10) -> tuple[MemoryStorage, Dataset]:
    storage = MemoryStorage("opening")
    create(storage)
    ds = open_on(storage)
    ds.create_tensor("x", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    ds.create_tensor("t", htype="text", create_id_tensor=False)
    ds.extend({"x": np.arange(rows), "t": [f"row {i}" for i in range(rows)]})
    ds.flush()
    return storage, ds


def drop_seal(storage: MemoryStorage) -> None:
    """Rewrite the version tree as 3.9.52 does when it opens a dataset for writing."""
    tree = json.loads(storage.get(TREE_KEY))
    del tree["lakebed"]
    storage.put(TREE_KEY, json.dumps(tree).encode())


def key_like(storage: MemoryStorage, ds: Dataset, part: str) -> str:
    head = f"versions/{ds.pending_commit_id}/"
    return next(key for key, _ in storage.list(head) if part in key)


def test_opening_reads_the_version_tree_and_one_manifest() -> None:
    """Two reads tell schema and length; a look at two files tells that they are still true of a head."""
    storage, _ = dataset()
    counted = FaultyStorage(storage)
    ds = open_on(counted)
    assert len(ds) == 10
    assert sorted(ds.tensors) == ["t", "x"]
    assert dict(counted.counts) == {"get_tail": 1, "get": 1, "stat": 2}


def test_without_a_manifest_the_metadata_files_say_the_same() -> None:
    """The side file is a cache: without it rows and metadata are the same."""
    storage, ds = dataset()
    for key, _ in list(storage.list(".lakebed/")):
        storage.delete(key)
    again = open_on(storage)
    assert again.x.numpy().tolist() == ds.x.numpy().tolist()
    assert again.t.text() == ds.t.text()
    assert again.meta == ds.meta


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-1], lambda d: d[:40] + bytes([d[40] ^ 1]) + d[41:], lambda d: b""]
)
def test_a_damaged_manifest_is_ignored(damage: object) -> None:
    """A manifest that is cut, changed or empty is not believed."""
    storage, ds = dataset()
    key = next(k for k, _ in storage.list(".lakebed/manifest-") if ds.pending_commit_id in k)
    storage.put(key, damage(storage.get(key)))  # type: ignore[operator]
    assert open_on(storage).t.text() == ds.t.text()


def test_after_a_foreign_writing_session_metadata_changes_count() -> None:
    """Without a seal every metadata file is compared, and a changed one is believed."""
    storage, ds = dataset()
    key = key_like(storage, ds, "t/tensor_meta.json")
    meta = TensorMeta.from_bytes(storage.get(key))
    storage.put(key, meta.with_(length=4).to_bytes())
    drop_seal(storage)
    assert len(open_on(storage).t) == 4


def flush_as_3_9_52(storage: MemoryStorage, ds: Dataset) -> None:
    """Write the tile encoders of all tensors, as 3.9.52 does with every change of a head."""
    for tensor in ds.tensors:
        key = key_like(storage, ds, f"{tensor}/tensor_meta.json")
        storage.put(key.replace("tensor_meta.json", "tiles_index/unsharded"), b"\x063.9.52" + bytes(8))


def test_a_head_that_3_9_52_changed_in_place_is_read_from_its_files() -> None:
    """A change through a tensor may leave the version tree, seals included, as it is; only files get younger."""
    storage, ds = dataset()
    flush_as_3_9_52(storage, ds)
    key = key_like(storage, ds, "t/tensor_meta.json")
    storage.put(key, TensorMeta.from_bytes(storage.get(key)).with_(length=4).to_bytes())
    assert len(open_on(storage).t) == 4


def test_a_chunk_that_3_9_52_changed_in_place_is_read() -> None:
    """It rewrites the chunk of a sample that the head added, and tile encoders, and nothing else."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/chunks/")
    chunk = bytearray(storage.get(key))
    chunk[-8:] = (77).to_bytes(8, "little")
    storage.put(key, bytes(chunk))
    flush_as_3_9_52(storage, ds)
    assert open_on(storage).x[-1].numpy().tolist() == [77]


def test_a_tile_encoder_that_was_there_already_tells_nothing() -> None:
    """3.9.52 makes those that are missing, and leaves that of a tensor with tiles alone."""
    storage = MemoryStorage("tiled")
    create(storage)
    ds = open_on(storage)
    ds.create_tensor("big", dtype="int64", tiling_threshold=100)
    ds.create_tensor("x", dtype="int64")
    ds.extend({"big": [np.arange(100).reshape(10, 10)], "x": [1]})
    ds.flush()
    kept = storage.get(key_like(storage, ds, "/big/tiles_index/unsharded"))
    chunk = key_like(storage, ds, "/x/chunks/")
    storage.put(chunk, storage.get(chunk)[:-8] + (77).to_bytes(8, "little"))
    flush_as_3_9_52(storage, ds)
    tiles = key_like(storage, ds, "/big/tiles_index/unsharded")
    time = storage._objects[tiles][2] - 10**12
    storage._objects[tiles] = (kept, "as it was", time)
    assert open_on(storage).x.numpy().tolist() == [[77]]


def test_what_3_9_52_cleared_or_deleted_has_no_tile_encoder() -> None:
    """Those of the other tensors tell that it was there."""
    storage, ds = dataset()
    flush_as_3_9_52(storage, ds)
    key = key_like(storage, ds, "t/tensor_meta.json")
    storage.delete(key.replace("tensor_meta.json", "tiles_index/unsharded"))
    meta = TensorMeta.from_bytes(storage.get(key))
    storage.put(key, meta.with_(length=0, min_shape=(), max_shape=()).to_bytes())
    assert len(open_on(storage).t) == 0


def test_one_changed_byte_is_not_3_9_52() -> None:
    """A file of the head that alone has changed is damage; the manifest has a sound copy."""
    storage, ds = dataset()
    key = key_like(storage, ds, "t/tensor_meta.json")
    storage.put(key, storage.get(key).replace(b'"length": 10', b'"length": 00'))
    assert len(open_on(storage).t) == 10
    storage.put(key, storage.get(key).replace(b'"length": 00', b'"length": 12'))
    assert len(open_on(storage).t) == 10


def test_after_a_foreign_writing_session_chunks_of_the_head_may_have_changed() -> None:
    """3.9.52 may rewrite chunks of the head in place: without a seal their old checksums do not count."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/chunks/")
    chunk = bytearray(storage.get(key))
    chunk[-8:] = (77).to_bytes(8, "little")
    storage.put(key, bytes(chunk))
    with pytest.raises(ChecksumError):
        open_on(storage).x.numpy()
    drop_seal(storage)
    assert open_on(storage).x[-1].numpy().tolist() == [77]


def test_after_a_foreign_writing_session_older_chunks_are_still_verified() -> None:
    """3.9.52 copies committed chunks before it changes them, so their checksums go on to count."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/chunks/")
    ds.commit("sealed")
    drop_seal(storage)
    chunk = bytearray(storage.get(key))
    chunk[-1] ^= 1
    storage.put(key, bytes(chunk))
    with pytest.raises(ChecksumError, match="x"):
        open_on(storage).x.numpy()


def test_the_next_publish_seals_the_dataset_again() -> None:
    """Our first write after 3.9.52 makes opening cheap again."""
    storage, _ = dataset()
    drop_seal(storage)
    ds = open_on(storage)
    ds.extend({"x": [1], "t": ["one more"]})
    ds.flush()
    counted = FaultyStorage(storage)
    assert open_on(counted).t[-1].text() == "one more"
    assert open_on(counted).x[3].numpy().tolist() == [3]
    assert counted.counts["get"] <= 2 * 2 + 2


def test_a_missing_metadata_file_is_an_error_that_names_it() -> None:
    """What cannot be opened says which file is missing."""
    storage, ds = dataset()
    for key, _ in list(storage.list(".lakebed/")):
        storage.delete(key)
    storage.delete(key_like(storage, ds, "t/tensor_meta.json"))
    with pytest.raises(DatasetCorruptError, match="t/tensor_meta"):
        open_on(storage)


def test_a_manifest_round_trips_and_knows_every_chunk() -> None:
    """The manifest of a publish names its version and the size of each chunk."""
    storage, ds = dataset()
    key = next(k for k, _ in storage.list(".lakebed/manifest-") if ds.pending_commit_id in k)
    manifest = Manifest.from_bytes(storage.get(key))
    assert manifest.version_id == ds.pending_commit_id
    assert manifest.to_bytes() == storage.get(key)
    chunk = key_like(storage, ds, "x/chunks/")
    assert int(manifest.chunks["x"].sizes[0]) == len(storage.get(chunk))


def test_the_manifest_of_many_tensors_is_still_one_read() -> None:
    """However many tensors there are, opening takes two reads, and a first sample one or two more."""
    storage, ds = dataset()
    for i in range(40):
        ds.create_tensor(f"more{i}", dtype="float32")
    ds.commit("wide")
    counted = FaultyStorage(storage)
    seen = open_on(counted)
    assert len(seen.tensors) == 42
    assert dict(counted.counts) == {"get_tail": 1, "get": 1, "stat": 2}
    assert seen.x[3].numpy().tolist() == [3]
    assert counted.counts.total() - counted.counts["stat"] <= 4


def test_a_length_that_the_index_lacks_is_not_believed() -> None:
    """A killed 3.9.52 leaves metadata and index unequal (FORMAT.md 15.5): the shorter of both counts."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/tensor_meta.json")
    meta = TensorMeta.from_bytes(storage.get(key))
    drop_seal(storage)
    for length, expected in ((4, 4), (99, 10)):
        storage.put(key, meta.with_(length=length).to_bytes())
        assert open_on(storage).x.numpy().ravel().tolist() == list(range(expected))


def test_writing_goes_on_where_only_files_describe_the_dataset() -> None:
    """Without manifests and seals lakebed extends and commits, and seals the dataset again."""
    storage, ds = dataset()
    ds.commit("before")
    for key, _ in list(storage.list(".lakebed/")):
        storage.delete(key)
    drop_seal(storage)
    again = open_on(storage)
    again.extend({"x": [9], "t": ["nine"]})
    again.commit("after")
    counted = FaultyStorage(storage)
    seen = open_on(counted)
    assert (counted.counts["get_tail"], counted.counts["get"]) == (1, 1)
    assert seen.x.numpy().ravel().tolist() == [*range(10), 9]
    assert [c["message"] for c in seen.commits] == ["after", "before"]
