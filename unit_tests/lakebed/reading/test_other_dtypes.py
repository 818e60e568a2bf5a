"""Files of a tensor need not have the dtype of the first one: no value changes on the way out."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import lakebed
from unit_tests.lakebed.codecs import scans


def _png(value: int, dtype: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 3), value, dtype)).save(file, "png")
    return file.getvalue()


def _tiff(value: float, dtype: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 3), value, dtype)).save(file, "tiff")
    return file.getvalue()


def _wav(value: int, width: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(width)
        out.setframerate(8000)
        out.writeframes(value.to_bytes(width, "little", signed=True) * 12)
    return file.getvalue()


def _made(path: Path, htype: str, kind: str, files: Sequence[bytes]) -> lakebed.Tensor:
    ds = lakebed.empty(path)
    ds.create_tensor("x", htype=htype, sample_compression=kind)
    ds.x.extend([lakebed.read(file) for file in files])
    ds.commit()
    return lakebed.load(path, read_only=True).x


def _equal(found: Sequence[NDArray[np.generic]], values: Sequence[float]) -> None:
    assert [array.min() for array in found] == [array.max() for array in found] == list(values)


@pytest.mark.parametrize(
    ("htype", "kind", "files", "values"),
    [
        ("image", "png", [_png(7, "u1"), _png(700, "u2"), _png(8, "u1")], [7, 700, 8]),
        ("image", "png", [_png(700, "u2"), _png(7, "u1"), _png(65535, "u2")], [700, 7, 65535]),
        ("image", "tiff", [_tiff(7, "u1"), _tiff(-1.5, "f4"), _tiff(70000, "i4")], [7, -1.5, 70000]),
        ("audio", "wav", [_wav(5, 2), _wav(1 << 20, 4), _wav(6, 2)], [5, 1 << 20, 6]),
    ],
)
def test_values_of_files_are_those_of_the_files(
    tmp_path: Path, htype: str, kind: str, files: list[bytes], values: list[float]
) -> None:
    """One by one, as a list, as one array, as parts and in batches."""
    tensor = _made(tmp_path / "ds", htype, kind, files)
    _equal([tensor[i].numpy() for i in range(3)], values)
    _equal(tensor.numpy(aslist=True), values)
    _equal(list(tensor.numpy()), values)
    _equal([tensor[i, 0].numpy() for i in range(3)], values)
    ds = lakebed.load(tmp_path / "ds", read_only=True)
    _equal([array for batch in ds.batches(2) for array in batch["x"]], values)


def test_values_of_scans_are_those_of_the_files(tmp_path: Path) -> None:
    """Signed 16 bits after unsigned 8, as in 3.9.52."""
    files = [scans.dicom(np.full((4, 3), 7, "u1")), scans.dicom(np.full((4, 3), -2016, "i2"))]
    tensor = _made(tmp_path / "ds", "dicom", "dcm", files)
    _equal([tensor[0].numpy(), tensor[1].numpy()], [7, -2016])
    _equal(list(tensor.numpy()), [7, -2016])
    assert tensor[1].numpy().dtype == np.int16
