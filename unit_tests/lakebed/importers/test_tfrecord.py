"""TFRecord comes in: features, lists of features, objects, TensorFlow Datasets, and what is damaged or hostile."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.tfrecord import tfrecord_files
from lakebed.importers.tfrecord.examples import parse
from lakebed.importers.tfrecord.tfrecord_files import masked_crc32c
from unit_tests.lakebed.importers.sources import imported, picture


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def sized(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values: Any, *, packed: bool = True) -> bytes:
    """Return a Feature: of texts, bytes, integers or floats; of None one that says nothing."""
    if values is None:
        return b""
    values = values if isinstance(values, list | np.ndarray) else [values]
    if len(values) and isinstance(values[0], str | bytes):
        return sized(1, b"".join(sized(1, one.encode() if isinstance(one, str) else one) for one in values))
    if len(values) and isinstance(values[0], float):
        raw = [struct.pack("<f", one) for one in values]
        return sized(2, sized(1, b"".join(raw)) if packed else b"".join(b"\x0d" + one for one in raw))
    raw = [varint(int(one)) for one in values]
    return sized(3, sized(1, b"".join(raw)) if packed else b"".join(b"\x08" + one for one in raw))


def features(values: dict[str, Any], **how: Any) -> bytes:
    return b"".join(
        sized(1, sized(1, name.encode()) + sized(2, feature(one, **how))) for name, one in values.items()
    )


def example(values: dict[str, Any], lists: dict[str, list[Any]] | None = None, **how: Any) -> bytes:
    found = sized(1, features(values, **how))
    if lists is not None:
        of = [
            sized(1, name.encode()) + sized(2, b"".join(sized(1, feature(one)) for one in steps))
            for name, steps in lists.items()
        ]
        found += sized(2, b"".join(sized(1, one) for one in of))
    return found


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def write(path: Path, records: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(map(record, records)))


load = partial(imported, "tfrecord")


NUMBERS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.floats(width=32, allow_nan=False)),
    st.lists(st.binary(max_size=20)),
    st.none(),
)


@given(st.dictionaries(st.text(max_size=5), NUMBERS), st.booleans())
def test_messages(values: dict[str, Any], packed: bool) -> None:
    """All numbers, packed or not."""
    found = parse(example(values, packed=packed)).features
    assert set(found) == set(values)
    for name, wanted in values.items():
        assert list(found[name].values) == (wanted or [])


def test_damaged_messages() -> None:
    """Every length is checked."""
    good = example({"a": [1, 2**63 - 1, -1], "b": "x", "c": [0.5]}, {"l": [[1], [2]]})
    assert [one.values.tolist() for one in parse(good).lists["l"]] == [[1], [2]]
    for end in range(len(good)):
        with suppress(IngestionError):
            parse(good[:end])
    for bad in (
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a" + b"\xff" * 12,
        b"\x0b",
        b"\x00\x01",
        sized(1, sized(1, b"\x12\x05")),
    ):
        with pytest.raises(IngestionError, match="do not parse as Example"):
            parse(bad)
    long = sized(1, sized(1, sized(1, b"a") + sized(2, sized(3, sized(1, b"\xff" * 30)))))
    with pytest.raises(IngestionError, match="do not parse as Example"):
        parse(long)


@pytest.mark.parametrize("packing", ["", "gzip", "zlib"])
def test_features(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds are found out; what a record lacks is null; long files are taken in parts."""
    monkeypatch.setattr(tfrecord_files, "_ITEM_BYTES", 3000)
    rows = [
        {
            "image/encoded": picture(at),
            "image/class/label": at - 3,
            "image/class/text": f"Nº {at}",
            "ids": list(range(at % 4)),
            "weights": [at / 2, 0.25],
            "raw": b"\0\1" * at,
            "frames": [picture(at), picture(at + 1)],
            "words": ["a"] * (at % 3),
            **({"maybe": at} if at % 2 else {}),
        }
        for at in range(20)
    ]
    path = tmp_path / "set" / "train-00000-of-00001"
    write(path, [example(row) for row in rows])
    items, count = tfrecord_files.items_of(Source.of(path), path.name)
    assert (len(items) > 1, count) == (True, 20)
    if packing:
        path.write_bytes({"gzip": gzip.compress, "zlib": zlib.compress}[packing](path.read_bytes()))
    report = imported("auto", tmp_path / "set", strict=True)
    ds = report.dataset
    assert (report.format, report.splits, report.planned) == (
        "tfrecord",
        {"train": 20},
        None if packing else 20,
    )
    for at, row in enumerate(rows):
        assert ds["image/encoded"][at].tobytes() == row["image/encoded"]
        assert ds["image/class/label"][at].numpy().tolist() == [at - 3]
        assert ds["image/class/text"][at].text() == f"Nº {at}"
        assert ds.ids[at].numpy().tolist() == list(range(at % 4))
        assert ds.weights[at].numpy().tolist() == [at / 2, 0.25]
        assert ds.raw[at].numpy().tobytes() == row["raw"]
        assert [one.tobytes() for one in ds.frames[at]] == row["frames"]
    assert ds.words[2].data()["value"] == ["a", "a"]
    assert ds.maybe.null_mask().tolist() == [at % 2 == 0 for at in range(20)]
    assert (ds.weights.dtype, ds.ids.dtype, ds["image/encoded"].meta.sample_compression) == (
        np.float32,
        np.int64,
        "jpeg",
    )


