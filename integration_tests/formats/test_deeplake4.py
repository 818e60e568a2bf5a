"""Datasets that Deep Lake 4 wrote come in as its package reads them: types, files, nulls, metadata, tags."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError

pytestmark = pytest.mark.formats

deeplake = pytest.importorskip("deeplake", minversion="4")
RNG = np.random.default_rng(0)
ROWS = 300


def image(kind: str, number: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (4 + number % 3, 5, 3), np.uint8)).save(out, kind)
    return out.getvalue()


PNG = [image("PNG", row) for row in range(ROWS)]
JPEG = [image("JPEG", row) for row in range(ROWS)]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of most types, in two versions with a tag."""
    t = deeplake.types
    path = tmp_path_factory.mktemp("four") / "ds"
    ds = deeplake.create(str(path))
    columns: dict[str, tuple[Any, Any]] = {
        "img": (t.Image(sample_compression="png"), PNG),
        "jpg": (t.Image(sample_compression="jpeg"), JPEG),
        "raw": (t.Image(sample_compression="null"), [RNG.integers(0, 255, (3, 4, 1), np.uint8)] * ROWS),
        "label": (t.ClassLabel("int32"), [row % 2 for row in range(ROWS)]),
        "txt": (t.Text(), [f"nº {row}" for row in range(ROWS)]),
        "box": (t.BoundingBox("float32", "ltwh"), [np.ones((row % 3, 4), np.float32) for row in range(ROWS)]),
        "emb": (t.Embedding(4), [np.full(4, row, np.float32) for row in range(ROWS)]),
        "d": (t.Dict(), [{"a": row, "b": [1, {"c": "x"}]} for row in range(ROWS)]),
        "st": (t.Struct({"a": "int32", "b": "text"}), [{"a": row, "b": "x"} for row in range(ROWS)]),
        "arr": (t.Array("float64", dimensions=2), [np.full((2, 3), row, float) for row in range(ROWS)]),
        "seg": (t.SegmentMask(), [np.full((4, 5), row % 5, np.uint8) for row in range(ROWS)]),
        "bm": (t.BinaryMask(), [np.full((4, 5), row % 2, bool) for row in range(ROWS)]),
        "poly": (
            t.Polygon(),
            [[np.ones((3, 2), np.float32), np.ones((4 + row % 2, 2), np.float32)] for row in range(ROWS)],
        ),
        "pt": (t.Point(2), [np.full((3, 2), row, np.float32) for row in range(ROWS)]),
        "seq": (t.Sequence(t.Image(sample_compression="png")), [PNG[: 1 + row % 2] for row in range(ROWS)]),
        "words": (t.Sequence("text"), [["a"] * (1 + row % 3) for row in range(ROWS)]),
        "i": ("int64", list(range(ROWS))),
        "f": ("float32", [row / 2 for row in range(ROWS)]),
        "flag": ("bool", [row % 2 == 0 for row in range(ROWS)]),
        "by": (t.Bytes(), [bytes(range(row % 7 + 1)) for row in range(ROWS)]),
        "maybe": (t.Nullable("int32"), [None if row % 3 else row for row in range(ROWS)]),
        "maybe_text": (t.Nullable(t.Text()), [None if row % 3 else "x" for row in range(ROWS)]),
        "lnk": (t.Link(t.Image(sample_compression="png")), [str(path.parent / "linked.png")] * ROWS),
    }
    (path.parent / "linked.png").write_bytes(PNG[0])
    for name, (kind, _) in columns.items():
        ds.add_column(name, kind)
    ds.append({name: values[:100] for name, (_, values) in columns.items()})
    ds["label"].metadata["class_names"] = ["cat", "dog"]
    ds.metadata["by"] = {"a": "test"}
    ds.commit("first")
    ds.tag("v1")
    ds.append({name: values[100:] for name, (_, values) in columns.items()})
    ds.commit("second")
    return path


