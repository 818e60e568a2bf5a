"""MDS comes in: encodings, layouts, splits, merged indexes, hashes, and what is damaged or hostile."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.shards import sample_shards
from unit_tests.lakebed.importers.sources import imported, picture

SIZES = {"int": 8, "uint8": 1, "float32": 4, "ndarray:int16:2,3": 12}


def u32(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def shard(
    root: Path,
    columns: dict[str, str],
    rows: list[list[bytes]],
    number: int = 0,
    compression: str | None = None,
    hashes: bool = False,
) -> dict[str, Any]:
    """Write a shard, and return what the index says of it."""
    sizes = [SIZES.get(encoding) for encoding in columns.values()]
    told = [[len(value) for value, size in zip(row, sizes, strict=True) if size is None] for row in rows]
    samples = [u32(*lengths) + b"".join(row) for lengths, row in zip(told, rows, strict=True)]
    config = b'{"format": "mds"}'
    offsets = np.cumsum([4 * (len(rows) + 2) + len(config), *map(len, samples)]).tolist()
    data = u32(len(rows), *offsets) + config + b"".join(samples)
    root.mkdir(parents=True, exist_ok=True)
    name = f"shard.{number:05}.mds"

    def about(name: str, data: bytes) -> dict[str, Any]:
        found = {"sha1": hashlib.sha1(data, usedforsecurity=False).hexdigest()} if hashes else {}
        return {"basename": name, "bytes": len(data), "hashes": found}

    packed = None
    raw = about(name, data)
    if compression:
        pack = {"gz": gzip.compress, "bz2": bz2.compress}.get(
            compression, lambda data: pa.compress(data, codec=compression, asbytes=True)
        )
        data = pack(data)
        packed = about(f"{name}.{compression}", data)
    (root / (packed or raw)["basename"]).write_bytes(data)
    return {
        "version": 2,
        "format": "mds",
        "compression": compression,
        "hashes": [],
        "size_limit": None,
        "column_names": list(columns),
        "column_encodings": list(columns.values()),
        "column_sizes": sizes,
        "samples": len(rows),
        "raw_data": raw,
        "zip_data": packed,
    }


def index(root: Path, *shards: dict[str, Any]) -> None:
    (root / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))


load = partial(imported, "mds")


def test_encodings(tmp_path: Path) -> None:
    """Raw images of any mode, lists, arrays with and without a head, texts of numbers, what is unknown."""
    raw = {
        "L": np.full((2, 3), 7, np.uint8),
        "RGB": np.full((2, 3, 3), 8, np.uint8),
        "1": np.array([[1, 0, 1], [0, 1, 1]], bool),
        "I;16": np.full((2, 3), 60_000, np.uint16),
        "F": np.full((2, 3), 0.5, np.float32),
    }
    encoded = {
        mode: u32(3, 2, len(mode)) + mode.encode() + Image.fromarray(pixels).tobytes()
        for mode, pixels in raw.items()
    }
    columns = {
        **{f"pil_{mode[0]}": "pil" for mode in raw},
        "n": "int",
        "u": "uint8",
        "f": "float32",
        "nd": "ndarray",
        "nds": "ndarray:int16:2,3",
        "big": "str_int",
        "sf": "str_float",
        "pk": "pkl",
        "odd": "zip:5",
        "jl": "list[jpeg]",
        "ja": "jpegarray",
        "one": "jpeg_array",
        "g/x": "json",
        "photo": "bytes",
    }
    array = bytes([33, 2 << 2]) + bytes([2, 1]) + np.array([5, -6], "<i4").tobytes()
    two = [picture(1), picture(2)]
    body = u32(2, *map(len, two)) + b"".join(two)
    row = [
        *encoded.values(),
        *(
            np.int64(-3).tobytes(),
            b"\7",
            np.float32(0.5).tobytes(),
            array,
            np.arange(6, dtype="<i2").tobytes(),
        ),
        *(b"9" * 30, b"0.1", b"\x80\x04.", b"?", u32(0) + body, body, u32(1, len(two[0])) + two[0]),
        *(b'{"a": [1, null]}', picture(3)),
    ]
    index(tmp_path, shard(tmp_path, columns, [row]))
    report = load(tmp_path)
    ds = report.dataset
    assert report.written == 1
    assert {problem.where for problem in report.problems} == {"pk", "odd"}
    for mode, pixels in raw.items():
        found = ds[f"pil_{mode[0]}"][0].numpy()
        assert np.array_equal(found.reshape(pixels.shape), pixels)
        assert (found.dtype == pixels.dtype, ds[f"pil_{mode[0]}"].htype) == (
            True,
            "image" if mode in ("L", "RGB") else "generic",
        )
    assert ds.nd[0].numpy().tolist() == [[5], [-6]]
    assert ds.nds[0].numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [ds[name][0].numpy()[0] for name in ("n", "u", "f", "sf")] == [-3, 7, 0.5, 0.1]
    assert ds.big[0].text() == "9" * 30
    assert ds.pk[0].numpy().tobytes() == b"\x80\x04."
    for name in ("jl", "ja"):
        assert [one.tobytes() for one in ds[name][0]] == two
    assert (ds.one.htype, ds.one[0][0].tobytes()) == ("sequence[image]", picture(1))
    assert ds["g/x"][0].dict() == {"a": [1, None]}
    assert ds.photo[0].tobytes() == picture(3)


def test_raw_images_of_another_size_are_left_out(tmp_path: Path) -> None:
    """Fewer or more bytes than the size says, and sizes that no memory holds."""
    head = u32(3, 2, 1) + b"L"
    images = [
        head + bytes(6),
        head + bytes(5),
        head + bytes(7),
        u32(1 << 31, 1 << 31, 1) + b"L",
        u32(3, 2, 1) + b"?",
    ]
    index(tmp_path, shard(tmp_path, {"raw": "pil"}, [[image] for image in images]))
    report = load(tmp_path)
    assert (report.written, report.skipped) == (1, 4)
    for reason in (one["reason"] for one in report.left_out[:3]):
        assert "pixels of mode L cannot have" in reason


def test_bytes_are_what_the_user_says(tmp_path: Path) -> None:
    """Texts are not guessed; pictures of another kind, which lose pixels, are counted, or left out."""
    columns = {"a": "bytes", "photo": "bytes"}
    rows = [[b"abc", picture(at)] for at in range(10)] + [[b"abc", picture(10, "PNG")]]
    index(tmp_path, shard(tmp_path, columns, rows))
    report = load(tmp_path)
    assert report.dataset.a[0].numpy().tobytes() == b"abc"
    assert (report.written, report.dataset.photo.meta.sample_compression) == (11, "jpeg")
    assert report.changes["PNG encoded anew as JPEG at quality 95"]["count"] == 1
    report = load(tmp_path, compression="lossless")
    assert (report.written, report.changes) == (10, {})
    assert "would lose" in report.left_out[0]["reason"]
    ds = load(tmp_path, kinds={"a": "text"}, compression="png").dataset
    assert (ds.a[10].text(), len(ds)) == ("abc", 11)
    assert ds.photo[10].tobytes() == picture(10, "PNG")
    with pytest.raises(IngestionError, match="kinds are"):
        load(tmp_path, kinds={"a": "object"})
    with pytest.raises(IngestionError, match="no column 'b'"):
        load(tmp_path, kinds={"b": "text"})


def test_splits_and_merged_indexes(tmp_path: Path) -> None:
    """A folder is a split; shards that an outer index names are not taken twice; columns may come later."""
    shards = {
        name: shard(tmp_path / name, {"s": "str"}, [[f"{name} {at}".encode()] for at in range(3)])
        for name in ("val", "train", "extra")
    }
    shards["train 2"] = shard(tmp_path / "train", {"s": "str", "n": "int"}, [[b"x", bytes(8)]], 1)
    index(tmp_path / "train", shards["train"], shards["train 2"])
    for name in ("val", "extra"):
        index(tmp_path / name, shards[name])
    report = imported("auto", tmp_path)
    assert (report.format, report.splits) == ("mds", {"train": 4, "val": 3, "extra": 3})
    assert report.dataset.n.null_mask().tolist() == [True] * 3 + [False] + [True] * 6
    only = imported("mds", tmp_path, split="val").dataset
    assert only.s.text() == [f"val {at}" for at in range(3)]
    merged = [json.loads(json.dumps(shards[name])) for name in ("val", "train")]
    for one, name in zip(merged, ("val", "train"), strict=True):
        one["raw_data"]["basename"] = f"{name}/{one['raw_data']['basename']}"
    index(tmp_path, *merged)
    report = load(tmp_path, splits=False)
    assert (report.planned, report.splits) == (10, {})
    assert report.dataset.s.text()[:4] == ["val 0", "val 1", "val 2", "train 0"]


def test_the_first_entry_of_a_shard_counts(tmp_path: Path) -> None:
    """A shard that an index lists twice is read once, as its first entry says."""
    told = shard(tmp_path, {"n": "int"}, [[struct.pack("<q", row)] for row in range(5)])
    index(tmp_path, told, {**told, "samples": 3})
    assert load(tmp_path, strict=True).dataset.n.numpy().ravel().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("compression", [None, "gz", "bz2", "zstd"])
def test_hashes_are_verified(tmp_path: Path, compression: str | None) -> None:
    """A shard that is not what the index says is left out as a whole, and told."""
    rows = [[b"a" * 50] for _ in range(4)]
    shards = [shard(tmp_path, {"s": "str"}, rows, at, compression, hashes=True) for at in range(2)]
    index(tmp_path, *shards)
    assert (load(tmp_path).written, load(tmp_path, strict=True).written) == (8, 8)
    path = tmp_path / (shards[1]["zip_data"] or shards[1]["raw_data"])["basename"]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    report = load(tmp_path)
    assert report.written == 4
    assert report.skipped == 4
    assert "the file does not match the index: its sha1" in report.left_out[0]["reason"]
    shards[1]["raw_data"]["hashes"] = {"crc999": "00"}
    index(tmp_path, shards[0], {**shards[1], "zip_data": None} if compression is None else shards[1])
    if compression is None:
        assert any("crc999" in problem.reason for problem in load(tmp_path).problems)


def test_many_lost_samples_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index may claim any number of them."""
    monkeypatch.setattr(sample_shards, "_MOST_COUNTED", 3)
    told = [shard(tmp_path, {"s": "str"}, [[b"a"]] * 4, at, hashes=True) for at in range(2)]
    told[1]["raw_data"]["hashes"]["sha1"] = "00"
    index(tmp_path, *told)
    report = load(tmp_path)
    assert (report.written, len(report.left_out)) == (4, 1)
    assert "4 samples are lost" in report.left_out[0]["reason"]


