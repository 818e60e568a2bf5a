"""CVAT comes in: all its shapes, tags, tracks and masks, by a pass that notes where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.errors import IngestionError
from lakebed.importers.detection import cvat
from unit_tests.lakebed.importers.sources import imported, photo

META = """<meta><job><labels>
  <label><name>dog</name><color>#ff0000</color><type>any</type><attributes>
    <attribute><name>age</name><values>1\n2</values></attribute></attributes></label>
  <label><name>cat</name></label>
</labels></job></meta>"""

XML = f"""<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version>{META}
  <image id="0" name="1.jpg" subset="Train" width="30" height="20">
    <box label="cat" source="manual" occluded="1" xtl="1.50" ytl="2.00" xbr="5.25" ybr="8.00" z_order="2"
      rotation="10.5">
      <attribute name="age">2</attribute><attribute name="note">schön &amp; alt</attribute>
    </box>
    <polygon label="dog" occluded="0" points="1.00,1.00;9.00,1.00;9.50,7.00" group_id="4" z_order="0"/>
    <polyline label="dog" points="0,0;3,4"/>
    <points label="cat" points="6,7"/>
    <ellipse label="cat" cx="10" cy="10" rx="3" ry="2"/>
    <cuboid label="dog" xtl1="1" ytl1="1" xbl1="1" ybl1="3" xtr1="2" ytr1="1" xbr1="2" ybr1="3" xtl2="4" ytl2="1"
      xbl2="4" ybl2="3" xtr2="5" ytr2="1" xbr2="5" ybr2="3"/>
    <mask label="dog" rle="1, 2, 1, 2" left="4" top="5" width="3" height="2"/>
    <skeleton label="cat"><points label="nose" points="3,3" outside="0"/><points label="tail" points="5,6"/></skeleton>
    <tag label="dog" source="manual"><attribute name="age">1</attribute><attribute name="age">3</attribute></tag>
  </image><image id="1" name="deep/2.jpg" subset="val" width="30" height="20"/>
  <image id="2" name="3.jpg" subset="val" width="30" height="20"></image>
</annotations>
"""

TRACKS = f"""<?xml version="1.0"?>
<annotations><version>1.1</version>{META}
  <track id="7" label="cat" source="manual">
    <box frame="0" keyframe="1" outside="0" occluded="0" xtl="1" ytl="2" xbr="3" ybr="4"/>
    <box frame="1" keyframe="0" outside="0" occluded="0" xtl="2" ytl="2" xbr="4" ybr="4"/>
    <box frame="2" keyframe="1" outside="1" occluded="0" xtl="2" ytl="2" xbr="4" ybr="4"/>
  </track>
  <track id="8" label="dog"><polygon frame="1" keyframe="1" outside="0" points="0,0;1,0;1,1"/></track>
