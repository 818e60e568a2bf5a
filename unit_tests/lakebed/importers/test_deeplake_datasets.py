"""Datasets of Deep Lake 2 and 3 come in with their versions; how those of 4 do is tested with its package."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.documents.indexes.chunk_ids import ChunkIds
from lakebed.errors import DatasetHandlerError, HistoryMissingError, IngestionError
from unit_tests.lakebed.importers.sources import imported

VERSION = b"2.3.1"


def as_version_2(source: Path, dest: Path) -> None:
    """Write a dataset of one version as early 2.x did: 4-byte chunk ids without a width, few keys in documents."""
    shutil.copytree(source, dest)
    for path in dest.rglob("tensor_meta.json"):
        meta = json.loads(path.read_text())
        for key in ("name", "verify", "tiling_threshold", "typestr", "hidden", "links", "is_link"):
            meta.pop(key, None)
        path.write_text(json.dumps({**meta, "version": VERSION.decode()}))
        index = path.parent / "chunks_index/unsharded"
        if not index.exists():
            continue
        ids = ChunkIds.from_bytes(index.read_bytes())
        rows = b""
        for number, (old, last) in enumerate(zip(ids.ids, ids.last, strict=True)):
            (path.parent / f"chunks/{int(old):x}").rename(path.parent / f"chunks/{number + 1:x}")
            rows += struct.pack("<II", number + 1, int(last))
        index.write_bytes(bytes([len(VERSION)]) + VERSION + rows)
    for path in dest.rglob("dataset_meta.json"):
        meta = json.loads(path.read_text())
        kept = {
            key: meta[key] for key in ("tensors", "groups", "tensor_names", "hidden_tensors") if key in meta
        }
        path.write_text(json.dumps({**kept, "version": VERSION.decode()}))
    for path in dest.rglob("chunks/*"):
        data = path.read_bytes()
        if data.startswith(b"\x063.9.52"):
            path.write_bytes(bytes([len(VERSION)]) + VERSION + data[7:])


@pytest.mark.parametrize("age", ["3.9.52", "2.3.1"])
def test_old_datasets_are_opened_copied_and_written(age: str, golden: Path, tmp_path: Path) -> None:
    """What Deep Lake 2 left out, and how wide its indexes were, is known; copies have checksums and can be written."""
    old = golden / "f01_dtypes"
    if age != "3.9.52":
        as_version_2(golden / "f01_dtypes", old := tmp_path / "old")
    expected = lakebed.load(golden / "f01_dtypes", read_only=True)
    report = lakebed.import_from("auto", old, tmp_path / "new", progressbar=False)
    assert (report.format, report.written) == ("deeplake", expected.max_len)
    ds = lakebed.load(tmp_path / "new", read_only=False)
    assert set(ds.tensors) == set(expected.tensors)
    for name in set(ds.tensors) - {"onlynone"}:
        for value, other in zip(ds[name].numpy(aslist=True), expected[name].numpy(aslist=True), strict=True):
            assert value.dtype == other.dtype
            assert np.array_equal(value, other, equal_nan=value.dtype.kind == "f")
    first = next(iter(ds.tensors))
    ds[first].append(expected[first][0].numpy())
    ds.commit("more")
    assert lakebed.verify(tmp_path / "new").is_sound
    assert (lakebed.load(old, read_only=True))[first].shape[0] == expected[first].shape[0]


def test_without_a_history_the_error_says_what_to_do(golden: Path, tmp_path: Path) -> None:
    """The first releases of 2 kept the history as a pickle, which is not read."""
    as_version_2(golden / "f01_dtypes", tmp_path / "old")
    (tmp_path / "old/version_control_info.json").unlink()
    with pytest.raises(HistoryMissingError, match="lakebed repair"):
        lakebed.import_from("deeplake", tmp_path / "old", tmp_path / "new", progressbar=False)


def test_versions_and_branches_come_along(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "a")
    ds.create_tensor("x")
    for row in range(3):
        ds.x.append(row)
        ds.commit(f"row {row}")
    ds.checkout("side", create=True)
    ds.x.append(9)
    ds.commit("on the side")
    report = lakebed.import_from("deeplake", tmp_path / "a", tmp_path / "b", progressbar=False)
    assert report.found == "a Deep Lake 3 dataset, copied with its versions"
    made = lakebed.load(tmp_path / "b", read_only=True)
    assert set(made.branches) == {"main", "side"}
    assert [one["message"] for one in made.commits] == ["row 2", "row 1", "row 0"]
    dry = lakebed.import_from("deeplake", tmp_path / "a", dry_run=True)
    assert (dry.dry_run, dry.planned) == (True, 3)
    with pytest.raises(DatasetHandlerError):
        lakebed.import_from("deeplake", tmp_path / "a", tmp_path / "b", progressbar=False)
    for more in ({"append": True}, {"split": "train"}, {"version": "x"}, {"separate": True}):
        with pytest.raises(IngestionError, match="copied as a whole"):
            lakebed.import_from("deeplake", tmp_path / "a", tmp_path / "c", **more)
    with pytest.raises(IngestionError, match="both"):
        lakebed.import_from("deeplake", tmp_path / "a", tmp_path / "a", overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/x.txt").write_text("x")
    with pytest.raises(IngestionError, match=r"deeplake>=4|cannot open"):
        imported("deeplake", tmp_path / "other")


def test_upgrade(golden: Path, tmp_path: Path) -> None:
    """The command copies, verifies and says so; without a destination it only tells."""
    as_version_2(golden / "f01_dtypes", tmp_path / "old")
    run = CliRunner().invoke
    told = run(main, ["upgrade", str(tmp_path / "old")])
    assert told.exit_code == 0
    assert "nothing was written" in told.output
    done = run(main, ["upgrade", str(tmp_path / "old"), str(tmp_path / "new"), "--no-progress"])
    assert done.exit_code == 0, done.output
    assert "verified" in done.output
    assert lakebed.verify(tmp_path / "new").is_sound
    again = run(main, ["upgrade", str(tmp_path / "old"), str(tmp_path / "new")])
    assert again.exit_code != 0
