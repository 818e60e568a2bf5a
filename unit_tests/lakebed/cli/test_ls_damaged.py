"""`lakebed ls` over datasets of which some can not be opened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A sound dataset between two damaged ones."""
    for name in ("a", "b", "deep/c"):
        ds = lakebed.empty(tmp_path / name)
        ds.create_tensor("x", dtype="int8")
        ds.x.extend([1, 2, 3])
        ds.commit("first")
    (tmp_path / "a" / "version_control_info.json").write_text("{broken")
    for file in (tmp_path / "deep/c").rglob("dataset_meta.json"):
        file.write_bytes(b"\0" * 10)
    for file in (tmp_path / "deep/c").rglob(".lakebed/*"):
        file.unlink()
    return tmp_path


@pytest.mark.parametrize("where", ["", "file://"])
def test_a_damaged_dataset_is_a_line_among_others(lake: Path, where: str) -> None:
    """It says so and why; the sound ones are listed as ever, and the exit status tells."""
    result = CliRunner().invoke(main, ["ls", f"{where}{lake}"])
    assert result.exit_code == 1
    lines = {line.split()[0]: line for line in result.stdout.splitlines()[2:]}
    assert set(lines) == {"a", "b", "deep/c"}
    assert "damaged: version_control_info.json" in lines["a"]
    assert "damaged: " in lines["deep/c"]
    assert lines["b"].split()[1:4] == ["3", "1", "main"]
    assert not result.stderr


def test_programs_get_the_reason(lake: Path) -> None:
    """As JSON: nothing is known of a damaged dataset but the error."""
    found = {
        entry["path"]: entry
        for entry in json.loads(CliRunner().invoke(main, ["ls", str(lake), "--json"]).stdout)
    }
    assert found["b"]["error"] is None
    assert found["a"]["rows"] is None
    assert found["a"]["error"].startswith("damaged: version_control_info.json")


def test_a_sound_lake_ends_well(lake: Path) -> None:
    """Exit status 0 where all can be opened."""
    assert CliRunner().invoke(main, ["ls", str(lake / "b")]).exit_code == 0
