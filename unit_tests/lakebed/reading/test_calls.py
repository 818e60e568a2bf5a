"""A sample that is in memory already costs few calls: nothing is looked up or parsed twice on the way to it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import lakebed

PIXELS = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    made = lakebed.empty(tmp_path / "ds")
    with made:
        made.create_tensor("png", htype="image", sample_compression="png")
        made.create_tensor("jpeg", htype="image", sample_compression="jpeg")
        made.create_tensor("x", dtype="int64")
        for i in range(5):
            made.append({"png": PIXELS, "jpeg": PIXELS, "x": i})
    made.close()
    return lakebed.load(tmp_path / "ds", read_only=True)


def counted(call: Callable[[], object]) -> Counter[str]:
    """Names of the library's functions that a call calls, and how often."""
    names: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and "/lakebed/" in code.co_filename and "/unit_tests/" not in code.co_filename:
            names[code.co_qualname] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return names


@pytest.mark.parametrize(("name", "most"), [("png", 110), ("jpeg", 90), ("x", 90)])
def test_a_warm_read_asks_once(ds: lakebed.Dataset, name: str, most: int) -> None:
    """A chunk has one key, a file one header; the tensor is looked up where time may have passed."""
    first = counted(lambda: ds[name][3].numpy())
    assert first["ChunkTable.key"] == 1
    found = counted(lambda: ds[name][4].numpy())
    assert found["ChunkTable.key"] == 1
    assert found["_png_header"] == (name == "png")
    assert found["Snapshot.key_of"] <= 3
    assert found.total() <= most, found
