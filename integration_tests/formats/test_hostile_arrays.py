"""Damaged HDF5 and Zarr files: errors or counted rows, in little memory; the process lives on."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.arrays import array_reader
from unit_tests.lakebed.importers.hostile import check_hostile

pytestmark = pytest.mark.formats

ROWS = 40
_MEMORY = 6 << 30  # address space; libraries map more than they use


def hdf5(root: Path) -> Path:
    """Chunked and contiguous arrays, texts, lists, attributes and groups."""
    import h5py

    root.mkdir()
    with h5py.File(root / "a.h5", "w") as file:
        file.attrs["by"] = "a test"
        images = np.arange(ROWS * 60, dtype=np.uint8).reshape(ROWS, 4, 5, 3)
        file.create_dataset("images", data=images, chunks=(7, 4, 5, 3), compression="gzip", shuffle=True)
        file.create_dataset("checked", data=images, chunks=(7, 4, 5, 3), fletcher32=True)
        group = file.create_group("inner")
        group["points"] = np.ones((ROWS, 2))
        group["points"].attrs["names"] = ["x", "y"]
        file["text"] = [f"nº {row}" for row in range(ROWS)]
        lists = file.create_dataset("lists", (ROWS,), dtype=h5py.vlen_dtype(np.int32))
        for row in range(ROWS):
            lists[row] = np.arange(row % 4)
        file["record"] = np.array([(row, row / 2) for row in range(ROWS)], [("a", "i4"), ("b", "f8")])
        file["fixed"] = np.array([b"abc"] * ROWS)
        file["mean"] = [0.5, 0.25]
        file["soft"] = h5py.SoftLink("/images")
    return root / "a.h5"


def zarr_folder(version: Any) -> Any:
    """Return what makes arrays and groups of a version of the format."""

    def make(root: Path) -> None:
        import zarr

        group = zarr.open_group(root, mode="w", zarr_format=version)
        group.attrs["by"] = "a test"
        images = group.create_array("images", shape=(ROWS, 4, 5, 3), dtype="uint8", chunks=(7, 4, 5, 3))
        images[:30] = 7
        points = group.create_group("inner").create_array(
            "points", shape=(ROWS, 2), dtype="f8", chunks=(ROWS, 2)
        )
        points[:] = 1
        texts = group.create_array("text", shape=(ROWS,), dtype=str, chunks=(20,))
        texts[:] = np.array([f"nº {row}" for row in range(ROWS)], dtype=object)

    return make


def exported(name: str) -> Any:
    """Return what makes what our exporters write: tensors with arrays beside them."""

    def make(root: Path) -> Path:
        ds = lakebed.empty("mem://")
        ds.create_tensor("images", htype="image", sample_compression="png")
        ds.create_tensor("boxes", htype="sequence[bbox]")
        ds.create_tensor("ragged", dtype="int16")
        ds.create_tensor("text", htype="text")
        ds.create_tensor("about", htype="json")
        for row in range(ROWS):
            ds.append(
                {
                    "images": np.full((4, 5, 3), row, np.uint8),
                    "boxes": [np.ones((2, 4), np.float32)] * (row % 3),
                    "ragged": np.ones((row % 3, 2), np.int16),
                    "text": None if row % 5 == 3 else f"nº {row}",
                    "about": {"row": row},
                }
            )
        root.mkdir()
        path = root / ("a.h5" if name == "hdf5" else "a.zarr")
        lakebed.export_to(name, ds, path, progressbar=False, workers=0)
        return path

    return make


FAMILIES = {
    "hdf5": hdf5,
    "zarr 2": zarr_folder(2),
    "zarr 3": zarr_folder(3),
    "hdf5 exported": exported("hdf5"),
    "zarr exported": exported("zarr"),
}


def tried(name: str, count: int, seed: int, folder: Path) -> None:
    """Import damaged sources in a process of its own, whose memory is limited."""
    script = (
        "from integration_tests.formats.test_hostile_arrays import child; "
        f"child({name!r}, {count}, {seed}, {str(folder)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def child(name: str, count: int, seed: int, folder: str) -> None:
    """Do what :func:`tried` asks for."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    array_reader._SECONDS = 2
    check_hostile(name.split(maxsplit=1)[0], FAMILIES[name], Path(folder), count, seed=seed, seconds=120)


