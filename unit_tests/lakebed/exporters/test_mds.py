"""MDS shards: what is written comes in again as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import ExportError

RNG = np.random.default_rng(0)


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    """Rows of many kinds, with splits and nulls."""
    made = lakebed.empty(tmp_path / "d")
    made.create_tensor("image", htype="image", sample_compression="png")
    made.create_tensor("photo", htype="image", sample_compression="jpeg")
    made.create_tensor("frames", htype="sequence[image]", sample_compression="png")
    made.create_tensor("label", htype="class_label", class_names=["cat", "dog"], dtype="int64")
    made.create_tensor("tags", htype="class_label", class_names=["a", "b"])
    for name in ("caption", "notes"):
        made.create_tensor(name, htype="text")
    made.create_tensor("about", htype="json")
    made.create_tensor("g/emb", dtype="float32")
    made.create_tensor("fixed", dtype="int16")
    made.create_tensor("score", dtype="float64")
    made.create_tensor("flag", dtype="bool")
    made.create_tensor("wave", dtype="complex64")
    made.create_tensor("depth", dtype="float16")
    made.create_tensor("boxes", htype="bbox", dtype="float32")
    for row in range(25):
        made.append(
            {
                "image": RNG.integers(0, 255, (5, 6 + row % 2, 3), np.uint8),
                "photo": None if row % 5 == 0 else RNG.integers(0, 255, (8, 9, 3), np.uint8),
                "frames": [np.full((3, 4, 3), row, np.uint8)] * (row % 3),
                "label": row % 2,
                "tags": np.arange(row % 3) % 2,
                "caption": f"nº {row}",
                "notes": None if row % 3 else "n",
                "about": {"a": [row, None]},
                "g/emb": RNG.random(row % 3, np.float32),
                "fixed": np.full((2, 3), -row, np.int16),
                "score": None if row % 4 == 0 else row / 7,
                "flag": row % 2 == 1,
                "wave": np.full(2, row * 1j, np.complex64),
                "depth": None if row == 3 else np.full((row % 4, 2), row, np.float16),
                "boxes": RNG.random((row % 3, 4), np.float32),
            }
        )
    made.save_split("train", slice(20))
    made.save_split("val", slice(20, None))
    return made


def same(ds: lakebed.Dataset, back: lakebed.Dataset) -> None:
    assert set(back.tensors) == set(ds.tensors)
    for row in range(len(ds)):
        for name in ("image", "photo"):
            assert back[name][row].tobytes() == ds[name][row].tobytes()
        assert [one.tobytes() for one in back.frames[row]] == [one.tobytes() for one in ds.frames[row]]
        for name in ("label", "tags", "g/emb", "fixed", "flag", "wave", "depth", "boxes", "score"):
            assert np.array_equal(back[name][row].numpy(), ds[name][row].numpy()), (name, row)
        assert back.about[row].data()["value"] == ds.about[row].data()["value"]
    for name in ds.tensors:
        if name in ("photo", "notes", "score", "depth"):
            assert back[name].null_mask().tolist() == ds[name].null_mask().tolist(), name
        if name not in ("about", "caption", "notes"):
            assert back[name].dtype == ds[name].dtype, name
    assert back.caption.text() == ds.caption.text()
    assert back.notes.text() == ds.notes.text()
    assert back.label.info["class_names"] == ["cat", "dog"]


@pytest.mark.parametrize("compression", [None, "zstd", "snappy"])
def test_there_and_back(ds: lakebed.Dataset, tmp_path: Path, compression: str | None) -> None:
    """Tensors, values, files, classes, splits and nulls, in several shards."""
    out = tmp_path / "out"
    report = lakebed.export_to(
        "mds",
        ds,
        out,
        rows=8,
        size=3000,
        compression=compression,
        hashes=["xxh64", "sha1"],
        progressbar=False,
    )
    assert (report.written, report.skipped) == (25, 0)
    assert report.problems == []
    suffix = f".{compression}" if compression else ""
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert names[0] == "train/index.json"
    assert {f"train/shard.0000{n}.mds{suffix}" for n in range(3)} < set(names)
    assert f"train/shard.00000-1.mds{suffix}" in names
    shard = json.loads((out / "train/index.json").read_text())["shards"][0]
    assert shard["compression"] == compression
    assert sorted(shard["raw_data"]["hashes"]) == ["sha1", "xxh64"]
    columns = dict(zip(shard["column_names"], shard["column_encodings"], strict=True))
    assert columns["fixed"] == "ndarray:int16:2,3"
    assert (columns["photo"], columns["image"], columns["frames"]) == ("bytes", "png", "list[png]")
    back = lakebed.import_from("auto", out, tmp_path / "back", progressbar=False, strict=True).dataset
    same(ds, back)
    assert {name: len(view) for name, view in back.splits.items()} == {"train": 20, "val": 5}


def test_parts(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Some tensors, a split; a dry run writes nothing."""
    options: dict[str, Any] = {"tensors": ["label", "caption"], "progressbar": False}
    assert lakebed.export_to("mds", ds, tmp_path / "no", dry_run=True, **options).dry_run
    assert not (tmp_path / "no").exists()
    report = lakebed.export_to("mds", ds, tmp_path / "some", split="val", **options)
    assert (report.written, report.files) == (5, 2)
    back = lakebed.import_from("mds", tmp_path / "some", "mem://some", progressbar=False).dataset
    assert back.caption.text() == [f"nº {row}" for row in range(20, 25)]
    flat = lakebed.empty("mem://flat")
    flat.create_tensor("x", dtype="uint16").extend(range(3))
    lakebed.export_to("mds", flat, tmp_path / "flat", progressbar=False)
    assert sorted(path.name for path in (tmp_path / "flat").iterdir()) == ["index.json", "shard.00000.mds"]


