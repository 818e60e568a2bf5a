"""Opening: two reads when lakebed wrote last, the truth when Deep Lake 3.9.52 did."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lakebed.dataset.dataset import Dataset
from lakebed.documents.manifest import Manifest, digest_of
from lakebed.documents.manifest_delta import base_of
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import ChecksumError, DatasetCorruptError
from lakebed.maintenance.verify import verify
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions import manifests, opening
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY, read_tree_at
from lakebed.versions.state import TensorState
from unit_tests.lakebed.datasets import copy_of, kill, open_on


def dataset(rows: int = 10) -> tuple[MemoryStorage, Dataset]:
    storage = MemoryStorage("opening")
    create(storage)
    ds = open_on(storage)
    ds.create_tensor("x", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    ds.create_tensor("t", htype="text", create_id_tensor=False)
    ds.extend({"x": np.arange(rows), "t": [f"row {i}" for i in range(rows)]})
    ds.flush()
    return storage, ds


def drop_digest(storage: MemoryStorage) -> None:
    """Rewrite the version tree as 3.9.52 does when it opens a dataset for writing."""
    tree = json.loads(storage.get(TREE_KEY))
    del tree["lakebed"]
    storage.put(TREE_KEY, json.dumps(tree).encode())


def key_like(storage: MemoryStorage, ds: Dataset, part: str) -> str:
    head = f"versions/{ds._session.snapshot.version_id}/"
    return next(key for key, _ in storage.list(head) if part in key)


def test_opening_reads_the_version_tree_and_one_manifest() -> None:
    """Two reads tell schema and length; a look at two files tells that they are still true of a head."""
    storage, _ = dataset()
    counted = FaultyStorage(storage)
    ds = open_on(counted)
    assert len(ds) == 10
    assert sorted(ds.tensors) == ["t", "x"]
    assert dict(counted.counts) == {"get_tail": 1, "get": 1, "stat": 2}


def test_a_tensor_is_parsed_when_it_is_asked_for_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all who open the same version; another version is parsed anew."""
    parsed: list[str] = []
    parse = opening._tensor

    def watched(key: str, *rest: Any, **more: Any) -> TensorState:
        parsed.append(key)
        return parse(key, *rest, **more)

    monkeypatch.setattr(opening, "_tensor", watched)
    storage, ds = dataset()
    parsed.clear()
    for expected in (["x"], ["x", "t"], ["x", "t"]):
        found = open_on(storage, read_only=True)
        assert sorted(found.tensors) == ["t", "x"]
        assert found.x[3].numpy() == 3
        if "t" in expected:
            assert found.t[3].text() == "row 3"
        assert parsed == expected
    ds.append({"x": 10, "t": "row 10"})
    ds.flush()
    parsed.clear()
    assert open_on(storage, read_only=True).x[10].numpy() == 10
    assert parsed == ["x"]


