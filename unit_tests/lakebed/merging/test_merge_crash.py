"""A merge is one atomic step: whatever change is the last one before the end, all of it is there or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import StorageError
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions.refs import read_refs
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on, visible


def prepared(*, committed: bool) -> MemoryStorage:
    """Two lines with rows, changes, deletions and tensors of their own."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("t", htype="text")
    ds.extend({"n": np.arange(5), "t": list("abcde")})
    ds.commit("start")
    ds.checkout("b", create=True)
    ds.extend({"n": np.arange(4), "t": ["x"] * 3 + ["x" * 40_000]})  # a chunk of its own is worth naming
    ds.n[0] = 100
    ds.pop(3)
    ds.create_tensor("new", dtype="int8").extend([1, 2])
    if committed:
        ds.commit("there")
    else:
        ds.flush()
    ds.checkout("main")
    ds.append({"n": 7, "t": "seven"})
    ds.n[1] = 101
    ds.close()
    return storage


def branches(storage: MemoryStorage) -> dict[str, Any]:
    """What readers see of every branch."""
    names = open_on(storage, read_only=True).branches
    return {name: visible(open_on(storage, name, read_only=True)) for name in names}


def cut_off(start: MemoryStorage) -> Iterator[tuple[MemoryStorage, FaultyStorage]]:
    """Merge b, killed after 0, 2, 4, ... changes, until it comes to its end; tell what each left and had changed.

    In a soak after any number of changes.
    """
    for fail_after in range(0, 300, 1 if IS_SOAK else 2):
        storage = copy_of(start)
        faulty = FaultyStorage(storage, fail_after=fail_after)
        ds = open_on(faulty)
        try:
            ds.merge("b")
        except Crash:
            kill(storage)
        else:
            ds.close()
            return
        yield storage, faulty
    raise AssertionError("the merge never comes to its end")


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "with an auto commit"])
def test_a_crash_at_any_change_leaves_both_branches_as_before_or_merged(*, committed: bool) -> None:
    """Killed at a change: both branches are old or both are new, the graph too, and writing goes on."""
    start = prepared(committed=committed)
    old = branches(start)
    done = copy_of(start)
    open_on(done).merge("b")
    new = branches(done)
    assert new != old
    states = []
    for number, (storage, faulty) in enumerate(cut_off(start)):
        seen = branches(storage)
        assert seen in (old, new), f"after {faulty.changed[-3:]}"
        states.append(seen == new)
        if number % (1 if IS_SOAK else 5) == 0 or states[-2:] == [False, True]:
            goes_on(storage, merged=seen == new)
    assert len(states) > 8
    assert states == sorted(states)


@pytest.mark.parametrize("sealed", ["by a commit", "by the merge"])
def test_a_merge_of_an_empty_commit_that_is_cut_off_is_not_taken_for_made(sealed: str) -> None:
    """Nothing is to be written then but the history; it counts as merged if the history says so, not before."""
    start = new_memory()
    ds = create_on(start)
    ds.create_tensor("n", dtype="int64").append(1)
    ds.commit("start")
    ds.checkout("b", create=True)
    ds.commit("empty", allow_empty=True)
    ds.checkout("main")
    ds.commit("beside it", allow_empty=True)
    ds.close()
    states = []
    for storage, faulty in cut_off(start):
        ds = open_on(storage)
        before = len(ds.commits)
        states.append(before == 3)
        if sealed == "by a commit":
            ds.commit("afterwards", allow_empty=True)
        ds.merge("b")
        assert [c["message"].split()[0] for c in ds.commits].count("Merge") == 1, faulty.changed[-3:]
        ds.close()
    assert states == sorted(states)
    assert not states[0]


def goes_on(storage: MemoryStorage, *, merged: bool) -> None:
    """The next writer adds a row to both branches and merges, once."""
    for branch in ("b", "main"):
        ds = open_on(storage, branch)
        with ds:
            ds.n.append(4711)
            ds.t.append("afterwards")
        ds.commit("afterwards")
    ds.merge("b")
    seen = open_on(storage, read_only=True)
    assert len(seen.n) == len(seen.t) == 11
    assert seen.n[0].numpy().tolist() == [100]
    commits = {commit["commit"]: commit["message"] for commit in seen.commits}
    merges = read_refs(storage).merges
    assert sum(commit in merges for commit in commits) == 1 + merged


def test_a_merge_that_another_process_has_just_made_is_not_made_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever waits for the lock looks anew at what there is to merge."""
    storage = prepared(committed=True)
    one, other = open_on(storage), open_on(storage)
    assert len(other.commits) == 1
    one.merge("b")
    other.merge("b")
    assert "No merge needed" in capsys.readouterr().out
    assert [c["message"].split()[0] for c in lakebed.load(storage.url).commits] == ["Merge", "start"]


def rows(ds: lakebed.Dataset) -> list[int]:
    """The numbers in the tensor a."""
    found: list[int] = ds.a.numpy().ravel().tolist()
    return found


def test_a_merge_is_there_or_not_after_a_lost_answer() -> None:
    """If the storage fails in the middle, nothing half is left for the next change to publish."""
    start = new_memory()
    first = create_on(start)
    first.create_tensor("a", dtype="int64").extend([0, 1])
    first.checkout("b", create=True)
    first.a.append(2)
    first.commit("there")
    first.checkout("main")
    first.a.append(3)
    first.close()
    for lost in (False, True):
        for fail_after in range(60):
            storage = copy_of(start)
            faulty = FaultyStorage(
                storage, fail_after=fail_after, error=lambda: StorageError("full"), lost_answer=lost
            )
            ds = open_on(faulty)
            try:
                ds.merge("b")
            except StorageError:
                faulty.fail_after = None
                seen = rows(open_on(storage, read_only=True))
                assert seen in ([0, 1, 3], [0, 1, 3, 2])
                ds.a.append(9)
                ds.flush()
                assert rows(open_on(storage, read_only=True)) == [*seen, 9]
                ds.merge("b")
                assert sorted(rows(ds)) == [0, 1, 2, 3, 9]
            else:
                break
        assert fail_after > 5
