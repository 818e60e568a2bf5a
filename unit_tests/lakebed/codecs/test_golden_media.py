"""The media files of the golden datasets: values and descriptions are those that 3.9.52 recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakebed.codecs.registry import file_codec, sniff

FILES = {
    "v_mp4": "v.mp4", "v_mkv": "v.mkv", "v_avi": "v.avi", "a_mp3": "a.mp3", "a_flac": "a.flac", "a_wav": "a.wav",
    "dcm": "d.dcm", "n_nii": "n.nii", "n_nii_gz": "n.nii.gz", "las": "p.las", "ply": "m.ply", "stl": "s.stl",
}  # fmt: skip
# Of the length of an mp3 file, releases of FFmpeg have different ideas, and of how to write a tag, those of pydicom.
ADDED = frozenset({"shape", "format", "filename", "modified"})


def recorded(golden: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What 3.9.52 read back: tensors by name, arrays by key."""
    shown = json.loads((golden / "f15_media.expected.json").read_text())
    with np.load(golden / "f15_media.expected.npz") as file:
        arrays = dict(file)
    (version,) = shown["versions"].values()
    return version["tensors"], arrays


def same(found: Any, expected: Any) -> bool:
    """Compare a value with one that the expectations write as JSON."""
    if isinstance(expected, dict) and "__bytes__" in expected:
        return bool(found == bytes.fromhex(expected["__bytes__"]))
    if isinstance(expected, dict) and "__ndarray__" in expected:
        dtype, items = np.dtype(expected["dtype"]), expected["__ndarray__"]
        if (found.dtype, list(found.shape)) != (dtype, expected["shape"]):
            return False
        if dtype.kind == "S":
            return bool(found.tobytes().hex() == items)
        return bool(np.array_equal(found, np.array(items, dtype=dtype), equal_nan=dtype.kind == "f"))
    if isinstance(expected, dict) and "tag" in expected:
        return {**found, "tag": found["tag"].replace(" ", "")} == {
            **expected,
            "tag": expected["tag"].replace(" ", ""),
        }
    return bool((list(found) if isinstance(found, tuple) else found) == expected)


@pytest.mark.parametrize("name", FILES)
def test_descriptions(golden: Path, name: str) -> None:
    """What a codec tells of a file is what stands in its `_info` tensor."""
    tensors, _ = recorded(golden)
    data = (golden / "_files" / FILES[name]).read_bytes()
    kind = sniff(data, FILES[name])
    codec = file_codec(kind)
    assert codec is not None
    (expected, *_) = (sample["json"] for sample in tensors[f"_{name}_info"]["samples"])
    assert expected["format"] == kind == codec.name
    found = codec.metadata(data)
    assert found.keys() == expected.keys() - ADDED
    for key, value in found.items():
        if (name, key) != ("a_mp3", "duration"):
            assert same(value, expected[key]), key
    if name != "a_mp3":
        assert list(codec.facts(data).shape) == expected["shape"]


@pytest.mark.parametrize("name", FILES)
def test_values(golden: Path, name: str) -> None:
    """Decoded as 3.9.52 did, but for its videos, which lack the first frame and end with a black one."""
    tensors, arrays = recorded(golden)
    data = (golden / "_files" / FILES[name]).read_bytes()
    codec = file_codec(sniff(data, FILES[name]))
    assert codec is not None
    found = getattr(codec, "value", codec.decode)(data)
    if name == "ply":
        assert tensors[name]["samples"][0]["error"] == "DynamicTensorNumpyError"
        assert found.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        return
    expected = arrays[tensors[name]["samples"][0]["npz"]]
    if name.startswith("v_"):
        assert np.array_equal(found[1:], expected[:-1])
        assert not expected[-1].any()
    elif name == "a_mp3":
        # The length that 3.9.52 took from the container is too large; it filled up with zeros.
        assert np.allclose(found, expected[: len(found)], atol=1e-4)
        assert not expected[len(found) :].any()
    else:
        assert np.array_equal(found, expected)
