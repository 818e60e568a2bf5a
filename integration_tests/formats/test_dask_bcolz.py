"""Arrays of Dask and folders of bcolz come in as their libraries read them, chunk by chunk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import IngestionError
from unit_tests.lakebed.importers.hostile import check_hostile

pytestmark = pytest.mark.formats

IMAGES = np.random.default_rng(0).integers(0, 255, (300, 8, 9), np.uint8)


@pytest.mark.parametrize("workers", [0, 2])
def test_arrays_of_dask(workers: int, tmp_path: Path) -> None:
    """Arrays of different chunks side by side; one is computed from a stack of files, one row of which is broken."""
    da = pytest.importorskip("dask.array")
    da.to_npy_stack(str(tmp_path / "stack"), da.from_array(IMAGES, chunks=(64, 8, 9)))
    images = da.from_npy_stack(str(tmp_path / "stack"))
    given = {
        "images": images,
        "means": images.mean(axis=(1, 2)),
        "other": da.arange(300, chunks=7),
        "k": da.ones(3),
    }
    report = lakebed.import_from("auto", given, tmp_path / "d", workers=workers, progressbar=False)
    ds = report.dataset
    assert (report.format, report.written, set(ds.tensors)) == ("dask", 300, {"images", "means", "other"})
    assert np.array_equal(ds.images.numpy(), IMAGES)
    assert np.allclose(ds.means.numpy().ravel(), IMAGES.mean(axis=(1, 2)))
    assert ds.info["imports"][0]["about"]["arrays"]["k"]["values"] == [1, 1, 1]
    alone = lakebed.import_from("dask", images, tmp_path / "e", workers=workers, progressbar=False)
    assert np.array_equal(alone.dataset["array"].numpy(), IMAGES)
    with pytest.raises(IngestionError, match="compute_chunk_sizes"):
        lakebed.import_from("dask", images[images[:, 0, 0] > 9], "mem://")
    with pytest.raises(IngestionError, match="neither an array of Dask"):
        lakebed.import_from("dask", {"x": [1, 2]}, "mem://")


def test_a_block_that_fails_counts_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    da = pytest.importorskip("dask.array")
    monkeypatch.setattr("lakebed.importers.arrays.arrays._ITEM_BYTES", 100)

    def broken(block: Any) -> Any:
        if (block == 55).any():
            raise OSError("no such file")
        return block

    array = da.arange(100, chunks=10).map_blocks(broken, dtype=int)
    report = lakebed.import_from("dask", array, tmp_path / "d", workers=0, progressbar=False)
    assert (report.written, report.skipped) == (90, 10)
    assert "no such file" in report.left_out[0]["reason"]


def _table(root: Path) -> None:
    import bcolz

    columns = [np.arange(300), np.arange(300) / 3, np.array([f"nº {row}" for row in range(300)]), IMAGES]
    bcolz.ctable(columns, names=["x", "y", "text", "images"], rootdir=str(root), mode="w").flush()


def test_tables_and_arrays_of_bcolz(tmp_path: Path) -> None:
    bcolz = pytest.importorskip("bcolz")
    _table(tmp_path / "t")
    report = lakebed.import_from("auto", tmp_path / "t", tmp_path / "d", progressbar=False)
    ds = report.dataset
    assert (report.format, report.written) == ("bcolz", 300)
    assert np.array_equal(ds.x.numpy().ravel(), np.arange(300))
    assert np.array_equal(ds.y.numpy().ravel(), np.arange(300) / 3)
    assert ds.text.text() == [f"nº {row}" for row in range(300)]
    assert np.array_equal(ds.images.numpy(), IMAGES)
    array = bcolz.carray(IMAGES, rootdir=str(tmp_path / "a"), mode="w", chunklen=16)
    array.attrs["unit"] = "m"
    array.flush()
    alone = lakebed.import_from("auto", tmp_path / "a", tmp_path / "e", progressbar=False).dataset
    assert np.array_equal(alone["array"].numpy(), IMAGES)
    assert alone["array"].info["unit"] == "m"


def test_programs_in_bcolz_are_not_run(tmp_path: Path) -> None:
    """Objects are pickles, and what stands in place of a dtype may be anything: neither gets to the package."""
    bcolz = pytest.importorskip("bcolz")
    bcolz.carray(np.array([{"a": 1}], dtype=object), rootdir=str(tmp_path / "o"), mode="w").flush()
    with pytest.raises(IngestionError, match="are not imported"):
        lakebed.import_from("bcolz", tmp_path / "o", "mem://")
    _table(tmp_path / "t")
    storage = tmp_path / "t/x/meta/storage"
    meta = json.loads(storage.read_text())
    storage.write_text(json.dumps({**meta, "dtype": f"[__import__('os').mkdir({str(tmp_path / 'ran')!r})]"}))
    with pytest.raises(IngestionError, match="are not imported"):
        lakebed.import_from("bcolz", tmp_path / "t", "mem://")
    assert not (tmp_path / "ran").exists()
    names = tmp_path / "t/__rootdirs__"
    names.write_text(json.dumps({"names": ["../o"]}))
    with pytest.raises(lakebed.errors.LakebedError, match="not below"):
        lakebed.import_from("bcolz", tmp_path / "t", "mem://")


@pytest.mark.parametrize(("count", "seed"), [(15, 0), pytest.param(500, 1, marks=pytest.mark.soak)])
def test_damage_of_bcolz(count: int, seed: int, tmp_path: Path) -> None:
    pytest.importorskip("bcolz")
    check_hostile("bcolz", _table, tmp_path, count, seed=seed, seconds=120)
