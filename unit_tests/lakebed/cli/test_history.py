"""`lakebed log`, `tag` and `branch`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakebed
from lakebed.runtime import clock
from lakebed.storage.local import LocalStorage
from lakebed.testing.clock import VirtualClock
from lakebed.versions.refs import REFS_KEY, record_merge
from unit_tests.lakebed.cli.test_cli import run
from unit_tests.lakebed.versions.test_graph import read


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits are by Ann."""
    monkeypatch.setenv("LAKEBED_AUTHOR", "ann")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two branches of which one was merged into the other, an hour between the commits, and a tag."""
    path = tmp_path / "lake"
    virtual = VirtualClock(start=1_000_000.0)
    with clock.replaced(virtual), lakebed.empty(path) as ds:

        def commit(message: str) -> str:
            virtual.advance(3600)
            return ds.commit(message)

        for name in ("x", "y"):
            ds.create_tensor(name, create_shape_tensor=False, create_id_tensor=False)
        ds.x.extend([1, 2, 3])
        first = commit("first\n\nin two parts")
        ds.checkout("side", create=True)
        ds.x.append(4)
        ds.info["source"] = "elsewhere"
        side = commit("on the side")
        ds.checkout("main")
        ds.x[0] = 9
        ds.rename_tensor("y", "z")
        commit("on main")
        ds.x.pop(0)
        merge = commit("merge")
        record_merge(LocalStorage(str(path)), merge, (side,))
        ds.create_tag("v1", first, "release")
        ds.delete_tensor("z")
        commit("\x1b[31mlast\a")
    return path


def commits(lake: Path) -> dict[str, str]:
    """Id of each commit by the first word of its message."""
    found = json.loads(run("log", lake, "--all", "--json").output)
    return {
        entry["message"].split("\n")[0].removeprefix("\x1b[31m").strip("\a"): entry["commit"]
        for entry in found
    }


# -- log -----------------------------------------------------------------------------------------------------------


def test_graph(lake: Path) -> None:
    """All branches, true merges, names and messages; control characters of others do not reach the terminal."""
    names = {message: commit[:12] for message, commit in commits(lake).items()}
    assert run("log", lake, "--graph").output.splitlines() == [
        f"*  {names['last']}  1970-01-12 18:46:40 UTC  ann  (HEAD, main)",
        "|      \\x1b[31mlast\\x07",
        f"*    {names['merge']}  1970-01-12 17:46:40 UTC  ann",
        "|\\       merge",
        f"* |  {names['on main']}  1970-01-12 16:46:40 UTC  ann",
        "| |      on main",
        f"| *  {names['on the side']}  1970-01-12 15:46:40 UTC  ann  (side)",
        "|/       on the side",
        f"*  {names['first']}  1970-01-12 14:46:40 UTC  ann  (tag: v1)",
        "       first",
        "",
        "       in two parts",
    ]


def test_graph_has_the_edges_of_the_history(lake: Path) -> None:
    """What is drawn is what the parents say."""
    found = json.loads(run("log", lake, "--all", "--json").output)
    edges = {(entry["commit"], parent) for entry in found for parent in entry["parents"]}
    drawn = [line[:3].rstrip() for line in run("log", lake, "--graph").output.splitlines()]
    assert len(edges) == 5
    assert read(drawn, [entry["commit"] for entry in found]) == edges


@pytest.mark.parametrize(
    ("address", "options", "messages"),
    [
        ("", [], ["last", "merge", "on main", "first"]),
        ("@side", [], ["on the side", "first"]),
        ("@main~3", [], ["on main", "first"]),
        ("@v1", [], ["first"]),
        ("", ["--all"], ["last", "merge", "on main", "on the side", "first"]),
        ("@side", ["--all"], ["last", "merge", "on main", "on the side", "first"]),
        ("@main~2", ["--graph"], ["merge", "on main", "on the side", "first"]),
        ("@side", ["--graph"], ["on the side", "first"]),
        ("", ["--as-of", "1970-01-12 16:50"], ["on main", "first"]),
        ("@side", ["--as-of", "1006000000"], ["on the side", "first"]),
        ("", ["-n", "2"], ["last", "merge"]),
        ("", ["-n", "0"], []),
        ("", ["--graph", "-n", "2", "--as-of", "1970-01-12T18:00"], ["merge", "on main"]),
    ],
)
def test_which_commits(lake: Path, address: str, options: list[str], messages: list[str]) -> None:
    """A line goes along first parents, a graph along all, and ``--all`` shows every branch."""
    known = {commit: message for message, commit in commits(lake).items()}
    found = json.loads(run("log", f"{lake}{address}", *options, "--json").output)
    assert [known[entry["commit"]] for entry in found] == messages


def test_stat(lake: Path) -> None:
    """What each commit did to which tensor, with numbers of rows."""
    text = run("log", lake, "--all", "--stat").output
    blocks = {block.split("\n")[1].strip(): block.split("\n")[2:] for block in text.split(" UTC  ann")[1:]}

    def shown(message: str) -> list[str]:
        return [line.strip() for line in blocks[message] if line.startswith("      ")]

    assert shown("\\x1b[31mlast\\x07") == ["z  deleted"]
    assert shown("merge") == ["x  -1 deleted"]
    assert shown("on main") == ["y -> z  renamed", "x       ~1 updated"]
    assert shown("on the side") == ["dataset  info updated", "x        +1 added"]
    assert shown("first") == ["x  created, +3 added", "y  created"]
    ds = lakebed.load(lake)
    ds.commit("nothing", allow_empty=True)
    assert "      nothing changed" in run("log", lake, "--stat", "-n", 1).output


def test_stat_reads_no_chunks(lake: Path) -> None:
    """Metadata alone tells what changed, even when the data is gone."""
    expected = json.loads(run("log", lake, "--stat", "--json").output)
    for chunk in lake.rglob("chunks/*"):
        chunk.unlink()
    assert json.loads(run("log", lake, "--stat", "--json").output) == expected
    added = {"created": True, "cleared": False, "transformed": False, "info_updated": False}
    counts = {**added, "added": 3, "updated": 0, "deleted": 0}
    assert expected[-1]["changes"]["tensors"]["x"] == counts


def test_json_has_what_the_graph_shows(lake: Path) -> None:
    """All parents, the branch, and the names; a later key is added, none changes."""
    ids = commits(lake)
    found = {entry["commit"]: entry for entry in json.loads(run("log", lake, "--all", "--json").output)}
    assert found[ids["merge"]] == {
        "commit": ids["merge"],
        "author": "ann",
        "time": "1970-01-12 17:46:40",
        "message": "merge",
        "branch": "main",
        "parents": [ids["on main"], ids["on the side"]],
        "names": [],
    }
    assert found[ids["last"]]["names"] == ["HEAD", "main"]
    assert found[ids["on the side"]]["names"] == ["side"]
    assert found[ids["first"]]["names"] == ["tag: v1"]


def test_damaged_tags_do_not_hide_the_history(lake: Path) -> None:
    """The log is there without merges and tags, and says why."""
    (lake / REFS_KEY).write_bytes(b"{}")
    text = run("log", lake).output
    assert text.startswith("Warning: ")
    assert "on main" in text
    assert json.loads(run("info", lake, "--json").output)["tags"] is None
    assert "\ntags" not in run("info", lake).output


# -- tag -----------------------------------------------------------------------------------------------------------


def test_tags(lake: Path) -> None:
    """Made, listed, shown and deleted from a shell."""
    ids = commits(lake)
    assert run("tag", lake, "v2", "-m", "the newest").output == f"v2 is {ids['last']}\n"
    assert run("tag", lake, "old", "HEAD~3").output == f"old is {ids['on main']}\n"
    assert run("tag", f"{lake}@side", "other").output == f"other is {ids['on the side']}\n"
    listed = json.loads(run("tag", lake, "--json").output)
    assert [(tag["name"], tag["commit"], tag["message"], tag["user"]) for tag in listed] == [
        ("old", ids["on main"], None, "ann"),
        ("other", ids["on the side"], None, "ann"),
        ("v1", ids["first"], "release", "ann"),
        ("v2", ids["last"], "the newest", "ann"),
    ]
    text = run("tag", lake).output.splitlines()
    assert text[0].split() == ["tag", "commit", "made", "by", "message"]
    assert text[-1].split()[:2] == ["v2", ids["last"][:12]]
    assert "tags old, other, v1, v2" in run("info", lake).output
    assert run("tag", lake, "-d", "v2").output == "deleted tag v2\n"
    assert list(json.loads(run("info", lake, "--json").output)["tags"]) == ["old", "other", "v1"]
    assert json.loads(run("head", f"{lake}@v1", "-n", 1, "--json").output) == [{"x": 1, "y": None}]


def test_no_tags(tmp_path: Path) -> None:
    """A dataset without tags says so."""
    lakebed.empty(tmp_path / "new").close()
    assert "no tags yet" in run("tag", tmp_path / "new").output
    assert json.loads(run("tag", tmp_path / "new", "--json").output) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["v1"], "there is already a tag 'v1'"),
        (["main"], "there is a branch 'main'"),
        (["a/b"], "not a name of a tag"),
        (["new", "nobody"], "Address nobody not found"),
        (["-d", "nobody"], "no tag 'nobody'; there are: v1"),
        (["-d"], "NAME"),
        (["-m", "why"], "NAME"),
        (["-d", "v1", "main"], "neither"),
    ],
)
def test_what_can_not_be_tagged(lake: Path, arguments: list[str], message: str) -> None:
    """Errors are one sentence."""
    result = run("tag", lake, *arguments, ok=False)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert list(lakebed.load(lake).tags) == ["v1"]


# -- branch --------------------------------------------------------------------------------------------------------


def test_branches(lake: Path) -> None:
    """Made at any address, listed with their last commits, and deleted."""
    ids = commits(lake)
    assert run("branch", f"{lake}@v1", "fix").output == f"branch fix begins at {ids['first']}\n"
    listed = json.loads(run("branch", f"{lake}@side", "--json").output)
    assert [(entry["branch"], entry["current"], entry["commit"]) for entry in listed] == [
        ("main", False, ids["last"]),
        ("side", True, ids["on the side"]),
        ("fix", False, ids["first"]),
    ]
    text = run("branch", lake).output.splitlines()
    assert text[2] == f"* main    {ids['last'][:12]}  1970-01-12 18:46:40 UTC  \\x1b[31mlast\\x07"
    assert text[4].endswith("first\\n\\nin two parts")
    assert run("branch", lake, "-d", "fix").output == "deleted branch fix\n"
    assert lakebed.load(lake).branches == ["main", "side"]
    assert "already exists" in run("branch", lake, "side", ok=False).output
    assert "there is a tag 'v1'" in run("branch", lake, "v1", ok=False).output
    assert "NAME" in run("branch", lake, "-d", ok=False).output
    assert "--delete" in run("branch", lake, "x", "--force", ok=False).output


def test_a_branch_takes_what_is_not_committed_with_it(lake: Path) -> None:
    """As a checkout does; from ``HEAD~1`` it starts at the last commit."""
    with lakebed.load(lake) as ds:
        ds.x.append(5)
    run("branch", f"{lake}@HEAD~1", "old")
    assert lakebed.load(lake).has_head_changes
    run("branch", lake, "new")
    assert not lakebed.load(lake).has_head_changes
    assert len(lakebed.load(f"{lake}@new").x) == len(lakebed.load(f"{lake}@old").x) + 1


def test_a_branch_before_the_first_commit(tmp_path: Path) -> None:
    """A branch without commits is listed, too."""
    lakebed.empty(tmp_path / "new").close()
    assert "no commits yet" in run("branch", tmp_path / "new").output
    assert "no commits yet" in run("log", tmp_path / "new", "--graph").output