def test_what_is_wrong_is_counted(tmp_path: Path) -> None:
    """Samples that are cut short, files that are missing or lead elsewhere, sizes that cannot be."""
    (tmp_path / "secret.mds").write_bytes(bytes(100))
    root = tmp_path / "set"
    told = shard(
        root, {"s": "str", "n": "int"}, [[b"\xff", bytes(8)], [b"b", bytes(8)], [b"c" * 90, bytes(8)]]
    )
    path = root / "shard.00000.mds"
    path.write_bytes(path.read_bytes()[:-40])
    other = shard(root, {"s": "int"}, [[bytes(8)]], 1)
    wrong = [
        {**other, "raw_data": {**other["raw_data"], "basename": name}}
        for name in ("gone.mds", "../secret.mds", "/etc/passwd", 5, "")
    ]
    wrong += [{**other, "samples": count} for count in (-1, 1 << 40, "x", None, True)]
    wrong += [
        {**other, "format": "csv"},
        {**other, "column_sizes": [8, 8]},
        {**other, "column_names": [1]},
        [],
        None,
    ]
    wrong += [{**other, "compression": "lzma", "zip_data": other["raw_data"]}]
    index(root, told, other, *wrong)
    report = load(root)
    assert report.dataset.s.text() == ["b"]
    left: dict[str, str] = {one["where"]: one["reason"] for one in report.left_out}
    assert "utf-8" in left.pop("shard.00000.mds: sample 0")
    assert "ends at byte" in left.pop("shard.00000.mds: sample 2")
    assert "other encodings" in left.pop("shard.00001.mds")
    left |= {problem.where: problem.reason for problem in report.problems}
    expected = {f"index.json: shard {at + 2:,}" for at in range(len(wrong))}
    assert set(left) == expected | {"shard.00000.mds", "shard.00001.mds"}
    with pytest.raises(IngestionError):
        load(root, strict=True)


