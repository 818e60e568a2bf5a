"""Addresses of versions and time travel, as users meet them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lakebed
from lakebed.dataset.display.printing import log_text
from lakebed.documents.version_tree import FIRST, CommitNode, VersionTree
from lakebed.maintenance.verify import verify
from lakebed.runtime import clock
from lakebed.storage.local import LocalStorage
from lakebed.testing.clock import VirtualClock
from unit_tests.lakebed.cli.test_cli import run
from unit_tests.lakebed.datasets import create_on, new_memory
from unit_tests.lakebed.history.history import HOUR, ids, rows, three_commits


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Three commits an hour apart, with as many rows, and an uncommitted fourth row."""
    return three_commits(tmp_path / "ds")


# -- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "count"),
    [("main", 4), ("HEAD", 4), ("HEAD~0", 4), ("HEAD~1", 3), ("HEAD~", 3), ("main~2", 2), ("main~3", 1)],
)
def test_opening_at_an_address(url: str, ref: str, count: int) -> None:
    """``HEAD~1`` is the last commit; the head itself has what is not committed, too."""
    ds = lakebed.load(f"{url}@{ref}")
    assert rows(ds) == count
    assert ds.is_head_node == (count == 4)


def test_head_is_the_branch_that_is_checked_out(url: str) -> None:
    """Not the main branch, once another one is checked out; also from an old commit of it."""
    ds = lakebed.load(f"{url}@HEAD~1")
    ds.checkout("side", create=True)
    ds.x.extend([10, 11])
    one = ds.commit("on the side")
    ds.x.append(12)
    assert ds.checkout("HEAD~1") == one
    assert (rows(ds), ds.branch, ds.is_head_node) == (5, "side", False)
    ds.checkout("HEAD")
    assert (rows(ds), ds.is_head_node) == (6, True)
    assert ds.get_commit_details("HEAD~2")["message"] == "commit 2"


@pytest.mark.parametrize("ref", ["HEAD~4", "main~99", "nobody", "nobody~1", "abcdef1"])
def test_addresses_of_nothing(url: str, ref: str) -> None:
    """The error names the address, and an open dataset stays where it is."""
    with pytest.raises(lakebed.CheckoutError, match=re.escape(ref)):
        lakebed.load(f"{url}@{ref}")
    ds = lakebed.load(url)
    with pytest.raises(lakebed.CheckoutError, match=re.escape(ref)):
        ds.checkout(ref)
    assert (rows(ds), ds.branch) == (4, "main")
    with pytest.raises(KeyError, match=re.escape(ref)):
        ds.get_commit_details(ref)


def test_details_of_what_is_not_committed(url: str) -> None:
    """As in Deep Lake 3.x: an entry of which only the id is known."""
    ds = lakebed.load(url)
    expected = {"commit": ds.pending_commit_id, "author": None, "time": None, "message": None}
    assert ds.get_commit_details(ds.pending_commit_id) == ds.get_commit_details("HEAD") == expected
    ds.x.append(5)
    pending = ds.pending_commit_id
    assert ds.get_commit_details(pending) == {**expected, "commit": pending}
    ds.flush()
    assert ds.get_commit_details(pending) == {**expected, "commit": pending}


# -- time travel ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "count"),
    [
        (1_000_000, 1),
        (1_000_000 + HOUR - 1, 1),
        (1_000_000 + HOUR, 2),
        (1_000_000 + 2 * HOUR + 0.5, 3),
        (4e9, 3),
        (datetime.fromtimestamp(1_000_000 + HOUR, UTC), 2),
        ("1970-01-12T13:46:40", 1),
        ("1970-01-12 15:46:39", 2),
        ("1970-01-12 15:46:40", 3),
        ("1970-01-12", 3),
    ],
    ids=repr,
)
def test_as_of_opens_the_newest_commit_of_that_time(url: str, moment: object, count: int) -> None:
    """What is not committed has no time, so the head is never meant."""
    ds = lakebed.load(url, as_of=moment)  # type: ignore[arg-type]
    assert rows(ds) == count
    assert not ds.is_head_node
    assert ds.commit_id == ids(url)[count - 1]


def test_as_of_the_printed_time(url: str) -> None:
    """The time that the log shows for a commit opens that commit."""
    for entry in lakebed.load(url).commits:
        assert lakebed.load(url, as_of=entry["time"]).commit_id == entry["commit"]


