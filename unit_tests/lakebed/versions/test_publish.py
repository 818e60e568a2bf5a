"""What a publish touches: only new names, all of it durable, then one swap; who else may write meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.documents.lock import DatasetLock
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.storage.base import Data
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from unit_tests.lakebed.datasets import content, create_on, kill, new_memory, objects, open_on

TREE = "version_control_info.json"


def tree_of(storage: MemoryStorage) -> VersionTree:
    """The version tree as stored."""
    return VersionTree.from_bytes(storage.get(TREE))


def make(storage: MemoryStorage | FaultyStorage) -> lakebed.Dataset:
    """A dataset with a few published rows."""
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("t", htype="text")
    ds.extend({"n": np.arange(4), "t": list("abcd")})
    ds.flush()
    return ds


def test_published_files_never_change() -> None:
    """Whatever comes later, files of older versions keep their bytes; only the tree and parents' nodes are rewritten."""
    storage = new_memory()
    ds = make(storage)
    before = objects(storage)
    seen_versions = {tree_of(storage).branches["main"]: content(open_on(storage, read_only=True))}
    for step in range(6):
        ds.extend({"n": np.arange(step), "t": ["x"] * step}) if step % 2 else ds.commit(f"c{step}", allow_empty=True)
        if step == 3:
            ds.checkout("side", create=True)
        ds.flush()
        after = objects(storage)
        changed = {key for key, data in before.items() if after.get(key) != data}
        assert all(key == TREE or key.endswith("commit_info.json") for key in changed), changed
        assert TREE in changed
        before = after
        seen_versions[ds.pending_commit_id] = content(open_on(storage, ds.pending_commit_id, read_only=True))
    for version in tree_of(storage).commits:
        if version in seen_versions:
            rows = content(open_on(storage, version, read_only=True))
            assert rows["tensors"] == seen_versions[version]["tensors"]


def test_a_superseded_head_stays_readable_for_those_who_have_it_open() -> None:
    """A reader that opened before a publish goes on with its version, chunks included."""
    storage = new_memory()
    ds = make(storage)
    reader = open_on(storage, read_only=True)
    for i in range(5):
        ds.extend({"n": [i], "t": [str(i)]})
        ds.flush()
    assert reader.n.numpy().ravel().tolist() == [0, 1, 2, 3]
    assert reader.t.text() == list("abcd")
    assert len(open_on(storage, read_only=True)) == 9


def test_a_new_dataset_has_an_empty_parent_and_a_head() -> None:
    """Even the first write is a swap of heads: the root version is an uncommitted parent without tensors."""
    storage = new_memory()
    make(storage)
    tree = tree_of(storage)
    head = tree.head("main")
    assert (len(tree.commits), head.parent, tree.commits[FIRST].children) == (2, FIRST, (head.id,))
    assert not tree.commits[FIRST].is_committed
    assert json.loads(storage.get("dataset_meta.json"))["tensors"] == []


def test_each_publish_makes_one_head_under_the_same_parent() -> None:
    """Heads replace each other; the tree does not grow with publishes, only with commits."""
    storage = new_memory()
    ds = make(storage)
    heads = {tree_of(storage).branches["main"]}
    for i in range(3):
        ds.append({"n": i, "t": "x"})
        ds.flush()
        heads.add(tree_of(storage).branches["main"])
    assert len(heads) == 4
    assert len(tree_of(storage).commits) == 2
    commit = ds.commit("one")
    tree = tree_of(storage)
    assert len(tree.commits) == 3
    assert tree.commits[commit].message == "one"
    assert tree.head("main").parent == commit
    assert json.loads(storage.get(f"versions/{commit}/commit_info.json"))["commit_message"] == "one"


