"""`lakebed gc`: says what goes, what stays and why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["gc", *map(str, arguments)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A dataset with replaced heads."""
    ds = lakebed.empty(tmp_path / "d")
    ds.create_tensor("n", dtype="int64")
    for first in range(3):
        ds.n.extend(np.arange(first, first + 5))
        ds.flush()
    ds.close()
    return tmp_path / "d"


def files(root: Path) -> int:
    """Files below a folder, but not the lock files of `.lakebed`."""
    return sum(path.is_file() and path.suffix != ".lock" for path in root.rglob("*"))


def test_gc_removes_what_nobody_needs(root: Path) -> None:
    """A dry run says what a real one then removes."""
    before = files(root)
    dry = json.loads(run(root, "--dry-run", "--grace", "0s", "--json").output)
    assert dry["dry_run"] is True
    assert files(root) == before
    told = run(root, "--grace", 0)
    assert told.exit_code == 0
    assert f"removed {dry['files']} files" in told.output
    assert files(root) == before - dry["files"]
    assert len(lakebed.load(root, read_only=True).n) == 15
    assert "removed 0 files, 0 bytes" in run(root, "--grace", 0).output


def test_gc_keeps_what_is_young(root: Path) -> None:
    """Within the grace period everything stays, and the output says for how long."""
    before = files(root)
    told = run(root)
    assert "within the grace period" in told.output
    assert "removed 0 files" in told.output
    assert files(root) == before
    assert "removed 0 files" in run(root, "--grace", "1.5h").output
    kept = json.loads(run(root, "--grace", "2d", "--json").output)["kept"]
    assert len(kept) == 3
    assert {item["what"] for item in kept} == {"version"}


def test_gc_refuses_what_it_does_not_understand(root: Path, tmp_path: Path) -> None:
    """A grace period that is none, or an address without a dataset, is an error in one sentence."""
    assert "is no duration" in run(root, "--grace", "soon").output
    missing = run(tmp_path / "none")
    assert missing.exit_code == 1
    assert "does not exist" in missing.output