def test_objects(tmp_path: Path) -> None:
    """The convention of the Object Detection API: boxes, labels by name, images without objects."""

    def row(count: int, **more: Any) -> bytes:
        side = [float(np.float32(at / 10)) for at in range(count)]
        names = {f"image/object/bbox/{name}": side for name in ("xmin", "xmax", "ymin", "ymax")}
        classes = [("cat", "dog")[at % 2] for at in range(count)]
        of = {
            **names,
            "image/object/class/text": classes,
            "image/object/class/label": list(range(1, count + 1)),
        }
        if not count:
            of = {}
        return example({"image/encoded": picture(count), **of, "image/height": 5, **more})

    write(
        tmp_path / "val.record",
        [row(2), row(0), row(3), row(1, **{"image/object/class/text": ["cat", "dog"]})],
    )
    report = load(tmp_path / "val.record")
    ds = report.dataset
    assert set(ds.tensors) == {
        "boxes",
        "labels",
        "image/encoded",
        "image/height",
        "image/object/class/label",
        "split",
    }
    assert (ds.boxes.htype, ds.boxes.info["coords"]) == ("bbox", {"type": "fractional", "mode": "LTRB"})
    assert ds.boxes[2].numpy().tolist() == [[np.float32(at / 10)] * 4 for at in range(3)]
    assert [ds.boxes[at].numpy().shape for at in range(3)] == [(2, 4), (0, 4), (3, 4)]
    names = ds.labels.info["class_names"]
    assert [names[one] for one in ds.labels[2].numpy()] == ["cat", "dog", "cat"]
    assert report.skipped == 1
    assert "values for 1 boxes" in report.left_out[0]["reason"]
    plain = load(tmp_path / "val.record", objects=False).dataset
    assert plain["image/object/bbox/xmin"][0].numpy().tolist() == [0, np.float32(0.1)]
    assert len(plain) == 4


def test_pixels_and_numbers_of_classes(tmp_path: Path) -> None:
    """Boxes in pixels, classes without names."""
    sides = {f"image/object/bbox/{name}": [1.0, 30.0] for name in ("xmin", "xmax", "ymin", "ymax")}
    write(tmp_path / "a.tfrecord", [example({**sides, "image/object/class/label": [3, 1]})])
    ds = load(tmp_path / "a.tfrecord").dataset
    assert ds.boxes.info["coords"]["type"] == "pixel"
    assert ds.labels[0].numpy().tolist() == [3, 1]


def test_sequences(tmp_path: Path) -> None:
    """SequenceExample: numbers along the steps, pictures, texts, and what is ragged."""
    rows = [
        example(
            {"id": at},
            {
                "speed": [[float(step)] for step in range(at)],
                "pose": [[float(step), 0.5] for step in range(at)],
                "ragged": [list(range(step)) for step in range(at)],
                "view": [picture(step) for step in range(at)],
                "said": [f"{step}" for step in range(at)],
            },
        )
        for at in range(1, 5)
    ]
    write(tmp_path / "a.tfrecords", rows)
    ds = load(tmp_path, strict=True).dataset
    assert ds.speed[3].numpy().tolist() == [0, 1, 2, 3]
    assert ds.pose[1].numpy().tolist() == [[0, 0.5], [1, 0.5]]
    assert [one.tolist() for one in ds.ragged[3].numpy(aslist=True)] == [[], [0], [0, 1], [0, 1, 2]]
    assert [one.tobytes() for one in ds.view[2]] == [picture(step) for step in range(3)]
    assert ds.said[2].data()["value"] == ["0", "1", "2"]
    assert ds.id.numpy().ravel().tolist() == [1, 2, 3, 4]


