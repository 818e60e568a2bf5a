"""`lakebed diff`, run in this process by click's own runner."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main


@pytest.fixture
def lake(tmp_path: Path) -> tuple[Path, str]:
    """A dataset with a commit and a changed head, and the commit's id."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a").extend([1, 2, 3])
    base = ds.commit("base")
    ds.a[[2, 0]] = [[5], [6]]
    ds.create_tensor("b")
    ds.close()
    return tmp_path / "ds", base


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["diff", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_diff_for_people(lake: tuple[Path, str]) -> None:
    """What `Dataset.diff` prints, without colours where they would not be seen."""
    path, base = lake
    text = run(path)
    assert "Diff in HEAD relative to the previous commit:\n\n***" in text
    assert "a\n* Updated 2 samples: [0, 2]\n\nb\n* Created tensor\n\n---" in text
    assert "\x1b" not in text
    assert f"Diff in {base} (target id):\n\nNo changes were made." in run(path, base)
    assert "Diff in main (target id 2):" in run(path, base, "main")
    assert f"Diff in {base} (current commit) relative" in run(f"{path}@{base}")


def test_diff_for_programs(lake: tuple[Path, str]) -> None:
    """The dictionary as JSON: sets are ascending lists, pairs are lists."""
    path, base = lake
    (entry,) = json.loads(run(path, "--json"))["tensor"]
    assert entry["a"]["data_updated"] == [0, 2]
    assert entry["b"]["created"] is True
    left, right = json.loads(run(path, base, "main", "--json"))["dataset"]
    assert (left, len(right), right[0]["renamed"]) == ([], 1, {})


def test_unknown_versions_are_one_sentence(lake: tuple[Path, str]) -> None:
    """No traceback, exit code 1."""
    text = run(lake[0], "nope", code=1)
    assert text.startswith("Error: The commit/branch nope does not exist")
    assert "Traceback" not in text
