"""Masks as run lengths: as numbers, and as the text of pycocotools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import lakebed
from lakebed.errors import FormatError, ModuleNotInstalledException
from lakebed.importers.detection.masks import decoded
from unit_tests.lakebed.importers.sources import imported
from unit_tests.lakebed.importers.test_coco import CATEGORIES, written

api = pytest.importorskip("pycocotools.mask", reason="needs pycocotools: pip install pycocotools")

SIZE = (5, 4)
MASK = np.zeros(SIZE, bool)
MASK[1:3, 1] = MASK[4, 3] = True


@pytest.mark.parametrize("counts", [[6, 2, 11, 1], [6.0, 2, 11, 1], "62;O"], ids=str)
def test_a_mask_is_counts_or_their_text(counts: Any) -> None:
    found = decoded({"size": list(SIZE), "counts": counts}, SIZE)
    assert (found.dtype, found.flags.c_contiguous) == (bool, True)
    assert np.array_equal(found, MASK)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0))
def test_what_pycocotools_writes_is_read(height: int, width: int, bits: int) -> None:
    mask = np.array([bits >> at & 1 for at in range(height * width)], bool).reshape(height, width)
    packed = api.encode(np.asfortranarray(mask, np.uint8))
    assert np.array_equal(decoded({**packed, "counts": packed["counts"].decode()}, (0, 0)), mask)


@pytest.mark.parametrize(
    "rle",
    [
        {},
        {"size": [5, 4]},
        {"size": [5], "counts": [20]},
        {"size": [5, 4, 1], "counts": [20]},
        {"size": [4, 5], "counts": [20]},
        {"size": [0, 4], "counts": []},
        {"size": [-5, -4], "counts": [20]},
        {"size": [10**9, 10**9], "counts": []},
        *(
            {"size": [5, 4], "counts": counts}
            for counts in ([6], [19], [21], [-1, 20, 1], [2**40, 20], ["x"], None, 7)
        ),
        # The text of fewer and of more pixels, whose last number does not end, too large, no such text, and none.
        *(
            {"size": [5, 4], "counts": text}
            for text in ("6", "62;", "62;1", "62;2", "62;o", "dPPPPP0", "6 ", "ü", "")
        ),
    ],
    ids=str,
)
def test_damage_is_told(rle: dict[str, Any]) -> None:
    with pytest.raises(FormatError):
        decoded(rle, SIZE if rle.get("size") == [4, 5] else (0, 0))


def test_text_needs_pycocotools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the plan of an import tells already."""
    Image.new("RGB", (4, 5)).save(tmp_path / "1.png")
    mask = {"id": 1, "image_id": 1, "category_id": 7, "segmentation": {"size": [5, 4], "counts": "62;O"}}
    written(tmp_path, "instances", [{"id": 1, "file_name": "1.png"}], [mask], categories=CATEGORIES)
    ds = imported("coco", tmp_path, strict=True).dataset
    assert np.array_equal(ds.rle_mask[0].numpy()[..., 0], MASK)
    monkeypatch.setitem(sys.modules, "pycocotools.mask", None)
    assert np.array_equal(decoded({"size": [5, 4], "counts": [6, 2, 11, 1]}, SIZE), MASK)
    with pytest.raises(ModuleNotInstalledException, match=r"pip install 'lakebed\[coco\]'"):
        lakebed.import_from("coco", tmp_path, dry_run=True)
