"""Commits, branches, checkout, and replacing everything (API.md 2.2, 7)."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.documents.version_tree import FIRST
from lakebed.errors import LockedException
from lakebed.session import branches
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


@pytest.fixture
def ds(monkeypatch: pytest.MonkeyPatch) -> lakebed.Dataset:
    """One tensor, nothing committed."""
    monkeypatch.setenv("LAKEBED_AUTHOR", "ann")
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="int64")
    return ds


def rows(ds: lakebed.Dataset) -> list[int]:
    """Values of the tensor."""
    found: list[int] = ds.x.numpy().ravel().tolist()
    return found


class TestCommits:
    """Commits."""

    def test_a_commit_keeps_what_is_there(self, ds: lakebed.Dataset) -> None:
        """The id is returned, listed newest first, and opens that state for ever."""
        ds.x.extend([1, 2])
        first = ds.commit("one")
        ds.x.append(3)
        second = ds.commit("two")
        ds.x.append(4)
        assert re.fullmatch("[0-9a-f]{40}", first)
        assert [c["commit"] for c in ds.commits] == [second, first]
        assert [c["message"] for c in ds.commits] == ["two", "one"]
        assert {c["author"] for c in ds.commits} == {"ann"}
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", c["time"]) for c in ds.commits)
        assert (ds.commit_id, ds.pending_commit_id in (first, second)) == (second, False)
        assert ds.get_commit_details(first) == ds.commits[1]
        storage = ds._session.storage
        ds.flush()
        assert [rows(open_on(storage, v)) for v in (first, second, "main")] == [
            [1, 2],
            [1, 2, 3],
            [1, 2, 3, 4],
        ]
        with pytest.raises(KeyError):
            ds.get_commit_details("0" * 40)

    def test_before_the_first_commit(self, ds: lakebed.Dataset) -> None:
        """There is no commit id and no commit."""
        assert (ds.commit_id, ds.commits) == (None, [])

    def test_a_commit_without_changes(self, ds: lakebed.Dataset) -> None:
        """EmptyCommitError, unless allowed; the writer's lock is not kept either way."""
        ds.x.append(1)
        ds.commit("one")
        for _ in range(2):
            with pytest.raises(lakebed.EmptyCommitError, match="allow_empty"):
                ds.commit("nothing")
        other = open_on(ds._session.storage)
        other.x.append(2)
        other.flush()
        ds.commit("allowed", allow_empty=True)
        assert [c["message"] for c in ds.commits] == ["allowed", "one"]

    def test_a_commit_without_a_message(self, ds: lakebed.Dataset) -> None:
        """The message is None, as in 3.x."""
        ds.x.append(1)
        ds.commit()
        assert ds.commits[0]["message"] is None

    def test_what_counts_as_a_change(self, ds: lakebed.Dataset) -> None:
        """Rows, tensors, groups with tensors and infos do; a publish in between does not matter."""
        assert ds.has_head_changes
        ds.commit()
        assert not ds.has_head_changes
        for change in (
            lambda: ds.x.append(1),
            lambda: ds.info.update(a=1),
            lambda: ds.x.info.update(a=1),
            lambda: ds.create_tensor("g/y"),
        ):
            change()
            assert ds.has_head_changes
            ds.flush()
            assert ds.has_head_changes
            ds.commit()
            assert not ds.has_head_changes


