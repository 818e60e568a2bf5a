"""`lakebed.verify`, `lakebed.repair` and `lakebed.ls`: what the commands of these names tell, for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebed


def made(path: Path) -> Path:
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64")
    ds.extend({"x": [1, 2, 3]})
    ds.commit("first")
    ds.append({"x": 4})
    ds.close()
    return path


def damage(path: Path) -> None:
    """Flip a bit of the newest chunk."""
    chunk = max((p for p in path.rglob("x/chunks/*") if p.is_file()), key=lambda p: p.stat().st_mtime_ns)
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(bytes(data))


def test_damage_is_found_and_repaired(tmp_path: Path) -> None:
    path = made(tmp_path / "ds")
    assert lakebed.verify(path, deep=True).is_sound
    assert not lakebed.repair(path).is_needed

    damage(path)

    found = lakebed.verify(path)
    assert not found.is_sound
    assert found.damage[0].tensor == "x"
    plan = lakebed.repair(path)
    assert plan.is_needed
    assert not plan.applied
    assert not lakebed.verify(path).is_sound, "without apply nothing is written"
    done = lakebed.repair(path, apply=True)
    assert done.applied
    assert done.lost_rows == plan.lost_rows > 0
    assert lakebed.verify(f"{path}@main").is_sound


def test_one_version_is_verified_by_its_address(tmp_path: Path) -> None:
    path = made(tmp_path / "ds")
    assert lakebed.verify(f"{path}@main").versions < lakebed.verify(path).versions + 1
    with pytest.raises(lakebed.CheckoutError):
        lakebed.verify(f"{path}@nowhere")
    with pytest.raises(lakebed.InvalidInputError, match="leave out @main"):
        lakebed.repair(f"{path}@main")
    with pytest.raises(lakebed.DatasetHandlerError):
        lakebed.verify(tmp_path / "nothing")


def test_datasets_below_a_folder_are_listed(tmp_path: Path) -> None:
    made(tmp_path / "a@b" / "one")
    made(tmp_path / "two")
    (tmp_path / "two" / "dataset_meta.json").unlink(missing_ok=True)

    found = lakebed.ls(tmp_path)

    assert [entry["path"] for entry in found] == ["a@b/one", "two"]
    assert (found[0]["rows"], found[0]["branch"], found[0]["message"]) == (4, "main", "first")
    assert lakebed.ls(tmp_path / "two")[0]["path"] == "."
    with pytest.raises(lakebed.InvalidInputError, match="is not a folder"):
        lakebed.ls(tmp_path / "nothing")
