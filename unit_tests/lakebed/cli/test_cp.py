"""`lakebed cp`: a dataset to another place, with or without its history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["cp", *map(str, arguments)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset with two commits and a branch."""
    ds = lakebed.empty(tmp_path / "d")
    for name in ("n", "g/m"):
        ds.create_tensor(name, dtype="int64").extend([1, 2])
    ds.commit("first")
    ds.append({"n": 3, "g/m": 3})
    ds.commit("second")
    ds.checkout("side", create=True)
    ds.close()
    return tmp_path / "d"


def test_everything(root: Path, tmp_path: Path) -> None:
    """History and branches; a second time there is something in the way."""
    done = run(root, tmp_path / "e")
    assert done.exit_code == 0
    assert "2 tensors, 3 rows, 2 commits on main" in done.output
    assert sorted(lakebed.load(tmp_path / "e").branches) == ["main", "side"]
    again = run(root, tmp_path / "e")
    assert again.exit_code == 1
    assert "already exists" in again.output
    assert run(root, tmp_path / "e", "--overwrite", "-t", "g").exit_code == 0
    assert list(lakebed.load(tmp_path / "e").tensors) == ["g/m"]


def test_one_version(root: Path, tmp_path: Path) -> None:
    """What it holds, without the history; an address of a version means nothing else."""
    first = lakebed.load(root).commits[-1]["commit"]
    done = run(f"{root}@{first}", tmp_path / "e", "--flat", "--json", "-t", "n")
    assert done.exit_code == 0
    assert json.loads(done.output)["tensors"] == ["n"]
    assert lakebed.load(tmp_path / "e").n.numpy().ravel().tolist() == [1, 2]
    wrong = run(f"{root}@{first}", tmp_path / "f")
    assert wrong.exit_code == 2
    assert "--flat" in wrong.output


def test_no_dataset(tmp_path: Path) -> None:
    """One sentence."""
    done = run(tmp_path / "none", tmp_path / "e")
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
    assert not (tmp_path / "e").exists()
