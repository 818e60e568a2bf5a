"""What a publish touches: only new names, all of it durable, then one swap."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np

import lakebed
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.storage.base import Data
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from unit_tests.lakebed.datasets import content, create_on, new_memory, objects, open_on

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
    """Whatever comes later, files of older versions keep their bytes; only the tree and nodes are rewritten."""
    storage = new_memory()
    ds = make(storage)
    before = objects(storage)
    seen_versions = {tree_of(storage).branches["main"]: content(open_on(storage, read_only=True))}
    for step in range(6):
        ds.extend({"n": np.arange(step), "t": ["x"] * step}) if step % 2 else ds.commit(
            f"c{step}", allow_empty=True
        )
        if step == 3:
            ds.checkout("side", create=True)
        if step == 5:
            ds.start_overwrite("next").create_tensor("n", dtype="int8")
            ds.finish_overwrite("next")
        ds.flush()
        after = objects(storage)
        changed = {key for key, data in before.items() if after.get(key) != data}
        assert all(key == TREE or key.endswith("commit_info.json") for key in changed), changed
        assert TREE in changed
        before = after
        seen_versions[ds._session.snapshot.version_id] = content(
            open_on(storage, ds._session.snapshot.version_id, read_only=True)
        )
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
        if key == TREE:  # the locks of a store are put by condition, too
            self.at_swap.append(set(self.unsafe))
        return super().put_if(key, data, etag)


def test_everything_named_is_durable_before_the_swap() -> None:
    """No chunk or file that a new version names could be lost by a power cut after it became visible."""
    storage = Volatile(new_memory())
    ds = make(storage)
    ds.extend(
        {"n": np.arange(3_000_000), "t": ["x"] * 3_000_000}
    )  # more than one chunk: written while extending
    ds.flush()
    ds.append({"n": 1, "t": "y"})
    ds.commit("sealed")
    assert len(storage.at_swap) == 4
    assert storage.at_swap == [set()] * 4


def test_the_swap_comes_last() -> None:
    """After the version tree only lock files are touched."""
    storage = FaultyStorage(new_memory())
    ds = make(storage)
    for work in (
        lambda: ds.extend({"n": [1], "t": ["x"]}),
        lambda: ds.commit("c"),
        lambda: ds.commit("d", True),
    ):
        begin = storage.changes
        work()
        ds.flush()
        changed = storage.changed[begin:]
        after = changed[changed.index(TREE) + 1 :] if TREE in changed else []
        assert all(key.endswith("dataset_lock.lock") for key in after)
