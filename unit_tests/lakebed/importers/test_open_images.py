"""Open Images comes in: boxes, labels of images, classes, the hierarchy, and what is damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.sources import imported, photo

HEAD = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n"
TRAIN = (
    HEAD
    + "aa01,xclick,/m/01yrx,1,0.012500,0.195312,0.148438,0.587500,0,1,0,0,0\n"
    + "gone,xclick,/m/01yrx,1,0.1,0.2,0.3,0.4,0,0,0,0,0\n"
    + "gone2,xclick,/m/01yrx,1,0.1,0.2,0.3,0.4,0,0,0,0,0\n"
    + "aa02,xclick,/m/0bt9lr,1,0.5,0.75,0.25,1,0,0,1,0,0\n"
    + "aa01,activemil,/m/0bt9lr,1,0,1,0,1,1,0,0,0,0\n"
)
LABELS = "ImageID,Source,LabelName,Confidence\naa01,verification,/m/01yrx,1\naa01,verification,/m/0zz,0\n"


def pets(root: Path) -> None:
    for number, name in enumerate(("train/aa01", "train/aa02", "validation/bb01", "validation/bb02")):
        photo(root / f"{name}.jpg", number)
    (root / "train-annotations-bbox.csv").write_text(TRAIN)
    (root / "validation-annotations-bbox.csv").write_text(
        HEAD + "bb01,xclick,/m/01yrx,1,0.1,0.2,0.3,0.4,0,0,0,0,1"
    )
    (root / "train-annotations-human-imagelabels-boxable.csv").write_text(LABELS)
    (root / "class-descriptions-boxable.csv").write_text('/m/01yrx,Cat\n/m/0bt9lr,"Dog, tame"\n')
    (root / "bbox_labels_600_hierarchy.json").write_text('{"LabelName": "/m/0bl9f", "Subcategory": []}')


def test_boxes_and_labels_of_images(tmp_path: Path) -> None:
    pets(tmp_path / "oi")
    report = imported("auto", tmp_path / "oi")
    ds = report.dataset
    assert (report.format, report.written, report.skipped) == ("open_images", 4, 0)
    assert report.splits == {"train": 2, "val": 2}
    assert ds.labels[0].data()["text"] == ["Cat", "Dog, tame"]
    assert ds.labels.info.mids == ["/m/01yrx", "/m/0bt9lr", "/m/0zz"]
    assert ds.boxes[0].numpy().tolist() == [[0.0125, 0.148438, 0.195312, 0.5875], [0, 0, 1, 1]]
    assert ds.boxes.info.coords == {"type": "fractional", "mode": "LTRB"}
    first, second = ds.attributes[0].data()["value"]
    assert (first["IsTruncated"], first["Source"], second["IsOccluded"]) == (1, "xclick", 1)
    assert ds.image_labels[0].data()["text"] == ["Cat", "/m/0zz"]
    assert [one["Confidence"] for one in ds.image_label_attributes[0].data()["value"]] == [1, 0]
    assert ds.boxes.null_mask().tolist() == [False, False, False, True]
    assert {"polygons", "annotation"}.isdisjoint(ds.tensors)
    assert ds.info["imports"][0]["about"]["hierarchy"]["LabelName"] == "/m/0bl9f"
    assert [(problem.where, problem.reason) for problem in report.problems] == [
        ("train-annotations-bbox.csv", "2 lines are of images that are not there, the first is line 3")
    ]


def test_splits_by_the_names_of_the_files_and_classes_that_share_a_name(tmp_path: Path) -> None:
    pets(tmp_path / "oi")
    (tmp_path / "oi/validation/bb02.jpg").unlink()
    (tmp_path / "oi/data").mkdir()
    for path in sorted((tmp_path / "oi").rglob("*.jpg")):
        path.rename(tmp_path / f"oi/data/{path.name}")
    (tmp_path / "oi/class-descriptions-boxable.csv").write_text(
        "LabelName,DisplayName\n/m/01yrx,Pet\n/m/0bt9lr,Pet\n"
    )
    report = imported("open_images", tmp_path / "oi")
    assert report.splits == {"train": 2, "val": 1}
    assert report.dataset.labels[0].data()["text"] == ["Pet (/m/01yrx)", "Pet (/m/0bt9lr)"]


def test_classes_that_are_no_ids_of_the_vendor(tmp_path: Path) -> None:
    """Other tools write the names of classes in the place of their ids."""
    photo(tmp_path / "oi/a.jpg")
    (tmp_path / "oi/train-annotations-bbox.csv").write_text(
        HEAD + "a,,cat,1,0,1,0,1,0,0,0,0,0\na,,hen,1,0,1,0,1,0,0,0,0,0\n"
    )
    (tmp_path / "oi/class-descriptions.csv").write_text("cat,Cat\n")
    ds = imported("open_images", tmp_path / "oi", strict=True).dataset
    assert ds.labels[0].data()["text"] == ["Cat", "hen"]


def test_boxes_go_out_to_yolo(tmp_path: Path) -> None:
    pets(tmp_path / "oi")
    ds = imported("open_images", tmp_path / "oi").dataset
    lakebed.export_to("yolo", ds, tmp_path / "out", labels="labels", progressbar=False)
    values = [float(word) for word in (tmp_path / "out/labels/train/aa02.txt").read_text().split()]
    assert np.allclose(values, [1, 0.625, 0.625, 0.25, 0.75])


def test_what_is_damaged_is_counted(tmp_path: Path) -> None:
    pets(tmp_path / "oi")
    bad = "".join(
        f"aa02,x,{rest}\n"
        for rest in (
            "/m/01yrx,1,one,1,0,1,0,0,0,0,0",
            "/m/01yrx",
            ",1,0,1,0,1,0,0,0,0,0",
            "/m/01yrx,1,nan,1,0,1,0,0,0,0,0",
        )
    )
    (tmp_path / "oi/train-annotations-bbox.csv").write_text(TRAIN + bad)
    report = imported("open_images", tmp_path / "oi")
    assert (report.written, report.skipped) == (4, 4)
    (tmp_path / "oi/train-annotations-bbox.csv").write_bytes(TRAIN.encode() + b"x" * (2 << 20))
    with pytest.raises(IngestionError, match="has a line of more than"):
        imported("open_images", tmp_path / "oi")
