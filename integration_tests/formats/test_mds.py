"""MDS shards come in as MosaicML's library reads them, and it reads those that go out."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed

streaming = pytest.importorskip("streaming", exc_type=ImportError)

pytestmark = [
    pytest.mark.formats,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COUNT = 40
COLUMNS = {
    "s": "str",
    "b": "bytes",
    "i": "int",
    "js": "json",
    "pk": "pkl",
    "si": "str_int",
    "sf": "str_float",
    **{name: name for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")},
    **{name: name for name in ("float16", "float32", "float64")},
    "nd": "ndarray",
    "ndt": "ndarray:float32",
    "nds": "ndarray:int16:2,3",
    "sd": "str_decimal",
    "j": "jpeg",
    "p": "png",
    "pil": "pil",
    "ja": "jpegarray",
    "bj": "bytes",
    "lj": "list[jpeg]",
    "lpil": "list[pil]",
    "lpng": "list[png]",
}


@pytest.fixture(autouse=True)
def _no_shared_memory() -> Iterator[None]:
    """Remove what other runs of the library left."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        streaming.base.util.clean_stale_shared_memory()
        yield
        streaming.base.util.clean_stale_shared_memory()


def samples() -> Iterator[dict[str, Any]]:
    draw = np.random.default_rng(0)
    for at in range(COUNT):
        image = Image.fromarray(draw.integers(0, 255, (6 + at % 3, 7, 3), np.uint8))
        file = io.BytesIO()
        image.save(file, "JPEG")
        jpeg = file.getvalue()
        yield {
            "s": f"Nº {at}",
            "b": bytes([at, 0, 255]),
            "i": at - 5,
            "js": {"at": [at, None]},
            "pk": {"a": at},
            **{name: np.dtype(name).type(at) for name in COLUMNS if name in np.sctypeDict and "int" in name},
            **{name: np.dtype(name).type(at / 3) for name in ("float16", "float32", "float64")},
            "si": 10**30 + at,
            "sf": at / 7,
            "sd": Decimal(f"1.{at:030}"),
            "nd": draw.random((2, at % 4 + 1)),
            "ndt": draw.random((at % 3 + 1, 2)).astype(np.float32),
            "nds": np.full((2, 3), at, np.int16),
            "j": jpeg,
            "p": image,
            "pil": image,
            "ja": [jpeg, jpeg],
            "bj": jpeg,
            "lj": [image] * (at % 3),
            "lpil": [image, image],
            "lpng": [image],
        }


def read(root: Path, split: str | None = None) -> list[Any]:
    """Return what the library reads."""
    ds = streaming.StreamingDataset(
        local=str(root), split=split, shuffle=False, batch_size=1, allow_unsafe_types=True
    )
    return [ds[at] for at in range(len(ds))]


