"""`lakebed head` for people: what a sample is in one line, as many columns as fit, and pictures as files."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import lakebed
from lakebed.cli import main


def run(*arguments: Any, ok: bool = True, width: int | None = None) -> str:
    """Run `lakebed head` and return what it prints."""
    env = {"COLUMNS": None if width is None else str(width)}
    result = CliRunner().invoke(main, ["head", *map(str, arguments)], env=env)
    assert (result.exit_code == 0) is ok, result.output
    return result.output


def jpeg() -> bytes:
    """A file of 48 by 64 pixels."""
    file = io.BytesIO()
    Image.fromarray(np.arange(48 * 64 * 3, dtype=np.uint32).astype(np.uint8).reshape(48, 64, 3)).save(
        file, "jpeg"
    )
    return file.getvalue()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of most kinds, and a null of each."""
    path = tmp_path_factory.mktemp("head") / "ds"
    ds = lakebed.empty(path)
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.create_tensor("mask", htype="binary_mask", sample_compression="lz4")
    ds.create_tensor("kind", htype="class_label", class_names=["person", "dog"])
    ds.create_tensor("box", htype="bbox")
    ds.create_tensor("vector", htype="embedding")
    ds.create_tensor("day")
    ds.create_tensor("about", htype="json")
    ds.create_tensor("note", htype="text")
    ds.create_tensor("frames", htype="sequence[image]", sample_compression="png")
    ds.create_tensor("far", htype="link[image]", sample_compression="jpeg", verify=False)
    ds.create_tensor("outline", htype="polygon")
    row = {
        "photo": lakebed.read(jpeg()),
        "mask": np.ones((42, 64, 6), bool),
        "kind": [0, 1],
        "box": np.zeros((1, 4), "f4"),
        "vector": np.zeros(768, "f4"),
        "day": dt.datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001 - without a zone
        "about": {"a": [1]},
        "note": "many words " * 20,
        "frames": [np.zeros((4, 4, 3), "u1")] * 2,
        "far": lakebed.link("s3://nowhere/x.jpg"),
        "outline": [np.zeros((3, 2))],
    }
    ds.append(row)
    ds.append({**dict.fromkeys(row), "note": "short"})
    ds.close()
    return path


CELLS = {
    "photo": f"jpeg 48x64x3, {len(jpeg()) / 1000:.1f} kB",
    "mask": "bool 42x64x6",
    "kind": "person, dog",
    "box": "[[0.0, 0.0, 0.0, 0.0]]",
    "vector": "float32 768",
    "day": "2026-01-02 03:04:05",
    "about": '{"a": [1]}',
    "frames": "2 items",
    "far": "s3://nowhere/x.jpg",
    "outline": "1 polygon",
}


@pytest.mark.parametrize("name", CELLS)
def test_a_sample_is_one_line(lake: Path, name: str) -> None:
    """Files by kind, shape and size, labels by name, many numbers by dtype and shape; nothing for a null."""
    lines = run(lake, "-t", name).splitlines()
    assert lines[0] == name
    assert lines[2:] == [CELLS[name], "0 items" if name == "frames" else ""]


def test_columns_that_do_not_fit_are_named(lake: Path) -> None:
    """A terminal shows what fits in it and says what does not; a pipe, and -t, get all."""
    for width in (30, 60, 100):
        *lines, last = run(lake, width=width).splitlines()
        assert max(map(len, lines)) <= width
        shown = lines[0].split()
        left = [name for name in lakebed.load(lake).tensors if name not in shown]
        assert last.startswith(f"... and {len(left)} more tensors: {', '.join(left[:3])}")
        assert last.endswith("use -t NAME or --vertical")
    assert len(run(lake).splitlines()[0].split()) == 11
    assert run(lake, "-t", "note", "-t", "vector", "-t", "day", width=30).splitlines()[0].split() == [
        "note",
        "vector",
        "day",
    ]


def test_rows_as_blocks(lake: Path) -> None:
    """--vertical: a line for each tensor, text cut at the width."""
    lines = run(lake, "--vertical", width=60).splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["row 0", "row 1"]
    assert max(map(len, lines)) == 60
    assert f"  kind     {CELLS['kind']}" in lines
    assert lines[-4:] == ["  note     short", "  frames   0 items", "  far", "  outline"]
    assert run(lake, "-n", 0, "--vertical").strip() == ""


def test_pictures_become_files(lake: Path, tmp_path: Path) -> None:
    """Byte for byte where they are files, PNG where they are none; named by tensor and row; nothing is replaced."""
    out = tmp_path / "out"
    assert run(lake, "--images", out) == f"2 files written to {out}\n"
    assert sorted(path.name for path in out.iterdir()) == ["mask-000000.png", "photo-000000.jpg"]
    assert (out / "photo-000000.jpg").read_bytes() == jpeg()
    with Image.open(out / "mask-000000.png") as mask:
        assert mask.size == (64, 42)
    (out / "photo-000000.jpg").write_bytes(b"mine")
    refused = run(lake, "--images", out, "-t", "photo", ok=False)
    assert "photo-000000.jpg exists already" in refused
    assert "--overwrite" in refused
    assert (out / "photo-000000.jpg").read_bytes() == b"mine"
    listed = json.loads(run(lake, "--images", out, "-t", "photo", "--overwrite", "--json"))
    assert listed == [str(out / "photo-000000.jpg")]
    assert (out / "photo-000000.jpg").read_bytes() == jpeg()
    assert "no tensor holds pictures" in run(lake, "--images", out, "-t", "note", ok=False)
    assert "--overwrite needs --images" in run(lake, "--overwrite", ok=False)


def test_names_of_tensors_lead_nowhere_else(tmp_path: Path) -> None:
    """A name is part of a file's name, whatever is in it; two that look alike do not replace each other."""
    ds = lakebed.empty(tmp_path / "ds")
    for name in ("a/b", "a_b"):
        ds.create_tensor(name, htype="image", sample_compression="png")
        ds[name].append(np.zeros((2, 2, 3), "u1"))
    ds.close()
    out = run(tmp_path / "ds", "--images", tmp_path / "out", "--overwrite", ok=False)
    assert "a_b-000000.png exists already" in out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a_b-000000.png"]


def test_sequences_of_single_numbers_show_all_items() -> None:
    ds = lakebed.empty("mem://head-of-sequences", overwrite=True)
    ds.create_tensor("x", htype="sequence[generic]", dtype="int32").extend([[1, 2], [], [3]])
    ds.flush()
    shown = json.loads(CliRunner().invoke(main, ["head", "mem://head-of-sequences", "--json"]).stdout)
    assert [row["x"] for row in shown] == [[[1], [2]], [], [[3]]]
