"""Windows and slices of scans: as their files record them, or as their numbers are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import lakebed
from lakebed.errors import InvalidInputError, NotFoundError
from lakebed.viewer import pictures, scans
from lakebed.viewer.asked import Asked
from lakebed.viewer.lake import Lake
from unit_tests.lakebed.codecs.scans import dicom, nifti
from unit_tests.lakebed.viewer.contract import Types
from unit_tests.lakebed.viewer.served import Served

RAMP = np.arange(6 * 20 * 30, dtype=np.int16).reshape(6, 20, 30)


def opened(path: Path, htype: str, *files: bytes) -> Any:
    """Return a dataset of these files, as the viewer opens it."""
    ds = lakebed.empty(path)
    with ds:
        ds.create_tensor("scan", htype=htype, sample_compression={"dicom": "dcm", "nifti": "nii"}[htype])
        ds.scan.extend([lakebed.read(one) for one in files])
    ds.close()
    return Lake(str(path), {}).open(0)


def pixels(found: Any, row: int, **asked: Any) -> NDArray[Any]:
    return np.asarray(Image.open(io.BytesIO(pictures.picture((found, "scan", row), Asked(**asked))[0])))


def field(value: Any) -> dict[str, Any]:
    return {"name": "a name", "tag": "(0028,1050)", "value": value, "vr": "DS"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"WindowCenter": field("40.0"), "WindowWidth": field("400.0")}, (-160, 239)),
        ({"WindowCenter": field([50.0, 9.0]), "WindowWidth": field([101.0, 9.0])}, (-0.5, 99.5)),
        (
            {"WindowCenter": field("40"), "WindowWidth": field("81"), "RescaleSlope": field("2")}
            | {"RescaleIntercept": field("-1000")},
            (499.75, 539.75),
        ),
        ({"cal_min": np.float32(3), "cal_max": np.float32(9)}, (3, 9)),
        (
            {"WindowCenter": field("40"), "WindowWidth": field("80")}
            | {"PhotometricInterpretation": field("MONOCHROME1")},
            (79, 0),
        ),
    ],
)
def test_a_window_that_is_recorded(facts: dict[str, Any], expected: tuple[float, float]) -> None:
    """In the values that are stored, as PS3.3 C.11.2.1.2 has it; the first of several."""
    assert scans.window(RAMP[..., np.newaxis], "dicom", facts) == pytest.approx(expected)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        {},
        {"WindowCenter": field("40")},
        {"WindowCenter": field("40"), "WindowWidth": field("0")},
        {"WindowCenter": field("nan"), "WindowWidth": field("80")},
        {"WindowCenter": field([]), "WindowWidth": field({"a": 1})},
        {"WindowCenter": 1, "WindowWidth": "wide"},
        {"cal_min": np.float32(0), "cal_max": np.float32(0)},
        {"cal_min": np.zeros(3), "cal_max": np.ones(3)},
    ],
)
def test_a_window_of_percentiles(facts: Any) -> None:
    """From the 1st to the 99th of the slice in the middle, also where what is recorded makes no sense."""
    low, high = np.percentile(RAMP[3], (1, 99))
    found = scans.window(RAMP[..., np.newaxis], "dicom", facts)
    assert found == (np.floor(low), np.ceil(high))
    assert scans.window(RAMP.transpose(1, 2, 0), "nifti", facts) == found


def test_windows_of_odd_values() -> None:
    floats = RAMP.astype(np.float32)[..., np.newaxis] / 7
    floats[3, 5] = np.nan
    floats[3, 6] = np.inf
    finite = floats[3][np.isfinite(floats[3])]
    assert scans.window(floats, "dicom", {}) == pytest.approx(np.percentile(finite, (1, 99)))
    assert scans.window(np.full((5, 5, 1), np.nan), "dicom", {}) == (0, 1)
    assert scans.window(np.full((5, 5, 1), 7, np.int16), "dicom", {}) == (7, 8)
    rare = np.zeros((50, 50, 1), np.int16)
    rare[3, 3] = 900
    assert scans.window(rare, "dicom", {}) == (0, 900)
    eight = np.zeros((5, 5, 1), np.uint8)
    assert scans.window(eight, "dicom", {}) == (0, 255)
    assert scans.window(eight, "dicom", {"PhotometricInterpretation": field("MONOCHROME1")}) == (255, 0)
    assert scans.window(np.zeros((5, 5, 3), np.uint8), "dicom", {}) is None


def test_pictures_of_slices(tmp_path: Path) -> None:
    """In the scan's window, or in one that is asked for; another slice of the same scan decodes nothing."""
    tags = {"WindowCenter": 1800, "WindowWidth": 256}
    dark = dicom(RAMP, frames=6, PhotometricInterpretation="MONOCHROME1", **tags)
    found = opened(tmp_path / "ds", "dicom", dicom(RAMP, frames=6, **tags), dark)
    for at in (0, 3, 5):
        expected = np.clip(RAMP[at] - 1672.0, 0, 255).astype(np.uint8)
        assert np.abs(pixels(found, 0, frame=at).astype(int) - expected).max() <= 1
        assert np.abs(pixels(found, 1, frame=at).astype(int) - (255 - expected)).max() <= 1
    part = pixels(found, 0, frame=3, low=0.0, high=3599.0, box=(4, 5, 6, 7))
    assert np.abs(part - RAMP[3, 5:12, 4:10] * (255 / 3599)).max() <= 1
    kept = found.kept["scan"]
    pixels(found, 0, frame=1)
    assert found.kept["scan"] is kept
    with pytest.raises(NotFoundError, match="no slice 6: the sample has 6"):
        pixels(found, 0, frame=6)