@pytest.mark.parametrize("compression", [None, "zstd", "gz:6", "br:2", "bz2", "snappy"])
def test_samples_are_those_of_the_library(tmp_path: Path, compression: str | None) -> None:
    """Every encoding and every compression, with hashes."""
    out = tmp_path / "train"
    hashes = ["sha1", "xxh3_64"] if compression else None
    with streaming.MDSWriter(
        columns=COLUMNS, out=str(out), compression=compression, hashes=hashes, size_limit=1 << 14
    ) as writer:
        for sample in samples():
            writer.write(sample)
    report = lakebed.import_from("auto", tmp_path, "mem://", progressbar=False)
    ds = report.dataset
    assert (report.format, report.splits, report.skipped) == ("mds", {"train": COUNT}, 0)
    assert [problem.where for problem in report.problems] == ["pk"]
    given = list(samples())
    for row, theirs in enumerate(read(out)):
        assert ds.s[row].text() == theirs["s"]
        assert ds.b[row].numpy().tobytes() == theirs["b"]
        assert ds.js[row].data()["value"] == theirs["js"]
        for name in ("si", "sd"):
            assert ds[name][row].text() == str(theirs[name])
        for name in COLUMNS:
            if "int" in name or "float" in name or name in ("i", "sf"):
                assert ds[name][row].numpy()[0] == theirs[name]
            if "int" in name or "float" in name:
                assert ds[name].dtype == name
        for name in ("nd", "ndt", "nds"):
            assert np.array_equal(ds[name][row].numpy(), theirs[name])
        for name in ("p", "pil"):
            assert np.array_equal(ds[name][row].numpy(), np.asarray(theirs[name]))
        for name in ("j", "bj"):
            assert ds[name][row].tobytes() == given[row]["bj"]
        for name in ("ja", "lj", "lpil", "lpng"):
            assert len(theirs[name]) == (int(ds[name][row].shape[0]) if ds[name][row].shape else 0)
            for at, image in enumerate(theirs[name]):
                found = ds[name][row, at].numpy()
                # Two decoders of JPEG differ by a little.
                assert np.abs(found.astype(int) - np.asarray(image)).max() <= (2 if "j" in name else 0)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_the_library_reads_what_goes_out(tmp_path: Path, compression: str | None) -> None:
    """Media, texts, numbers, arrays without elements too, nulls; in splits, with hashes that it verifies."""
    draw = np.random.default_rng(0)
    ds = lakebed.empty(tmp_path / "d")
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.create_tensor("mask", htype="image", sample_compression="png")
    ds.create_tensor("frames", htype="sequence[image]", sample_compression="png")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    for name, kind in (("text", "text"), ("maybe", "text"), ("about", "json")):
        ds.create_tensor(name, htype=kind)
    ds.create_tensor("boxes", htype="bbox")
    ds.create_tensor("score", dtype="float64")
    ds.create_tensor("flag", dtype="bool")
    for at in range(COUNT):
        ds.append(
            {
                "photo": draw.integers(0, 255, (9, 9, 3), np.uint8),
                "mask": draw.integers(0, 255, (9, 9), np.uint8),
                "frames": [draw.integers(0, 255, (4, 4, 3), np.uint8)] * (at % 3),
                "label": at % 2,
                "text": f"Nº {at}",
                "maybe": None if at % 2 else "m",
                "about": {"at": [at, None]},
                "boxes": draw.random(((at + 1) % 3, 4)).astype(np.float32),
                "score": None if at % 3 else at / 7,
                "flag": at % 2 == 0,
            }
        )
    ds.save_split("train", slice(30))
    ds.save_split("val", slice(30, None))
    out = tmp_path / "out"
    report = lakebed.export_to(
        "mds", ds, out, rows=12, size=4000, compression=compression, hashes=["sha1"], progressbar=False
    )
    assert (report.written, report.skipped) == (COUNT, 0)
    theirs = [sample for split in ("train", "val") for sample in read(out, split)]
    assert len(theirs) == COUNT
    for row, sample in enumerate(theirs):
        assert np.array_equal(np.asarray(sample["mask"]), ds.mask[row].numpy()[..., 0])
        assert np.abs(np.asarray(sample["photo"]).astype(int) - ds.photo[row].numpy()).max() <= 2
        assert [np.asarray(one).tolist() for one in sample["frames"]] == [
            one.numpy().tolist() for one in ds.frames[row]
        ]
        assert sample["label"] == row % 2
        assert (sample["text"], sample["about"]) == (f"Nº {row}", {"at": [row, None]})
        assert sample["maybe"] == (None if row % 2 else "m")
        assert np.array_equal(sample["boxes"], ds.boxes[row].numpy())
        assert sample["score"] == (None if row % 3 else row / 7)
        assert sample["flag"] == (row % 2 == 0)


def test_the_library_passes_over_what_an_index_says_of_tensors(tmp_path: Path) -> None:
    """It reads, copies and merges our indexes; an import of what it copied makes the same tensors."""
    ds = lakebed.empty("mem://described")
    ds.create_tensor("boxes", htype="bbox", coords={"type": "pixel", "mode": "LTRB"})
    ds.create_tensor("frames", htype="sequence[bbox]")
    ds.create_tensor("mask", htype="binary_mask", sample_compression="lz4")
    for at in range(COUNT):
        boxes = np.full((at % 3, 4), at, np.float32)
        ds.append({"boxes": boxes, "frames": [boxes] * (at % 2), "mask": np.full((2, 3), at % 2, bool)})
    ds.save_split("train", slice(30))
    ds.save_split("val", slice(30, None))
    out = tmp_path / "out"
    lakebed.export_to("mds", ds, out, rows=12, progressbar=False)
    assert "lakebed" in json.loads((out / "train/index.json").read_text())

    local = tmp_path / "copied"
    copy = streaming.StreamingDataset(
        local=str(local), remote=str(out), split="train", shuffle=False, batch_size=1, allow_unsafe_types=True
    )
    assert [sample["boxes"].tolist() for sample in copy] == [one.tolist() for one in ds.boxes[:30].values()]
    back = lakebed.import_from("mds", local, "mem://copied", progressbar=False).dataset
    assert (back.boxes.htype, back.frames.htype, back.mask.htype) == ("bbox", "sequence[bbox]", "binary_mask")
    assert back.boxes.info["coords"] == {"type": "pixel", "mode": "LTRB"}
    assert len(back) == 30

    indexes = [str(out / split / "index.json") for split in ("train", "val")]
    streaming.base.util.merge_index(indexes, str(out), keep_local=True)
    assert len(read(out)) == COUNT
    merged = lakebed.import_from("mds", out, "mem://merged", progressbar=False).dataset
    assert (len(merged), merged.boxes.htype) == (COUNT, "bbox")