</annotations>
"""


def pets(root: Path) -> None:
    for number, name in enumerate(("1", "deep/2", "3")):
        photo(root / f"images/{name}.jpg", number)
    (root / "annotations.xml").write_text(XML)


def test_all_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cvat, "_READ_BYTES", 7)
    pets(tmp_path / "pets")
    report = imported("auto", tmp_path / "pets", strict=True)
    ds = report.dataset
    assert (report.format, report.written, report.splits) == ("cvat", 3, {"train": 1, "val": 2})
    assert ds.file.text() == [f"images/{name}.jpg" for name in ("1", "deep/2", "3")]
    assert ds.labels.info.class_names == ["dog", "cat"]
    assert ds.labels.info.labels[0]["color"] == "#ff0000"
    assert ds.labels[0].data()["text"] == ["cat", "dog", "dog", "cat", "cat", "dog", "dog", "cat"]
    boxes = [
        [1.5, 2, 5.25, 8],
        [1, 1, 9.5, 7],
        [0, 0, 3, 4],
        [6, 7, 6, 7],
        [7, 8, 13, 12],
        [1, 1, 5, 3],
        [4, 5, 7, 7],
    ]
    assert ds.boxes[0].numpy().tolist() == [*boxes, [3, 3, 5, 6]]
    points = [one.tolist() for one in ds.polygons[0].numpy()]
    assert points[0] == [[1.5, 2], [5.25, 8]]
    assert points[1] == [[1, 1], [9, 1], [9.5, 7]]
    assert points[5] == [[1, 1], [1, 3], [2, 1], [2, 3], [4, 1], [4, 3], [5, 1], [5, 3]]
    told = ds.attributes[0].data()["value"]
    assert told[0] == {
        "shape": "box",
        "source": "manual",
        "occluded": 1,
        "z_order": 2,
        "rotation": 10.5,
        "attributes": {"age": 2, "note": "schön & alt"},
    }
    assert (told[1]["group_id"], told[4]["rx"], told[6]["left"]) == (4, 3, 4)
    assert [part["label"] for part in told[7]["elements"]] == ["nose", "tail"]
    assert ds.annotation[0].data()["value"]["id"] == 0
    mask = ds.rle_mask[0].numpy()[:, :, 0]
    assert mask.shape == (20, 30)
    assert mask[5:7, 4:7].tolist() == [[False, True, True], [False, True, True]]
    assert mask.sum() == 4
    assert ds.rle_object[0].numpy().tolist() == [6]
    assert ds.image_labels[0].data()["text"] == ["dog"]
    assert ds.image_label_attributes[0].data()["value"] == [
        {"source": "manual", "attributes": {"age": [1, 3]}}
    ]
    assert [len(ds.boxes[row].numpy()) for row in (1, 2)] == [0, 0]
    assert ds.info["imports"][0]["about"]["meta"]["annotations.xml"]["job"]


def test_a_file_for_each_split(tmp_path: Path) -> None:
    for split in ("train", "val"):
        photo(tmp_path / f"pets/images/{split}.jpg")
        text = f'<annotations><image id="0" name="{split}.jpg"><tag label="cat"/></image></annotations>'
        (tmp_path / f"pets/{split}.xml").write_text(text)
    report = imported("cvat", tmp_path / "pets", strict=True)
    assert report.splits == {"train": 1, "val": 1}


def test_tracks_of_a_video(tmp_path: Path) -> None:
    for number in range(3):
        photo(tmp_path / f"clip/images/frame_{number:06d}.jpg")
    (tmp_path / "clip/annotations.xml").write_text(TRACKS)
    report = imported("cvat", tmp_path / "clip")
    ds = report.dataset
    assert ds.file.text() == ["images/frame_000000.jpg", "images/frame_000001.jpg"]
    assert ds.labels[1].data()["text"] == ["cat", "dog"]
    first = ds.attributes[0].data()["value"][0]
    assert (first["track"], first["keyframe"]) == ({"id": 7, "source": "manual"}, 1)
    assert "1 shapes of tracks are outside" in report.problems[0].reason


def test_one_file_without_images_of_frames(tmp_path: Path) -> None:
    (tmp_path / "clip.xml").write_text(TRACKS)
    ds = imported("auto", tmp_path / "clip.xml").dataset
    assert ds.file.text() == ["frame_000000", "frame_000001"]
    assert ds.images.null_mask().tolist() == [True, True]


def test_what_is_damaged_or_missing_is_counted(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    text = (
        XML.replace('xtl="1.50"', 'xtl="one"')
        .replace("1, 2, 1, 2", "1, 2, 1, 9")
        .replace("<polyline", "<spline")
    )
    text = (
        text.replace('name="3.jpg"', 'name="../../3.jpg"')
        .replace('label="dog" source', "source")
        .replace("6,7", "6")
    )
    (tmp_path / "pets/annotations.xml").write_text(text)
    (tmp_path / "pets/images/3.jpg").unlink()
    report = imported("cvat", tmp_path / "pets")
    assert (report.written, report.skipped) == (2, 4 + 1)
    # A mask that cannot be read costs itself; its box stays.
    assert report.dataset.labels[0].data()["text"] == ["dog", "cat", "dog", "dog", "cat"]
    assert report.dataset.rle_mask.null_mask().tolist() == [True, True]


def test_declarations_of_types_and_entities_are_refused(tmp_path: Path) -> None:
    pets(tmp_path / "pets")
    head = '<!DOCTYPE annotations [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    (tmp_path / "pets/annotations.xml").write_text(XML.replace("?>", f"?>{head}"))
    with pytest.raises(IngestionError, match="declares a document type"):
        imported("cvat", tmp_path / "pets")


def make_all(root: Path) -> None:
    pets(root)
    (root / "tracks.xml").write_text(TRACKS)