class Volatile(FaultyStorage):
    """Knows which objects a power cut would take."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.unsafe: set[str] = set()
        self.at_swap: list[set[str]] = []

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        pairs = list(items)
        super().put_many(pairs, durable=durable)
        if not durable:
            self.unsafe |= {key for key, _ in pairs}

    def sync(self, keys: Iterable[str]) -> None:
        names = list(keys)
        super().sync(names)
        self.unsafe -= set(names)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        self.at_swap.append(set(self.unsafe))
        return super().put_if(key, data, etag)


def test_everything_named_is_durable_before_the_swap() -> None:
    """No chunk or file that a new version names could be lost by a power cut after it became visible."""
    storage = Volatile(new_memory())
    ds = make(storage)
    ds.extend({"n": np.arange(3_000_000), "t": ["x"] * 3_000_000})  # more than one chunk: written while extending
    ds.flush()
    ds.append({"n": 1, "t": "y"})
    ds.commit("sealed")
    assert len(storage.at_swap) == 4
    assert storage.at_swap == [set()] * 4


def test_the_swap_comes_last() -> None:
    """After the version tree only lock files are touched."""
    storage = FaultyStorage(new_memory())
    ds = make(storage)
    for work in (lambda: ds.extend({"n": [1], "t": ["x"]}), lambda: ds.commit("c"), lambda: ds.commit("d", True)):
        begin = storage.changes
        work()
        ds.flush()
        changed = storage.changed[begin:]
        after = changed[changed.index(TREE) + 1 :] if TREE in changed else []
        assert all(key.endswith("dataset_lock.lock") for key in after)


def test_opening_reads_two_objects() -> None:
    """The version tree and one manifest: nothing else is read to know schema, length and the first row's place."""
    storage = new_memory()
    ds = make(storage)
    ds.commit("c")
    for i in range(40):
        ds.create_tensor(f"more{i}", dtype="float32")
    ds.flush()
    counted = FaultyStorage(storage)
    seen = open_on(counted, read_only=True)
    assert len(seen.n) == 4
    assert len(seen.tensors) == 42
    assert dict(counted.counts) == {"get": 2}
    assert seen.n[0].numpy().tolist() == [0]
    assert counted.counts.total() <= 4


def rewrite_as_deep_lake(storage: MemoryStorage) -> None:
    """Rewrite the version tree as 3.9.52 does on a writing open: without keys that it does not know."""
    document = json.loads(storage.get(TREE))
    assert document.pop("lakebed")["seals"]
    storage.put(TREE, json.dumps(document).encode())


def test_without_seals_the_manifest_counts_if_it_is_still_true() -> None:
    """After 3.9.52 had the dataset open, every metadata file is compared; if all agree, nothing else is read."""
    storage = new_memory()
    make(storage).commit("c")
    rewrite_as_deep_lake(storage)
    counted = FaultyStorage(storage)
    ds = open_on(counted, read_only=True)
    assert ds.n.numpy().ravel().tolist() == [0, 1, 2, 3]
    assert ds.t.text() == list("abcd")
    assert counted.counts["get"] > 2


def test_without_seals_chunks_changed_in_place_are_read_as_they_are() -> None:
    """3.9.52 may rewrite chunks of the head in place: their old checksums do not make them unreadable."""
    storage = new_memory()
    make(storage)
    (chunk,) = [key for key in objects(storage) if "/n/chunks/" in key]
    raw = storage.get(chunk)
    changed = raw[:-8] + (77).to_bytes(8, "little")
    storage.put(chunk, changed)
    with pytest.raises(lakebed.errors.ChecksumError):
        open_on(storage, read_only=True).n.numpy()
    rewrite_as_deep_lake(storage)
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 1, 2, 77]


def test_without_seals_chunks_of_commits_stay_checked() -> None:
    """3.9.52 copies chunks of committed versions before it changes them, so their checksums go on to count."""
    storage = new_memory()
    ds = make(storage)
    ds.commit("c")
    (chunk,) = [key for key in objects(storage) if "/n/chunks/" in key]
    rewrite_as_deep_lake(storage)
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 1, 2, 3]
    storage.put(chunk, storage.get(chunk)[:-8] + (77).to_bytes(8, "little"))
    with pytest.raises(lakebed.errors.ChecksumError):
        open_on(storage, read_only=True).n.numpy()


