"""Shards that WebDataset writes come in as WebDataset reads them."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed

wds = pytest.importorskip("webdataset")

pytestmark = [pytest.mark.formats, pytest.mark.timeout(300)]

COUNT = 60


def written(root: Path, pattern: str) -> list[dict[str, Any]]:
    """Write shards by WebDataset, and return what it reads."""
    draw = np.random.default_rng(0)
    with wds.ShardWriter(str(root / pattern), maxcount=25, verbose=0) as writer:
        for at in range(COUNT):
            pixels = draw.integers(0, 255, (8 + at % 3, 9, 3), np.uint8)
            sample = {"__key__": f"part/{at:06}", "png": pixels, "cls": at % 7, "json": {"at": [at, None]}}
            if at % 2:
                sample["caption.txt"] = f"Nº {at}"
            sample["depth.npy"] = draw.random((at % 4, 2), np.float32)
            writer.write(sample)
    shards = sorted(str(path) for path in root.glob("*.tar*"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the library leaves shards open
        found = list(wds.WebDataset(shards, shardshuffle=False).decode("rgb8"))
        gc.collect()
    return found


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_samples_are_those_of_the_library(tmp_path: Path, suffix: str) -> None:
    expected = written(tmp_path, f"train-%03d.{suffix}")
    report = lakebed.import_from("auto", tmp_path, "mem://", progressbar=False, strict=True)
    ds = report.dataset
    assert (report.format, report.splits) == ("webdataset", {"train": COUNT})
    assert ds.key.text() == [sample["__key__"] for sample in expected]
    assert len(expected) == COUNT
    nulls = ds.caption_txt.null_mask()
    for row, sample in enumerate(expected):
        assert np.array_equal(ds.png[row].numpy(), sample["png"])
        assert int(ds.cls[row].numpy()[0]) == sample["cls"]
        assert ds.json[row].dict() == sample["json"]
        assert np.array_equal(ds.depth_npy[row].numpy(), sample["depth.npy"])
        assert nulls[row] == ("caption.txt" not in sample)
        assert nulls[row] or ds.caption_txt.text()[row] == sample["caption.txt"]
