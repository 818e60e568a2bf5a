"""`lakebed head` of a dataset of which a sample can not be read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main

WHY = "damaged: tensor 'photo', row 1: "


@pytest.fixture
def url(tmp_path: Path) -> Path:
    """Three pictures in chunks of their own, and names; a byte of the second picture is another one."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("photo", htype="image", sample_compression="png", max_chunk_size=2_000)
    ds.create_tensor("name", htype="text")
    for i in range(3):
        pixels = np.random.default_rng(i).integers(0, 255, (40, 40, 3), np.uint8)
        ds.append({"photo": pixels, "name": f"name {i}"})
    ds.close()
    second = lakebed.load(tmp_path / "ds").photo[1].tobytes()[1_000:1_100]
    for chunk in (tmp_path / "ds").rglob("photo/chunks/*"):
        content = bytearray(chunk.read_bytes())
        if (at := content.find(second)) >= 0:
            content[at] ^= 0xFF
            chunk.write_bytes(content)
    return tmp_path / "ds"


def head(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["head", *map(str, arguments)])


@pytest.mark.parametrize("how", [[], ["--vertical"]])
def test_a_damaged_sample_costs_its_cell(url: Path, how: list[str]) -> None:
    """The others are shown as ever; where and why is said on standard error, and the exit status is 1."""
    result = head(url, *how)
    assert result.exit_code == 1
    assert result.stdout.count("damaged: ") == 1
    assert result.stdout.count("png 40x40x3") == 2
    assert all(f"name {i}" in result.stdout for i in range(3))
    assert result.stderr.count(WHY) == 1
    assert "checksum is wrong" in result.stderr


@pytest.mark.parametrize("how", ["--json", "--jsonl"])
def test_programs_get_null_for_it(url: Path, how: str) -> None:
    """A document that is whole."""
    result = head(url, how)
    assert result.exit_code == 1
    rows = json.loads(result.stdout) if how == "--json" else list(map(json.loads, result.stdout.splitlines()))
    assert [row["photo"] is None for row in rows] == [False, True, False]
    assert [row["name"] for row in rows] == ["name 0", "name 1", "name 2"]
    assert WHY in result.stderr


def test_no_file_is_left_of_it(url: Path, tmp_path: Path) -> None:
    """--images writes the others."""
    result = head(url, "--images", tmp_path / "out")
    assert result.exit_code == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "photo-000000.png",
        "photo-000002.png",
    ]
    assert WHY in result.stderr


def test_tensors_without_damage_end_well(url: Path) -> None:
    """Only what is shown is read."""
    result = head(url, "-t", "name")
    assert (result.exit_code, result.stderr) == (0, "")
