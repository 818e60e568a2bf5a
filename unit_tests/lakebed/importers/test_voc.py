"""Pascal VOC comes in: boxes and what else objects have, sets, masks, and what is damaged or hostile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.sources import imported, photo

XML = """<?xml version="1.0" encoding="utf-8"?>
<annotation>
  <folder>VOC</folder><filename>1.jpg</filename>
  <source><database>ours</database></source>
  <size><width>30</width><height>20</height><depth>3</depth></size><segmented>1</segmented>
  <object>
    <name>dog</name><pose>Left</pose><truncated>0</truncated><difficult>1</difficult>
    <bndbox><xmin>2.5</xmin><ymin>3</ymin><xmax>10</xmax><ymax>12</ymax></bndbox>
    <part><name>head</name><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>5</xmax><ymax>6</ymax></bndbox></part>
  </object>
  <object>
    <name>cat</name><bndbox><xmax>30</xmax><xmin>1</xmin><ymin>1</ymin><ymax>20</ymax></bndbox>
  </object>
</annotation>
"""


def pets(root: Path) -> None:
    """Three images in two sets, the first with objects and masks, the last without an annotation."""
    for number in range(1, 4):
        photo(root / f"JPEGImages/{number}.jpg", number)
    for folder in ("Annotations", "ImageSets/Main", "SegmentationClass", "SegmentationObject"):
        (root / folder).mkdir(parents=True)
    (root / "Annotations/1.xml").write_text(XML)
    (root / "Annotations/2.xml").write_text("<annotation><filename>2.jpg</filename></annotation>")
    (root / "ImageSets/Main/train.txt").write_text("1\n3\n")
    (root / "ImageSets/Main/val.txt").write_text("2\n")
    (root / "ImageSets/Main/trainval.txt").write_text("1\n2\n3\n")
    mask = Image.fromarray(np.array([[0, 12], [255, 8]], np.uint8), "P")
    mask.putpalette([value for number in range(256) for value in (number, 255 - number, 7)])
    mask.save(root / "SegmentationClass/1.png")
    mask.save(root / "SegmentationObject/1.png")


def test_a_folder_as_the_challenge_has_it(tmp_path: Path) -> None:
    pets(tmp_path / "VOC2012")
    report = imported("auto", tmp_path, strict=True)
    ds = report.dataset
    assert (report.format, report.written, report.splits) == ("voc", 3, {"train": 2, "val": 1})
    assert ds.file.text() == [f"VOC2012/JPEGImages/{number}.jpg" for number in (1, 3, 2)]
    assert ds.labels.info.class_names == ["cat", "dog"]
    assert ds.labels[0].data()["text"] == ["dog", "cat"]
    assert ds.boxes[0].numpy().tolist() == [[2.5, 3, 10, 12], [1, 1, 30, 20]]
    assert ds.boxes.info.coords == {"type": "pixel", "mode": "LTRB"}
    first, second = ds.attributes[0].data()["value"]
    head = {"name": "head", "bndbox": {"xmin": 2, "ymin": 3, "xmax": 5, "ymax": 6}}
    assert first == {"pose": "Left", "truncated": 0, "difficult": 1, "part": [head]}
    assert second == {}
    told = ds.annotation[0].data()["value"]
    assert (told["source"], told["segmented"], told["size"]["depth"]) == ({"database": "ours"}, 1, 3)
    assert "polygons" not in ds.tensors
    # The objects of the second are unknown; the third has none.
    assert ds.boxes.null_mask().tolist() == [False, True, False]
    assert ds.boxes[2].shape == (0, 4)
    assert ds.masks[0].numpy().tolist() == [[0, 12], [255, 8]]
    assert ds.masks.info.class_names[12] == "dog"
    assert ds.instances[0].numpy().tolist() == [[0, 12], [255, 8]]
    assert ds.masks.null_mask().tolist() == [False, True, True]


def test_xml_beside_images_and_folders_as_splits(tmp_path: Path) -> None:
    for split in ("train", "valid"):
        photo(tmp_path / f"pets/{split}/a.jpg")
        (tmp_path / f"pets/{split}/a.xml").write_text(XML)
    report = imported("voc", tmp_path / "pets", strict=True)
    assert report.splits == {"train": 1, "val": 1}


def test_images_that_no_set_has_are_counted(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/ImageSets/Main/val.txt").unlink()
    (tmp_path / "pets/ImageSets/Main/trainval.txt").unlink()
    report = lakebed.import_from("voc", tmp_path / "pets", dry_run=True)
    assert report.splits == {"train": 2}
    assert [(one.where, one.rows) for one in report.problems] == [("ImageSets", 1)]


def test_images_and_xml_in_folders_side_by_side(tmp_path: Path) -> None:
    for split in ("a", "b"):
        photo(tmp_path / f"pets/{split}/data/1.jpg")
        (tmp_path / f"pets/{split}/labels").mkdir()
        (tmp_path / f"pets/{split}/labels/1.xml").write_text(XML)
    ds = imported("auto", tmp_path / "pets", strict=True).dataset
    assert ds.file.text() == ["a/data/1.jpg", "b/data/1.jpg"]
    assert [len(boxes) for boxes in ds.boxes.numpy(aslist=True)] == [2, 2]


def test_colors_by_a_label_map(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    pixels = np.array([[[0, 0, 0], [128, 0, 64]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "pets/SegmentationClass/1.png")
    others = np.array([[[0, 0, 0], [1, 2, 3]]], np.uint8)  # of no palette
    Image.fromarray(others).save(tmp_path / "pets/SegmentationObject/1.png")
    (tmp_path / "pets/labelmap.txt").write_text(
        "# label:color_rgb:parts:actions\nbackground:0,0,0::\ncat:128,0,64::\n"
    )
    ds = imported("voc", tmp_path / "pets", strict=True).dataset
    assert ds.masks[0].numpy().tolist() == [[0, 1]]
    assert ds.masks.info.class_names == ["background", "cat"]
    assert ds.instances[0].numpy().tolist() == [[0, 65536 + 512 + 3]]
    # Without colors they are those of the palette: 4 is blue, 128.
    Image.fromarray(np.array([[[0, 0, 0], [0, 0, 128]]], np.uint8)).save(
        tmp_path / "pets/SegmentationClass/1.png"
    )
    (tmp_path / "pets/labelmap.txt").write_text("a:::\nb:::\nc:::\nd:::\ne:::\n")
    ds = imported("voc", tmp_path / "pets", strict=True).dataset
    assert ds.masks[0].numpy().tolist() == [[0, 4]]
    Image.fromarray(pixels).save(tmp_path / "pets/SegmentationClass/1.png")
    (tmp_path / "pets/labelmap.txt").write_text("background:0,0,0::\n")
    report = imported("voc", tmp_path / "pets")
    assert "#800040" in report.left_out[0]["reason"]


def test_masks_that_are_no_images_have_one_reason_each_time(tmp_path: Path) -> None:
    pets(tmp_path)
    (tmp_path / "SegmentationClass/1.png").write_bytes(b"no image")
    told = [imported("voc", tmp_path).reasons for _ in range(2)]
    assert told == [{"the mask ... is not an image that Pillow knows": 1}] * 2


def test_what_is_damaged_or_missing_is_counted(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/Annotations/1.xml").write_text(XML.replace(">2.5<", ">two<"))
    (tmp_path / "pets/Annotations/2.xml").write_text("<annotation>")
    (tmp_path / "pets/Annotations/9.xml").write_text(XML.replace("1.jpg", "../../secret.jpg"))
    (tmp_path / "pets/ImageSets/Main/val.txt").write_text("2\n7\n")
    report = imported("voc", tmp_path / "pets")
    assert (report.written, report.skipped) == (2, 4)
    assert "Annotations/1.xml object 1" in [entry["where"] for entry in report.left_out]
    assert sorted(problem.where for problem in report.problems) == [
        "Annotations/2.xml",
        "Annotations/9.xml",
        "ImageSets/Main/val.txt line 2",
    ]


@pytest.mark.parametrize(
    "head",
    [
        '<!DOCTYPE annotation [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;">]>',
        '<!DOCTYPE annotation SYSTEM "http://127.0.0.1:9/x.dtd">',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_declarations_of_types_and_entities_are_refused(tmp_path: Path, head: str, encoding: str) -> None:
    pets(tmp_path / "pets")
    text = head + XML.partition("?>")[2].replace(">dog<", ">&x;<")
    (tmp_path / "pets/Annotations/1.xml").write_bytes(text.encode(encoding))
    with pytest.raises(IngestionError, match="declares a document type"):
        imported("voc", tmp_path / "pets", strict=True)


def test_documents_that_nest_without_end_are_refused(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    (tmp_path / "pets/Annotations/1.xml").write_text("<annotation>" + "<a>" * 100_000)
    with pytest.raises(IngestionError, match="nests elements more than"):
        imported("voc", tmp_path / "pets", strict=True)