def test_refusals(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Options that make no sense."""
    for options in (
        {"rows": 0},
        {"size": 1 << 33},
        {"compression": "lzma"},
        {"hashes": ["crc0"]},
        {"tensors": ["y"]},
    ):
        with pytest.raises(ExportError):
            lakebed.export_to("mds", ds, tmp_path / "no", progressbar=False, **options)
    assert not (tmp_path / "no").exists()


def test_a_split_alone_comes_back(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Each index tells of all tensors: nulls, htypes and info, also of a folder that was moved elsewhere."""
    ds.boxes.info["coords"] = {"type": "pixel", "mode": "LTRB"}
    lakebed.export_to("mds", ds, tmp_path / "out", progressbar=False)
    (tmp_path / "out/val").rename(tmp_path / "moved")
    back = lakebed.import_from("mds", tmp_path / "moved", "mem://", progressbar=False).dataset
    assert (back.boxes.htype, back.boxes.dtype) == ("bbox", np.float32)
    assert back.boxes.info["coords"] == {"type": "pixel", "mode": "LTRB"}
    assert back.notes.null_mask().tolist() == ds.notes.null_mask().tolist()[20:]
    assert all(np.array_equal(back.boxes[row].numpy(), ds.boxes[20 + row].numpy()) for row in range(5))
    pngs = lakebed.import_from(
        "mds", tmp_path / "moved", "mem://", compression="png", progressbar=False
    ).dataset
    assert (pngs.photo.meta.sample_compression, pngs.boxes.htype) == ("png", "bbox")
    assert np.array_equal(pngs.photo[1].numpy(), ds.photo[21].numpy())


def test_images_that_are_no_files(tmp_path: Path) -> None:
    """Pixels that PNG holds go out as PNG; others, such as floating-point ones, as arrays of the htype."""
    ds = lakebed.empty("mem://pixels")
    ds.create_tensor("drawn", htype="image", dtype="uint8", chunk_compression="lz4")
    ds.create_tensor("depth", htype="image", dtype="float32", chunk_compression="lz4")
    ds.create_tensor("gray", htype="image.gray", sample_compression="png")
    for row in range(4):
        ds.drawn.append(np.full((3, 4, 1), row, np.uint8))
        ds.depth.append(np.full((3, 4 + row, 1), row / 3, np.float32))
        ds.gray.append(np.full((3, 4), row, np.uint8))
    report = lakebed.export_to("mds", ds, tmp_path / "out", progressbar=False)
    assert (report.written, report.skipped, report.problems) == (4, 0, [])
    back = lakebed.import_from("mds", tmp_path / "out", "mem://back", progressbar=False).dataset
    for name in ds.tensors:
        assert (back[name].htype, back[name].meta.sample_compression) == (
            ds[name].htype,
            ds[name].meta.sample_compression,
        )
        for row in range(4):
            assert np.array_equal(back[name][row].numpy(), ds[name][row].numpy()), (name, row)


def test_a_description_of_others_is_passed_over(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """What an index says that is damaged, or cannot be, changes nothing; the values are those of any other shard."""
    lakebed.export_to("mds", ds, tmp_path / "out", tensors=["caption", "image", "score"], progressbar=False)
    number = {"htype": "generic", "dtype": "object", "column": {"kind": "number", "dtype": "object"}}
    nothing = {"htype": "generic", "column": {"kind": "number"}}
    for told in (
        5,
        {"tensors": []},
        {"tensors": {"score": nothing, "caption": {"htype": "text", "column": 5}}},
        {"tensors": {"image": {"htype": "picture"}, "score": 5, "caption": {"htype": "bbox", "dtype": "f4"}}},
        {"tensors": {"image": {"htype": "text"}, "score": number, "caption": {"htype": "json", "info": 7}}},
        {"tensors": {"image": {"htype": "image", "sample_compression": "exe"}, "caption": {"htype": 1}}},
    ):
        for split in ("train", "val"):
            path = tmp_path / "out" / split / "index.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "lakebed": told}))
        back = lakebed.import_from("mds", tmp_path / "out", "mem://", progressbar=False).dataset
        assert back.image[3].tobytes() == ds.image[3].tobytes()
        assert back.caption.text() == ds.caption.text()
        assert len(back) == 25
        assert back.score[1].data()["value"] == ds.score[1].numpy()[0]
