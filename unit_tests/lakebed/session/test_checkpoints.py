"""A long uncommitted history is cut by versions that nobody gets to see: everything is as without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed import config
from lakebed.documents.commit_diff import CommitDiff
from lakebed.errors import CommitStateUnknown, EmptyCommitError, InvalidInputError, StorageError
from lakebed.history.squash_diffs import is_checkpoint, squash_diff
from lakebed.maintenance.verify import verify
from lakebed.storage.base import Storage
from lakebed.testing import FaultyStorage
from lakebed.testing.schedule import Fault, Planned, When, refused
from lakebed.versions.gc.collect import collect
from lakebed.writing import diffs
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


@pytest.fixture(autouse=True)
def few_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three chunks of a version's own are many."""
    monkeypatch.setattr(config, "CHECKPOINT_CHUNKS", 3)
    return iter([None])


def started(storage: Storage) -> lakebed.Dataset:
    """A dataset whose publishes make a chunk each."""
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64", max_chunk_size=1600)
    ds.create_tensor("label", htype="class_label")
    return ds


def publish(ds: lakebed.Dataset, times: int) -> None:
    """Publish a hundred rows each time."""
    for _ in range(times):
        rows = len(ds.n)
        ds.n.extend(np.arange(rows, rows + 100))
        ds.label.extend([f"l{rows}"] * 100)
        ds.flush()


def checkpoints(ds: lakebed.Dataset) -> int:
    """Count the versions that nobody sees."""
    return sum(map(is_checkpoint, ds._session.tree.commits.values()))


def test_a_version_names_few_chunks_itself() -> None:
    """However many chunks an uncommitted dataset has, its head names only those since the last checkpoint."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 20)
    assert checkpoints(ds) >= 4
    table = ds._session.snapshot.tensors["n"].table
    assert len(table) == 20
    assert table.places.own.sum() <= 4
    again = open_on(storage, read_only=True)
    assert again.n.numpy().ravel().tolist() == list(range(2000))
    assert verify(storage, None, deep=True).is_sound
    collect(storage, grace=0)
    assert verify(storage, None, deep=True).is_sound
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == list(range(2000))


def test_users_see_only_their_own_commits(capsys: pytest.CaptureFixture[str]) -> None:
    """log, commits, commit_id, HEAD~n, details and has_head_changes are as without checkpoints."""
    ds = started(new_memory())
    assert (ds.commit_id, ds.commits, ds.has_head_changes) == (None, [], True)
    publish(ds, 9)
    assert (ds.commit_id, ds.commits, ds.has_head_changes) == (None, [], True)
    one = ds.commit("one")
    assert not ds.has_head_changes
    with pytest.raises(EmptyCommitError):
        ds.commit("nothing")
    publish(ds, 9)
    assert checkpoints(ds) >= 3
    assert ds.has_head_changes
    assert ds.commit_id == one
    two = ds.commit("two")
    assert [c["message"] for c in ds.commits] == ["two", "one"]
    ds.log()
    assert capsys.readouterr().out.count("Commit :") == 2
    publish(ds, 5)
    ds.checkout("HEAD~2")
    assert ds.commit_id == one
    assert len(ds.n) == 900
    ds.checkout(two)
    assert len(ds.n) == 1800


def test_a_commit_right_after_a_checkpoint_is_not_empty() -> None:
    """What is uncommitted may all lie in checkpoints."""
    ds = started(new_memory())
    publish(ds, 4)
    one = ds.commit("one")
    publish(ds, 4)
    with ds._session.mutex, ds._session.writing():
        pass  # somebody began to write, and gave it up
    ds._session.discard()
    assert checkpoints(ds) > 0
    assert not ds._session.snapshot.has_changes
    assert ds.has_head_changes
    two = ds.commit("two")
    assert [c["commit"] for c in ds.commits] == [two, one]


def test_a_branch_below_a_checkpoint_keeps_it() -> None:
    """A reset of the other branch would take away what it stands on: it is refused, and the dataset still opens."""
    storage = new_memory()
    ds = started(storage)
    ds.commit("one")
    publish(ds, 9)
    ds.checkout(checkpoints_of(ds)[0])
    ds.checkout("side", create=True)
    rows = len(ds.n)
    ds.checkout("main")
    with pytest.raises(InvalidInputError, match="branch 'side' begins on a version after it"):
        ds.reset()
    again = open_on(storage)
    assert len(again.n) == 900
    again.checkout("side")
    assert len(again.n) == rows > 0
    again.checkout("main")
    again.delete_branch("side")
    again.reset()
    assert len(again.n) == 0


def checkpoints_of(ds: lakebed.Dataset) -> list[str]:
    """The checkpoints of the branch, newest first."""
    tree = ds._session.tree
    return [i for i in tree.ancestors(tree.branches["main"]) if is_checkpoint(tree.commits[i])]


def work(ds: lakebed.Dataset) -> None:
    """Changes of every kind, published often."""
    publish(ds, 4)
    ds.commit("one")
    ds.info["about"] = "x"
    publish(ds, 3)
    ds.n[7] = -7
    ds.n[650] = -650
    ds.create_tensor("more", dtype="int32")
    publish(ds, 4)
    ds.n.pop(3)
    ds.label.pop(3)
    ds.flush()
    publish(ds, 4)
    ds.n.pop([0, 12, 500, 1400])
    ds.label.pop([0, 12, 500, 1400])
    ds.flush()
    ds.n[1] = -1
    ds.more.extend(np.arange(5, dtype="int32"))
    publish(ds, 4)
    ds.rename_tensor("label", "kind")
    ds.create_tensor("gone", dtype="int8")
    ds.flush()
    for _ in range(4):
        ds.n.extend(np.arange(100))
        ds.kind.extend([0] * 100)
        ds.flush()
    ds.delete_tensor("gone")
    ds.kind.info["a"] = 1
    ds.flush()


def plain(difference: dict[str, Any]) -> list[Any]:
    """A difference without ids and times."""
    return [
        [{k: v for k, v in entry.items() if k not in ("commit_id", "date")} for entry in difference[part]]
        for part in ("dataset", "tensor")
    ]


LOOKS: dict[str, Callable[[lakebed.Dataset], Any]] = {
    "head": lambda ds: plain(ds.diff(as_dict=True)),
    "modified": lambda ds: ds.n.modified_samples(return_indexes=True)[1],
    "info": lambda ds: (
        dict(ds.info),
        dict(ds.kind.info),
        ds.n.numpy().ravel().tolist(),
        ds.more.numpy().tolist(),
    ),
}


@pytest.mark.parametrize("look", LOOKS)
def test_differences_are_those_since_the_last_commit(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """diff() and modified_samples() tell what changed since the commit, whatever lies in checkpoints."""
    with_them = started(new_memory())
    work(with_them)
    assert checkpoints(with_them) > 3
    monkeypatch.setattr(config, "CHECKPOINT_CHUNKS", 10_000)
    without = started(new_memory())
    work(without)
    assert checkpoints(without) == 0
    assert LOOKS[look](with_them) == LOOKS[look](without)
    for ds in (with_them, without):
        ds.commit("two")
    two = [plain_pair(ds) for ds in (with_them, without)]
    assert two[0] == two[1]


def plain_pair(ds: lakebed.Dataset) -> Any:
    """The difference between the last two commits."""
    difference = ds.diff(ds.commits[1]["commit"], ds.commits[0]["commit"], as_dict=True)
    assert len(difference["dataset"][1]) == 1
    return [plain({name: pair[side] for name, pair in difference.items()}) for side in (0, 1)]


def test_reset_goes_back_to_the_last_commit() -> None:
    """Checkpoints are part of what is thrown away."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 4)
    ds.commit("one")
    before = checkpoints(ds)
    publish(ds, 12)
    assert checkpoints(ds) > before
    ds.reset()
    assert checkpoints(ds) == before
    assert len(ds.n) == 400
    assert not ds.has_head_changes
    publish(ds, 1)
    assert open_on(storage).n.numpy().ravel().tolist() == list(range(500))
    assert verify(storage, None, deep=True).is_sound