def test_without_seals_changed_metadata_is_believed() -> None:
    """If any metadata file differs from the manifest, the files are read instead, as any reader of the format would."""
    storage = new_memory()
    ds = make(storage)
    head = ds.pending_commit_id
    ds.close()
    rewrite_as_deep_lake(storage)
    key = f"versions/{head}/dataset_info.json"
    storage.put(key, json.dumps({"by": "3.9.52"}).encode())
    meta_key = f"versions/{head}/n/tensor_meta.json"
    meta = json.loads(storage.get(meta_key))
    storage.put(meta_key, json.dumps({**meta, "length": 3}).encode())
    seen = open_on(storage, read_only=True)
    # A length that differs from the index, as a killed 3.9.52 leaves it: the shorter one counts.
    assert len(seen.n) == 3
    assert seen.n.numpy().ravel().tolist() == [0, 1, 2]


def test_a_foreign_seal_is_not_believed() -> None:
    """A manifest that is damaged, or of another version, is ignored; the files are read."""
    storage = new_memory()
    ds = make(storage)
    key = f".lakebed/manifest-{ds.pending_commit_id}"
    raw = storage.get(key)
    for damaged in (raw[:-1], raw[:40], b"", raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]):
        storage.put(key, damaged)
        assert open_on(storage, read_only=True).t.text() == list("abcd")
    storage.delete(key)
    assert open_on(storage, read_only=True).t.text() == list("abcd")


def test_writing_goes_on_without_manifest_and_seals() -> None:
    """lakebed extends and commits on what only files describe, and seals it again."""
    storage = new_memory()
    make(storage).commit("c")
    rewrite_as_deep_lake(storage)
    for key in list(objects(storage)):
        if key.startswith(".lakebed/"):
            storage.delete(key)
    ds = open_on(storage)
    ds.append({"n": 9, "t": "e"})
    ds.flush()
    counted = FaultyStorage(storage)
    seen = open_on(counted, read_only=True)
    assert seen.n.numpy().ravel().tolist() == [0, 1, 2, 3, 9]
    assert counted.counts["get"] < 6
    assert [c["message"] for c in seen.commits] == ["c"]


def test_two_datasets_of_one_process_take_turns() -> None:
    """Alternating appends through two objects all arrive; each sees what the other published."""
    storage = new_memory()
    one = make(storage)
    two = open_on(storage)
    for i in range(3):
        one.append({"n": 10 + i, "t": "one"})
        two.append({"n": 20 + i, "t": "two"})
    one.flush()
    two.flush()
    seen = open_on(storage, read_only=True)
    assert sorted(seen.n.numpy().ravel().tolist()) == [0, 1, 2, 3, 10, 11, 12, 20, 21, 22]


def test_a_held_dataset_is_not_pushed_aside() -> None:
    """Inside `with ds:` the lock stays: another dataset of the same process gets LockedException."""
    storage = new_memory()
    one = make(storage)
    two = open_on(storage)
    with one:
        one.append({"n": 1, "t": "x"})
        with pytest.raises(lakebed.LockedException, match="this process"):
            two.append({"n": 2, "t": "y"})
        one.append({"n": 3, "t": "z"})
    two.append({"n": 4, "t": "w"})
    two.flush()
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 1, 2, 3, 1, 3, 4]


def test_branches_are_written_independently() -> None:
    """One writer per branch: different branches of one dataset can be open for writing at once."""
    storage = new_memory()
    main = make(storage)
    main.commit("c")
    side = open_on(storage)
    side.checkout("side", create=True)
    with main, side:
        main.append({"n": 1, "t": "main"})
        side.append({"n": 2, "t": "side"})
    assert open_on(storage, read_only=True).n[-1].numpy().tolist() == [1]
    assert open_on(storage, "side", read_only=True).n[-1].numpy().tolist() == [2]