def test_as_of_goes_along_the_line_that_is_named(url: str) -> None:
    """A branch has its own past; a commit or tag limits it from above."""
    ds = lakebed.load(f"{url}@HEAD~2")
    with clock.replaced(VirtualClock(start=1_000_000 + 1.5 * HOUR)):
        ds.checkout("side", create=True)
        ds.x.extend([8, 9, 9])
        ds.commit("side")
    ds.create_tag("v1", "main~3")
    late = 1_000_000 + 9 * HOUR
    assert rows(lakebed.load(f"{url}@side", as_of=late)) == 5
    assert rows(lakebed.load(f"{url}@side", as_of=1_000_000 + HOUR)) == 2
    assert rows(lakebed.load(url, as_of=late)) == 3
    assert rows(lakebed.load(f"{url}@v1", as_of=late)) == 1


def test_before_the_first_commit_there_is_nothing(url: str) -> None:
    """The error says when the first one was."""
    with pytest.raises(
        lakebed.CheckoutError,
        match=r"1970-01-12 13:46:39 UTC there was no commit yet.*1970-01-12 13:46:40 UTC",
    ):
        lakebed.load(url, as_of=999_999)
    empty = create_on(new_memory())
    with pytest.raises(lakebed.CheckoutError, match="no commit yet on branch 'main'"):
        lakebed.load(empty.path, as_of=4e9)
    with pytest.raises(lakebed.InvalidInputError, match="time zone"):
        lakebed.load(url, as_of=datetime(2026, 1, 1))  # noqa: DTZ001


def test_writing_in_the_past_starts_a_branch(url: str) -> None:
    """History is not rewritten."""
    with lakebed.load(url, as_of=1_000_000) as ds:
        ds.x.append(5)
        assert ds.branch.startswith("auto_")
    assert rows(lakebed.load(url)) == 4
    with pytest.raises(lakebed.ReadOnlyModeError):
        lakebed.load(url, as_of=1_000_000, read_only=True).x.append(5)


# -- beside others -------------------------------------------------------------------------------------------------


def test_details_of_what_others_made_since(url: str) -> None:
    """A dataset that has been open for a while finds new commits and tags."""
    old = lakebed.load(url)
    ds = lakebed.load(url)
    new = ds.commit("new")
    ds.create_tag("fresh")
    assert old.get_commit_details(new)["message"] == old.get_commit_details("fresh")["message"] == "new"


def test_addresses_everywhere(url: str) -> None:
    """Differences, merges and changed rows take tags and ``~n`` as checkout does."""
    ds = lakebed.load(url)
    ds.create_tag("v1", "main~3")
    ids_, tags = (ds.diff(ids(url)[0], ids(url)[2], as_dict=True), ds.diff("v1", "HEAD~1", as_dict=True))
    assert ids_ == tags
    assert ds.x.modified_samples("v1", return_indexes=True)[1] == [1, 2, 3]
    one = json.loads(run("diff", url, "v1", "main~1", "--json").output)
    assert one["tensor"][1][0]["x"]["data_added"] == [2, 3]
    assert verify(LocalStorage(url), "v1").versions == 1


