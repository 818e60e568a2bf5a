"""`lakebed backup`, `backups` and `restore`: from a shell, as cron and people call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset with a commit."""
    ds = lakebed.empty(tmp_path / "d")
    ds.create_tensor("n", dtype="int64").extend([1, 2])
    ds.commit("first")
    ds.close()
    return tmp_path / "d"


def test_a_day_of_it(root: Path, tmp_path: Path) -> None:
    """Back up, append, back up, list, verify, restore the newest and the first."""
    done = run("backup", root, tmp_path / "b", "--keep-daily", 7, "--keep-weekly", 4)
    assert done.exit_code == 0, done.output
    assert "of 1 commits" in done.output
    with lakebed.load(root) as ds:
        ds.n.append(3)
    # Both are of one day: the newest stays.
    told = json.loads(run("backup", root, tmp_path / "b", "--keep-last", 2, "--json").output)
    assert 0 < told["added_files"] < told["files"]
    listed = json.loads(run("backups", tmp_path / "b", "--json").output)
    assert [len(listed), listed[1]["id"]] == [2, told["id"]]
    text = run("backups", tmp_path / "b").output.splitlines()
    assert len(text) == 2
    assert text[1].startswith(told["id"])
    verified = run("backups", tmp_path / "b", "--verify")
    assert verified.exit_code == 0
    assert "no damage in 2 backups" in verified.output
    assert "1 tensors, 3 rows" in run("restore", tmp_path / "b", tmp_path / "new").output
    older = run("restore", tmp_path / "b", tmp_path / "old", "--at", listed[0]["id"][:8], "--json")
    assert json.loads(older.output)["tensors"] == ["n"]
    assert len(lakebed.load(tmp_path / "old").n) == 2
    again = run("restore", tmp_path / "b", tmp_path / "old")
    assert again.exit_code == 1
    assert "already exists" in again.output
    assert (
        run("restore", tmp_path / "b", tmp_path / "old", "--overwrite", "--at", "2199-01-01").exit_code == 0
    )
    assert len(lakebed.load(tmp_path / "old").n) == 3
    assert run("restore", tmp_path / "b", tmp_path / "x", "--at", "999999999").exit_code == 1


def test_the_rule(root: Path, tmp_path: Path) -> None:
    """Only the newest of a day stays with --keep-daily; without a rule all do."""
    for _ in range(3):
        assert run("backup", root, tmp_path / "b").exit_code == 0
    assert len(lakebed.backups(tmp_path / "b")) == 3
    assert run("backup", root, tmp_path / "b", "--keep-daily", 1).exit_code == 0
    assert len(lakebed.backups(tmp_path / "b")) == 1
    assert run("backup", root, tmp_path / "b", "--keep-daily", -1).exit_code == 2


def test_damage(root: Path, tmp_path: Path) -> None:
    """Status 1, and names, whether the dataset or a backup is damaged."""
    assert run("backup", root, tmp_path / "b").exit_code == 0
    chunk = next(path for path in root.rglob("n/chunks/*"))
    data = chunk.read_bytes()
    chunk.write_bytes(data[:-1] + b"?")
    done = run("backup", root, tmp_path / "b")
    assert done.exit_code == 1
    assert "n/chunks/" in done.output
    kept = run("backup", root, tmp_path / "b", "--keep-damaged")
    assert kept.exit_code == 1
    assert "DAMAGED: 1 files" in kept.output
    assert "1 damaged" in run("backups", tmp_path / "b").output
    chunk.write_bytes(data)
    for content in (tmp_path / "b" / "objects").rglob("*"):
        if content.is_file() and content.read_bytes() == data:
            content.write_bytes(data[:-1] + b"!")
    found = run("backups", tmp_path / "b", "--verify")
    assert found.exit_code == 1
    assert "n/chunks/" in found.output
    told = json.loads(run("backups", tmp_path / "b", "--verify", "--json").output)
    assert not told["sound"]
    assert told["damage"][0]["key"]
    lost = run("restore", tmp_path / "b", tmp_path / "new", "--at", lakebed.backups(tmp_path / "b")[0].id)
    assert lost.exit_code == 1
    assert "n/chunks/" in lost.output
    assert run("backup", root, tmp_path / "b", "--verify").exit_code == 0
    assert run("restore", tmp_path / "b", tmp_path / "mended").exit_code == 0


def test_what_is_not_there(root: Path, tmp_path: Path) -> None:
    """One sentence, no traceback."""
    for arguments in (("backup", tmp_path / "no", tmp_path / "b"), ("backups", tmp_path / "b")):
        found = run(*arguments)
        assert found.exit_code == 1
        assert found.output.startswith("Error: ")
    assert not (tmp_path / "b").exists()
    assert run("restore", root, tmp_path / "new").exit_code == 1
    other = lakebed.empty(tmp_path / "other")
    other.create_tensor("m")
    other.close()
    run("backup", root, tmp_path / "b")
    assert "--moved" in run("backup", tmp_path / "other", tmp_path / "b").output
    assert run("backup", tmp_path / "other", tmp_path / "b", "--moved").exit_code == 0
