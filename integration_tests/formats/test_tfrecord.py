"""TFRecord files that the package ``tfrecord`` writes come in as it reads them."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed

tfrecord = pytest.importorskip("tfrecord", exc_type=ImportError)

pytestmark = [pytest.mark.formats, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

COUNT = 60
KINDS = {"image": "byte", "text": "byte", "label": "int", "ids": "int", "weights": "float"}


def row(at: int) -> dict[str, Any]:
    draw = np.random.default_rng(at)
    file = io.BytesIO()
    Image.fromarray(draw.integers(0, 255, (6 + at % 3, 7, 3), np.uint8)).save(file, "JPEG")
    return {
        "image": file.getvalue(),
        "text": f"Nº {at}".encode(),
        "label": at - 30,
        "ids": draw.integers(-(2**62), 2**62, 1 + at % 40).tolist(),
        "weights": draw.random(1 + at % 5).astype(np.float32).tolist(),
    }


@pytest.mark.parametrize("packed", [False, True])
def test_examples(tmp_path: Path, packed: bool) -> None:
    """Numbers of 64 bits, floats, texts and pictures, by the checksums of google-crc32c."""
    path = tmp_path / "train-00000-of-00001.tfrecord"
    writer = tfrecord.TFRecordWriter(str(path))
    for at in range(COUNT):
        writer.write({name: (value, KINDS[name]) for name, value in row(at).items()})
    writer.close()
    theirs = [
        {name: np.array(value) for name, value in one.items()}
        for one in tfrecord.tfrecord_loader(str(path), None, KINDS)
    ]
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    report = lakebed.import_from("auto", tmp_path, "mem://", progressbar=False, strict=True)
    ds = report.dataset
    assert (report.format, report.splits, len(theirs)) == ("tfrecord", {"train": COUNT}, COUNT)
    for at, one in enumerate(theirs):
        assert ds.image[at].tobytes() == row(at)["image"] == one["image"].tobytes()
        assert ds.text[at].text() == one["text"].tobytes().decode()
        for name in ("label", "ids", "weights"):
            assert np.array_equal(ds[name][at].numpy(), np.atleast_1d(one[name]))


def test_sequences(tmp_path: Path) -> None:
    """Steps along the first axis."""
    path = tmp_path / "a.tfrecord"
    writer = tfrecord.TFRecordWriter(str(path))
    for at in range(1, 20):
        steps = {"pose": ([[float(step), 0.5] for step in range(at)], "float"), "said": ([b"a"] * at, "byte")}
        writer.write({"id": (at, "int")}, steps)
    writer.close()
    ds = lakebed.import_from("auto", path, "mem://", progressbar=False, strict=True).dataset
    assert ds.id.numpy().ravel().tolist() == list(range(1, 20))
    for at in range(1, 20):
        assert ds.pose[at - 1].numpy().tolist() == [[float(step), 0.5] for step in range(at)]
        assert ds.said[at - 1].data()["value"] == ["a"] * at