def test_branches_begin_at_commits() -> None:
    """A branch from a head with checkpoints commits first, like from any head with changes; merges work."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 8)
    ds.checkout("side", create=True)
    assert [c["message"] for c in ds.commits] == ["auto commit before checkout to side"]
    publish(ds, 8)
    ds.checkout("main")
    publish(ds, 8)
    ds.merge("side")
    assert len(ds.n) == 2400
    assert verify(storage, None, deep=True).is_sound


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_checkpoint_that_fails_costs_nothing(when: When) -> None:
    """Whether the swap of a checkpoint failed or only its answer was lost, the next attempt goes on."""
    storage = new_memory()
    publish(started(storage), 4)
    fault = Fault(when, methods={"put_if"}, keys="version*", error=refused)
    again = Fault(methods={"get", "get_tail", "stat"}, keys="version*", nth=None, error=refused)
    faulty = FaultyStorage(storage, None)
    ds = open_on(faulty)
    before = checkpoints(ds)
    faulty.schedule = Planned(fault, again)
    with pytest.raises((StorageError, CommitStateUnknown)):
        ds.n.append(400)
    faulty.schedule = None
    ds.n.append(400)
    ds.label.append("x")
    ds.commit(None)
    assert [c["message"] for c in ds.commits] == [None]
    assert checkpoints(ds) == before + 1
    assert open_on(storage).n.numpy().ravel().tolist() == list(range(401))
    assert verify(storage, None, deep=True).is_sound


@st.composite
def steps(draw: st.DrawFn) -> tuple[int, list[tuple[str, int]]]:
    """Rows at first, and changes by kind and place."""
    kinds = st.sampled_from(["add", "update", "pop", "split"])
    return draw(st.integers(0, 6)), draw(
        st.lists(st.tuples(kinds, st.integers(0, 30)), min_size=1, max_size=14)
    )


@given(steps())
def test_records_joined_are_those_of_one_version(given: tuple[int, list[tuple[str, int]]]) -> None:
    """Whatever is recorded in several versions, one after the other, reads as if it had been one."""
    rows, changes = given
    whole = CommitDiff(first=rows, last=rows)
    parts = [whole]
    for kind, place in changes:
        if kind == "split":
            parts.append(CommitDiff(first=rows, last=rows))
            continue
        row = place % rows if rows else None
        for at, diff in ((-1, whole), (0, parts[-1])):
            if kind == "add":
                new = diffs.with_added(diff, 1 + place % 3)
            elif row is None:
                new = diff
            elif kind == "update":
                new = diffs.with_updated(diff, [row])
            else:
                new = diffs.with_removed(diff, [row], None)
            if at:
                whole = new
            else:
                parts[-1] = new
        rows += (1 + place % 3) if kind == "add" else -(kind == "pop" and row is not None)
    found = parts[0]
    for part in parts[1:]:
        found = squash_diff(found, part)
    assert (found.first, found.last) == (whole.first, whole.last)
    assert sorted(found.updated) == sorted(whole.updated)
    assert sorted(found.deleted) == sorted(whole.deleted)
