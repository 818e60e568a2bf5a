"""COCO: what annotations become, whatever holds them, and what is told of those that fit nothing."""

from __future__ import annotations

import gc
import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.codecs.sample import Sample
from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.detection.coco import many, plan
from lakebed.importers.detection.coco import rows as coco_rows
from lakebed.importers.tables import json_index
from lakebed.storage.url import open_storage, parse
from lakebed.transforms.output import Skipped
from unit_tests.lakebed.importers.sources import imported

CATEGORIES = [
    {"id": 7, "name": "cat", "supercategory": "animal"},
    {"id": 3, "name": "dog", "supercategory": "animal"},
]


def written(
    root: Path, name: str, images: list[dict[str, Any]], annotations: list[dict[str, Any]], **more: Any
) -> Path:
    path = root / "annotations" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"info": {"year": 2026}, "images": images, "annotations": annotations, **more})
    )
    return path


@pytest.fixture
def coco(tmp_path: Path) -> Path:
    return make_coco(tmp_path / "coco")


def make_coco(root: Path) -> Path:
    """Two pictures of train and one of val, with objects, a crowd, captions and a person."""
    images: dict[str, list[dict[str, Any]]] = {"train": [], "val": []}
    for number, (split, name) in enumerate((("train", "b.jpg"), ("train", "a.jpg"), ("val", "ü.jpg"))):
        path = root / f"{split}2026" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 8, 3), 50 * number, np.uint8)).save(path)
        record = {"id": 10 + number, "file_name": name, "height": 6, "width": 8, "license": 4}
        images[split].append(record)
    box = {"bbox": [1.25, 2, 3.5, 4], "area": 14.0, "iscrowd": 0}
    parts = [[1, 1, 2, 1, 2, 2.5], [3, 3, 4, 3, 4, 4]]
    crowd = {"size": [6, 8], "counts": [2, 10, 36]}
    train = [
        {"id": 1, "image_id": 11, "category_id": 3, "segmentation": parts, "score": 0.5, **box},
        {"id": 2, "image_id": 11, "category_id": 7, "segmentation": crowd, **box, "iscrowd": 1},
        {"id": 3, "image_id": 99, "category_id": 7, "segmentation": [], **box},
    ]
    val = [{"id": 4, "image_id": 12, "category_id": 7, "segmentation": parts[:1], **box}]
    written(root, "instances_train2026", images["train"], train, categories=CATEGORIES)
    written(root, "instances_val2026", images["val"], val, categories=CATEGORIES)
    captions = [{"id": 5, "image_id": 10, "caption": "grüß"}, {"id": 6, "image_id": 10, "caption": "b"}]
    written(root, "captions_train2026", images["train"], captions)
    person = {"id": 1, "name": "person", "keypoints": ["nose", "ear"], "skeleton": [[1, 2]]}
    points = [
        {"id": 7, "image_id": 10, "category_id": 1, "keypoints": [1, 2, 2, 0, 0, 0], "num_keypoints": 1}
    ]
    written(root, "person_keypoints_train2026", images["train"], points, categories=[person])
    return root