def test_damage_behind_a_right_checksum_is_told_where_the_tensor_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names dataset and version, each time; other tensors are read, and verifying finds it."""
    storage, ds = dataset()
    version = ds._session.snapshot.version_id
    data = storage.get(manifests.manifest_key(version))
    whole = Manifest.from_bytes(data)
    bad = replace(whole, files={**whole.files, "t/tensor_meta.json": b'{"length": -1}'}).to_bytes()
    storage.put(manifests.manifest_key(version), bad)
    monkeypatch.setattr(opening, "digests_of", lambda _: {version: digest_of(bad)})
    found = open_on(storage, read_only=True)
    assert found.x.numpy().ravel().tolist() == list(range(10))
    for _ in range(2):
        with pytest.raises(
            DatasetCorruptError, match=f"version {version} of {storage.url} can not be opened.*length"
        ):
            found.t.numpy()
    assert not verify(storage).is_sound


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
    key = next(k for k, _ in storage.list(".lakebed/manifest-") if ds._session.snapshot.version_id in k)
    storage.put(key, damage(storage.get(key)))  # type: ignore[operator]
    assert open_on(storage).t.text() == ds.t.text()


def test_after_a_foreign_writing_session_metadata_changes_count() -> None:
    """Without a digest every metadata file is compared, and a changed one is believed."""
    storage, ds = dataset()
    key = key_like(storage, ds, "t/tensor_meta.json")
    meta = TensorMeta.from_bytes(storage.get(key))
    storage.put(key, meta.with_(length=4).to_bytes())
    drop_digest(storage)
    assert len(open_on(storage).t) == 4


def flush_as_3_9_52(storage: MemoryStorage, ds: Dataset) -> None:
    """Write the tile encoders of all tensors, as 3.9.52 does with every change of a head."""
    for tensor in ds.tensors:
        key = key_like(storage, ds, f"{tensor}/tensor_meta.json")
        storage.put(key.replace("tensor_meta.json", "tiles_index/unsharded"), b"\x063.9.52" + bytes(8))


def test_a_head_that_3_9_52_changed_in_place_is_read_from_its_files() -> None:
    """A change through a tensor may leave the version tree, digests included, as it is; only files get younger."""
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
    """3.9.52 may rewrite chunks of the head in place: without a digest their old checksums do not count."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/chunks/")
    chunk = bytearray(storage.get(key))
    chunk[-8:] = (77).to_bytes(8, "little")
    storage.put(key, bytes(chunk))
    with pytest.raises(ChecksumError):
        open_on(storage).x.numpy()
    drop_digest(storage)
    assert open_on(storage).x[-1].numpy().tolist() == [77]


def test_after_a_foreign_writing_session_older_chunks_are_still_verified() -> None:
    """3.9.52 copies committed chunks before it changes them, so their checksums go on to count."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/chunks/")
    ds.commit("sealed")
    drop_digest(storage)
    chunk = bytearray(storage.get(key))
    chunk[-1] ^= 1
    storage.put(key, bytes(chunk))
    with pytest.raises(ChecksumError, match="x"):
        open_on(storage).x.numpy()


def test_the_next_publish_adds_digests_again() -> None:
    """Our first write after 3.9.52 makes opening cheap again."""
    storage, _ = dataset()
    drop_digest(storage)
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
    key = next(k for k, _ in storage.list(".lakebed/manifest-") if ds._session.snapshot.version_id in k)
    manifest = Manifest.from_bytes(storage.get(key))
    assert manifest.version_id == ds._session.snapshot.version_id
    assert manifest.to_bytes() == storage.get(key)
    chunk = key_like(storage, ds, "x/chunks/")
    assert int(manifest.chunks["x"].sizes[0]) == len(storage.get(chunk))


def test_the_manifest_of_many_tensors_is_still_one_read() -> None:
    """A few dozen tensors take two reads to open, and a first sample one or two more."""
    storage, ds = dataset()
    for i in range(40):
        ds.create_tensor(f"more{i}", dtype="float32", create_id_tensor=False, create_shape_tensor=False)
    ds.commit("wide")
    counted = FaultyStorage(storage)
    seen = open_on(counted)
    assert len(seen.tensors) == 42
    assert dict(counted.counts) == {"get_tail": 1, "get": 1, "stat": 2}
    assert seen.x[3].numpy().tolist() == [3]
    assert counted.counts.total() - counted.counts["stat"] <= 4


def test_a_length_that_the_index_lacks_is_not_believed() -> None:
    """A killed 3.9.52 leaves metadata and index unequal (format.md 15.5): the shorter of both counts."""
    storage, ds = dataset()
    key = key_like(storage, ds, "x/tensor_meta.json")
    meta = TensorMeta.from_bytes(storage.get(key))
    drop_digest(storage)
    for length, expected in ((4, 4), (99, 10)):
        storage.put(key, meta.with_(length=length).to_bytes())
        assert open_on(storage).x.numpy().ravel().tolist() == list(range(expected))


def test_writing_goes_on_where_only_files_describe_the_dataset() -> None:
    """Without manifests and digests lakebed extends and commits, and adds them again."""
    storage, ds = dataset()
    ds.commit("before")
    for key, _ in list(storage.list(".lakebed/")):
        storage.delete(key)
    drop_digest(storage)
    again = open_on(storage)
    again.extend({"x": [9], "t": ["nine"]})
    again.commit("after")
    counted = FaultyStorage(storage)
    seen = open_on(counted)
    assert (counted.counts["get_tail"], counted.counts["get"]) == (1, 1)
    assert seen.x.numpy().ravel().tolist() == [*range(10), 9]
    assert [c["message"] for c in seen.commits] == ["after", "before"]


@pytest.fixture
def _small_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small datasets stand for large ones."""
    monkeypatch.setattr(manifests, "_SMALL", 2_000)


