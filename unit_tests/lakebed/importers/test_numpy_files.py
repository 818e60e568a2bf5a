"""`.npy` and `.npz`: arrays as they are, rows along the first axis; nothing is unpickled."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.arrays import arrays as of_arrays
from unit_tests.effort import examples


def imported(path: Path, **options: Any) -> lakebed.importers.core.report.ImportReport:
    """Import a file."""
    report: Any = lakebed.import_from(
        "numpy", path, f"{path}-lake", overwrite=True, progressbar=False, **options
    )
    return report


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_all_that_an_archive_holds(tmp_path: Path, save: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of rows are tensors, small others go into the info, large others are told; in blocks of few rows."""
    monkeypatch.setattr(of_arrays, "_ITEM_BYTES", 500)
    rng = np.random.default_rng(0)
    given = {
        "images": rng.integers(0, 255, (23, 5, 6), np.uint8),
        "labels": rng.integers(0, 9, 23),
        "big": rng.random((23, 2)).astype(">f4"),
        "names": np.array([f"nº {number}" for number in range(23)]),
        "raw": np.array([f"b{number}" for number in range(23)], "S5"),
        "days": np.arange(23).astype("datetime64[D]"),
        "turned": np.asfortranarray(rng.random((23, 3))),
        "empty": np.zeros((23, 0), np.int16),
        "flags": rng.integers(0, 2, 23).astype(bool),
        "record": np.array([(1, 0.5)] * 23, [("a", "i4"), ("b", "f8")]),
        "mean": np.array([0.5, 0.25]),
        "scalar": np.array(7),
        "other": np.zeros((100, 1000)),
    }
    save(tmp_path / "a.npz", **given)
    report = imported(tmp_path / "a.npz", workers=0)
    ds = report.dataset
    assert (report.written, set(ds.tensors)) == (23, set(given) - {"mean", "scalar", "other"})
    for name in ("images", "labels", "big", "turned", "flags"):
        found = ds[name].numpy()
        assert np.array_equal(found.reshape(given[name].shape), given[name])
        assert found.dtype == given[name].dtype.newbyteorder("=")
    assert ds.names.data()["value"] == given["names"].tolist()
    assert ds.raw[4].text() == "b4"
    assert (ds.days.numpy().ravel().tolist(), ds.days.info["logical_type"]) == (
        list(range(23)),
        "datetime64[D]",
    )
    assert ds.record[1].data()["value"] == {"a": 1, "b": 0.5}
    assert [problem["where"] for problem in report.record()["problems"]] == ["other"]
    kept = ds.info["imports"][0]["about"]["arrays"]
    assert (kept["mean"]["values"], kept["scalar"]["values"]) == ([0.5, 0.25], 7)
    only = imported(tmp_path / "a.npz", arrays=["other"])
    assert only.written == 100
    assert imported(tmp_path / "a.npz", rows="mean").written == 2


def test_one_array_and_a_folder(tmp_path: Path) -> None:
    """A file is one tensor of its name; `auto` knows it. A folder has one for each file."""
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "f" / "x.npy", np.arange(6).reshape(3, 2))
    np.save(tmp_path / "f" / "y.npy", np.asfortranarray(np.arange(6.0).reshape(3, 2)))
    report = lakebed.import_from("auto", tmp_path / "f" / "x.npy", tmp_path / "d", progressbar=False)
    assert report.dataset.x.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    both = imported(tmp_path / "f").dataset
    assert both.y.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert len(both.x) == 3


def test_larger_than_a_block(tmp_path: Path) -> None:
    """Items are blocks of the file, which workers read apart."""
    values = np.arange(6_000_000).reshape(3_000_000, 2)
    np.save(tmp_path / "x.npy", values)
    report = imported(tmp_path / "x.npy", workers=2)
    assert report.written == 3_000_000
    assert np.array_equal(report.dataset.x[2_999_990:].numpy(), values[-10:])


@settings(max_examples=examples(60), deadline=None)
@given(
    arrays.arrays(
        st.one_of(arrays.integer_dtypes(), arrays.floating_dtypes(), arrays.boolean_dtypes()),
        arrays.array_shapes(max_dims=3, max_side=5),
        elements=None,
    ),
    st.booleans(),
)
def test_any_array(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, fortran: bool) -> None:
    """Whatever type, order of bytes and shape: the values are the same."""
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    np.save(path, np.asfortranarray(values) if fortran else values)
    found = imported(path, workers=0).dataset.x.numpy()
    assert np.array_equal(found.reshape(values.shape), values, equal_nan=values.dtype.kind == "f")


def header(text: str) -> bytes:
    """Return a file whose header says something."""
    raw = text.encode()
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nothing",
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000)}"),
        header("{'descr': '<f8', 'fortran_order': True, 'shape': (" + "9" * 300 + ",)}"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 8)}"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + b"cos\nsystem\n",
        header("(" * 5000),
        header("__import__('os').system('x')"),
        header("{'descr': '|V16', 'fortran_order': False, 'shape': (1,)}") + bytes(16),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': ()}") + bytes(8),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (0,)}"),
    ],
)
def test_what_is_no_array_is_told(tmp_path: Path, data: bytes) -> None:
    """Headers that claim too much, pickles, code: an error, and nothing is made."""
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(IngestionError):
        imported(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", data)
    with pytest.raises(IngestionError):
        imported(tmp_path / "x.npz")


def test_a_damaged_member(tmp_path: Path) -> None:
    """Compressed data that is damaged ends the import with an error."""
    file = io.BytesIO()
    np.savez_compressed(file, x=np.random.default_rng(0).random(5000))
    data = bytearray(file.getvalue())
    data[len(data) // 2] ^= 255
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(lakebed.errors.LakebedError):
        imported(tmp_path / "x.npz")
    (tmp_path / "x.npz").write_bytes(file.getvalue()[:-30])
    with pytest.raises(IngestionError):
        imported(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.arange(3))
    with pytest.raises(IngestionError, match="no array 'y'"):
        imported(tmp_path / "x.npy", arrays=["y"])
