"""YOLO goes out: what came in comes out and in again; other datasets with images, boxes and classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import ExportError
from unit_tests.lakebed.importers.sources import photo
from unit_tests.lakebed.importers.test_labelme import shape, write

LINES = {
    "detect": "0 0.5 0.5 0.123456 0.3333333333333333\n1 0.1 0.1 1e-05 1\n",
    "segment": "1 0.1 0.2 0.3 0.2 0.3 0.6\n0 0.5 0.5 0.2 0.3\n",
    "obb": "1 0.1 0.2 0.3 0.1 0.4 0.6 0.2 0.7\n",
    "pose": "0 0.5 0.5 0.2 0.3 0.4 0.45 2 0.1 0.2 1\n",
    "confident": "0 0.5 0.5 0.2 0.3 0.875\n1 0.1 0.1 0.2 0.2\n",
}


def source(root: Path, lines: str, more: str = "") -> None:
    for number, name in enumerate(("train/1", "train/deep/2", "train/3", "val/1")):
        photo(root / f"images/{name}.jpg", number)
    (root / "labels/train/deep").mkdir(parents=True)
    (root / "labels/val").mkdir()
    (root / "labels/train/1.txt").write_text(lines)
    (root / "labels/train/deep/2.txt").write_text("")
    (root / "labels/val/1.txt").write_text(lines.splitlines()[0] + "\n")
    (root / "data.yaml").write_text(
        f'train: images/train\nval: images/val\nnames: [cat, "a \\"dog\\": #1\\u2028\\x7f"]\n{more}'
    )


def told(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "data.yaml"
    }


@pytest.mark.parametrize("kind", sorted(LINES))
def test_what_comes_in_goes_out_and_comes_in_again(tmp_path: Path, kind: str) -> None:
    """Images byte for byte, labels to the last digit, splits, names; images without a label file have none."""
    more = "kpt_shape: [2, 3]\nflip_idx: [1, 0]\n" if kind == "pose" else ""
    source(tmp_path / "in", LINES[kind], more)
    first = lakebed.import_from("yolo", tmp_path / "in", "mem://", progressbar=False, strict=True).dataset
    report = lakebed.export_to("yolo", first, tmp_path / "out", progressbar=False, strict=True)
    assert (report.written, report.files, report.problems) == (4, 8, [])
    assert told(tmp_path / "out") == told(tmp_path / "in")
    again = lakebed.import_from("yolo", tmp_path / "out", "mem://", progressbar=False, strict=True).dataset
    assert set(again.tensors) == set(first.tensors)
    for name, tensor in again.tensors.items():
        assert dict(tensor.info) == dict(first[name].info)
        assert np.array_equal(tensor.null_mask(), first[name].null_mask())
        assert [shown(tensor[row]) for row in range(4)] == [shown(first[name][row]) for row in range(4)]


def shown(sample: lakebed.Tensor) -> str:
    value = sample.numpy()
    return repr([one.tolist() for one in value] if isinstance(value, list) else value.tolist())


def boxes_in_pixels() -> lakebed.Dataset:
    ds = lakebed.empty("mem://")
    ds.create_tensor("pictures", htype="image", sample_compression="png")
    ds.create_tensor("what", htype="class_label", class_names=["a", "b"])
    ds.create_tensor("where", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
    ds.append(
        {"pictures": np.zeros((10, 20, 3), np.uint8), "what": [1, 0], "where": [[2, 3, 4, 5], [0, 0, 20, 10]]}
    )
    ds.append({"pictures": np.ones((10, 20, 3), np.uint8), "what": [], "where": np.zeros((0, 4))})
    ds.append({"pictures": np.ones((10, 20, 3), np.uint8), "what": None, "where": None})
    return ds


def test_any_dataset_with_images_boxes_and_classes(tmp_path: Path) -> None:
    ds = boxes_in_pixels()
    lakebed.export_to("yolo", ds, tmp_path / "out", progressbar=False)
    assert (tmp_path / "out/labels/00000000.txt").read_text() == "1 0.2 0.55 0.2 0.5\n0 0.5 0.5 1 1\n"
    assert (tmp_path / "out/labels/00000001.txt").read_text() == ""
    assert not (tmp_path / "out/labels/00000002.txt").exists()
    again = lakebed.import_from("yolo", tmp_path / "out", "mem://", progressbar=False).dataset
    assert len(again) == 3
    assert again.labels[0].data()["text"] == ["b", "a"]
    assert np.array_equal(again.images[1].numpy(), ds.pictures[1].numpy())


def test_key_points_and_polygons_in_pixels(tmp_path: Path) -> None:
    ds = boxes_in_pixels()[:1].copy("mem://")
    ds.create_tensor("points", htype="keypoints_coco")
    ds.create_tensor("outlines", htype="polygon")
    ds.points[0] = np.array([[10, 5, 2], [0, 0, 0]], np.int32).T
    ds.outlines[0] = [np.array([[0, 0], [10, 0], [10, 5]]), np.array([[0, 0], [20, 0], [20, 10]])]
    lakebed.export_to("yolo", ds, tmp_path / "pose", task="pose", progressbar=False)
    assert (tmp_path / "pose/labels/00000000.txt").read_text().startswith("1 0.2 0.55 0.2 0.5 0.5 0.5 2\n")
    assert "kpt_shape: [1, 3]" in (tmp_path / "pose/data.yaml").read_text()
    lakebed.export_to("yolo", ds, tmp_path / "segment", task="segment", progressbar=False)
    assert (tmp_path / "segment/labels/00000000.txt").read_text() == "1 0 0 0.5 0 0.5 0.5\n0 0 0 1 0 1 1\n"


def test_what_lacks_boxes_or_classes_or_agrees_with_nothing_is_told(tmp_path: Path) -> None:
    ds = boxes_in_pixels()
    with pytest.raises(ExportError, match="keypoints_coco"):
        lakebed.export_to("yolo", ds, tmp_path / "out", task="pose")
    ds.create_tensor("more", htype="class_label")
    with pytest.raises(ExportError, match="several tensors could be the labels"):
        lakebed.export_to("yolo", ds, tmp_path / "out")
    ds.delete_tensor("more")
    ds.what[0] = [1]
    report = lakebed.export_to("yolo", ds, tmp_path / "out", progressbar=False)
    assert report.left_out == [(0, "where has 2 objects, and the row has 1 labels")]
    ds.delete_tensor("where")
    with pytest.raises(ExportError, match="bbox"):
        lakebed.export_to("yolo", ds, tmp_path / "more", progressbar=False)


def test_shapes_that_are_no_polygons_are_their_boxes_or_are_told(tmp_path: Path) -> None:
    """Two corners of a rectangle are not the center and the size of a box, which two points mean in YOLO."""
    shapes = [
        shape("rectangle", [[15, 5], [0, 10]]),
        shape("circle", [[15, 10], [18, 14]]),
        shape("polygon", [[0, 0], [30, 0], [30, 20]]),
    ]
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        photo(tmp_path / f"in/{number}.jpg")
    write(tmp_path / "in/1.json", shapes)
    write(tmp_path / "in/2.json", [shape("line", [[3, 3], [3, 9]])])
    ds = lakebed.import_from("labelme", tmp_path / "in", "mem://", progressbar=False).dataset
    report = lakebed.export_to("yolo", ds, tmp_path / "out", task="segment", progressbar=False)
    lines = [
        [float(word) for word in line.split()]
        for line in (tmp_path / "out/labels/1.txt").read_text().splitlines()
    ]
    assert lines[0] == [0, 0, 0.25, 0.5, 0.25, 0.5, 0.5, 0, 0.5]
    assert np.allclose(lines[1], [0, 1 / 3, 0.25, 2 / 3, 0.25, 2 / 3, 0.75, 1 / 3, 0.75])
    assert lines[2] == [0, 0, 0, 1, 0, 1, 1]
    assert report.left_out == [(1, "object 0 is a point or a line, which has no area")]


def test_polygons_of_3x_are_fractions(tmp_path: Path) -> None:
    """Nothing in a dataset of ``ingest_yolo`` of 3.x says so."""
    photo(tmp_path / "in/1.jpg")
    (tmp_path / "in/1.txt").write_text("0 0.1 0.1 0.2 0.3 0.4 0.5\n")
    ds = lakebed.ingest_yolo(tmp_path / "in", "mem://", progressbar=False)
    for info in ({"task": "segment"}, {}):
        ds.polygons.info = info
        out = tmp_path / f"out{len(info)}"
        lakebed.export_to("yolo", ds, out, progressbar=False)
        assert (out / "labels/00000000.txt").read_text() == "0 0.1 0.1 0.2 0.3 0.4 0.5\n"