def test_a_list_without_steps_is_a_tensor_of_empty_samples(tmp_path: Path) -> None:
    """A list of features that has no step in any record costs no row."""
    write(tmp_path / "a.tfrecords", [example({"id": at}, {"none": []}) for at in range(3)])
    report = load(tmp_path, strict=True)
    assert (report.written, report.skipped) == (3, 0)
    assert [len(one) for one in report.dataset["none"].numpy(aslist=True)] == [0, 0, 0]


def test_tensorflow_datasets(tmp_path: Path) -> None:
    """Names of classes, shapes, dtypes, boxes, splits and numbers of records."""

    def tensor(dtype: str, *shape: int) -> dict[str, Any]:
        about = {
            "dtype": dtype,
            "encoding": "none",
            "shape": {"dimensions": [str(length) for length in shape]},
        }
        return {"pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor", "tensor": about}

    boxes = {
        "pythonClassName": "tensorflow_datasets.core.features.bbox_feature.BBoxFeature",
        "boundingBox": {},
    }
    label = {"classLabel": {"numClasses": "2"}}
    inner = {"featuresDict": {"features": {"bbox": boxes, "label": label}}}
    tree = {
        "matrix": tensor("float32", 2, 3),
        "flag": tensor("bool"),
        "small": tensor("uint8", -1),
        "label": label,
        "objects": {"sequence": {"feature": inner}},
    }
    root = tmp_path / "pets" / "1.0.0"
    for split, count in (("train", 3), ("validation", 2), ("extra", 1)):
        values = {
            "matrix": [0.5] * 6,
            "flag": 1,
            "small": [1, 2],
            "label": 1,
            "objects/bbox": [0.1, 0.2, 0.3, 0.4] * count,
            "objects/label": [0] * count,
        }
        write(root / f"pets-{split}.tfrecord-00000-of-00001", [example(values)] * count)
    (root / "features.json").write_text(json.dumps({"featuresDict": {"features": tree}}))
    splits = [
        {"name": name, "shardLengths": [count]}
        for name, count in (("train", "3"), ("validation", "2"), ("extra", "1"))
    ]
    info = {"name": "pets", "version": "1.0.0", "citation": "us", "splits": splits}
    (root / "dataset_info.json").write_text(json.dumps(info))
    (root / "label.labels.txt").write_text("cat\ndog\n")
    (root / "objects-label.labels.txt").write_text("car\nbus\n")
    report = imported("auto", tmp_path, strict=True)
    ds = report.dataset
    assert (report.format, report.splits) == ("tfrecord", {"train": 3, "val": 2, "extra": 1})
    assert ds.matrix[0].numpy().tolist() == [[0.5] * 3] * 2
    assert (ds.flag.dtype, ds.small.dtype) == (np.bool_, np.uint8)
    assert ds.label.info["class_names"] == ["cat", "dog"]
    assert ds["objects/label"].info["class_names"] == ["car", "bus"]
    assert np.array_equal(ds["objects/bbox"][1].numpy(), np.array([[0.2, 0.1, 0.4, 0.3]] * 3, np.float32))
    assert ds.info["imports"][0]["about"]["name"] == "pets"
    for name in ("features.json", "dataset_info.json"):
        (root / name).write_text("[")
    assert load(tmp_path).written == 6


def test_what_was_not_looked_at(tmp_path: Path) -> None:
    """Features that come later cost their rows, and a word of what to do."""
    rows = [example({"a": at}) for at in range(20)]
    rows[12] = example({"a": 12, "b": 1})
    rows[14] = example({"a": [0.5]})
    rows[15] = b"\xff\xff"
    write(tmp_path / "a.tfrecord", rows)
    report = load(tmp_path, look=5)
    reasons = [one["reason"] for one in report.left_out]
    assert (report.written, len(reasons)) == (17, 3)
    assert "look=0" in reasons[0]
    assert "list of float" in reasons[1]
    report = load(tmp_path, look=0)
    assert report.dataset.b.null_mask().sum() == len(report.dataset) - 1
    with pytest.raises(IngestionError, match="no feature 'z'"):
        load(tmp_path, kinds={"z": "text"})
    assert load(tmp_path, kinds={"a": "bytes"}, look=5).written == 17


def test_records_of_anything(tmp_path: Path) -> None:
    """What is no Example stays as it is."""
    write(tmp_path / "a.tfrecord", [b"\xff\xfe", b"", b"\0" * 9])
    report = load(tmp_path)
    assert [report.dataset.record[at].numpy().tobytes() for at in range(3)] == [b"\xff\xfe", b"", b"\0" * 9]
    assert "stored as bytes" in report.problems[0].reason


