"""LitData comes in: trees of values, formats, compressions, splits, and what is damaged or hostile."""

from __future__ import annotations

import json
import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.errors import IngestionError
from lakebed.importers.shards.litdata_objects import nested
from unit_tests.lakebed.importers.sources import imported, picture
from unit_tests.lakebed.importers.test_mds import u32

LEAF = {"type": None, "context": None, "children_spec": []}


def spec(tree: Any) -> Any:
    """Return what an index says of a tree."""
    if isinstance(tree, dict):
        children = [spec(one) for one in tree.values()]
        return {"type": "builtins.dict", "context": json.dumps(list(tree)), "children_spec": children}
    if isinstance(tree, list | tuple):
        kind = type(tree).__name__
        return {"type": f"builtins.{kind}", "context": "null", "children_spec": [spec(one) for one in tree]}
    return LEAF


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return packed


def framed(samples: list[bytes], frame: int) -> bytes:
    """Return a chunk that is compressed in frames."""
    offsets = np.cumsum([0, *map(len, samples)]).tolist()
    parts = [zstd(b"".join(samples[at : at + frame])) for at in range(0, len(samples), frame)]
    where = 24 + 4 * len(offsets) + 24 * len(parts)
    table = b""
    for number, part in enumerate(parts):
        first = number * frame
        count = min(frame, len(samples) - first)
        table += struct.pack(
            "<IIQII", first, count, where, len(part), offsets[first + count] - offsets[first]
        )
        where += len(part)
    head = struct.pack("<8sHHIII", b"LDFZ01\0\0", 1, 0, len(samples), frame, len(parts))
    return head + u32(*offsets) + table + b"".join(parts)


def write(
    root: Path,
    tree: Any,
    formats: list[str],
    rows: list[list[bytes]],
    how: str = "",
    *,
    bare: bool = False,
    **config: Any,
) -> None:
    """Write chunks of four samples."""
    root.mkdir(parents=True, exist_ok=True)
    chunks = []
    for number, first in enumerate(range(0, len(rows), 4)):
        samples = [(b"" if bare else u32(*map(len, row))) + b"".join(row) for row in rows[first : first + 4]]
        if how == "sample":
            samples = [zstd(sample) for sample in samples]
        offsets = np.cumsum([4 * (len(samples) + 2), *map(len, samples)]).tolist()
        data = u32(len(samples), *offsets) + b"".join(samples)
        name = f"chunk-0-{number}.bin"
        said = sum(map(len, samples))
        if how == "chunk":
            data, name = zstd(data), f"chunk-0-{number}.zstd.bin"
        elif how == "batch":
            data = framed(samples, 3)
        (root / name).write_bytes(data)
        chunks.append({"chunk_bytes": said, "chunk_size": len(samples), "dim": None, "filename": name})
    told = {
        "chunk_bytes": None,
        "chunk_size": 4,
        "compression": "zstd" if how else None,
        "data_format": formats,
        "data_spec": json.dumps([1, spec(tree)]),
        "compression_level": how or None,
        **config,
    }
    (root / "index.json").write_text(json.dumps({"chunks": chunks, "config": told}))


load = partial(imported, "litdata")


@pytest.mark.parametrize("how", ["", "chunk", "batch", "sample"])
def test_samples(tmp_path: Path, how: str) -> None:
    """Trees become names; each compression gives the same."""
    tree = {"id": 0, "photo": 0, "inner": {"a": 0, "b": [0, 0]}}
    rows = [
        [
            struct.pack("<q", at),
            picture(at),
            f"Nº {at}".encode(),
            np.arange(at, dtype="<i4").tobytes(),
            u32(9, 2, 1, at) + np.arange(at, dtype="<f4").tobytes(),
        ]
        for at in range(10)
    ]
    write(tmp_path / "train", tree, ["int", "jpeg", "str", "no_header_tensor:15", "numpy"], rows, how)
    report = imported("auto", tmp_path, strict=True)
    ds = report.dataset
    assert (report.format, report.splits) == ("litdata", {"train": 10})
    assert list(ds.tensors)[:5] == ["id", "photo", "inner/a", "inner/b/0", "inner/b/1"]
    assert ds.id.numpy().ravel().tolist() == list(range(10))
    assert [ds.photo[at].tobytes() for at in range(10)] == [row[1] for row in rows]
    assert ds["inner/a"].text() == [f"Nº {at}" for at in range(10)]
    assert ds["inner/b/0"][9].numpy().tolist() == list(range(9))
    assert ds["inner/b/1"][9].numpy().tolist() == [list(range(9))]
    assert (ds["inner/b/0"].dtype, ds["inner/b/1"].dtype) == (np.int32, np.float32)