BARE = {"create_id_tensor": False, "create_shape_tensor": False}


def large(tensors: int = 10) -> tuple[MemoryStorage, Dataset]:
    """A dataset whose manifest is too large to be written whole each time, and a commit of it."""
    storage = MemoryStorage("large")
    create(storage)
    ds = open_on(storage)
    for i in range(tensors):
        ds.create_tensor(f"t{i:02}", dtype="int64", max_chunk_size=3_200, **BARE)
    ds.extend({f"t{i:02}": np.arange(20_000) for i in range(tensors)})
    ds.commit("bulk")
    return storage, ds


def manifest_of(storage: MemoryStorage, version: str) -> bytes:
    return storage.get(f".lakebed/manifest-{version}")


@pytest.mark.usefixtures("_small_manifests")
def test_a_large_version_is_written_as_what_changed() -> None:
    """A child of a large commit costs a small manifest, and one more read to open; rows are the same."""
    storage, ds = large()
    base = ds.commit_id
    assert base_of(manifest_of(storage, base)) is None
    whole = len(manifest_of(storage, base))
    for step in range(3):
        ds["t07"].append(step)
        ds.commit(f"step {step}")
        head = manifest_of(storage, ds._session.snapshot.version_id)
        assert base_of(head) == base
        assert len(head) < whole / 20
    counted = FaultyStorage(storage)
    seen = open_on(counted)
    assert (counted.counts["get_tail"], counted.counts["get"]) == (1, 2)
    assert seen["t07"].numpy().ravel().tolist() == [*range(20_000), 0, 1, 2]
    assert seen["t08"].numpy().ravel().tolist() == [*range(20_000)]
    assert verify(storage).is_sound


@pytest.mark.usefixtures("_small_manifests")
def test_deltas_end_in_a_whole_manifest_again() -> None:
    """What deltas add up to stays below what a whole one takes, and no delta builds on another or on a head."""
    storage, ds = large()
    sizes, bases = [], set()
    for step in range(40):
        ds["t07"].extend(np.arange(400 * step, 400 * step + 400))
        ds.commit(f"step {step}")
        for version in (ds.commit_id, ds._session.snapshot.version_id):
            data = manifest_of(storage, version)
            sizes.append(len(data))
            base = base_of(data)
            if base is not None:
                bases.add(base)
                assert base_of(manifest_of(storage, base)) is None
                assert base in [c["commit"] for c in ds.commits]
    assert len(bases) > 1
    assert sum(sizes) < 4 * max(sizes) * len(bases)
    assert open_on(storage)["t07"].numpy()[-1].tolist() == [400 * 39 + 399]


@pytest.mark.usefixtures("_small_manifests")
@pytest.mark.parametrize("damage", ["gone", "cut", "changed"])
def test_a_base_that_is_damaged_is_noticed(damage: str) -> None:
    """The version is read from its files then, and the next publish writes a whole manifest."""
    storage, ds = large()
    ds["t07"].append(1)
    ds.commit("one")
    base = str(base_of(manifest_of(storage, ds._session.snapshot.version_id)))
    data = manifest_of(storage, base)
    if damage == "gone":
        storage.delete(f".lakebed/manifest-{base}")
    else:
        storage.put(
            f".lakebed/manifest-{base}", data[:-9] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1])
        )
    again = open_on(storage)
    assert again["t07"].numpy().ravel().tolist() == [*range(20_000), 1]
    assert not verify(storage).is_sound
    again["t07"].append(2)
    again.commit("two")
    assert base_of(manifest_of(storage, again.commit_id)) is None
    assert open_on(storage)["t07"].numpy()[-1].tolist() == [2]