class TestBranches:
    """Lines of history."""

    def test_a_branch_starts_where_one_is(self, ds: lakebed.Dataset) -> None:
        """It sees what was there, and what is written on it stays on it."""
        ds.x.append(1)
        base = ds.commit("base")
        assert ds.checkout("side", create=True) == base
        assert (ds.branch, set(ds.branches), ds.is_head_node) == ("side", {"main", "side"}, True)
        ds.x.append(2)
        ds.commit("on side")
        assert ds.checkout("main") == base
        assert (rows(ds), ds.branch) == ([1], "main")
        ds.x.append(3)
        ds.flush()
        storage = ds._session.storage
        assert [rows(open_on(storage, b)) for b in ("main", "side")] == [[1, 3], [1, 2]]
        assert [c["message"] for c in open_on(storage, "side").commits] == ["on side", "base"]

    def test_changes_are_committed_before_a_branch_starts(self, ds: lakebed.Dataset) -> None:
        """What was not committed yet belongs to both lines, under the message of 3.x."""
        ds.x.append(1)
        ds.checkout("side", create=True)
        assert [c["message"] for c in ds.commits] == ["auto commit before checkout to side"]
        assert rows(ds) == [1]
        ds.checkout("main")
        assert rows(ds) == [1]

    def test_changes_stay_on_the_branch_that_is_left(self, ds: lakebed.Dataset) -> None:
        """Checkout of another branch commits nothing, and loses nothing."""
        ds.x.append(1)
        base = ds.commit("base")
        ds.checkout("side", create=True)
        ds.x.append(2)
        ds.checkout("main")
        assert rows(ds) == [1]
        ds.checkout("side")
        assert (rows(ds), ds.has_head_changes) == ([1, 2], True)
        ds.checkout(base)
        assert [c["message"] for c in ds.commits] == ["base"]

    def test_names_that_are_not_there_or_taken(self, ds: lakebed.Dataset) -> None:
        """Unknown addresses and existing branches are CheckoutErrors; the dataset stays where it was."""
        ds.x.append(1)
        with pytest.raises(lakebed.CheckoutError, match="not found"):
            ds.checkout("nope")
        with pytest.raises(lakebed.CheckoutError, match="already exists"):
            ds.checkout("main", create=True)
        assert (ds.branch, rows(ds), ds.branches) == ("main", [1], ["main"])
        ds.x.append(2)
        assert rows(ds) == [1, 2]

    def test_old_commits_can_be_read_and_branched_from(self, ds: lakebed.Dataset) -> None:
        """A branch created at a commit goes on from it; so does a writer, on a branch of its own."""
        ds.x.append(1)
        first = ds.commit("one")
        ds.x.append(2)
        ds.commit("two")
        ds.checkout(first)
        assert (rows(ds), ds.is_head_node, ds.commit_id) == ([1], False, first)
        ds.x.append(9)
        assert re.fullmatch("auto_[0-9a-f]{40}", ds.branch)
        assert rows(ds) == [1, 9]
        ds.checkout(first)
        ds.checkout("from one", create=True)
        ds.x.append(3)
        assert rows(ds) == [1, 3]
        ds.checkout("main")
        assert rows(ds) == [1, 2]

    def test_a_dataset_whose_head_was_replaced_can_go_anywhere(self, ds: lakebed.Dataset) -> None:
        """Another writer's publishes in between do not confuse checkout, commits and branches."""
        ds.x.append(1)
        first = ds.commit("one")
        storage = ds._session.storage
        other = open_on(storage)
        other.x.append(2)
        other.commit("other")
        with pytest.raises(lakebed.CheckoutError):
            ds.checkout("nope")
        assert [c["message"] for c in ds.commits] == ["one"]
        ds.checkout("side", create=True)
        assert ds.branch == "side"
        ds.checkout("main")
        assert rows(ds) == [1, 2]
        ds.checkout(first)
        assert rows(ds) == [1]

    def test_tensors_follow_the_checkout_and_views_end(self, ds: lakebed.Dataset) -> None:
        """A tensor shows the version that is checked out now; a selection of rows was one of another version."""
        ds.x.extend([1, 2, 3])
        first = ds.commit()
        ds.x.append(4)
        tensor, view = ds.x, ds[1:]
        assert tensor.numpy().ravel().tolist() == [1, 2, 3, 4]
        ds.checkout(first)
        assert tensor.numpy().ravel().tolist() == [1, 2, 3]
        with pytest.raises(lakebed.errors.InvalidViewException):
            rows(view)
        assert rows(ds[1:]) == [2, 3]


