"""Version trees made again from `commit_info.json` files and folders."""

from __future__ import annotations

import pytest

import lakebed
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.maintenance.plan import RepairReport
from lakebed.maintenance.rebuild import rebuild
from lakebed.maintenance.repair import repair
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.opening import TREE_KEY, read_tree
from lakebed.versions.tree_file import is_dataset
from unit_tests.lakebed.crash_states import State
from unit_tests.lakebed.datasets import create_on, new_memory, objects, open_on


@pytest.fixture
def storage() -> MemoryStorage:
    """Commits a and b on main, c on a branch between them."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64")
    for value, message in enumerate("ab"):
        ds.x.append(value)
        ds.commit(message)
        if message == "a":
            ds.checkout("side", create=True)
            ds.x.append(7)
            ds.commit("c")
            ds.checkout("main")
    ds.close()
    return storage


def shape(tree: VersionTree) -> list[tuple[str | None, str | None]]:
    """Messages of the commits, each with that of its parent."""
    nodes = tree.commits
    found = [
        (node.message, nodes[node.parent].message if node.parent else None)
        for node in nodes.values()
        if node.is_committed
    ]
    return sorted(found, key=str)


def test_all_there_is(storage: MemoryStorage) -> None:
    """Commits with parents and messages, and the heads; a new head has the branch of what is above it."""
    before, data = read_tree(storage), storage.get(TREE_KEY)
    for damaged in (None, b"", data[:500], data):
        found = rebuild(storage, damaged, RepairReport(storage.url))
        assert shape(found.tree) == shape(before)
        assert found.headless == ()
        assert found.tree.branches == before.branches
        assert found.tree.to_bytes()


def test_a_branch_whose_head_is_gone_gets_a_new_one(storage: MemoryStorage) -> None:
    """Below its last commit, with what that holds."""
    tree = read_tree(storage)
    storage.delete_prefix(folder_of(tree.branches["side"]))
    storage.delete(TREE_KEY)
    assert rebuild(storage, None, RepairReport(storage.url)).headless == ("side",)
    report = repair(storage, apply=True)
    assert list(report.versions) == ["side"]
    ds = open_on(storage, "side")
    assert ds.x.numpy().ravel().tolist() == [0, 7]
    ds.x.append(8)
    ds.commit("goes on")


def test_a_commit_without_its_file_is_known_by_its_children(storage: MemoryStorage) -> None:
    """Its message is lost, and so is what it stood below; what it holds is not."""
    commits = read_tree(storage).commits
    first = next(i for i, node in commits.items() if node.message == "a")
    storage.delete(f"{folder_of(first)}commit_info.json")
    storage.put(TREE_KEY, b"{")
    repair(storage, apply=True)
    messages = {node.message for node in read_tree(storage).commits.values() if node.is_committed}
    assert messages == {"b", "c", "recovered: its message is lost"}
    assert open_on(storage).x.numpy().ravel().tolist() == [0, 1]
    assert open_on(storage, "side").x.numpy().ravel().tolist() == [0, 7]
    assert open_on(storage, first, read_only=True).x.numpy().ravel().tolist() == [0]


def test_damaged_files_are_named(storage: MemoryStorage) -> None:
    """They are left out."""
    first = next(i for i, node in read_tree(storage).commits.items() if node.message == "c")
    storage.put(f"{folder_of(first)}commit_info.json", b"[")
    report = RepairReport(storage.url)
    rebuild(storage, None, report)
    assert [step.version for step in report.steps if "is left out" in step.message] == [first]


def test_what_a_failed_creation_leaves_is_no_dataset() -> None:
    """Without tensors there is nothing to save."""
    storage = new_memory()
    assert not is_dataset(storage)
    create_on(storage)
    storage.delete(TREE_KEY)
    assert not is_dataset(storage)
    assert objects(storage)
    with pytest.raises(lakebed.DatasetHandlerError):
        repair(storage)


def test_a_dataset_of_3_x_without_commits() -> None:
    """It has no commit_info.json at all: its root is the head of main."""
    storage = State("append", 0).stored()
    storage.delete(TREE_KEY)
    assert is_dataset(storage)
    assert rebuild(storage, None, RepairReport(storage.url)).tree.branches == {"main": FIRST}