@pytest.mark.parametrize("compression", ["zstd", "gz", "bz2", "snappy"])
def test_shards_that_unpack_without_end_are_refused(tmp_path: Path, compression: str) -> None:
    """No more is unpacked than the index says, and no more than a limit."""
    told = shard(tmp_path, {"s": "str"}, [[bytes(5_000_000)]], 0, compression)
    said = told["raw_data"]["bytes"]
    index(tmp_path, told)
    assert load(tmp_path).written == 1
    told["raw_data"]["bytes"] = 1000
    index(tmp_path, told)
    with pytest.raises(IngestionError, match=r"more than the 1,000 (bytes|that are allowed)"):
        load(tmp_path)
    told["raw_data"]["bytes"] = said << 20
    index(tmp_path, told)
    with pytest.raises(IngestionError, match="larger than the allowed 1,073,741,824"):
        load(tmp_path)


def test_large_shards_are_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that several workers read one, and a killed import goes on inside of it."""
    monkeypatch.setattr(sample_shards, "_ITEM_BYTES", 100)
    index(tmp_path, shard(tmp_path, {"s": "str"}, [[f"{at:050}".encode()] for at in range(20)]))
    report = lakebed.import_from("mds", tmp_path, tmp_path.parent / "d", progressbar=False, checkpoint=3)
    assert report.dataset.s.text() == [f"{at:050}" for at in range(20)]
    plan = lakebed.import_from("mds", tmp_path, dry_run=True)
    assert (plan.planned, plan.dry_run) == (20, True)


def test_nothing_to_import(tmp_path: Path) -> None:
    """Indexes of others, of another version, and of nothing."""
    for text in (
        "[]",
        "{",
        '{"version": 3, "shards": []}',
        '{"version": 2, "shards": 5}',
        '{"version": 2, "shards": []}',
    ):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(IngestionError):
            load(tmp_path)


def hostile(path: Path) -> None:
    columns = {"s": "str", "n": "int", "nd": "ndarray", "photo": "jpeg", "js": "json", "ja": "jpegarray"}
    array = bytes([33, 2 << 2]) + bytes([2, 1]) + np.array([5, -6], "<i4").tobytes()
    rows = [
        [f"{at}".encode(), bytes(8), array, picture(at), b'{"a": 1}', u32(1, len(picture(1))) + picture(1)]
        for at in range(2)
    ]
    index(path / "train", shard(path / "train", columns, rows, hashes=False))
    index(path / "val", shard(path / "val", columns, rows, compression="zstd"))


def exported(path: Path) -> None:
    """What our exporter writes: an index that describes its tensors, of which damage may say anything."""
    ds = lakebed.empty("mem://")
    ds.create_tensor("photo", htype="image.rgb", sample_compression="png")
    ds.create_tensor("boxes", htype="bbox", coords={"type": "pixel", "mode": "LTRB"})
    ds.create_tensor("frames", htype="sequence[bbox]")
    ds.create_tensor("score", dtype="float64")
    ds.create_tensor("wave", dtype="complex64")
    ds.create_tensor("outline", htype="polygon")
    for row in range(6):
        boxes = np.ones((row % 3, 4), np.float32)
        ds.append(
            {
                "photo": np.full((4, 5, 3), row, np.uint8) if row else None,
                "boxes": boxes,
                "frames": [boxes] * (row % 2),
                "score": row / 7 if row % 2 else None,
                "wave": np.full(2, row * 1j, np.complex64),
                "outline": [np.ones((3, 2), np.float32)] * (row % 2),
            }
        )
    lakebed.export_to("mds", ds, path, progressbar=False, workers=0)
