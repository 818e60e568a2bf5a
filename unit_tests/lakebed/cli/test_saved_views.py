"""`lakebed views`: saved views are listed, deleted, and made datasets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["views", *map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(np.arange(6))
    ds.commit()
    ds[[4, 1]].save_view(id="two", message="of six")
    ds[2:5].save_view(id="three", optimize=True, verbose=False)
    ds.close()
    return tmp_path / "ds"


def test_list(path: Path, tmp_path: Path) -> None:
    lines = run(path).stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["view", "-" * 5, "two", "three"]
    assert "row numbers" in lines[2]
    assert lines[2].endswith("of six")
    assert "copied" in lines[3]
    assert [entry["id"] for entry in json.loads(run(path, "--json").stdout)] == ["two", "three"]
    lakebed.empty(tmp_path / "none").close()
    assert "no views yet" in run(tmp_path / "none").stderr


def test_delete(path: Path) -> None:
    assert run(path, "--delete", "two").stdout == "deleted view two\n"
    assert [entry.id for entry in lakebed.load(path).get_views()] == ["three"]
    again = run(path, "-d", "two")
    assert again.exit_code != 0
    assert "there is no view 'two'; views: three" in again.stderr


def test_materialize(path: Path, tmp_path: Path) -> None:
    """In the order of the view; not over something else."""
    out = tmp_path / "out"
    assert run(path, "--materialize", "two", out).stdout == f"{out}: 2 rows of view two, 1 tensors\n"
    assert np.ravel(lakebed.load(out).x.numpy()).tolist() == [4, 1]
    assert run(path, "--materialize", "three", out).exit_code != 0
    told = json.loads(run(path, "--materialize", "three", out, "--overwrite", "--json").stdout)
    assert told == {"view": "three", "path": str(out), "rows": 3, "tensors": 1}
    assert np.ravel(lakebed.load(out).x.numpy()).tolist() == [2, 3, 4]


@pytest.mark.parametrize("wrong", [["-d", "two", "--materialize", "two", "out"], ["--overwrite"]])
def test_options_that_do_not_go_together(path: Path, wrong: list[str]) -> None:
    assert run(path, *wrong).exit_code == 2
