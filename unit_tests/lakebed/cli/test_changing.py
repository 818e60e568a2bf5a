"""`lakebed commit`, `merge`, `rename` and `delete`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from unit_tests.lakebed.cli.test_cli import run


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Two branches that changed the same row, and a change that is not committed."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("g/y", htype="text")
    ds.extend({"x": [1, 2], "g/y": ["a", "b"]})
    ds.commit("first")
    ds.checkout("side", create=True)
    ds.x[0] = 9
    ds.append({"x": 3, "g/y": "c"})
    ds.commit("nine")
    ds.checkout("main")
    ds.x[0] = 7
    ds.close()
    return tmp_path / "lake"


def messages(lake: Path, ref: str = "") -> list[str]:
    return [commit["message"] for commit in lakebed.load(f"{lake}{ref}", read_only=True).commits]


def test_commit(lake: Path) -> None:
    made = json.loads(run("commit", lake, "-m", "seven", "--json").output)
    assert made == {"branch": "main", "commit": lakebed.load(lake, read_only=True).commit_id}
    assert messages(lake) == ["seven", "first"]
    again = run("commit", lake, ok=False)
    assert again.exit_code == 1
    assert "--allow-empty" in again.output
    assert "on side" in run("commit", f"{lake}@side", "-m", "nothing", "--allow-empty").output
    assert messages(lake, "@side")[0] == "nothing"


def test_merge(lake: Path) -> None:
    """A conflict changes nothing, and says how to go on; what was merged is no second commit."""
    run("commit", lake, "-m", "seven")
    refused = run("merge", lake, "side", ok=False)
    assert refused.exit_code == 1
    assert "--conflict ours" in refused.output
    assert len(messages(lake)) == 2
    assert json.loads(run("merge", lake, "side", "--conflict", "theirs", "--json").output)["rows"] == 3
    assert lakebed.load(lake, read_only=True).x.numpy().ravel().tolist() == [9, 2, 3]
    count = len(messages(lake))
    assert run("merge", lake, "side").output == "main has all of side already\n"
    assert len(messages(lake)) == count


def test_rename(lake: Path) -> None:
    """Of a tensor and of a group, on the branch of the address alone."""
    run("rename", f"{lake}@side", "x", "z")
    assert "not committed" in run("rename", f"{lake}@side", "g", "h").output
    assert set(lakebed.load(f"{lake}@side", read_only=True).tensors) == {"z", "h/y"}
    assert set(lakebed.load(lake, read_only=True).tensors) == {"x", "g/y"}
    assert "does not exist" in run("rename", lake, "nothing", "z", ok=False).output


def test_delete_asks(lake: Path) -> None:
    """Without an answer, and with no, everything stays; a version cannot go alone."""
    for answer in ("", "n\n"):
        asked = CliRunner().invoke(main, ["delete", str(lake)], input=answer)
        assert asked.exit_code == 1
        assert "with 2 rows, 1 commits, 2 branches?" in asked.output
        assert lakebed.exists(lake)
    assert run("delete", f"{lake}@side", "--yes", ok=False).exit_code == 2
    assert run("delete", f"{lake}[0:1]", "--yes", ok=False).exit_code == 1
    assert lakebed.exists(lake)
    done = CliRunner().invoke(main, ["delete", str(lake)], input="y\n")
    assert done.exit_code == 0
    assert not lake.exists()
    assert run("delete", lake, "--yes", ok=False).exit_code == 1


def test_delete_of_tensors(lake: Path) -> None:
    """Earlier commits keep them; a name that is wrong leaves all in place."""
    assert "'nothing'" in run("delete", lake, "-t", "x", "-t", "nothing", "--yes", ok=False).output
    assert set(lakebed.load(lake, read_only=True).tensors) == {"x", "g/y"}
    assert json.loads(run("delete", lake, "-t", "g", "--yes", "--json").output) == {"deleted": ["g"]}
    assert set(lakebed.load(lake, read_only=True).tensors) == {"x"}
    assert set(lakebed.load(f"{lake}@HEAD~1", read_only=True).tensors) == {"x", "g/y"}


def test_delete_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    refused = run("delete", tmp_path / "folder", "--yes", ok=False)
    assert refused.exit_code == 1
    assert (tmp_path / "folder/file").exists()
    run("delete", tmp_path / "folder", "--yes", "--force")
    assert not (tmp_path / "folder").exists()


def test_while_another_program_writes_nothing_is_changed(lake: Path) -> None:
    code = "import sys, lakebed; ds = lakebed.load(sys.argv[1]); ds.x.append(5); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lake)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        for command in (["commit"], ["merge", "side"], ["rename", "x", "z"], ["delete", "--yes"]):
            done = run(command[0], lake, *command[1:], ok=False)
            assert done.exit_code == 1
            assert "locked for writing" in done.output
        writer.communicate()
    assert writer.returncode == 0
    assert len(lakebed.load(lake, read_only=True).x) == 3