class TestLog:
    """Printed history, laid out as in 3.x."""

    def test_layout(self, ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
        """The exact text that 3.9.52 prints, with ids, times and messages."""
        ds.x.append(1)
        first = ds.commit("first")
        ds.checkout("dev", create=True)
        ds.x.append(2)
        second = ds.commit()
        ds.log()
        head = "---------------\nDeep Lake Version Log\n---------------\n\nCurrent Branch: dev\n"
        times = [c["time"] for c in ds.commits]
        body = (
            f"\nCommit : {second} (dev) \nAuthor : ann\nTime   : {times[0]}\nMessage: None\n"
            f"\nCommit : {first} (main) \nAuthor : ann\nTime   : {times[1]}\nMessage: first\n\n"
        )
        assert capsys.readouterr().out == head + body
        ds.x.append(3)
        ds.log()
        assert capsys.readouterr().out == head + "** There are uncommitted changes on this branch.\n" + body


class TestOverwrite:
    """Replacing all content in one step."""

    def test_readers_see_the_old_rows_until_the_end(self, ds: lakebed.Dataset) -> None:
        """New content, with another schema, grows beside the old one and takes its place at once."""
        ds.x.extend([1, 2])
        ds.commit("old")
        storage = ds._session.storage
        side = ds.start_overwrite("next")
        side.create_tensor("x", dtype="float32")
        side.create_tensor("y", htype="text")
        side.extend({"x": [0.5], "y": ["new"]})
        side.info["made"] = "again"
        side.flush()
        assert rows(open_on(storage)) == [1, 2]
        ds.finish_overwrite("next")
        ds.commit("replaced")
        seen = open_on(storage)
        assert (seen.x.numpy().tolist(), seen.y.text(), dict(seen.info)) == (
            [[0.5]],
            ["new"],
            {"made": "again"},
        )
        assert seen.branches == ["main"]
        assert [c["message"] for c in seen.commits] == ["replaced", "old"]
        assert rows(open_on(storage, seen.commits[1]["commit"])) == [1, 2]
        seen.append({"x": 1.5, "y": "more"})
        seen.flush()
        assert open_on(storage).y.text() == ["new", "more"]

    def test_an_abandoned_attempt_is_dropped_or_resumed(self, ds: lakebed.Dataset) -> None:
        """What an earlier attempt published is continued on request, else gone."""
        ds.x.append(1)
        ds.flush()
        side = ds.start_overwrite("next")
        side.create_tensor("x", dtype="int64")
        side.x.append(7)
        side.flush()
        again = ds.start_overwrite("next", resume=True)
        assert rows(again) == [7]
        again.x.append(8)
        again.close()
        ds.finish_overwrite("next")
        assert rows(ds) == [7, 8]
        side = ds.start_overwrite("next")
        side.create_tensor("y")
        side.close()
        fresh = ds.start_overwrite("next")
        assert fresh.tensors == {}
        assert fresh.commits == []

    def test_unpublished_rows_of_the_side_branch_are_not_lost(self, ds: lakebed.Dataset) -> None:
        """Finishing publishes what the side dataset still holds."""
        ds.x.append(1)
        side = ds.start_overwrite("next")
        side.create_tensor("x", dtype="int64")
        side.x.append(5)
        ds.finish_overwrite("next")
        assert rows(open_on(ds._session.storage)) == [5]

    def test_impossible_targets(self, ds: lakebed.Dataset) -> None:
        """A branch cannot replace itself, nor an unknown one anything; nobody stays locked."""
        ds.x.append(1)
        with pytest.raises(lakebed.CheckoutError):
            ds.finish_overwrite("main")
        with pytest.raises(lakebed.CheckoutError):
            ds.finish_overwrite("nope")
        other = open_on(ds._session.storage)
        other.x.append(2)
        other.flush()
        assert rows(open_on(ds._session.storage)) == [1, 2]

    def test_rows_written_meanwhile_are_replaced(self, ds: lakebed.Dataset) -> None:
        """The new content is complete: rows that were added to the old one do not mix with it."""
        ds.x.append(1)
        side = ds.start_overwrite("next")
        side.create_tensor("x", dtype="int64")
        side.extend({"x": np.arange(3)})
        side.close()
        ds.x.append(2)
        ds.flush()
        ds.finish_overwrite("next")
        assert rows(ds) == [0, 1, 2]


def test_the_root_version_is_no_commit(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """The empty version at the root can be opened and is in no list."""
    ds.x.append(1)
    ds.commit("one")
    root = open_on(ds._session.storage, FIRST)
    assert (root.tensors, root.commits) == ({}, [])


def test_a_held_dataset_takes_the_lock_of_the_branch_it_goes_to() -> None:
    """Inside one ``with`` block: commit, branch off, commit there, and back; the old branch is free meanwhile."""
    storage = new_memory()
    with create_on(storage) as ds:
        ds.create_tensor("x", dtype="int64")
        ds.x.append(1)
        ds.commit("one")
        ds.checkout("side", create=True)
        ds.x.append(2)
        other = open_on(storage, "main")
        other.x.append(7)
        other.close()
        ds.commit("two")
        ds.checkout("main")
        assert rows(ds) == [1, 7]
    assert rows(open_on(storage, "side")) == [1, 2]


def test_a_commit_waits_for_another_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease of a ``with`` block ends with it: another writer may come between its rows and their commit."""
    ds = lakebed.empty(tmp_path / "shared")
    ds.create_tensor("x", dtype="int64")
    ds.commit()
    other = lakebed.load(tmp_path / "shared")
    with ds:
        ds.x.extend([1, 2, 3])
    begun, ends = threading.Event(), threading.Event()

    def write() -> None:
        with other:
            other.x.append(4)
            begun.set()
            ends.wait(30)

    monkeypatch.setattr(branches, "_PATIENCE", 0.05)
    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(30)
    with pytest.raises(LockedException, match="only the commit is missing"):
        ds.commit("mine")
    monkeypatch.setattr(branches, "_PATIENCE", 30.0)
    threading.Timer(0.2, ends.set).start()
    ds.commit("mine")
    writer.join()
    assert lakebed.load(tmp_path / "shared").x.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert ds.commits[0]["message"] == "mine"
