"""LabelMe comes in: all its shapes, images beside and inside the JSON files, and what is damaged."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.sources import imported, photo


def shape(kind: str, points: list[list[float]], label: str = "cat", **more: Any) -> dict[str, Any]:
    return {"label": label, "points": points, "group_id": None, "shape_type": kind, "flags": {}, **more}


SHAPES = [
    shape("polygon", [[1.5, 2], [10, 2.25], [5, 9]], group_id=3, flags={"blurred": True}, description="Tom"),
    shape("rectangle", [[10, 8], [2, 3]], "dog"),
    shape("circle", [[10, 10], [13, 14]]),
    shape("linestrip", [[0, 0], [1, 1], [2, 0]]),
    shape("point", [[7, 8]]),
]


def write(path: Path, shapes: list[Any], **more: Any) -> None:
    content: dict[str, Any] = {
        "version": "5.5.0",
        "flags": {"night": False},
        "shapes": shapes,
        "imagePath": f"{path.stem}.jpg",
    }
    content |= {"imageData": None, "imageHeight": 20, "imageWidth": 30, **more}
    path.write_text(json.dumps(content))


def pets(root: Path) -> None:
    """An image with all shapes, one inside its JSON file, and one without any."""
    photo(root / "1.jpg")
    photo(root / "3.jpg", 3)
    photo(root / "2.jpg", 2)
    write(root / "1.json", SHAPES)
    write(root / "2.json", [], imageData=base64.b64encode((root / "2.jpg").read_bytes()).decode())
    (root / "2.jpg").unlink()


def test_all_shapes(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    inside = base64.b64decode(json.loads((tmp_path / "pets/2.json").read_text())["imageData"])
    report = imported("auto", tmp_path / "pets", strict=True)
    ds = report.dataset
    assert (report.format, report.written) == ("labelme", 3)
    assert ds.file.text() == ["1.jpg", "2.json", "3.jpg"]
    assert ds.labels[0].data()["text"] == ["cat", "dog", "cat", "cat", "cat"]
    assert [points.tolist() for points in ds.polygons[0].numpy()] == [one["points"] for one in SHAPES]
    boxes = [[1.5, 2, 10, 9], [2, 3, 10, 8], [5, 5, 15, 15], [0, 0, 2, 1], [7, 8, 7, 8]]
    assert ds.boxes[0].numpy().tolist() == boxes
    first = ds.attributes[0].data()["value"][0]
    assert first == {"group_id": 3, "shape_type": "polygon", "flags": {"blurred": True}, "description": "Tom"}
    assert ds.annotation[0].data()["value"] == {
        "version": "5.5.0",
        "flags": {"night": False},
        "imagePath": "1.jpg",
        "imageHeight": 20,
        "imageWidth": 30,
    }
    assert ds.images[0].tobytes() == (tmp_path / "pets/1.jpg").read_bytes()
    assert ds.images[1].tobytes() == inside
    assert ds.labels.null_mask().tolist() == [False, False, True]


def test_one_file_and_images_in_a_folder_beside(tmp_path: Path) -> None:
    photo(tmp_path / "pets/images/1.jpg")
    (tmp_path / "pets/labels").mkdir()
    write(tmp_path / "pets/labels/1.json", SHAPES, imagePath="..\\images\\1.jpg")
    report = imported("labelme", tmp_path / "pets", strict=True)
    assert report.dataset.file.text() == ["images/1.jpg"]
    write(tmp_path / "pets/images/1.json", SHAPES)
    report = imported("auto", tmp_path / "pets/images/1.json")
    assert (report.format, report.written) == ("labelme", 1)


def test_what_is_damaged_or_missing_is_counted(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    bad = [
        {"label": "x"},
        shape("circle", [[1, 1]]),
        shape("polygon", []),
        7,
        shape("point", [[np.nan, 1]]),
        shape("point", [[1, 2]], ""),
    ]
    write(tmp_path / "pets/1.json", [*bad, *SHAPES])
    write(tmp_path / "pets/8.json", SHAPES, imagePath="../../etc/passwd")
    (tmp_path / "pets/9.json").write_text('{"version": "5", "shapes": ' + "[" * 100_000)
    report = imported("labelme", tmp_path / "pets")
    assert (report.written, report.skipped) == (3, 6 + 2)
    assert len(report.dataset.boxes[0].numpy()) == 5
    assert sorted(problem.where for problem in report.problems) == ["8.json", "9.json"]
    with pytest.raises(IngestionError, match=r"8\.json"):
        imported("labelme", tmp_path / "pets", strict=True)
