"""One viewer for most tests, over a lake with an ordinary dataset, and the datasets of Deep Lake 3.9.52."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lakebed
from unit_tests.lakebed.viewer.served import Served

ROWS = 12


def file_of(seed: int, width: int = 320, height: int = 240, kind: str = "JPEG") -> bytes:
    """Return a picture of soft spots as a file."""
    draws = np.random.default_rng(seed)
    small = Image.fromarray(draws.integers(0, 255, (12, 16, 3), dtype=np.uint8))
    room = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).save(room, kind)
    return room.getvalue()


def birds(path: Path) -> None:
    """Write an ordinary dataset: photos with boxes, masks and labels, numbers and texts; a commit, a branch, a view."""
    ds = lakebed.empty(str(path))
    with ds:
        ds.create_tensor("photo", htype="image", sample_compression="jpeg")
        ds.create_tensor("boxes", htype="bbox", coords={"type": "fractional", "mode": "CCWH"})
        ds.create_tensor("kind", htype="class_label", class_names=["wren", "kite", "it's"])
        ds.create_tensor("mask", htype="binary_mask")
        ds.create_tensor("span", dtype="float32")
        ds.create_tensor("big", dtype="int64")
        ds.create_tensor("note", htype="text")
        ds.create_tensor("about", htype="json")
        ds.create_tensor("layers", htype="image", sample_compression="png", downsampling=(2, 2))
        for row in range(ROWS):
            mask = np.zeros((60, 80, 2), np.bool_)
            mask[:30, :40, 0] = mask[20:, 30:, 1] = True
            ds.append(
                {
                    "photo": lakebed.read(file_of(row)),
                    "boxes": np.full((row % 3, 4), 0.25, np.float32),
                    "kind": np.arange(1 + row % 2, dtype=np.uint32) + row % 2,
                    "mask": mask,
                    "span": None if row == 3 else row / 4,
                    "big": 2**60 + row,
                    "note": f"note {row % 4}",
                    "about": {"n": [1, float("nan")], "deep": {"er": row}},
                    "layers": lakebed.read(file_of(row, 256, 192, "PNG")),
                }
            )
    ds.commit("birds")
    ds[[5, 2]].save_view(id="two", message="two of them", verbose=False)
    ds.checkout("side", create=True)
    with ds:
        ds.note[1] = "other"
        ds.pop(4)
    ds.commit("one less")
    ds.checkout("main")
    ds.create_tag("first")
    ds.close()


@pytest.fixture(scope="package")
def lake(tmp_path_factory: pytest.TempPathFactory, golden: Path) -> Path:
    """Return a folder of datasets, which tests do not change."""
    root = tmp_path_factory.mktemp("lake")
    birds(root / "birds")
    for folder in golden.iterdir():
        if (folder / "dataset_meta.json").exists():
            shutil.copytree(folder, root / "golden" / folder.name)
    return root


@pytest.fixture(scope="package")
def served(lake: Path) -> Iterator[Served]:
    """Return a viewer of that folder."""
    server = Served(lake)
    yield server
    assert server.close() == 0