def test_unchanged_documents_are_written_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of a version that was opened writes the very bytes that are there, and copies large ones."""
    monkeypatch.setattr("lakebed.versions.publish.COPY_BYTES", 800)
    storage = MemoryStorage("copies")
    create(storage)
    ds = open_on(storage)
    ds.create_tensor(
        "x", dtype="int64", max_chunk_size=3_200, create_shape_tensor=False, create_id_tensor=False
    )
    ds.create_tensor("y", dtype="int64", create_shape_tensor=False, create_id_tensor=False)
    ds.extend({"x": np.arange(20_000), "y": np.zeros(20_000, np.int64)})
    ds.commit("bulk")
    first = ds.commit_id
    counted = FaultyStorage(storage)
    again = open_on(counted)
    again.commit("again", allow_empty=True)
    assert counted.counts["copy"] == 1
    for name in ("x/chunks_index/unsharded", "x/tensor_meta.json", "y/tensor_meta.json"):
        head = storage.get(f"versions/{again._session.snapshot.version_id}/{name}")
        assert head == storage.get(f"versions/{first}/{name}")
    # Copies are for speed: where the original is gone, the bytes are at hand.
    storage.delete(f"versions/{again._session.snapshot.version_id}/x/chunks_index/unsharded")
    again.commit("once more", allow_empty=True)
    assert storage.get(f"versions/{again._session.snapshot.version_id}/x/chunks_index/unsharded")
    assert len(open_on(storage).x) == 20_000


@pytest.mark.usefixtures("_small_manifests")
def test_a_commit_that_copies_and_builds_on_others_is_atomic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut off after any of its writes, the dataset is as before or after, and the next commit works."""
    monkeypatch.setattr("lakebed.versions.publish.COPY_BYTES", 500)
    given, _ = large(2)
    kill(given)

    def work(ds: Dataset) -> None:
        ds["t01"].append(7)
        ds.commit("one")

    plain = FaultyStorage(copy_of(given))
    work(open_on(plain))
    assert plain.counts["copy"] > 0
    seen = set()
    for count in [*range(0, plain.changes, 2), plain.changes]:
        storage = copy_of(given)
        cut_off = open_on(FaultyStorage(storage, fail_after=count))
        with contextlib.suppress(Crash):
            work(cut_off)
        kill(storage)
        rows = open_on(storage)["t01"].numpy().ravel().tolist()
        assert rows[:20_000] == list(range(20_000))
        seen.add(len(rows))
        work(open_on(storage))
        assert open_on(storage)["t01"].numpy().ravel().tolist() == [*rows, 7]
        assert verify(storage).is_sound
        kill(storage)
    assert seen == {20_000, 20_001}


def changed_in_place(storage: MemoryStorage, ds: Dataset) -> None:
    """Let the last number be 77, as 3.9.52 does by an update, which leaves the version tree as it is."""
    key = key_like(storage, ds, "x/chunks/")
    storage.put(key, storage.get(key)[:-8] + (77).to_bytes(8, "little"))
    flush_as_3_9_52(storage, ds)


def test_a_commit_of_a_head_that_3_9_52_changed_in_place_is_read_from_its_files() -> None:
    """Once it is a commit no opening looks for foreign writes any more: its outdated digest must be gone."""
    storage, ds = dataset()
    changed_in_place(storage, ds)
    commit = open_on(storage).commit("what is there now", allow_empty=True)
    assert open_on(storage, commit).x[-1].numpy().tolist() == [77]
    assert open_on(storage).x[-1].numpy().tolist() == [77]


