"""`lakebed du`: bytes by tensor, branch and version, counted from the files that are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main


def run(*arguments: Any) -> str:
    """Run `lakebed du`."""
    result = CliRunner().invoke(main, ["du", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """80 kB that two branches need, 40 kB that one does, and 40 kB that a commit has and no branch needs."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="uint8", create_id_tensor=False, create_shape_tensor=False)
    ds.create_tensor("y", dtype="uint8")
    noise = np.random.default_rng(0).integers(0, 255, (5, 40_000), np.uint8)
    ds.x.append(noise[0])
    ds.y.append(noise[1])
    ds.commit("both")
    ds.y[0] = noise[2]
    ds.commit("y is another")
    ds.checkout("side", create=True)
    ds.x.append(noise[3])
    ds.commit("on the side")
    ds.close()
    return tmp_path / "ds"


def test_every_byte_is_told_once(lake: Path) -> None:
    """Tensors, versions and the whole add up to the files; what a branch needs counts for each that needs it."""
    found = json.loads(run(lake, "--json"))
    files = [path for path in lake.rglob("*") if path.is_file() and path.suffix != ".lock"]
    chunks = [path for path in files if path.parent.name == "chunks"]
    assert found["data"] == {"bytes": sum(p.stat().st_size for p in chunks), "files": len(chunks)}
    total = found["data"]["bytes"] + found["metadata"]["bytes"]
    assert total == sum(path.stat().st_size for path in files)
    for what in ("data", "metadata"):
        assert sum(one[what]["bytes"] for one in found["versions"].values()) == found[what]["bytes"]
    assert sum(one["all"]["bytes"] for one in found["tensors"].values()) == found["data"]["bytes"]
    kilobytes = {
        name: (one["now"]["bytes"] // 40_000, one["all"]["bytes"] // 40_000)
        for name, one in found["tensors"].items()
        if not one["hidden"]
    }
    # The tail chunk that grew on the side is written there as a whole: 40 kB once more.
    assert kilobytes["x"][0] == 1
    assert kilobytes["y"] == (1, 2)
    main_, side = found["branches"]["main"], found["branches"]["side"]
    assert main_["needed"]["bytes"] // 40_000 == 2
    assert side["needed"]["bytes"] // 40_000 == 3
    assert main_["shared"] == side["shared"]
    messages = {one["message"]: one["data"]["bytes"] // 40_000 for one in found["versions"].values()}
    assert (messages["both"], messages["y is another"]) == (2, 1)


def test_a_version_is_chosen_by_its_address(lake: Path) -> None:
    """`URL@branch` and `URL@commit` tell of the tensors there."""
    side = json.loads(run(f"{lake}@side", "--json"))
    assert side["branch"] == "side"
    assert side["tensors"]["x"]["now"]["bytes"] // 40_000 == 2
    text = run(f"{lake}@side")
    assert "on side" in text.splitlines()[0]
    assert "on the side" in text


def test_garbage_is_told(lake: Path) -> None:
    """What nothing needs, as `lakebed gc` would find it; it tells and removes nothing."""
    stray = lake / "versions" / ("f" * 40) / "x" / "chunks" / "0123456789abcdef"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"x" * 5_000)
    before = sorted(lake.rglob("*"))
    found = json.loads(run(lake, "--json"))
    assert found["unreferenced"]["bytes"] >= 5_000
    assert found["versions"]["f" * 40]["branch"] is None
    assert "which `lakebed gc` removes" in run(lake)
    assert sorted(lake.rglob("*")) == before
