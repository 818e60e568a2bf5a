"""`lakebed repair`: tells what it would do and what is lost, does it when told to, and says what remains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main
from lakebed.storage.local import LocalStorage
from unit_tests.lakebed.crash_states import State


def run(*arguments: Any) -> Result:
    """Run the command in this process."""
    result = CliRunner().invoke(main, ["repair", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset that 3.9.52 left when it was killed in an append."""
    memory, storage = State("append", 30).stored(), LocalStorage(tmp_path / "ds")
    storage.put_many(((key, memory.get(key)) for key, _ in memory.list()), durable=False)
    return tmp_path / "ds"


def test_the_plan_changes_nothing(path: Path) -> None:
    """It is what happens without a flag, too."""
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for flags in ([], ["--plan"]):
        result = run(path, *flags)
        assert result.exit_code == 0
        assert "LOST: branch 'main', version firstdbf9474, tensor 'number', row 5: cut off" in result.output
        assert f"{path}: " in result.output
        assert "--apply does it; 4 rows of tensors lost" in result.output
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_apply_does_it_once(path: Path) -> None:
    """And says which version is the head now."""
    with pytest.raises(lakebed.errors.DatasetCorruptError):
        lakebed.load(path, check_integrity=True)
    result = run(path, "--apply")
    assert result.exit_code == 0
    head = lakebed.load(path, read_only=True).pending_commit_id
    assert f"branch 'main' is now at version {head}" in result.output
    assert run(path, "--apply").output == f"{path}: nothing to repair\n"
    ds = lakebed.load(path, check_integrity=True)
    assert [len(tensor) for tensor in ds.tensors.values()] == [5, 5, 5, 5]


def test_json_for_programs(path: Path) -> None:
    """Dataset, tensor, rows, bytes, reason."""
    plan = json.loads(run(path, "--json").output)
    assert not plan["applied"]
    assert plan["lost_rows"] == 4
    step = next(step for step in plan["steps"] if step["tensor"] == "number")
    assert step["rows"] == [5, 5]
    assert step["kind"] == "rows"
    assert {"message", "lost_rows", "lost_bytes", "branch", "version"} <= step.keys()
    done = json.loads(run(path, "--apply", "--json").output)
    assert done["applied"]
    assert list(done["versions"]) == ["main"]


def test_what_remains_is_an_exit_status(tmp_path: Path) -> None:
    """Damage in a commit is told, and stays."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(np.arange(5))
    ds.commit("five")
    ds.close()
    (chunk,) = (tmp_path / "ds").glob("versions/*/x/chunks/*")
    chunk.unlink()
    result = run(tmp_path / "ds", "--apply")
    assert result.exit_code == 1
    assert "REMAINS: branch 'main', version" in result.output


def test_a_repair_is_of_the_whole_dataset(path: Path) -> None:
    """And of a dataset that is there."""
    assert "leave out @main" in run(f"{path}@main").output
    assert "does not exist" in run(path / "nothing").output
