"""COCO goes out as it came in, and what was never COCO goes out as objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import ExportError


def _objects(path: Path, key: str = "id") -> dict[Any, dict[str, Any]]:
    found = json.loads(path.read_text())
    return {one[key]: one for one in found["annotations"]}


def test_what_was_imported_comes_out_equal(tmp_path: Path) -> None:
    """Pictures byte for byte, annotations key by key, with crowds, several polygons, unknown keys and captions."""
    root = tmp_path / "in"
    (root / "annotations").mkdir(parents=True)
    (root / "val").mkdir()
    for name in ("a.jpg", "b.jpg"):
        Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(root / "val" / name)
    images = [
        {"id": 3, "file_name": "a.jpg", "height": 6, "width": 8, "license": 1},
        {"id": 5, "file_name": "b.jpg", "height": 6, "width": 8, "license": 1, "coco_url": "http://x"},
    ]
    categories = [{"id": 9, "name": "cat", "supercategory": "animal"}]
    annotations = [
        {
            "id": 70,
            "image_id": 5,
            "category_id": 9,
            "bbox": [1.5, 2.0, 3.0, 1.25],
            "area": 2.5,
            "iscrowd": 0,
            "segmentation": [[1.0, 1.0, 2.0, 1.0, 2.0, 2.5], [3.0, 3.0, 4.0, 3.0, 4.0, 4.0]],
            "track": "t1",
        },
        {
            "id": 71,
            "image_id": 5,
            "category_id": 9,
            "bbox": [0.0, 0.0, 8.0, 6.0],
            "area": 10.0,
            "iscrowd": 1,
            "segmentation": {"size": [6, 8], "counts": [2, 10, 36]},
        },
    ]
    written = {"info": {"year": 1}, "licenses": [{"id": 1}], "images": images}
    objects = {**written, "annotations": annotations, "categories": categories}
    (root / "annotations/instances_val.json").write_text(json.dumps(objects))
    captions = {**written, "annotations": [{"id": 1, "image_id": 3, "caption": "ä"}]}
    (root / "annotations/captions_val.json").write_text(json.dumps(captions))

    ds = lakebed.import_from("coco", root, "mem://", progressbar=False).dataset
    report = lakebed.export_to("coco", ds, tmp_path / "out", progressbar=False)
    assert (report.written, report.skipped, report.problems) == (2, 0, [])
    for name in ("a.jpg", "b.jpg"):
        assert (tmp_path / "out/val" / name).read_bytes() == (root / "val" / name).read_bytes()
    for name in ("instances_val", "captions_val"):
        before = json.loads((root / f"annotations/{name}.json").read_text())
        after = json.loads((tmp_path / f"out/annotations/{name}.json").read_text())
        assert after == before, name


def test_any_dataset_with_boxes_goes_out(tmp_path: Path) -> None:
    ds = lakebed.empty("mem://")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    ds.create_tensor("box", htype="bbox", coords={"type": "fractional", "mode": "CCWH"})
    ds.create_tensor("what", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("mask", htype="binary_mask", sample_compression="lz4")
    ds.append(
        {
            "photo": np.zeros((10, 20, 3), np.uint8),
            "box": np.array([[0.5, 0.5, 0.5, 0.5]], np.float32),
            "what": ["dog"],
            "mask": np.ones((10, 20, 1), bool),
        }
    )
    ds.append(
        {
            "photo": np.zeros((4, 4, 3), np.uint8),
            "box": np.zeros((0, 4), np.float32),
            "what": [],
            "mask": None,
        }
    )
    ds.append(
        {
            "photo": np.zeros((4, 4, 3), np.uint8),
            "box": np.zeros((2, 4), np.float32),
            "what": ["cat", "dog"],
            "mask": np.zeros((4, 4, 2), bool),
        }
    )
    lakebed.export_to("coco", ds, tmp_path / "out", progressbar=False)
    found = _objects(tmp_path / "out/annotations/instances.json")
    assert sorted(found) == [1, 2, 3]
    assert found[1]["bbox"] == [5.0, 2.5, 10.0, 5.0]
    assert (found[1]["image_id"], found[1]["category_id"], found[1]["area"]) == (1, 2, 200.0)
    assert found[1]["segmentation"] == {"size": [10, 20], "counts": [0, 200]}
    assert found[3]["image_id"] == 3
    again = lakebed.import_from("coco", tmp_path / "out", "mem://", progressbar=False).dataset
    assert again.category_id[2].data()["text"] == ["cat", "dog"]
    assert again.rle_mask[0].numpy().all()


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", dtype="int64")
    with pytest.raises(ExportError, match="images"):
        lakebed.export_to("coco", ds, tmp_path / "out")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    with pytest.raises(ExportError, match="objects"):
        lakebed.export_to("coco", ds, tmp_path / "out")
    ds.create_tensor("one", htype="bbox")
    ds.create_tensor("two", htype="bbox")
    with pytest.raises(ExportError, match="one, two"):
        lakebed.export_to("coco", ds, tmp_path / "out")
