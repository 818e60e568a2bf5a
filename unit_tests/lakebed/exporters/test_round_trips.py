"""What goes out in a format and comes in again is equal, but for what the report of the export says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lakebed
from lakebed.dataset.described import Described
from lakebed.errors import ExportError
from lakebed.storage.url import open_storage
from unit_tests.lakebed.exporters.round_trips import (
    ROWS,
    TRIPS,
    Trip,
    check,
    differences,
    everything,
    same,
    values_of,
)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    """Something of everything."""
    return everything(tmp_path_factory.mktemp("everything") / "lake")


@pytest.mark.parametrize("trip", TRIPS, ids=str)
def test_everything_comes_back(trip: Trip, ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Values, nulls, htypes, dtypes, infos, files byte for byte, splits."""
    check(trip, ds, tmp_path)


def test_a_difference_is_seen(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """The comparison of these tests finds one value, one null, one shape, one info."""
    other = everything(tmp_path / "other")
    assert differences(other, ds) == []
    other.share[0] = 0.2
    other.text[2] = None
    other["box/xy"][0] = np.zeros((3, 4), np.float32)
    other.label.info["class_names"] = ["cat", "dog"]
    found = {line.partition(":")[0] for line in differences(other, ds)}
    assert found == {"share", "text", "box/xy", "label"}


def test_csv(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Numbers, texts and nulls come back; all else is JSON in texts, or left out, and the report says so."""
    report, back = Trip("csv").there_and_back(ds, tmp_path)
    told = {where for where, _ in report.problems}
    kept = ["text", "number", "share", "flag"]
    assert told == {*ds.tensors} - {*kept, "nothing", "größe", "split"}
    assert differences(back, ds, kept) == []
    assert json.loads(str(back["box/xy"][1].text())) == ds["box/xy"][1].numpy().tolist()
    assert back.label[1].text() == "dög"
    assert {name: len(view) for name, view in back.splits.items()} == {"train": 12, "val": 12}


def test_folder(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Files, classes, texts and splits; rows without a file are counted, other tensors named."""
    options: dict[str, Any] = {"media": ["images"], "labels": "label", "text": "text"}
    report = lakebed.export_to("folder", ds, tmp_path / "out", progressbar=False, **options)
    assert [row for row, _ in report.left_out] == [3, 8, 13, 18, 23]
    assert {where for where, _ in report.problems} == {*ds.tensors} - {"images", "label", "text", "split"}
    back = lakebed.import_from("folder", tmp_path / "out", tmp_path / "back", progressbar=False).dataset
    wanted = [value for value in values_of(ds.images) if value is not None]
    assert sorted(values_of(back.images)) == sorted(wanted)
    rows = {data: row for row, data in enumerate(values_of(ds.images))}
    for at, data in enumerate(values_of(back.images)):
        row = rows[data]
        assert back.labels[at].data()["text"] == ds.label[row].data()["text"]
        assert back.text[at].text() == ds.text[row].text()


def coco(root: Path) -> Path:
    """Write a small COCO set: polygons, run lengths, key points, captions, pictures without objects."""
    rng = np.random.default_rng(1)
    for split, count in (("train", 6), ("val", 4)):
        (root / split).mkdir(parents=True)
        (root / "annotations").mkdir(exist_ok=True)
        images, objects, people, captions = [], [], [], []
        for number in range(count):
            id_, name = number + (100 if split == "val" else 1), f"{number:03d}.jpg"
            pixels = rng.integers(0, 255, (20, 30 + number, 3), np.uint8)
            Image.fromarray(pixels).save(root / split / name)
            images.append({"id": id_, "file_name": name, "height": 20, "width": 30 + number})
            for at in range(number % 3):
                x, y = float(rng.integers(0, 9)), float(rng.integers(0, 9)) + 0.25
                one: dict[str, Any] = {
                    "id": 1000 * id_ + at,
                    "image_id": id_,
                    "category_id": (3, 7)[at],
                    "bbox": [x, y, 5.5, 6.0],
                    "area": 33.0,
                    "iscrowd": 0,
                    "segmentation": [[x, y, x + 5.5, y, x, y + 6], [x, y, x + 1, y, x, y + 1]],
                }
                if at:
                    counts = [7, 5, 20 * (30 + number) - 12]
                    one |= {"iscrowd": 1, "segmentation": {"size": [20, 30 + number], "counts": counts}}
                objects.append(one)
                points = {"keypoints": [3, 4, 2, 0, 0, 0], "num_keypoints": 1}
                people.append(
                    {**one, **points, "category_id": 1, "segmentation": [[1, 2, 3, 4, 5, 6]], "iscrowd": 0}
                )
            captions += [{"id": 10 * id_ + at, "image_id": id_, "caption": f"nº {at}"} for at in range(2)]
        about = {
            "info": {"year": 2024, "by": "a test"},
            "licenses": [{"id": 1, "name": "none"}],
            "images": images,
        }
        things = [
            {"id": 3, "name": "cat", "supercategory": "animal"},
            {"id": 7, "name": "dog", "supercategory": "animal"},
        ]
        person = [{"id": 1, "name": "person", "keypoints": ["nose", "ear"], "skeleton": [[1, 2]]}]
        for kind, found, more in (
            ("instances", objects, {"categories": things}),
            ("person_keypoints", people, {"categories": person}),
            ("captions", captions, {}),
        ):
            text = json.dumps({**about, "annotations": found, **more})
            (root / "annotations" / f"{kind}_{split}.json").write_text(text)
    return root


def test_coco(tmp_path: Path) -> None:
    """In, out and in again: the same annotations, key by key, and the same tensors."""
    root = coco(tmp_path / "coco")
    first = lakebed.import_from("coco", root, tmp_path / "lake", progressbar=False).dataset
    report = lakebed.export_to("coco", first, tmp_path / "out", progressbar=False)
    assert (report.written, report.skipped, report.problems) == (10, 0, [])
    again = lakebed.import_from("coco", tmp_path / "out", tmp_path / "back", progressbar=False).dataset
    assert set(again.tensors) == set(first.tensors)
    assert differences(again, first) == []
    for path in (root / "annotations").iterdir():
        wanted, found = (
            json.loads(path.read_text()),
            json.loads((tmp_path / "out" / "annotations" / path.name).read_text()),
        )
        assert found["annotations"] == wanted["annotations"]
        assert (found["info"], found["licenses"]) == (wanted["info"], wanted["licenses"])
        assert found.get("categories") == wanted.get("categories")


@pytest.mark.parametrize("trip", TRIPS, ids=str)
def test_coco_through_other_formats(trip: Trip, tmp_path: Path) -> None:
    """A COCO set that went through another format goes out as COCO with the same annotations."""
    root = coco(tmp_path / "coco")
    first = lakebed.import_from("coco", root, tmp_path / "lake", progressbar=False).dataset
    _, back = trip.there_and_back(first, tmp_path)
    assert differences(back, first, empties=trip.empties) == []
    lakebed.export_to("coco", back, tmp_path / "coco2", progressbar=False)
    for name in ("instances_train", "captions_val", "person_keypoints_val"):
        paths = [at / "annotations" / f"{name}.json" for at in (root, tmp_path / "coco2")]
        wanted, found = (json.loads(path.read_text()) for path in paths)
        assert found["annotations"] == wanted["annotations"]


def test_yolo(tmp_path: Path) -> None:
    """Boxes and classes go out to the last digit of float32, and come in again."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("images", htype="image", sample_compression="png")
    ds.create_tensor("boxes", htype="bbox", coords={"type": "fractional", "mode": "CCWH"})
    ds.create_tensor("labels", htype="class_label", class_names=["cat", "dog"])
    rng = np.random.default_rng(0)
    for row in range(6):
        boxes = (0.2 + 0.1 * rng.random((row % 3, 4))).astype("f4")
        pixels = np.full((8, 8 + row, 3), row, np.uint8)
        ds.append({"images": pixels, "boxes": boxes, "labels": np.arange(row % 3, dtype="u4")})
    report = lakebed.export_to("yolo", ds, tmp_path / "out", progressbar=False)
    assert (report.written, report.problems) == (6, [])
    back = lakebed.import_from("yolo", tmp_path / "out", tmp_path / "back", progressbar=False).dataset
    assert values_of(back.images) == values_of(ds.images)
    assert all(map(same, (one.astype("f4") for one in back.boxes.values()), ds.boxes.values()))
    labels = [one.labels.numpy(aslist=True) for one in (back, ds)]
    assert [one.tolist() for one in labels[0]] == [one.tolist() for one in labels[1]]


def test_tensors_of_different_lengths_are_told(tmp_path: Path) -> None:
    """Rows that only some tensors have are not written, and the report says which."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("long").extend(range(7))
    ds.create_tensor("short").extend(range(3))
    report = lakebed.export_to("parquet", ds, tmp_path / "out", progressbar=False)
    assert report.written == 3
    ((where, reason),) = report.problems
    assert (where, "only 3 of its 7 rows" in reason) == ("long", True)
    alone = lakebed.export_to("parquet", ds[["long"]], tmp_path / "alone", progressbar=False)
    assert (alone.written, alone.problems) == (7, [])


def test_rows_that_cannot_be_read_are_left_out_and_told(tmp_path: Path) -> None:
    """Links that lead nowhere cost their rows, and no others; the rest stays in step."""
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "a.png")
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("number").extend(range(6))
    make: dict[str, Any] = {"create_shape_tensor": False, "create_sample_info_tensor": False, "verify": False}
    ds.create_tensor("link", htype="link[image]", sample_compression="png", **make)
    ds.link.extend([lakebed.link(str(tmp_path / ("a.png" if row % 2 else "no.png"))) for row in range(6)])
    for trip in TRIPS:
        report, back = trip.there_and_back(ds, tmp_path / trip.format)
        assert [row for row, _ in report.left_out] == [0, 2, 4]
        assert report.problems[0][0] == "link"
        name = "link" if "link" in back.tensors else "png"
        assert (back[name].htype, back.number.numpy().ravel().tolist()) == ("image", [1, 3, 5])
        with pytest.raises(ExportError, match="row 0"):
            lakebed.export_to(trip.format, ds, tmp_path / "strict", strict=True, progressbar=False)
    report = lakebed.export_to("parquet", ds, tmp_path / "addresses", links=True, progressbar=False)
    assert (report.written, report.problems) == (6, [])
    told = pq.read_table(tmp_path / "addresses/data.parquet")["link"].to_pylist()
    assert told[1] == {"bytes": None, "path": str(tmp_path / "a.png")}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_damaged_chunk_costs_its_rows(form: str, tmp_path: Path) -> None:
    """No others, in tables of text as well."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("number").extend(range(3))
    ds.create_tensor("name", htype="text", chunk_compression=None, max_chunk_size=4096)
    ds.name.extend([str(row) * 5000 for row in range(3)])
    ds.commit()
    chunk = next(path for path in (tmp_path / "lake").rglob("name/chunks/*") if b"111" in path.read_bytes())
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"!")
    report = lakebed.export_to(form, lakebed.load(tmp_path / "lake"), tmp_path / "out", progressbar=False)
    assert (report.written, [row for row, _ in report.left_out]) == (2, [1])
    back = lakebed.import_from(form, tmp_path / "out", tmp_path / "back", progressbar=False).dataset
    assert back.number.numpy().ravel().tolist() == [0, 2]


@pytest.mark.parametrize("trip", TRIPS, ids=str)
def test_into_a_bucket(trip: Trip, ds: lakebed.Dataset, tmp_path: Path) -> None:
    """What is put into a bucket is what is written here."""
    address = f"mem://out-{trip.format}"
    kept = open_storage(address)  # memory that nothing holds is gone
    few = ds[["label", "text", "images"]]
    lakebed.export_to(trip.format, few, address, progressbar=False, **trip.options)
    back = lakebed.import_from(trip.format, address, tmp_path / "back", progressbar=False).dataset
    assert differences(back, few, ["label", "text", "images"]) == []
    assert list(kept.list())


def test_a_description_of_others_is_passed_over(tmp_path: Path) -> None:
    """What cannot be is read as any other file: an htype that there is not, types that do not fit, no JSON."""
    for said in (
        "{",
        "[]",
        {"tensors": 5},
        {"tensors": {"a": {"htype": "no such"}}},
        {"tensors": {"a": {"htype": "image", "sample_compression": "png"}}},
        {"tensors": {"a": {"htype": "text"}}},
        {"tensors": {"a": {"htype": "sequence[bbox]", "info": 7}}},
        {"tensors": {"a": {"htype": "link[image]", "sample_compression": "jpeg"}}},
        {"tensors": {"a": {"htype": "json", "info": {"_hub_custom_type": "bytes", "data": "!"}}}},
        {"tensors": {"a": {"htype": "generic", "dtype": ["f4"]}}},
    ):
        text = said if isinstance(said, str) else json.dumps(said)
        table = pa.table({"a": [1, 2]}).replace_schema_metadata({"lakebed": text})
        pq.write_table(table, tmp_path / "x.parquet")
        back = lakebed.import_from("parquet", tmp_path / "x.parquet", "mem://", progressbar=False).dataset
        assert back.a.numpy().ravel().tolist() == [1, 2]
        assert back.a.htype == "generic"


def test_values_that_do_not_fit_what_is_said_cost_their_rows(tmp_path: Path) -> None:
    """Uneven lists, nulls inside, no JSON, no file."""
    said = {
        "array": Described("generic", "float32"),
        "json": Described("json"),
        "image": Described("image", "uint8", "png"),
        "polygon": Described("polygon", "float32"),
    }
    table = pa.table(
        {
            "array": pa.array([[[1.0]], [[1.0], [2.0, 3.0]], [[None]], [[1.0]], [[1.0]], [[2.0]]]),
            "json": ["{}", "{}", "{}", "{", "{}", "[" * 100_000],
            "image": pa.array([None, None, None, None, b"no image", None], pa.binary()),
            "polygon": pa.array([[[[0.0, 1.0]]]] * 6),
        }
    )
    described = {"tensors": {name: one.to_dict() for name, one in said.items()}}
    pq.write_table(table.replace_schema_metadata({"lakebed": json.dumps(described)}), tmp_path / "x.parquet")
    report = lakebed.import_from("parquet", tmp_path / "x.parquet", "mem://", progressbar=False)
    assert (report.written, report.skipped) == (1, 5)
    assert report.dataset.polygon.htype == "polygon"


def test_more_rows_than_a_piece_stay_in_order(tmp_path: Path) -> None:
    """Several pieces, made by several threads."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("number", dtype="int64").extend(np.arange(3000))
    ds.create_tensor("image", htype="image", sample_compression="png").extend(
        [np.full((2, 2), row % 256, np.uint8) for row in range(3000)]
    )
    report = lakebed.export_to("parquet", ds, tmp_path / "out", workers=4, progressbar=False)
    assert report.written == 3000
    assert pq.ParquetFile(tmp_path / "out/data.parquet").metadata.num_row_groups == 3
    assert pq.read_table(tmp_path / "out/data.parquet")["number"].to_pylist() == list(range(3000))


def test_nothing_to_write(tmp_path: Path) -> None:
    """Without tensors it is an error; without rows the columns are there."""
    ds = lakebed.empty(tmp_path / "lake")
    for trip in TRIPS:
        with pytest.raises(ExportError, match="no tensors"):
            lakebed.export_to(trip.format, ds, tmp_path / "no", progressbar=False)
    ds.create_tensor("label", htype="class_label", class_names=["a"])
    for trip in TRIPS:
        assert lakebed.export_to(trip.format, ds, tmp_path / trip.format, progressbar=False).written == 0
    assert pq.read_table(tmp_path / "parquet/data.parquet").num_rows == 0
    assert json.loads((tmp_path / "huggingface/state.json").read_text())["_data_files"]
    assert ROWS
