"""HDF5 and Zarr files come in as their libraries read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import IngestionError

pytestmark = pytest.mark.formats

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 255, (50, 8, 9, 3), np.uint8)
POINTS = RNG.random((50, 2)).astype(">f8")


def test_a_file_may_be_changed_as_soon_as_it_was_imported(tmp_path: Path) -> None:
    """Others may write to it though its reader stays for a while, and the next import sees what they wrote."""
    import h5py

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = [1, 2, 3]
    for value in (7, 8):
        with h5py.File(tmp_path / "a.h5", "r+") as file:
            file["a"][0] = value
        ds = lakebed.import_from("hdf5", tmp_path / "a.h5", "mem://", progressbar=False, workers=0).dataset
        assert ds.a[0].numpy() == value


def test_hdf5(tmp_path: Path) -> None:
    """Groups, attributes, texts, lists of varying length, compressed and chunked; what lies elsewhere is left out."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["secret"] = np.arange(50)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.attrs["by"] = "a test"
        file.create_dataset("images", data=IMAGES, chunks=(7, 8, 9, 3), compression="gzip")
        group = file.create_group("inner")
        group.attrs["unit"] = np.float32(1.5)
        group["points"] = POINTS
        group["points"].attrs["names"] = ["x", "y"]
        file["text"] = [f"nº {row}" for row in range(50)]
        lists = file.create_dataset("lists", (50,), dtype=h5py.vlen_dtype(np.int32))
        for row in range(50):
            lists[row] = np.arange(row % 4)
        file["record"] = np.array([(row, row / 2) for row in range(50)], [("a", "i4"), ("b", "f8")])
        file["mean"] = [0.5, 0.25]
        file["scalar"] = 7
        file["complex"] = np.ones(50, np.complex64)
        file["nothing"] = h5py.Empty("f4")
        file["soft"] = h5py.SoftLink("/images")
        file["circle"] = file["/"]
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/secret")
        file["through"] = h5py.SoftLink("/elsewhere")
        (tmp_path / "raw").write_bytes(bytes(200))
        file.create_dataset("raw", (50,), "i4", external=[(str(tmp_path / "raw"), 0, 200)])
        layout = h5py.VirtualLayout((50,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "secret", (50,))
        file.create_virtual_dataset("virtual", layout)
    report = lakebed.import_from("auto", tmp_path / "a.h5", tmp_path / "d", progressbar=False)
    ds = report.dataset
    assert (report.format, report.written) == ("hdf5", 50)
    assert set(ds.tensors) == {"images", "inner/points", "text", "lists", "record", "complex"}
    assert np.array_equal(ds.images.numpy(), IMAGES)
    assert np.array_equal(ds["inner/points"].numpy(), POINTS)
    assert ds["inner/points"].info["names"] == ["x", "y"]
    assert ds.text[7].text() == "nº 7"
    assert ds.lists[7].numpy().tolist() == [0, 1, 2]
    assert ds.record[3].data()["value"] == {"a": 3, "b": 1.5}
    about = ds.info["imports"][0]["about"]
    assert about["attributes"] == {"by": "a test", "inner": {"unit": 1.5}}
    assert {name: one["values"] for name, one in about["arrays"].items()} == {
        "mean": [0.5, 0.25],
        "scalar": 7,
    }
    told = {problem["where"] for problem in report.record()["problems"]}
    assert told == {"nothing", "elsewhere", "raw", "virtual"}
    (tmp_path / "b.h5").write_bytes((tmp_path / "a.h5").read_bytes()[:3000])
    with pytest.raises(IngestionError, match="damaged"):
        lakebed.import_from("hdf5", tmp_path / "b.h5", tmp_path / "e", progressbar=False)


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(tmp_path: Path, version: Any) -> None:
    """Both versions of the format; groups, attributes, texts; chunks that were never written are fill values."""
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=version)
    root.attrs["by"] = "a test"
    images = root.create_array("images", shape=IMAGES.shape, dtype="uint8", chunks=(7, 8, 9, 3))
    images[:40] = IMAGES[:40]
    points = root.create_group("inner").create_array("points", shape=(50, 2), dtype="float64", chunks=(50, 2))
    points[:] = POINTS
    points.attrs["unit"] = "m"
    texts = root.create_array("text", shape=(50,), dtype=str, chunks=(20,))
    texts[:] = np.array([f"nº {row}" for row in range(50)], dtype=object)
    report = lakebed.import_from("auto", tmp_path / "a.zarr", tmp_path / "d", progressbar=False)
    ds = report.dataset
    assert (report.format, report.written) == ("zarr", 50)
    assert np.array_equal(ds.images.numpy()[:40], IMAGES[:40])
    assert not ds.images.numpy()[40:].any()
    assert np.array_equal(ds["inner/points"].numpy(), POINTS)
    assert ds["inner/points"].info["unit"] == "m"
    assert ds.text[7].text() == "nº 7"
    assert ds.info["imports"][0]["about"]["attributes"] == {"by": "a test"}
    alone = zarr.create_array(tmp_path / "b.zarr", shape=(5,), dtype="int16", zarr_format=version)
    alone[:] = np.arange(5)
    ds = lakebed.import_from("zarr", tmp_path / "b.zarr", tmp_path / "e", progressbar=False).dataset
    assert ds.array.numpy().ravel().tolist() == list(range(5))
