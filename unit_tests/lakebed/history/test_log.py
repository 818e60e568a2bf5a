"""The commits of a dataset with all parents and names, however many there are."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import pytest

from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.history.log import Log
from lakebed.session.session import Session
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.versions.opening import TREE_KEY, read_tree
from lakebed.versions.refs import read_refs, record_merge
from unit_tests.lakebed.datasets import create_on, new_memory

COMMITS = 3_000


def commit_id(number: int) -> str:
    """The id of an invented commit."""
    return f"{number:040x}"


@pytest.fixture(scope="module")
def storage() -> MemoryStorage:
    """A dataset with thousands of invented commits below its only real one, and a merge on every hundredth."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x")
    ds.x.extend([1, 2])
    real = ds.commit("real")
    ds.create_tag("v1")
    ds.close()
    tree = read_tree(storage)
    nodes = {**tree.commits}
    line = [FIRST, *map(commit_id, range(COMMITS)), real]
    for above, here in pairwise(line):
        known = nodes.get(here, CommitNode(here, "main", above, (), f"message of {here}", 1.0, "ann"))
        nodes[here] = replace(known, parent=above)
        nodes[above] = replace(nodes[above], children=(here,))
    storage.put(TREE_KEY, VersionTree(nodes, tree.branches, tree.extra).to_bytes())
    for number in range(100, COMMITS, 100):
        record_merge(storage, commit_id(number), (commit_id(number - 50),))
    return storage


def test_a_log_asks_the_storage_once(storage: MemoryStorage) -> None:
    """Neither the line nor the graph opens a version; what a commit changed is one more document."""
    session = Session(FaultyStorage(storage), read_only=True)
    counting = session.storage
    assert isinstance(counting, FaultyStorage)
    before = counting.counts.total()
    history = Log(session, read_refs(counting))
    assert [entry.node.message for entry in islice(history.first_parents(), 2)] == [
        "real",
        f"message of {commit_id(COMMITS - 1)}",
    ]
    assert sum(1 for _ in history.first_parents()) == COMMITS + 1
    assert sum(1 for _ in history.all_commits()) == COMMITS + 1
    assert counting.counts.total() - before <= 3  # tags and merges, and the older part of the history
    before = counting.counts.total()
    assert history.changes(read_refs(storage).tags["v1"].commit)["tensors"]["x"]["added"] == 2
    assert counting.counts.total() - before <= 2


def test_every_merge_has_both_parents(storage: MemoryStorage) -> None:
    """Parents of merges stand behind those of the version tree, and every commit before all of its parents."""
    history = Log(Session(storage, read_only=True), read_refs(storage))
    seen: set[str] = set()
    parents = {}
    for entry in history.all_commits():
        assert seen.isdisjoint(entry.parents)
        seen.add(entry.node.id)
        parents[entry.node.id] = entry.parents
    assert parents[commit_id(700)] == (commit_id(699), commit_id(650))
    assert parents[commit_id(701)] == (commit_id(700),)
    assert parents[commit_id(0)] == ()
    assert sum(map(len, parents.values())) == COMMITS + len(range(100, COMMITS, 100))


def test_names_stand_at_the_last_commits(storage: MemoryStorage) -> None:
    """HEAD, branches and tags are found at the commits that they lead to, and nowhere else."""
    history = Log(Session(storage, read_only=True), read_refs(storage))
    first, *others = history.first_parents()
    assert first.names == ("HEAD", "main", "tag: v1")
    assert not any(entry.names for entry in others)
    history = Log(Session(storage, read_only=True), read_refs(storage))
    assert sum(1 for _ in history.all_commits(commit_id(5))) == 6