def test_large_scans_and_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are not kept; of their numbers enough are looked at, not all."""
    found = opened(tmp_path / "scan", "dicom", dicom(RAMP, frames=6))
    usual = pictures.window((found, "scan", 0), Asked())
    expected = pixels(found, 0, frame=2)
    found.kept.clear()
    monkeypatch.setattr(scans, "_MOST_KEPT", RAMP.nbytes - 1)
    monkeypatch.setattr(scans, "_ENOUGH", 300)
    assert np.abs(pixels(found, 0, frame=2).astype(int) - expected).max() <= 3
    assert "scan" not in found.kept
    some = pictures.window((found, "scan", 0), Asked())
    assert (some["low"], some["high"]) == (
        pytest.approx(usual["low"], abs=4),
        pytest.approx(usual["high"], abs=4),
    )
    ds = lakebed.empty(tmp_path / "image")
    ds.create_tensor("deep", htype="image", dtype="uint16", sample_compression=None)
    ds.deep.append(np.arange(1600, dtype=np.uint16).reshape(40, 40, 1))
    ds.close()
    image = Lake(str(tmp_path / "image"), {}).open(0)
    monkeypatch.setattr(pictures, "_MOST_PIXELS", 100)
    monkeypatch.setattr(pictures, "_ENOUGH", 5)
    told = pictures.window((image, "deep", 0), Asked())
    assert told == {"low": 0, "high": 36 * 41, "least": 0, "most": 36 * 41}  # of each fourth line and column


def test_volumes_after_each_other(tmp_path: Path) -> None:
    """A NIfTI file of four axes: the third one is counted first. Three bytes for each place are colours."""
    values = np.arange(5 * 7 * 3 * 4, dtype=np.int16).reshape(5, 7, 3, 4)
    found = opened(tmp_path / "ds", "nifti", nifti(values), nifti(values, kind=nibabel.Nifti2Image))
    for row in (0, 1):
        for at in range(12):
            expected = np.clip(values[:, :, at % 3, at // 3] - 100.0, 0, 255)
            assert (pixels(found, row, frame=at, low=100.0, high=355.0) == expected).all()
    with pytest.raises(NotFoundError, match="no slice 12"):
        pixels(found, 0, frame=12)
    colours = np.zeros((5, 7, 2), np.dtype([("R", "u1"), ("G", "u1"), ("B", "u1")]))
    colours["G"] = 200
    found = opened(tmp_path / "colours", "nifti", nifti(colours))
    assert pixels(found, 0, frame=1)[3, 3].tolist() == [0, 200, 0]


def test_windows_are_told(tmp_path: Path) -> None:
    """Of scans and other images of numbers, with what there is of values; of nothing else."""
    path = tmp_path / "ds"
    opened(path, "dicom", dicom(RAMP, frames=6), dicom(RAMP, frames=6, WindowCenter=-200, WindowWidth=101))
    ds = lakebed.load(str(path))
    with ds:
        ds.create_tensor("deep", htype="image", dtype="uint16", sample_compression=None)
        ds.create_tensor("share", htype="image", dtype="float32", sample_compression=None)
        ds.create_tensor("words", htype="text")
        ds.deep.append(np.arange(600, dtype=np.uint16).reshape(20, 30, 1))
        ds.share.append(np.full((4, 4, 1), np.nan, np.float32))
        ds.share.append(np.full((4, 4, 1), 0.25, np.float32))
        ds.words.append("none")
    server = Served(path)

    def told(tensor: str, row: int) -> list[float]:
        found = server.get(0, "window", tensor, row).json
        assert Types().faults(found, "Window") == []
        return [found[name] for name in ("low", "high", "least", "most")]

    low, high = np.percentile(RAMP[3], (1, 99))
    assert told("scan", 0) == [np.floor(low), np.ceil(high), 0, RAMP.max()]
    assert told("scan", 1) == [-250.5, -150.5, -250.5, RAMP.max()]
    assert told("deep", 0) == [0, 599, 0, 599]
    assert told("share", 0) == told("share", 1) == [0, 1, 0, 1]
    answer = server.post(0, "query", text="SELECT deep[2:4] AS part").json
    found = server.get(0, "window", "part", 0, q=answer["q"]).json
    assert (found["low"], found["high"]) == (60, 119)
    for path_, error in (("words", "invalid"), ("nothing", "missing")):
        assert server.get(0, "window", path_, 0).kind == error
    server.close()
    with pytest.raises(InvalidInputError, match="no images"):
        pictures.window((Lake(str(tmp_path / "ds"), {}).open(0), "words", 0), Asked())
