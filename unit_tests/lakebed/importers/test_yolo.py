"""YOLO comes in: four kinds of labels, layouts as people have them, and what is damaged or missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.sources import imported, photo

DATA = "path: ../datasets/pets\ntrain: images/train\nval: images/val\nnames:\n  0: cat\n  1: dog\n"


def pets(root: Path, lines: str = "0 0.5 0.5 0.123456 0.3333333333333333\n1 0.1 0.1 .1 0.1\n") -> None:
    """Three images with labels, an empty label file and an image without one, in two splits."""
    for number, name in enumerate(("train/1", "train/2", "train/3", "val/1")):
        photo(root / f"images/{name}.jpg", number)
    (root / "labels/train").mkdir(parents=True)
    (root / "labels/val").mkdir()
    (root / "labels/train/1.txt").write_text(lines)
    (root / "labels/train/2.txt").write_text("")
    (root / "labels/val/1.txt").write_text(lines.splitlines()[0])
    (root / "data.yaml").write_text(DATA)


def taken(source: Path, **options: Any) -> lakebed.Dataset:
    report = imported("yolo", source, strict=True, **options)
    found: lakebed.Dataset = report.dataset
    return found


def test_detection_as_ultralytics_lays_it_out(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    report = imported("auto", tmp_path / "pets")
    ds = report.dataset
    assert (report.format, report.written, report.skipped) == ("yolo", 4, 0)
    assert ds.file.text() == [f"images/{name}.jpg" for name in ("train/1", "train/2", "train/3", "val/1")]
    assert ds.split.data()["text"] == [["train"], ["train"], ["train"], ["val"]]
    assert ds.labels.info.class_names == ["cat", "dog"]
    assert [row.labels.data()["text"] for row in ds] == [["cat", "dog"], [], [], ["cat"]]
    # Numbers are those of the text, to the last digit.
    assert ds.boxes[0].numpy().tolist() == [[0.5, 0.5, 0.123456, 0.3333333333333333], [0.1, 0.1, 0.1, 0.1]]
    assert ds.boxes.info.coords == {"type": "fractional", "mode": "CCWH"}
    # An empty label file says that nothing is there; a missing one says nothing.
    assert ds.boxes.null_mask().tolist() == [False, False, True, False]
    assert ds.labels.null_mask().tolist() == [False, False, True, False]
    assert ds.images[3].tobytes() == (tmp_path / "pets/images/val/1.jpg").read_bytes()
    assert len(taken(tmp_path / "pets/data.yaml")) == 4


def test_polygons_have_boxes_around_them_and_boxes_stay(tmp_path: Path) -> None:
    pets(tmp_path / "pets", "1 0.1 0.2 0.3 0.2 0.3 0.6\n0 0.5 0.5 0.2 0.3\n")
    ds = taken(tmp_path / "pets")
    first, second = ds.polygons[0].numpy()
    assert first.tolist() == [[0.1, 0.2], [0.3, 0.2], [0.3, 0.6]]
    assert second.tolist() == [[0.4, 0.35], [0.6, 0.35], [0.6, 0.65], [0.4, 0.65]]  # of a box, its corners
    assert np.allclose(ds.boxes[0].numpy(), [[0.2, 0.4, 0.2, 0.4], [0.5, 0.5, 0.2, 0.3]])
    assert ds.polygons.null_mask().tolist() == [False, False, True, False]
    assert len(ds.polygons[1].numpy()) == 0


def test_oriented_boxes(tmp_path: Path) -> None:
    pets(tmp_path / "pets", "1 0.1 0.2 0.3 0.1 0.4 0.6 0.2 0.7\n")
    ds = taken(tmp_path / "pets")
    assert ds.boxes.info.task == "obb"
    assert ds.polygons[0].numpy()[0].tolist() == [[0.1, 0.2], [0.3, 0.1], [0.4, 0.6], [0.2, 0.7]]
    assert taken(tmp_path / "pets", task="segment").boxes.info.task == "segment"


@pytest.mark.parametrize("numbers", [2, 3])
def test_poses(tmp_path: Path, numbers: int) -> None:
    points = " ".join(["0.4 0.45", "0 0"] if numbers == 2 else ["0.4 0.45 1", "0 0 0"])
    pets(tmp_path / "pets", f"0 0.5 0.5 0.2 0.3 {points}\n")
    with (tmp_path / "pets/data.yaml").open("a") as file:
        file.write(f"kpt_shape: [2, {numbers}]\nflip_idx: [1, 0]\n")
    ds = taken(tmp_path / "pets")
    assert ds.keypoints[0].numpy()[:, 0].tolist() == [0.4, 0.45, 4 - numbers, 0, 0, 0]
    assert ds.keypoints.info.kpt_shape == [2, numbers]
    assert ds.keypoints.info.flip_idx == [1, 0]
    assert ds.boxes[0].numpy().tolist() == [[0.5, 0.5, 0.2, 0.3]]


def test_predictions_with_confidence(tmp_path: Path) -> None:
    pets(tmp_path / "pets", "0 0.5 0.5 0.2 0.3 0.875\n1 0.5 0.5 0.2 0.3\n")
    ds = taken(tmp_path / "pets")
    assert ds.confidence[0].numpy()[0] == 0.875
    assert np.isnan(ds.confidence[0].numpy()[1])


def test_lines_that_are_no_objects_are_left_out_and_counted(tmp_path: Path) -> None:
    pets(
        tmp_path / "pets",
        "0 .5 .5 .1 .1\nx\n9 .5 .5 .1 .1\n0 .5 .5 .1\n0 .5 nan .1 .1\n-1 .5 .5 .1 .1\ninf 1 1 1 1\n",
    )
    report = imported("yolo", tmp_path / "pets")
    assert (report.written, report.skipped) == (4, 6)
    assert len(report.dataset.boxes[0].numpy()) == 1
    assert [entry["where"] for entry in report.left_out] == [
        f"labels/train/1.txt line {n}" for n in range(2, 8)
    ]
    with pytest.raises(IngestionError, match=r"labels/train/1\.txt line 2"):
        taken(tmp_path / "pets")


def test_side_by_side_without_a_description(tmp_path: Path) -> None:
    photo(tmp_path / "pets/a.png")
    (tmp_path / "pets/a.txt").write_text("3 0.5 0.5 0.2 0.3")
    ds = taken(tmp_path / "pets")
    assert ds.labels[0].numpy().tolist() == [3]
    (tmp_path / "pets/classes.txt").write_text("a\nb\nc\nd\n")
    assert taken(tmp_path / "pets").labels[0].data()["text"] == ["d"]
    (tmp_path / "others.txt").write_text("e\nf\ng\nh\n")
    assert taken(tmp_path / "pets", classes=str(tmp_path / "others.txt")).labels[0].data()["text"] == ["h"]


def test_labels_in_another_folder(tmp_path: Path) -> None:
    photo(tmp_path / "photos/deep/a.png")
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks/a.txt").write_text("0 0.5 0.5 0.2 0.3")
    assert len(taken(tmp_path / "photos", labels=str(tmp_path / "marks")).boxes[0].numpy()) == 1


def test_splits_as_roboflow_has_them(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        photo(tmp_path / f"pets/{split}/images/{split}.jpg")
        (tmp_path / f"pets/{split}/labels").mkdir()
        (tmp_path / f"pets/{split}/labels/{split}.txt").write_text("0 0.5 0.5 0.2 0.3")
    text = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\nnc: 1\nnames: ['a']\n"
    (tmp_path / "pets/data.yaml").write_text(text)
    report = imported("yolo", tmp_path / "pets")
    assert report.splits == {"train": 1, "val": 1}
    assert [problem.where for problem in report.problems] == ["test"]
    (tmp_path / "pets/data.yaml").unlink()
    assert lakebed.import_from("yolo", tmp_path / "pets", dry_run=True).splits == {"train": 1, "val": 1}


def test_splits_as_lists_of_files_of_another_machine(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/train.txt").write_text(
        "/home/ann/pets/images/train/2.jpg\n./images/val/1.jpg\nimages/no.jpg\n"
    )
    (tmp_path / "pets/data.yaml").write_text("train: train.txt\nval: [images/train/3.jpg]\nnames: [a, b]\n")
    report = imported("yolo", tmp_path / "pets")
    assert report.dataset.file.text() == [f"images/{name}.jpg" for name in ("train/2", "val/1", "train/3")]
    assert {problem.where: problem.rows for problem in report.problems} == {
        "train.txt line 3": 1,
        "splits": 1,
    }


def test_paths_of_a_description_are_first_looked_up_beside_it(tmp_path: Path) -> None:
    for root in ("", "sub/"):
        photo(tmp_path / f"pets/{root}photos/a.jpg")
        (tmp_path / f"pets/{root}photos/a.txt").write_text("0 0.5 0.5 0.2 0.3")
    (tmp_path / "pets/sub/data.yaml").write_text("train: photos\nnames: [a]\n")
    report = imported("yolo", tmp_path / "pets")
    assert report.dataset.file.text() == ["sub/photos/a.jpg"]


def test_a_source_without_any_label_file_is_none(tmp_path: Path) -> None:
    photo(tmp_path / "pets/images/a.png")
    with pytest.raises(
        IngestionError, match=r"no image of .* has a label file; the first image is images/a\.png"
    ):
        taken(tmp_path / "pets")
    with pytest.raises(IngestionError, match="neither XML files nor masks"):
        imported("voc", tmp_path / "pets")


def test_label_files_of_no_image_are_told(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/images/train/1.jpg").unlink()
    report = imported("yolo", tmp_path / "pets")
    assert report.written == 3
    assert "1 label files are of no image: labels/train/1.txt" in report.problems[0].reason


def test_darknet_as_cvat_exports_it(tmp_path: Path) -> None:
    root = tmp_path / "pets"
    photo(root / "obj_train_data/a.jpg")
    (root / "obj_train_data/a.txt").write_text("1 0.5 0.5 0.2 0.3")
    (root / "obj.names").write_text("cat\ndog\n")
    (root / "obj.data").write_text(
        "classes = 2\ntrain = data/train.txt\nnames = data/obj.names\nbackup = backup/\n"
    )
    (root / "train.txt").write_text("data/obj_train_data/a.jpg\n")
    ds = taken(root)
    assert ds.labels[0].data()["text"] == ["dog"]
    assert ds.split[0].data()["text"] == ["train"]
    photo(root / "obj_val_data/b.jpg")
    (root / "val.txt").write_text("data/obj_val_data/b.jpg\n")
    for key in ("valid", "val"):
        (root / "obj.data").write_text(
            f"train = data/train.txt\n{key} = data/val.txt\nnames = data/obj.names\n"
        )
        assert lakebed.import_from("yolo", root, dry_run=True).splits == {"train": 1, "val": 1}


def test_train_and_val_that_are_the_same_are_taken_once(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/data.yaml").write_text(DATA.replace("images/val", "images/train"))
    report = imported("yolo", tmp_path / "pets")
    assert (report.written, report.splits) == (3, {})
    assert "the same images" in report.problems[0].reason


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("train: x\nnames: [", "cannot be read: (?s:.*)line 2"),
        ("train: nowhere\nnames: [a]", "none of the named folders"),
        ("train: ../../etc\nnames: [a]", "none of the named folders"),
        ("train: images\nnames: {x: a}", "not the number of a class"),
        ("train: images\nnames: {9999999999: a}", "is not between"),
        ("train: images\nnames: [a]\nkpt_shape: [1, 7]", "kpt_shape"),
        ("train: [{}]\nnames: [a]", "must name folders or lists"),
        ("train: " + "[" * 5000 + "\nnames: [a]", "cannot be read"),
        ("train: images\nnames: !!python/object/apply:os.system [ls]", "cannot be read"),
    ],
)
def test_a_damaged_description_is_an_error_that_names_it(tmp_path: Path, data: str, message: str) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/data.yaml").write_text(data)
    with pytest.raises(IngestionError, match=message):
        taken(tmp_path / "pets")


def test_appending_to_a_dataset_with_classes_in_another_order(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    ds = taken(tmp_path / "pets")
    (tmp_path / "pets/data.yaml").write_text(
        DATA.replace("cat", "x").replace("dog", "cat").replace("x", "dog")
    )
    lakebed.import_from("yolo", tmp_path / "pets", ds, append=True, progressbar=False)
    assert ds.labels[4].data()["text"] == ["dog", "cat"]
    assert ds.labels[4].numpy().tolist() == [1, 0]


def make_all(root: Path) -> None:
    pets(root, "0 0.5 0.5 0.2 0.3\n1 0.1 0.1 0.1 0.1 0.2 0.2\n")
    (root / "train.txt").write_text("images/train/1.jpg\nimages/train/2.jpg\n")
    (root / "data.yaml").write_text(DATA.replace("images/train", "train.txt") + "nc: 2\n")


def test_no_objects_and_no_label_file_differ_where_no_image_has_two(tmp_path: Path) -> None:
    """Whatever the rows are that workers encode together."""
    pets(tmp_path / "pets", "0 0.5 0.5 0.1 0.1\n")
    (tmp_path / "pets/labels/train/1.txt").write_text("")
    ds = taken(tmp_path / "pets", workers=0)
    assert ds.labels.null_mask().tolist() == [False, False, True, False]
    assert [len(one) for one in ds.labels.numpy(aslist=True)] == [0, 0, 0, 1]