def test_formats(tmp_path: Path) -> None:
    """Both orders of bytes of tensors, bfloat16, raw images, lists of JPEG, objects, files; what is pickled."""
    two = [picture(1), picture(2)]
    formats: list[tuple[str, bytes]] = [
        ("tensor", u32(2, 2, 1, 2) + np.array([0.5, 1], "<f8").tobytes()),
        ("tensor", struct.pack(">IIII", 2, 2, 2, 1) + np.array([0.5, 1], "<f8").tobytes()),
        ("no_header_tensor:10", (np.array([1.5, -2], "<f4").view("<u4") >> 16).astype("<u2").tobytes()),
        ("no_header_numpy:13", b"\1\0"),
        ("pil", u32(3, 2, 3) + b"RGB" + bytes(range(18))),
        ("jpeg_array", u32(2, *map(len, two)) + b"".join(two)),
        ("json", b'{"a": [1]}'),
        ("file:png", picture(3, "PNG")),
        ("bool", b"\1"),
        ("float", struct.pack("<d", 0.1)),
        ("pickle", b"\x80\x04."),
        ("graph", b"LDGR"),
    ]
    write(tmp_path, [0] * len(formats), [name for name, _ in formats], [[data for _, data in formats]])
    report = load(tmp_path)
    ds = report.dataset
    values = [ds[f"value_{at}"] for at in range(len(formats))]
    assert values[0][0].numpy().tolist() == [[0.5, 1]]
    assert values[1][0].numpy().tolist() == [[0.5], [1]]
    assert (values[2][0].numpy().tolist(), values[2].dtype) == ([1.5, -2], np.float32)
    assert values[3][0].numpy().tolist() == [True, False]
    assert values[4][0].numpy().ravel().tolist() == list(range(18))
    assert [one.tobytes() for one in values[5][0]] == two
    assert values[6][0].dict() == {"a": [1]}
    assert (values[7].htype, values[7][0].tobytes()) == ("image", picture(3, "PNG"))
    assert (values[8][0].numpy()[0], values[9][0].numpy()[0]) == (True, 0.1)
    assert values[10][0].numpy().tobytes() == b"\x80\x04."
    told = [problem.reason for problem in report.problems]
    assert len(told) == 3
    assert [word in "".join(told) for word in ("float32", "run code", "graph")] == [True] * 3


def test_one_array_for_each_sample(tmp_path: Path) -> None:
    """Tokens have no size before them, where the loader of tokens wrote them, and in old versions."""
    rows = [[np.arange(at, at + 3 + at % 2, dtype="<i8").tobytes()] for at in range(9)]
    for name, bare in (("bare", True), ("tree", False)):
        write(tmp_path / name, 0, ["no_header_tensor:17"], rows, bare=bare)
        ds = load(tmp_path / name, strict=True).dataset
        assert [ds.sample[at].numpy().tolist() for at in range(9)] == [
            list(range(at, at + 3 + at % 2)) for at in range(9)
        ]