@pytest.mark.parametrize("packing", ["", "gzip", "zlib"])
def test_damaged_files(tmp_path: Path, packing: str) -> None:
    """A damaged record is counted with its place; what is cut off gives the records before."""
    rows = [example({"a": at, "b": np.random.default_rng(at).bytes(200)}) for at in range(10)]
    path = tmp_path / "a.tfrecord"
    write(path, rows)
    data = bytearray(path.read_bytes())
    size = len(record(rows[0]))
    data[3 * size + 100] ^= 1
    pack = {"": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[packing]
    path.write_bytes(pack(bytes(data)))
    report = load(tmp_path)
    assert report.dataset.a.numpy().ravel().tolist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert report.left_out[0]["where"] == f"a.tfrecord, byte {3 * size}"
    assert "checksum" in report.left_out[0]["reason"]
    path.write_bytes(path.read_bytes()[: -size // 2])
    report = load(tmp_path)
    assert report.dataset.a.numpy().ravel().tolist() == [0, 1, 2, 4, 5, 6, 7, 8]
    assert "end" in report.left_out[-1]["reason"]
    data[5 * size] ^= 1
    path.write_bytes(bytes(data))
    assert tfrecord_files.items_of(Source.of(path), path.name)[1] == 5
    path.write_bytes(pack(bytes(data)))
    report = load(tmp_path)
    assert report.dataset.a.numpy().ravel().tolist() == [0, 1, 2, 4]
    assert "does not match its checksum" in report.left_out[-1]["reason"]
    with pytest.raises(IngestionError):
        load(tmp_path, strict=True)


def test_lengths_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """With a checksum that is right, in a file that unpacks without end too."""
    length = struct.pack("<Q", 1 << 40)
    head = length + struct.pack("<I", masked_crc32c(length))
    for data in (head, gzip.compress(head + bytes(1 << 20))):
        (tmp_path / "a.tfrecord").write_bytes(record(example({"a": 1})) + head)
        assert load(tmp_path).written == 1
        (tmp_path / "a.tfrecord").write_bytes(data)
        with pytest.raises(IngestionError, match=r"claims|no record"):
            load(tmp_path)


def test_recognition(tmp_path: Path) -> None:
    """By names and checksums; files of others are none."""
    write(tmp_path / "a" / "x.tfrecord", [b"a"])
    assert lakebed.import_from("auto", tmp_path / "a", dry_run=True).format == "tfrecord"
    assert lakebed.import_from("auto", tmp_path / "a" / "x.tfrecord", dry_run=True).format == "tfrecord"
    (tmp_path / "a" / "x.tfrecord").write_bytes(b"something else than records")
    with pytest.raises(IngestionError, match="is not recognised"):
        lakebed.import_from("auto", tmp_path / "a", dry_run=True)
    with pytest.raises(IngestionError, match="no TFRecord"):
        load(Path(__file__))


def hostile(path: Path) -> None:
    sides = {f"image/object/bbox/{name}": [0.1, 0.2] for name in ("xmin", "xmax", "ymin", "ymax")}
    rows = [
        example(
            {
                "image/encoded": picture(at),
                "n": list(range(30)),
                "t": "x",
                **sides,
                "image/object/class/text": ["a", "b"],
            },
            {"steps": [[at], [2]]},
        )
        for at in range(3)
    ]
    write(path / "train.tfrecord", rows)
    write(path / "val.tfrecord.gz", rows)
    (path / "val.tfrecord.gz").write_bytes(gzip.compress((path / "val.tfrecord.gz").read_bytes()))
    (path / "dataset_info.json").write_text('{"splits": [{"name": "train", "shardLengths": ["3"]}]}')
    (path / "features.json").write_text(
        '{"featuresDict": {"features": {"n": {"tensor": {"dtype": "int64", "shape": {"dimensions": ["5", "6"]}}}}}}'
    )


def reseal(draw: Any, data: bytes) -> bytes:
    """Damage the data of a record, and give it its checksum: what the parser is given."""
    length = int.from_bytes(data[:8], "little")
    if data[:2] == b"\x1f\x8b" or length + 16 > len(data):
        return data
    inside = bytearray(data[12 : 12 + length])
    for _ in range(draw.randint(1, 6)):
        inside[draw.randrange(min(len(inside), draw.choice((40, 4000))))] = draw.choice(
            (0, 1, 0x7F, 0xFF, draw.randrange(256))
        )
    return record(bytes(inside)) + data[16 + length :]