@pytest.fixture(params=["held", "in the file"])
def coco_either_way(request: pytest.FixtureRequest, coco: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, read at once, and an element at a time."""
    if request.param == "in the file":
        monkeypatch.setattr(json_index, "HELD_BYTES", 0)
    return coco


def test_every_kind_of_annotation_comes_through(coco_either_way: Path) -> None:
    report = imported("auto", coco_either_way)
    ds = report.dataset
    assert report.format == "coco"
    assert report.splits == {"train": 2, "val": 1}
    assert ds.file.text() == ["b.jpg", "a.jpg", "ü.jpg"]
    assert ds.image_id.numpy().ravel().tolist() == [10, 11, 12]
    assert ds.image_info[1].dict() == {"height": 6, "width": 8, "license": 4}
    of = ds.instances
    assert [len(boxes) for boxes in of.bbox.numpy(aslist=True)] == [0, 2, 1]
    assert of.bbox[1].numpy()[0].tolist() == [1.25, 2, 3.5, 4]
    assert of.bbox.info.coords == {"type": "pixel", "mode": "LTWH"}
    assert of.category_id[1].data()["text"] == ["dog", "cat"]
    assert of.category_id.info["category_ids"] == [7, 3]
    assert of.id[1].numpy().tolist() == [1, 2]
    assert [part.tolist() for part in of.segmentation[1].numpy()] == [
        [[1, 1], [2, 1], [2, 2.5]],
        [[3, 3], [4, 3], [4, 4]],
    ]
    assert of.segmentation_object[1].numpy().tolist() == [0, 0]
    mask = of.rle_mask[1].numpy()
    assert mask.shape == (6, 8, 1)
    assert np.flatnonzero(mask[..., 0].T).tolist() == list(range(2, 12))
    assert of.rle_object[1].numpy().tolist() == [1]
    assert of.other[1].dict() == [{"score": 0.5}, {}]
    assert ds.captions.caption[0].numpy().ravel().tolist() == ["grüß", "b"]
    keypoints = ds.person_keypoints.keypoints
    assert keypoints[0].numpy()[:, 0].tolist() == [1, 2, 2, 0, 0, 0]
    assert keypoints.info["keypoints"] == ["nose", "ear"]
    about = ds.info["imports"][0]["about"]
    assert about["files"]["annotations/instances_train2026.json"]["values"]["info"] == {"year": 2026}
    # The annotation of a missing picture is told, and costs no row.
    assert report.skipped == 0
    assert any("image_id 99" in problem.reason for problem in report.problems)


def test_one_kind_needs_no_group_and_a_file_is_enough(coco: Path) -> None:
    file = coco / "annotations/instances_val2026.json"
    ds = imported("coco", file, images=str(coco / "val2026")).dataset
    assert ds.category_id[0].data()["text"] == ["cat"]
    renamed = imported(
        "coco", coco, annotations=[str(file)], names={"bbox": "boxes"}, ignore=["area"]
    ).dataset
    assert "boxes" in renamed.tensors
    assert "area" not in renamed.tensors


def test_only_the_groups_that_are_asked_for_are_imported(coco: Path) -> None:
    """A picture that none of their files lists is told; of one group the tensors need no name of it."""
    both = imported("coco", coco, only="instances, captions")
    assert {name.partition("/")[0] for name in both.dataset.tensors if "/" in name} == {
        "instances",
        "captions",
    }
    assert both.written == 3
    words = imported("coco", coco, only=["captions"])
    assert "caption" in words.dataset.tensors
    assert words.dataset.file.text() == ["b.jpg", "a.jpg"]
    told = [problem for problem in words.problems if "none of these annotation files" in problem.reason]
    assert [problem.where for problem in told] == ["val2026/ü.jpg"]
    with pytest.raises(IngestionError, match="no annotations 'instance'; it has: captions, instances"):
        lakebed.import_from("coco", coco, dry_run=True, only=["instance"])


def test_what_lies_beside_a_set_is_told(coco: Path) -> None:
    (coco / "rows.csv").write_text("a\n1\n")
    (coco / "README.md").write_text("about")
    report = lakebed.import_from("coco", coco, dry_run=True)
    found = {problem.where: problem.reason for problem in report.problems}
    assert found["rows.csv"].endswith(f"lakebed import csv {coco}/rows.csv DEST")
    assert "README.md" not in found


@pytest.mark.parametrize("nothing", [[], None], ids=str)
def test_what_is_empty_in_all_annotations_makes_no_tensor(tmp_path: Path, nothing: Any) -> None:
    """As tools write sets of boxes; an annotation that has some makes the tensor, also a late one."""
    root = tmp_path / "coco"
    for name in ("1.png", "2.png"):
        (root / "images").mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((6, 8, 3), np.uint8)).save(root / "images" / name)
    images = [{"id": n, "file_name": f"{n}.png", "height": 6, "width": 8} for n in (1, 2)]
    some = {"category_id": 7, "bbox": [1, 1, 2, 2], "segmentation": nothing, "keypoints": nothing}
    first = [{"id": n, "image_id": n, **some} for n in (1, 2)]
    written(root, "instances_train", images[:1], first[:1], categories=CATEGORIES)
    path = written(root, "instances_val", images[1:], first[1:], categories=CATEGORIES)
    path.write_text(path.read_text().replace("[]", "[ ]"))

    found = imported("coco", root, strict=True).dataset
    assert {"bbox", "category_id", "id"} <= set(found.tensors)
    assert {"segmentation", "segmentation_object", "keypoints", "other"}.isdisjoint(found.tensors)

    later = {**first[1], "id": 3, "segmentation": [[1, 1, 2, 1, 2, 2]]}
    written(root, "instances_val", images[1:], [first[1], later], categories=CATEGORIES)
    again = imported("coco", root, inspect=1).dataset
    assert [len(parts) for parts in again.segmentation.numpy(aslist=True)] == [0, 1]
    boxes = [{key: value for key, value in one.items() if key != "id"} for one in first]
    boxes = [{**one, "bbox": nothing, "segmentation": [[1, 1, 2, 1, 2, 2]]} for one in boxes]
    written(root, "instances_val", images[1:], boxes[1:], categories=CATEGORIES)
    (root / "annotations/instances_train.json").unlink()
    outlines = imported("coco", root)
    assert outlines.dataset.category_id[0].data()["text"] == ["cat"]
    assert "bbox" not in outlines.dataset.tensors


def test_versions_are_merged_by_ids_and_numbers_need_no_record_of_their_shapes(
    coco: Path, tmp_path: Path
) -> None:
    lakebed.import_from("coco", coco, tmp_path / "lake", progressbar=False)
    hidden = {path.name for path in (tmp_path / "lake/versions").rglob("_*_*") if path.is_dir()}
    assert {"_bbox_id", "_area_id", "_image_id_id", "_segmentation_shape", "_rle_mask_shape"} <= hidden
    assert (
        not {"_bbox_shape", "_area_shape", "_iscrowd_shape", "_category_id_shape", "_image_id_shape"} & hidden
    )
    ds = lakebed.load(tmp_path / "lake")
    ds.checkout("other", create=True)
    ds["instances/area"][0] = np.array([5.0])
    ds.commit()
    ds.checkout("main")
    ds.pop(2)
    ds.merge("other")
    assert len(ds) == 2
    assert ds["instances/area"][0].numpy().tolist() == [5.0]
    assert ds["instances/bbox"].shapes().tolist() == [[0, 4], [2, 4]]


def test_pictures_that_are_missing_or_broken_are_left_out(coco: Path) -> None:
    (coco / "train2026/a.jpg").unlink()
    (coco / "val2026/ü.jpg").write_bytes(b"no picture")
    (coco / "val2026/unlisted.jpg").write_bytes(b"")
    report = imported("coco", coco)
    # Of train and of the captions and key points: the picture is missing once for each file that lists it.
    assert report.written == 1
    assert {entry["where"] for entry in report.left_out} == {"a.jpg", "val2026/ü.jpg"}
    assert any("that no annotation file lists" in problem.reason for problem in report.problems)


def test_panoptic_segments(tmp_path: Path) -> None:
    root = tmp_path / "panoptic"
    (root / "val").mkdir(parents=True)
    (root / "masks").mkdir()
    Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(root / "val/1.jpg")
    ids = np.array([[1, 1, 300], [0, 70000, 300]], np.uint32)
    Image.fromarray(np.stack([ids % 256, ids // 256 % 256, ids // 65536], 2).astype(np.uint8)).save(
        root / "masks/1.png"
    )
    segments = [
        {"id": 1, "category_id": 7, "area": 2, "bbox": [0, 0, 2, 1], "iscrowd": 0},
        {"id": 300, "category_id": 3, "area": 2, "bbox": [2, 0, 1, 2], "iscrowd": 0},
    ]
    annotation = {"image_id": 1, "file_name": "1.png", "segments_info": segments, "note": "x"}
    written(root, "panoptic_val", [{"id": 1, "file_name": "1.jpg"}], [annotation], categories=CATEGORIES)
    ds = imported("coco", root).dataset
    assert ds.segment_ids[0].numpy().tolist() == ids.tolist()
    assert ds.id[0].numpy().tolist() == [1, 300]
    assert ds.category_id[0].data()["text"] == ["cat", "dog"]
    assert ds.bbox[0].numpy().tolist() == [[0, 0, 2, 1], [2, 0, 1, 2]]
    assert ds.other[0].dict()[0]["note"] == "x"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "not JSON"),
        (b"[]", "object|expected"),
        (b'{"annotations": []}', "images"),
        (b'{"images": [1], "annotations": []}', "no file_name"),
        (b'{"images": [{"id": 1', "not JSON"),
        (b'{"images": ' + b"[" * 100_000, "nested|not JSON"),
        (b'{"images": [{"file_name": "\xff"}]}', "not JSON|UTF-8|no file"),
    ],
)
def test_what_is_no_coco_file_is_told(
    tmp_path: Path, text: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.json").write_bytes(text)
    (tmp_path / "a.jpg").write_bytes(b"")
    for held in (1 << 20, -1):
        monkeypatch.setattr(json_index, "HELD_BYTES", held)
        with pytest.raises(IngestionError, match=problem):
            imported("coco", tmp_path, annotations=["x.json"])


def test_the_copy_of_a_damaged_file_in_a_bucket_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_index, "HELD_BYTES", -1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bucket = open_storage(parse("mem://damaged-coco"))
    bucket.put("x.json", b'{"images": [], "annotations": []')
    with pytest.raises(IngestionError, match="not JSON"):
        imported("coco", "mem://damaged-coco")
    assert not list(tmp_path.iterdir())


def _plain(value: Any) -> Any:
    """Return a value so that it can be compared: arrays with their dtypes and shapes, samples by their files."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, repr(value.tolist())
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.path if isinstance(value, Sample) else value


@pytest.mark.parametrize("plain", [True, False])
def test_many_pictures_at_once_become_what_each_becomes(tmp_path: Path, plain: bool) -> None:
    """The ordinary annotation, and one after the other whatever may be wrong with one; each in a picture of its own."""
    good = {
        "bbox": [1, 2, 3, 4],
        "area": 1.5,
        "iscrowd": 0,
        "category_id": 3,
        "segmentation": [[1, 2, 3.5, 4, 5, 6], [1, 2, 3, 4, 5, 6]],
        "keypoints": [1, 2, 2, 0, 0, 0],
        "caption": "grüß",
        "score": None,
    }
    rle = {"size": [6, 8], "counts": [2, 10, 36]}
    changes: list[dict[str, Any]] = [
        {},
        {"bbox": [1.25, 2, 3, 4]},
        {"bbox": [1, 2, 3]},
        {"bbox": [1, 2, 3, 4, 5]},
        {"bbox": [1, 2, 3, "4"]},
        {"bbox": None},
        {"area": 2},
        {"area": "large"},
        {"area": 10**400},
        {"iscrowd": True},
        {"iscrowd": 2**70},
        {"category_id": 99},
        {"category_id": "cat"},
        {"segmentation": []},
        {"segmentation": [[]]},
        {"segmentation": [[1, 2, 3]]},
        {"segmentation": [[1, [2], 3, 4]]},
        {"segmentation": [[[1, 2], [3, 4]]]},
        {"segmentation": "none"},
        {"segmentation": None},
        {"segmentation": rle},
        {"segmentation": {"size": [6, 8], "counts": [1]}},
        {"segmentation": {"size": [5, 8], "counts": [40]}},
        {"segmentation": {"counts": [48]}},
        {"keypoints": [1, 2]},
        {"keypoints": [2**40, 2, 2, 0, 0, 0]},
        {"keypoints": [1, 2, 2.5, 0, 0, 0]},
        {"keypoints": []},
        {"caption": 5},
        {"caption": "\\"},
        {"score": {"a": [1]}},
    ]
    changed = [{**good, **change} for change in changes]
    changed += [{key: value for key, value in good.items() if key != left} for left in good]
    images: list[dict[str, Any]] = [
        {"id": number, "file_name": f"{number}.jpg", "width": 8, "height": 6}
        for number in range(len(changed) + 5)
    ]
    images[-1]["height"], images[-2]["width"] = "x", 1e400
    (tmp_path / "images").mkdir()
    for image in images:
        (tmp_path / "images" / image["file_name"]).write_bytes(b"never looked at")
    person = {**CATEGORIES[0], "keypoints": ["nose", "ear"]}
    categories = [person, *CATEGORIES[1:]]
    captions = [{"id": 1, "image_id": 2, "caption": "two"}, {"id": 2, "image_id": 2, "caption": "more"}]
    written(tmp_path, "captions_val", images, captions)
    # Tensors are those of good annotations, and of masks.
    annotations = [{"id": 1, "image_id": 0, **good}, {"id": 2, "image_id": 0, **good, "segmentation": rle}]
    written(tmp_path, "instances_val", images, annotations, categories=categories)
    before = plan(Source.of(tmp_path), plain=plain).context
    for number, one in enumerate(changed):
        annotations += [{"id": number, "image_id": number, **one} for one in (one, good)]
    written(tmp_path, "instances_val", images, annotations, categories=categories)
    found = plan(Source.of(tmp_path), plain=plain)
    found.context = replace(found.context, readers=before.readers, tensors=before.tensors)
    *items, wide, tall = found.items
    for item in (wide, tall):
        with pytest.raises((ValueError, OverflowError)):
            list(coco_rows(item, found.context))
    one_by_one = [row for item in items for row in coco_rows(item, found.context)]
    together = list(many(items, found.context))
    skipped = [one for one in one_by_one if isinstance(one, Skipped)]
    assert len(skipped) > 15
    assert sorted(map(str, skipped)) == sorted(str(one) for one in together if isinstance(one, Skipped))
    rows = [one for one in one_by_one if not isinstance(one, Skipped)]
    assert len(rows) > 15
    columns = [one for one in together if not isinstance(one, Skipped)]
    again = [dict(zip(of, row, strict=True)) for _, of in columns for row in zip(*of.values(), strict=True)]
    for one, other in zip(rows, again, strict=True):
        assert {name: _plain(value) for name, value in one.items()} == {
            name: _plain(value) for name, value in other.items()
        }
    which = [f"{tmp_path}/{items[at].file}" for places, _ in columns for at in places]
    assert which == [row["images"].path for row in rows]


def test_problems_of_annotations_are_counted_beyond_the_first(
    coco: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakebed.importers.detection.coco._TOLD", 0)
    told = [(one.where, one.reason) for one in plan(Source.of(coco)).problems]
    assert told == [("annotations", "1 more problems")]


def test_pictures_with_many_masks_are_not_held_together(coco: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(Source.of(coco))
    assert [len(which) for which, _ in many(found.items, found.context)] == [3]
    monkeypatch.setattr("lakebed.importers.detection.coco._MASK_BYTES", 47)  # a mask has 48
    assert [len(which) for which, _ in many(found.items, found.context)] == [1, 1, 1]


def test_files_are_held_as_far_as_they_are_small_together(
    coco: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [path.stat().st_size for path in sorted((coco / "annotations").iterdir())]
    monkeypatch.setattr(json_index, "HELD_BYTES", sum(sizes[:2]))
    files = plan(Source.of(coco)).context.files
    assert [file.held is not None for file in files] == [True, True, False, False]


def test_the_search_for_cycles_goes_on_after_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'{"images": [')
    assert gc.isenabled()
    with pytest.raises(IngestionError):
        imported("coco", tmp_path, annotations=["x.json"])
    assert gc.isenabled()


# -- one bad annotation of many ----------------------------------------------------------------------------------------

PICTURES = 20
MISSING = "missing"


def _set(root: Path, key: str = "", values: Sequence[Any] = (), *, as_floats: bool = False) -> Path:
    """Write a set of 60 annotations, the first with other values; the pictures are never looked at."""
    (root / "images").mkdir(parents=True)
    annotations: list[dict[str, Any]] = [
        {
            "id": i + 1,
            "image_id": i % PICTURES,
            "category_id": 1,
            "bbox": [1, 2, 3, 4 + i],
            "segmentation": [[0, 0, 5, 0, 5, 5]],
            "area": 12.5,
            "iscrowd": 0,
            "score": 0.5,
        }
        for i in range(60)
    ]
    for one, value in zip(annotations, values, strict=False):
        one[key] = value
        if value is MISSING:
            del one[key]
    images = [{"id": i, "file_name": f"{i}.jpg", "width": 8, "height": 6} for i in range(PICTURES)]
    for image in images:
        Image.new("RGB", (8, 6)).save(root / "images" / str(image["file_name"]))
    if as_floats:  # as pandas writes them
        for one in annotations:
            one.update(id=float(one["id"]), image_id=float(one["image_id"]), category_id=1.0)
        images = [{**image, "id": float(str(image["id"]))} for image in images]
    written(root, "instances_val", images, annotations, categories=[{"id": 1, "name": "car"}])
    return root


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    root = _set(tmp_path_factory.mktemp("good") / "set")
    return lakebed.import_from("coco", root, "mem://coco-good", overwrite=True, progressbar=False).dataset


BAD: list[tuple[str, list[Any], bool]] = [
    ("bbox", [MISSING, None, [], [1, 2, 3], [1, 2, 3, 4, 5], ["1", "2", "3", "4"], "1 2 3 4", {"x": 1},
              [[1, 2], [3, 4]], 7, [True, 1, 2, 3]], True),
    ("category_id", [MISSING, None, 9, "car", [1], 1.5], True),
    ("area", [MISSING, None, "12", [1], True], True),
    ("score", [MISSING, None, "high"], True),
    ("segmentation", ["none", 5, [1, 2, 3, 4.5], [1, 2, 3, 4], [[1, 2, 3]], [["a", "b"]], [{"x": 1}]], True),
    ("iscrowd", ["no"], True),
    ("iscrowd", [True, MISSING], False),
    ("iscrowd", [1.0], False),
    ("iscrowd", [1.0, True, MISSING], False),
    ("segmentation", [[0, 0, 5, 0, 5, 5], None, MISSING, [], [[]]], False),
]  # fmt: skip


@pytest.mark.parametrize(("key", "values", "is_told"), BAD)
def test_a_bad_annotation_costs_itself_and_nothing_else(
    tmp_path: Path, good: lakebed.Dataset, key: str, values: list[Any], is_told: bool
) -> None:
    """Each value stands in an annotation of another picture."""
    report = imported("coco", _set(tmp_path / "set", key, values))
    ds = report.dataset
    assert {name: ds[name].htype for name in ds.tensors} == {name: good[name].htype for name in good.tensors}
    assert len(ds) == PICTURES
    told = re.findall(r"annotation (\d+)\b", " ".join(one["reason"] for one in report.left_out))
    assert told == [str(number + 1) for number in range(len(values)) if is_told]
    for name in ("bbox", "category_id", "area", "score", "segmentation", "id"):
        for row in range(PICTURES):
            found, wanted = ds[name][row].numpy(), good[name][row].numpy()
            if row < len(values):  # of three annotations the first is the changed one
                found, wanted = found[-2:], wanted[-2:]
            assert repr(found) == repr(wanted), (name, row)


def test_ids_may_be_written_as_floats(tmp_path: Path, good: lakebed.Dataset) -> None:
    root = _set(tmp_path / "set", as_floats=True)
    report = lakebed.import_from("coco", root, "mem://coco-bad", overwrite=True, progressbar=False)
    assert not report.left_out
    for name in ("image_id", "bbox", "category_id"):
        assert repr(report.dataset[name].numpy(aslist=True)) == repr(good[name].numpy(aslist=True))


def test_strict_stops_at_a_bad_annotation(tmp_path: Path) -> None:
    root = _set(tmp_path / "set", "bbox", [None])
    with pytest.raises(IngestionError, match="annotation 1: bbox is None"):
        lakebed.import_from("coco", root, "mem://coco-bad", overwrite=True, progressbar=False, strict=True)