@pytest.mark.parametrize("name", FAMILIES)
def test_damage(name: str, tmp_path: Path) -> None:
    pytest.importorskip("h5py" if name.startswith("hdf5") else "zarr")
    tried(name, 40, 0, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", FAMILIES)
def test_five_hundred_damaged_sources(name: str, seed: int, tmp_path: Path) -> None:
    pytest.importorskip("h5py" if name.startswith("hdf5") else "zarr")
    tried(name, 500, seed, tmp_path)


def _change(name: str, path: Path, array: str, row: int, value: str) -> None:
    """Put a text in place of another one."""
    if name == "hdf5":
        import h5py

        with h5py.File(path, "r+") as file:
            file[array][row] = value
    else:
        import zarr

        zarr.open_group(path, mode="r+")[array][row] = value


@pytest.mark.parametrize("name", ["hdf5", "zarr"])
def test_damage_in_what_was_exported_costs_its_rows(name: str, tmp_path: Path) -> None:
    """A damaged chunk of one of the arrays of a tensor is told with the rows that it costs."""
    pytest.importorskip("h5py" if name == "hdf5" else "zarr")
    path = exported(name)(tmp_path / "a")
    whole = lakebed.import_from(name, path, "mem://", progressbar=False)
    assert (whole.written, whole.skipped) == (ROWS, 0)
    assert whole.dataset.boxes.htype == "sequence[bbox]"
    _change(name, path, "about", 7, "{")
    report = lakebed.import_from(name, path, "mem://", progressbar=False)
    assert (report.written, report.skipped) == (ROWS - 1, 1)
    assert [value["row"] for value in report.dataset.about.values()] == [*range(7), *range(8, ROWS)]
    if name == "hdf5":
        import h5py

        with h5py.File(path, "r+") as file:
            chunk = file["ragged.shape"].id.get_chunk_info(0)
        data = bytearray(path.read_bytes())
        data[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
        path.write_bytes(data)
    else:
        (chunk_file,) = (one for one in (path / "ragged.shape/c").rglob("*") if one.is_file())
        chunk_file.write_bytes(bytes(chunk_file.stat().st_size))
    with pytest.raises(IngestionError, match="could be imported"):
        lakebed.import_from(name, path, "mem://", progressbar=False)


def test_links_that_lead_out_of_a_zarr_folder(tmp_path: Path) -> None:
    """Chunks and attributes that are symbolic links to other files are not read, unless that is wished."""
    pytest.importorskip("zarr")
    zarr_folder(2)(tmp_path / "a.zarr")
    (tmp_path / "secret").write_text('{"password": "x"}')
    attributes = tmp_path / "a.zarr/.zattrs"
    attributes.unlink()
    attributes.symlink_to(tmp_path / "secret")
    with pytest.raises(IngestionError, match="leads out of the folder"):
        lakebed.import_from("zarr", tmp_path / "a.zarr", "mem://", progressbar=False)
    report = lakebed.import_from(
        "zarr", tmp_path / "a.zarr", "mem://", progressbar=False, follow_symlinks=True
    )
    assert report.dataset.info["imports"][0]["about"]["attributes"] == {"password": "x"}


@pytest.mark.parametrize("format", ["hdf5", "zarr"])
def test_files_that_say_they_hold_anything(format: str, tmp_path: Path) -> None:  # noqa: A002
    """A few bytes that stand for terabytes of nothing are refused, unless their arrays are named."""
    shape = (1 << 44,)
    if format == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file.create_dataset("x", shape, "u1", chunks=(1 << 20,), compression="gzip")
    else:
        zarr = pytest.importorskip("zarr")
        zarr.open_group(tmp_path / "a.h5", mode="w").create_array(
            "x", shape=shape, dtype="u1", chunks=(1 << 20,)
        )
    with pytest.raises(IngestionError, match="hold arrays of"):
        lakebed.import_from(format, tmp_path / "a.h5", "mem://", progressbar=False)


def test_pickles_of_zarr_are_not_loaded(tmp_path: Path) -> None:
    """A filter of numcodecs unpickles, which would run code; such arrays are told, and left out."""
    zarr = pytest.importorskip("zarr")
    import pickle

    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=2)
    group.create_array("x", shape=(ROWS,), dtype="i4", chunks=(ROWS,))[:] = 1
    group.create_array("bad", shape=(ROWS,), dtype="i4", chunks=(ROWS,), compressors=None)
    path = tmp_path / "a.zarr/bad/.zarray"
    path.write_text(json.dumps({**json.loads(path.read_text()), "filters": [{"id": "pickle"}]}))

    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "a.zarr/bad/0").write_bytes(pickle.dumps(Evil()))
    with suppress(IngestionError):  # versions of the library differ in what they refuse themselves
        report = lakebed.import_from("zarr", tmp_path / "a.zarr", tmp_path / "d", progressbar=False)
        assert set(report.dataset.tensors) == {"x"}
    assert not (tmp_path / "ran").exists()