def test_merging_a_tag(tmp_path: Path) -> None:
    """A merge takes a tag like any other address."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x")
    ds.x.append(1)
    ds.commit()
    ds.checkout("side", create=True)
    ds.x.append(2)
    ds.commit()
    ds.create_tag("ready")
    ds.x.append(3)
    ds.commit()
    ds.checkout("main")
    ds.merge("ready")
    assert [row[0] for row in ds.x.numpy().tolist()] == [1, 2]


def test_a_branch_is_deleted_while_somebody_else_writes(url: str) -> None:
    """Whoever deletes a branch sees afterwards what others published on its own, and can go on."""
    ds = lakebed.load(url)
    ds.checkout("gone", create=True)
    ds.checkout("main")
    with lakebed.load(url) as other:
        other.x.append(4)
    ds.delete_branch("gone")
    assert (rows(ds), ds.is_head_node, ds.branches) == (5, True, ["main"])
    ds.x.append(5)
    ds.commit("went on")
    assert ds.commits[0]["message"] == "went on"


def test_infos_of_old_commits_stay(url: str) -> None:
    """As in Deep Lake 3.x, a change of an info starts no branch."""
    ds = lakebed.load(f"{url}@HEAD~1")
    for info in (ds.info, ds.x.info):
        with pytest.raises(lakebed.InfoError, match="Cannot modify info from a non-head commit"):
            info["k"] = 1
    assert (ds.branch, ds.branches) == ("main", ["main"])


# -- the first commit, and what the log says -----------------------------------------------------------------------


def test_before_the_first_commit_everything_is_new() -> None:
    """As in Deep Lake 3.x an empty dataset can be committed once, and a branch from it commits it first."""
    ds = create_on(new_memory())
    assert ds.has_head_changes
    ds.commit("empty")
    assert not ds.has_head_changes
    with pytest.raises(lakebed.EmptyCommitError):
        ds.commit("still empty")
    ds = create_on(new_memory())
    assert ds.checkout("side", create=True) == ds.commit_id
    assert [entry["message"] for entry in ds.commits] == ["auto commit before checkout to side"]


def test_the_log_counts_the_samples_of_a_transform() -> None:
    """Commits that a transform of 3.x made on its way say how far it was."""
    nodes = {
        FIRST: CommitNode(FIRST, "main", None, ("a",), "half", 1.0, "ann", is_checkpoint=True),
        "a": CommitNode("a", "main", FIRST, ("b",), "done\nat last", 2.0, "ann"),
        "b": CommitNode("b", "main", "a"),
    }
    assert log_text(VersionTree(nodes, {"main": "b"}), "b", "main", changed=True).splitlines()[5:] == [
        "** There are uncommitted changes on this branch.",
        "",
        "Commit : a (main) ",
        "Author : ann",
        "Time   : 1970-01-01 00:00:02",
        "Message: done",
        "at last",
        "",
        f"Commit : {FIRST} (main) ",
        "Author : ann",
        "Time   : 1970-01-01 00:00:01",
        "Message: half",
        "Total samples processed in transform: 0",
    ]


def test_what_is_done_to_all_versions_takes_no_address_of_one(url: str, tmp_path: Path) -> None:
    """Whoever means to remove a branch does not lose the dataset."""
    for act in (
        lambda: lakebed.delete(f"{url}@main"),
        lambda: lakebed.delete(f"{url}@main", force=True),
        lambda: lakebed.empty(f"{url}@main", overwrite=True),
        lambda: lakebed.dataset(f"{url}@main", overwrite=True),
        lambda: lakebed.exists(f"{url}@main"),
        lambda: lakebed.copy(url, f"{tmp_path}/copy@main", progressbar=False),
        lambda: lakebed.deepcopy(url, f"{tmp_path}/deep@main", progressbar=False),
        lambda: lakebed.like(f"{tmp_path}/like@main", url, overwrite=True),
    ):
        with pytest.raises(ValueError, match="@main is the address of a version"):
            act()
    assert lakebed.exists(url)
    assert lakebed.dataset(f"{url}@HEAD~1").commit_id == ids(url)[2]
    assert [path.name for path in tmp_path.iterdir()] == ["ds"]


def test_branches_with_a_slash_can_be_opened(url: str) -> None:
    """Their names stand behind the dataset like any other."""
    ds = lakebed.load(url)
    for name in ("feature/x", "a@b"):
        ds.checkout(name, create=True)
        assert lakebed.load(f"{url}@{name}", read_only=True).branch == name
        assert lakebed.load(f"{url}@{name}~1", read_only=True).commit_id == ds.commit_id


def test_a_lost_history_is_made_again(url: str) -> None:
    """`fix_vc` of 3.x: of a sound dataset it changes nothing, of one without its history it makes that again."""
    ds = lakebed.load(url)
    before = Path(url, "version_control_info.json").read_bytes()
    ds.fix_vc()
    assert Path(url, "version_control_info.json").read_bytes() == before
    Path(url, "version_control_info.json").write_bytes(before[: len(before) // 2])
    with pytest.raises(lakebed.DatasetCorruptError):
        lakebed.load(url)
    ds.fix_vc()
    assert [entry["message"] for entry in lakebed.load(url).commits] == [
        "commit 2",
        "commit 1",
        "commit 0",
    ]
    assert [entry["message"] for entry in ds.commits] == ["commit 2", "commit 1", "commit 0"]
    with pytest.raises(lakebed.ReadOnlyModeError):
        lakebed.load(url, read_only=True).fix_vc()
