"""LitData chunks come in as LitData reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed

litdata = pytest.importorskip("litdata", exc_type=ImportError)

pytestmark = [
    pytest.mark.formats,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),
]

COUNT = 30


def sample(folder: Path, at: int) -> dict[str, Any]:
    import torch

    path = folder / f"{at}.jpg"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(at).integers(0, 255, (6 + at % 3, 7, 3), np.uint8)
        Image.fromarray(pixels).save(path)
    return {
        "number": at,
        "third": at / 3,
        "text": f"Nº {at}",
        "raw": bytes([at, 0]),
        "flag": at % 2 == 0,
        "jpeg": Image.open(path),
        "pixels": Image.fromarray(np.full((4, 5, 3), at, np.uint8)),
        "inner": {
            "matrix": np.full((2, at % 3 + 1), at, np.float32),
            "pair": [np.arange(at % 4), torch.arange(at % 5)],
        },
        "tensor": torch.full((2, 2), at / 2, dtype=torch.float64),
        "object": {1, 2},
        "jpegs": [Image.open(path), Image.open(path)],
    }


@pytest.mark.parametrize(
    ("compression", "level"), [(None, None), ("zstd", "chunk"), ("zstd", "batch"), ("zstd", "sample")]
)
def test_samples_are_those_of_the_library(tmp_path: Path, compression: str | None, level: str | None) -> None:
    """All that its writer knows, in trees, compressed in all its ways."""
    from litdata.streaming.writer import BinaryWriter

    out = tmp_path / "set" / "train"
    out.mkdir(parents=True)
    options = {"compression_level": level, "compression_batch_size": 3 if level == "batch" else None}
    writer = BinaryWriter(str(out), chunk_size=8, compression=compression, **options)
    for at in range(COUNT):
        writer[at] = sample(tmp_path / "photos", at)
    writer.done()
    writer.merge()
    report = lakebed.import_from("auto", tmp_path / "set", "mem://", progressbar=False)
    ds = report.dataset
    assert (report.format, report.splits, report.skipped) == ("litdata", {"train": COUNT}, 0)
    assert [problem.where for problem in report.problems] == ["object"]
    theirs = litdata.StreamingDataset(str(out), shuffle=False)
    assert len(theirs) == COUNT
    for row in range(COUNT):
        expected = theirs[row]
        assert ds.number[row].numpy()[0] == expected["number"]
        assert ds.third[row].numpy()[0] == expected["third"]
        assert ds.flag[row].numpy()[0] == expected["flag"]
        assert ds.text[row].text() == expected["text"]
        assert ds.raw[row].numpy().tobytes() == bytes(expected["raw"])
        assert np.array_equal(ds.pixels[row].numpy(), np.asarray(expected["pixels"]))
        assert np.array_equal(ds["inner/matrix"][row].numpy(), expected["inner"]["matrix"])
        for at in range(2):
            found = ds[f"inner/pair/{at}"][row].numpy()
            assert np.array_equal(found, np.asarray(expected["inner"]["pair"][at]))
        assert np.array_equal(ds.tensor[row].numpy(), expected["tensor"].numpy())
        file = (tmp_path / "photos" / f"{row}.jpg").read_bytes()
        assert ds.jpeg[row].tobytes() == file
        assert [one.tobytes() for one in ds.jpegs[row]] == [file, file]


def test_tokens(tmp_path: Path) -> None:
    """One array for each sample, as language models are trained with: with and without the size before it."""
    import torch
    from litdata.streaming.item_loader import TokensLoader
    from litdata.streaming.writer import BinaryWriter

    for name, loader in (("bare", TokensLoader(block_size=4)), ("tree", None)):
        (tmp_path / name).mkdir()
        writer = BinaryWriter(str(tmp_path / name), chunk_size=100, item_loader=loader)
        for at in range(COUNT):
            writer[at] = torch.arange(at, at + 4 + at % 3, dtype=torch.int32)
        writer.done()
        writer.merge()
        ds = lakebed.import_from("auto", tmp_path / name, "mem://", progressbar=False, strict=True).dataset
        assert list(ds.tensors) == ["sample"]
        assert ds["sample"].dtype == np.int32
        for at in range(COUNT):
            assert ds["sample"][at].numpy().tolist() == list(range(at, at + 4 + at % 3))
    theirs = litdata.StreamingDataset(str(tmp_path / "bare"), item_loader=TokensLoader(block_size=4))
    first = lakebed.import_from("litdata", tmp_path / "bare", "mem://", progressbar=False).dataset
    assert theirs[0].tolist() == first["sample"][0].numpy().tolist()