def test_nested_objects() -> None:
    """Tags of all kinds, as the library writes them."""
    text = u32(2) + "é".encode()
    assert nested(b'{"a": 1}') == {"a": 1}
    assert nested(b"\5" + u32(2) + text + b"\x08" + struct.pack("<q", -1) + u32(1) + b"b" + b"\x0b") == {
        "é": -1,
        "b": None,
    }
    assert nested(b"\1" + u32(2) + text + text) == ["é", "é"]
    assert nested(b"\2" + u32(2) + struct.pack("<qq", 1, 2)) == [1, 2]
    assert nested(b"\3" + u32(1) + struct.pack("<d", 0.5)) == [0.5]
    assert nested(b"\4" + u32(2) + b"\1\0") == [True, False]
    assert nested(b"\0" + u32(4) + b"[[]]") == [[]]
    assert nested(b"\7" + text) == "é"
    assert nested(b"\x09" + struct.pack("<d", 0.5)) == 0.5
    assert nested(b"\x0a\1") is True
    record = b"\6" + u32(1, 2, 1) + b"a" + u32(1) + b"b" + b"\x11" + text + b"\x14\0"
    assert nested(record) == [{"a": "é", "b": False}]
    deep = (b"\5" + u32(1, 1) + b"a") * 200 + b"\x0b"
    for damaged in (
        b"\1" + u32(1 << 31),
        b"\6" + u32(1 << 31, 0),
        b"\x1f" + u32(0),
        record[:-3],
        deep,
        b"\7" + u32(9),
    ):
        with pytest.raises((ValueError, struct.error)):
            nested(damaged)


def test_what_is_wrong_is_counted(tmp_path: Path) -> None:
    """Samples and chunks that are damaged, missing or lead elsewhere."""
    rows = [[struct.pack("<q", at), b"abc"] for at in range(12)]
    rows[5] = [b"abc", b"abc"]
    write(tmp_path, ["a", "b"], ["int", "str"], rows)
    index = json.loads((tmp_path / "index.json").read_text())
    index["chunks"] += [{**index["chunks"][0], "filename": name} for name in ("../x.bin", "gone.bin", 5)]
    (tmp_path / "index.json").write_text(json.dumps(index))
    chunk = tmp_path / "chunk-0-2.bin"
    chunk.write_bytes(chunk.read_bytes()[:-30])
    report = load(tmp_path)
    assert report.dataset.value_0.numpy().ravel().tolist() == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert report.skipped == 3 + 3 * 4
    for config in (
        {"encryption": {"algorithm": "fernet"}},
        {"item_loader": "ParquetLoader"},
        {"data_spec": "[1, 5]"},
    ):
        write(tmp_path, ["a", "b"], ["int", "str"], rows, **config)
        with pytest.raises(IngestionError):
            load(tmp_path)


def test_a_frame_that_is_missing(tmp_path: Path) -> None:
    """The samples before it come in."""
    write(tmp_path, 0, ["int"], [[struct.pack("<q", at)] for at in range(4)], "batch")
    path = tmp_path / "chunk-0-0.bin"
    data = bytearray(path.read_bytes())
    second = 24 + 4 * 5 + 24  # frames of 3 and 1 samples, behind the head and 5 offsets
    assert data[second : second + 4] == u32(3)
    data[second - 20 : second - 16] = u32(2)  # so that no frame has sample 2
    path.write_bytes(data)
    report = load(tmp_path)
    assert report.dataset["sample"].numpy().ravel().tolist() == [0, 1]
    assert report.skipped == 2
    assert "impossible" in report.left_out[0]["reason"]


@pytest.mark.parametrize("how", ["chunk", "batch"])
def test_chunks_that_unpack_without_end_are_refused(tmp_path: Path, how: str) -> None:
    write(tmp_path, 0, ["bytes"], [[bytes(5_000_000)]], how)
    assert load(tmp_path).written == 1
    index = json.loads((tmp_path / "index.json").read_text())
    index["chunks"][0]["chunk_bytes"] = 1000
    (tmp_path / "index.json").write_text(json.dumps(index))
    if how == "batch":
        path = tmp_path / "chunk-0-0.bin"
        path.write_bytes(path.read_bytes().replace(u32(5_000_004), u32(1000), 2))
    with pytest.raises(IngestionError, match="unpacks to more than"):
        load(tmp_path)


def hostile(path: Path) -> None:
    formats = ["int", "jpeg", "str", "no_header_tensor:15", "numpy", "json", "pil"]
    rows = [
        [
            *(struct.pack("<q", at), picture(at), b"x", np.arange(at, dtype="<i4").tobytes()),
            *(
                u32(9, 1, at) + np.arange(at, dtype="<f4").tobytes(),
                b"\5" + u32(1, 1) + b"a\x0b",
                u32(1, 1, 1) + b"L\0",
            ),
        ]
        for at in range(3)
    ]
    for name, how in (("train", ""), ("val", "batch")):
        write(path / name, dict.fromkeys("abcdefg"), formats, rows, how)
