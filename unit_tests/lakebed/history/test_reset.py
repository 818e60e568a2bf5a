"""Going back: reset, squash, and branches that are deleted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import CheckoutError, ReadOnlyModeError, VersionControlError


def values(ds: lakebed.Dataset, name: str = "x") -> list[int]:
    return [int(v) for v in ds[name].numpy().ravel()]


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    """Two commits on main: 1, then 1 and 2."""
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("x", dtype="int64")
    made.x.append(1)
    made.commit("one")
    made.x.append(2)
    made.commit("two")
    return made


def test_reset_drops_rows_infos_and_schema_since_the_last_commit(ds: lakebed.Dataset) -> None:
    """Published or not, everything goes back; history stays, and the next change works."""
    commits = ds.commits
    ds.x.append(3)
    ds.flush()
    ds.x[0] = 7
    ds.info["k"] = 1
    ds.create_tensor("y", dtype="int64")
    ds.reset()
    assert (values(ds), list(ds.tensors), dict(ds.info)) == ([1, 2], ["x"], {})
    assert not ds.has_head_changes
    assert ds.commits == commits
    again = lakebed.load(ds.path)
    assert values(again) == [1, 2]
    again.x.append(4)
    assert values(again) == [1, 2, 4]


def test_reset_before_the_first_commit_leaves_an_empty_dataset(tmp_path: Path) -> None:
    """There is nothing to go back to."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.x.append(1)
    ds.flush()
    ds.reset()
    assert not ds.tensors
    ds.create_tensor("x", dtype="int64")
    ds.x.append(5)
    assert values(ds) == [5]


def test_reset_without_changes_or_away_from_the_head_says_so(
    ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written then."""
    head = ds._session.snapshot.version_id
    ds.reset()
    assert capsys.readouterr().out == "There are no uncommitted changes on this branch.\n"
    assert ds._session.snapshot.version_id == head
    ds.checkout(ds.commits[-1]["commit"])
    ds.reset()
    assert capsys.readouterr().out == "You are not at the head node of the branch, cannot reset.\n"


def test_squash_keeps_every_value_and_one_commit(ds: lakebed.Dataset) -> None:
    """Uncommitted changes go into it, hidden companions stay in step, and what comes later builds on it."""
    ds.create_tensor("t", htype="text")
    ds.t.extend(["a", "b"])
    ds.x[0] = 10
    old = [c["commit"] for c in ds.commits]
    commit = ds.squash()
    assert [(c["commit"], c["message"]) for c in ds.commits] == [(commit, "Squashed commits")]
    for each in (ds, lakebed.load(ds.path), lakebed.load(f"{ds.path}@{commit}")):
        assert values(each) == [10, 2]
        assert each.t.data()["value"] == ["a", "b"]
    for gone in old:
        with pytest.raises(CheckoutError):
            ds.checkout(gone)
    ds.x.append(3)
    ds.t.append("c")
    ds.commit("later")
    assert [c["message"] for c in lakebed.load(ds.path).commits] == ["later", "Squashed commits"]
    assert values(lakebed.load(ds.path)) == [10, 2, 3]


def test_squash_refuses_what_would_lose_branches_or_tags(ds: lakebed.Dataset) -> None:
    """The error names them, and nothing changes."""
    ds.checkout("side", create=True)
    with pytest.raises(VersionControlError, match="'main'"):
        ds.squash()
    ds.checkout("main")
    with pytest.raises(VersionControlError, match="'side'"):
        ds.squash()
    ds.delete_branch("side")
    ds.create_tag("v1")
    with pytest.raises(VersionControlError, match="'v1'"):
        ds.squash()
    assert len(ds.commits) == 2


def test_a_branch_is_deleted_with_its_commits(ds: lakebed.Dataset) -> None:
    """Its name is free again, others are as before."""
    ds.checkout("side", create=True)
    ds.x.append(3)
    commit = ds.commit("three")
    ds.checkout("main")
    ds.delete_branch("side")
    assert ds.branches == ["main"]
    with pytest.raises(CheckoutError):
        ds.checkout(commit)
    ds.checkout("side", create=True)
    assert values(ds) == [1, 2]
    assert lakebed.load(ds.path).branches == ["main", "side"]


def test_branches_that_are_needed_are_not_deleted(ds: lakebed.Dataset) -> None:
    """Main, the one that is open, one with branches on it, one with a tag, and one that is not there."""
    ds.checkout("side", create=True)
    ds.x.append(3)
    commit = ds.commit("three")
    ds.checkout("sub", create=True)
    for name, reason in [
        ("main", "Cannot delete the main branch"),
        ("sub", "Cannot delete the currently checked out branch: sub"),
        ("side", "Cannot delete branch side because it has sub-branches"),
        ("nope", "Branch nope does not exist"),
    ]:
        with pytest.raises(VersionControlError, match=reason):
            ds.delete_branch(name)
    ds.checkout("main")
    ds.delete_branch("sub")
    ds.create_tag("keep", commit)
    with pytest.raises(VersionControlError, match="tags 'keep'"):
        ds.delete_branch("side")
    ds.delete_tag("keep")
    with pytest.raises(ReadOnlyModeError):
        lakebed.load(ds.path, read_only=True).delete_branch("side")
    ds.delete_branch("side")
    assert ds.branches == ["main"]


def test_a_merged_branch_is_deleted_only_by_force_and_what_was_merged_stays(ds: lakebed.Dataset) -> None:
    """Main goes on to read chunks that lie in the folders of the deleted branch."""
    ds.checkout("side", create=True)
    ds.x.extend(np.arange(100, 2_000_100))
    ds.commit("many")
    ds.checkout("main")
    ds.merge("side")
    with pytest.raises(VersionControlError, match="previously merged into main; force=True"):
        ds.delete_branch("side")
    ds.delete_branch("side", force=True)
    again = lakebed.load(ds.path)
    assert len(again) == 2_000_002
    assert int(again.x[-1].numpy().item()) == 2_000_099
    assert again.branches == ["main"]