def test_every_type(theirs: Path, tmp_path: Path) -> None:
    report = lakebed.import_from("auto", theirs, tmp_path / "d", workers=2, progressbar=False)
    ds = report.dataset
    assert (report.format, report.written, report.skipped, report.left_out) == ("deeplake", ROWS, 0, [])
    other = deeplake.open_read_only(str(theirs))
    assert [ds.img[row].tobytes() for row in (0, 150, 299)] == [PNG[row] for row in (0, 150, 299)]
    assert ds.jpg[299].tobytes() == JPEG[299]
    assert np.array_equal(ds.raw[7].numpy(), other["raw"][7])
    assert ds.label.info["class_names"] == ["cat", "dog"]
    assert ds.label.numpy().ravel().tolist() == [row % 2 for row in range(ROWS)]
    assert ds.txt.text() == [f"nº {row}" for row in range(ROWS)]
    assert ds.box[5].numpy().tolist() == np.ones((2, 4)).tolist()
    assert ds.box.htype == "bbox"
    assert np.array_equal(ds.emb.numpy()[:, 0], np.arange(ROWS))
    assert ds.emb.htype == "embedding"
    assert ds.d[9].dict() == {"a": 9, "b": [1, {"c": "x"}]}
    assert ds.st[9].dict() == {"a": 9, "b": "x"}
    assert np.array_equal(ds.arr[8].numpy(), np.full((2, 3), 8.0))
    assert (ds.seg.htype, ds.bm.htype, ds.pt.htype) == ("segment_mask", "binary_mask", "point")
    assert np.array_equal(ds.seg[8].numpy(), np.full((4, 5), 3))
    assert ds.bm[1].numpy().all()
    assert [len(part) for part in ds.poly[1].numpy()] == [3, 5]
    assert np.array_equal(ds.pt[4].numpy(), np.full((3, 2), 4.0))
    assert len(ds.seq[1].numpy(aslist=True)) == 2
    assert ds.words[2].data()["value"] == ["a", "a", "a"]
    assert np.array_equal(ds.i.numpy().ravel(), np.arange(ROWS))
    assert ds.flag.dtype == np.bool_
    assert ds.by[3].numpy().tolist() == [0, 1, 2, 3]
    assert ds.maybe.null_mask().tolist() == [bool(row % 3) for row in range(ROWS)]
    assert ds.maybe_text.null_mask().tolist() == [bool(row % 3) for row in range(ROWS)]
    assert ds.lnk.htype == "link[image]"
    about = ds.info["imports"][0]["about"]
    assert about["metadata"]["dataset"] == {"by": {"a": "test"}}
    assert [one["message"] for one in about["versions"]][1:] == ["first", "second"]
    assert list(about["tags"]) == ["v1"]
    assert any("earlier version" in problem.reason for problem in report.problems)


def test_a_version_by_tag_and_some_columns(theirs: Path, tmp_path: Path) -> None:
    report = lakebed.import_from(
        "deeplake", theirs, tmp_path / "d", version="v1", columns=["i", "label"], progressbar=False
    )
    assert (report.written, set(report.dataset.tensors)) == (100, {"i", "label"})
    with pytest.raises(IngestionError, match="no version or tag"):
        lakebed.import_from("deeplake", theirs, "mem://", version="v9")
    with pytest.raises(IngestionError, match="no column"):
        lakebed.import_from("deeplake", theirs, "mem://", columns=["x"])


def test_damage_ends_no_process(theirs: Path, tmp_path: Path) -> None:
    """Damaged files are opened by their package in a process of its own here, so that a crash of it shows."""
    script = (
        "import lakebed, sys\n"
        "try: lakebed.import_from('deeplake', sys.argv[1], 'mem://', workers=0, progressbar=False)\n"
        "except lakebed.errors.LakebedError as error: print(error)\n"
    )
    broken = tmp_path / "broken"
    for path in theirs.rglob("*"):
        if path.is_file():
            target = broken / path.relative_to(theirs)
            target.parent.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes()
            target.write_bytes(data if "_deeplake_log" in str(path) else data[: len(data) // 2])
    done = subprocess.run(
        [sys.executable, "-c", script, broken],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