def test_a_lost_race_is_commit_failed_and_publishes_nothing() -> None:
    """If somebody without our lock replaced the head, the publish fails as a whole; a fresh start works."""
    storage = new_memory()
    ds = make(storage)
    ds.append({"n": 100, "t": "mine"})
    foreign = tree_of(storage).swap_head("main", "f" * 40)
    for key, data in objects(storage).items():
        if key.startswith(f"versions/{tree_of(storage).branches['main']}/"):
            storage.put(key.replace(tree_of(storage).branches["main"], "f" * 40), data)
    storage.put(TREE, foreign.to_bytes())
    with pytest.raises(lakebed.CommitFailed, match="another writer"):
        ds.flush()
    assert tree_of(storage).branches["main"] == "f" * 40
    assert len(open_on(storage, read_only=True).n) == 4
    ds.append({"n": 101, "t": "again"})
    ds.flush()
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 1, 2, 3, 101]


def test_an_unrelated_rewrite_of_the_tree_is_no_conflict() -> None:
    """A rewrite that changes neither branches nor versions, as 3.9.52 makes one, does not cost a publish."""
    storage = new_memory()
    ds = make(storage)
    ds.append({"n": 5, "t": "e"})
    rewrite_as_deep_lake(storage)
    ds.flush()
    assert len(open_on(storage, read_only=True)) == 5


def test_a_live_deep_lake_writer_keeps_us_out() -> None:
    """A 3.x lock of another process that has not run out is LockedException; one that has is taken over."""
    storage = new_memory()
    ds = make(storage)
    ds.close()
    key = f"versions/{tree_of(storage).branches['main']}/dataset_lock.lock"
    node = bytes(b ^ 0xFF for b in DatasetLock.own(0).to_bytes()[:6])
    storage.put(key, node + np.float64(time.time() + 200).tobytes() + (1234).to_bytes(4, "little"))
    with pytest.raises(lakebed.LockedException, match=r"Deep Lake 3\.x"):
        ds.append({"n": 5, "t": "e"})
    storage.put(key, node + np.float64(time.time() - 1).tobytes() + (1234).to_bytes(4, "little"))
    ds.append({"n": 5, "t": "e"})
    ds.flush()
    assert len(open_on(storage, read_only=True)) == 5


def test_our_lock_shows_while_we_write_and_goes_with_us() -> None:
    """The head that others may open for writing carries our 3.x lock until we are done."""
    storage = new_memory()
    ds = make(storage)
    locks = lambda: {key for key, _ in storage.list() if key.endswith("dataset_lock.lock")}  # noqa: E731
    assert locks() == set()
    with ds:
        ds.append({"n": 5, "t": "e"})
        assert locks() == {f"versions/{tree_of(storage).branches['main']}/dataset_lock.lock"}
        ds.flush()
        assert locks() == {f"versions/{tree_of(storage).branches['main']}/dataset_lock.lock"}
    assert locks() == set()


def hold_in_another_process(path: str, ready: multiprocessing.synchronize.Event, stop: multiprocessing.synchronize.Event) -> None:
    """Write and keep the lock until told to stop."""
    ds = lakebed.load(path)
    with ds:
        ds.append({"n": 50})
        ready.set()
        stop.wait(60)


def test_a_second_process_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    """LockedException names process and host; readers are not kept out and see published rows only."""
    path = str(tmp_path / "ds")
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64")
    ds.extend({"n": [1, 2]})
    ds.close()
    context = multiprocessing.get_context("spawn")
    ready, stop = context.Event(), context.Event()
    process = context.Process(target=hold_in_another_process, args=(path, ready, stop))
    process.start()
    try:
        assert ready.wait(60)
        with pytest.raises(lakebed.LockedException, match=f"process {process.pid} on"):
            ds.append({"n": 3})
        assert len(lakebed.load(path, read_only=True).n) == 2
        stop.set()
        process.join(60)
        assert process.exitcode == 0
        ds.append({"n": 3})
        ds.flush()
        assert lakebed.load(path, read_only=True).n.numpy().ravel().tolist() == [1, 2, 50, 3]
    finally:
        stop.set()
        process.join(60)


def test_a_killed_writer_leaves_no_lock() -> None:
    """After a crash the next writer of this machine goes on at once."""
    storage = new_memory()
    ds = make(storage)
    ds.append({"n": 5, "t": "e"})
    kill(storage)
    after = open_on(storage)
    after.append({"n": 6, "t": "f"})
    after.flush()
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 1, 2, 3, 6]