def test_a_dataset_that_was_open_while_3_9_52_changed_the_head_reads_it_before_it_writes() -> None:
    """Else it would publish over the change, as the tree is the one that it knows."""
    storage, ds = dataset()
    rows = len(ds.x)
    ds._session.unlock()
    changed_in_place(storage, ds)
    ds.x.append(5)
    ds.flush()
    assert ds.x[rows - 1].numpy().tolist() == [77]
    assert open_on(storage).x[rows - 1].numpy().tolist() == [77]
    assert open_on(storage).x[rows].numpy().tolist() == [5]


def test_a_version_that_was_left_is_not_read_again() -> None:
    """Going back to a commit takes the version tree; to the head, a look at its files besides."""
    storage, ds = dataset()
    first = ds.commit()
    ds.x.extend([7])
    ds.t.extend(["more"])
    ds.flush()
    counted = FaultyStorage(storage)
    ds = open_on(counted)
    lengths = []
    for address in (first, "main", first, "main"):
        counted.counts.clear()
        ds.checkout(address)
        lengths.append((len(ds), dict(counted.counts)))
    assert lengths == [
        (10, {"get_tail": 1, "get": 1}),
        (11, {"get_tail": 1, "stat": 2}),
        (10, {"get_tail": 1}),
        (11, {"get_tail": 1, "stat": 2}),
    ]
    assert ds.x[-1].numpy().tolist() == [7]


@pytest.mark.parametrize("drops_digest", [False, True])
def test_a_head_that_was_left_and_changed_meanwhile_is_read_again(drops_digest: bool) -> None:
    """What 3.9.52 did to its files while a commit was looked at is seen, whether or not it rewrote the tree."""
    storage, ds = dataset()
    first = ds.commit()
    ds.x.extend([7])
    ds.t.extend(["more"])
    ds.flush()
    ds.checkout(first)
    key = f"versions/{ds._session.tree.branches['main']}/t/tensor_meta.json"
    storage.put(key, TensorMeta.from_bytes(storage.get(key)).with_(length=4).to_bytes())
    if drops_digest:
        drop_digest(storage)
    else:
        for tensor in ("t", "x"):
            other = key.replace("/t/tensor_meta.json", f"/{tensor}/tiles_index/unsharded")
            storage.put(other, b"\x063.9.52" + bytes(8))
    ds.checkout("main")
    assert len(ds.t) == 4


def test_a_head_that_was_left_and_committed_by_another_program_is_read_again() -> None:
    """3.9.52 changes a head and makes it a commit, under the id that it had: what it was before does not count."""
    storage, ds = dataset()
    first = ds.commit()
    ds.x.extend([7])
    ds.t.extend(["more"])
    ds.flush()
    head = ds._session.snapshot.version_id
    ds.checkout(first)
    key = f"versions/{head}/t/tensor_meta.json"
    storage.put(key, TensorMeta.from_bytes(storage.get(key)).with_(length=4).to_bytes())
    tree = json.loads(storage.get(TREE_KEY))
    del tree["lakebed"]
    tree["commits"][head] |= {"commit_time": 1e9, "commit_message": "theirs", "children": ["f" * 40]}
    below = {
        "commit_id": "f" * 40,
        "commit_time": None,
        "commit_message": None,
        "parent": head,
        "children": [],
    }
    tree["commits"]["f" * 40] = tree["commits"][head] | below
    tree["branches"]["main"] = "f" * 40
    storage.put(TREE_KEY, json.dumps(tree).encode())
    ds.checkout(head)
    assert len(ds.t) == 4


def test_a_tree_that_was_read_before_is_parsed_once_and_another_one_is_noticed() -> None:
    """What is known counts only as long as the whole object is the same."""
    storage = MemoryStorage("known")
    create(storage)
    first = read_tree_at(storage)
    assert read_tree_at(storage, first).tree is first.tree
    assert read_tree_at(storage).tree is not first.tree
    with open_on(storage) as dataset:
        dataset.create_tensor("x", dtype="int64")
        dataset.x.extend([1, 2])
    again = read_tree_at(storage, first)
    assert again.tree.branches != first.tree.branches
    assert again == read_tree_at(storage)
    storage.put(TREE_KEY, storage.get(TREE_KEY))
    assert read_tree_at(storage, again).etag != again.etag
