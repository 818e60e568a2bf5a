"""MDS, LitData, TFRecord, TSV and LMDB: from a bucket, resumed after an interrupt, told apart by ``auto``."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.key_values import key_scans, lmdb_files
from lakebed.importers.shards import litdata, mds, tsv
from lakebed.importers.tfrecord import tfrecord
from lakebed.storage.url import open_storage, parse
from unit_tests.lakebed.importers import test_litdata, test_lmdb_files, test_mds, test_tfrecord, test_tsv
from unit_tests.lakebed.importers.sources import imported, picture

COUNT = 12


def make_mds(root: Path) -> None:
    rows = [[f"{at}".encode()] for at in range(COUNT)]
    shards = [
        test_mds.shard(root, {"value": "str"}, rows[at : at + 4], at // 4, "zstd")
        for at in range(0, COUNT, 4)
    ]
    test_mds.index(root, *shards)


def make_litdata(root: Path) -> None:
    test_litdata.write(root, {"value": 0}, ["str"], [[f"{at}".encode()] for at in range(COUNT)], "batch")


def make_tfrecord(root: Path) -> None:
    for at in range(0, COUNT, 4):
        records = [test_tfrecord.example({"value": f"{row}"}) for row in range(at, at + 4)]
        test_tfrecord.write(root / f"{at:05}.tfrecord", records)


def make_tsv(root: Path) -> None:
    for at in range(0, COUNT, 4):
        keys = range(at, at + 4)
        test_tsv.write(root / f"{at:05}.tsv", [(f"{key}", picture(0)) for key in keys])
        test_tsv.write(root / f"{at:05}.value.tsv", [(f"{key}", f"{key}") for key in keys])


def make_lmdb(root: Path) -> None:
    test_lmdb_files.write(root, {f"{at:03}".encode(): f"{at}".encode() for at in range(COUNT)})


FORMATS: dict[str, tuple[Any, Callable[[Path], None]]] = {
    "mds": (mds, make_mds),
    "litdata": (litdata, make_litdata),
    "tfrecord": (tfrecord, make_tfrecord),
    "tsv": (tsv, make_tsv),
    "lmdb": (lmdb_files, make_lmdb),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_bucket(tmp_path: Path, name: str) -> None:
    """Everything is read through the storage."""
    FORMATS[name][1](tmp_path)
    bucket = open_storage(parse(f"mem://shards-of-{name}"))
    for path in tmp_path.iterdir():
        bucket.put(path.name, path.read_bytes())
    report = imported("auto", f"mem://shards-of-{name}", strict=True)
    assert report.format == name
    assert report.dataset.value.text() == [f"{at}" for at in range(COUNT)]


@pytest.mark.parametrize("name", FORMATS)
def test_an_interrupt(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same call goes on where it was."""
    monkeypatch.setattr(key_scans, "_ITEM_ENTRIES", 4)
    module, make = FORMATS[name]
    make(tmp_path / "src")
    arguments: dict[str, Any] = {"progressbar": False, "workers": 0, "checkpoint": 1}
    rows, made = module.rows, 0

    def interrupted(item: Any, context: Any) -> Iterator[Any]:
        nonlocal made
        if made == 2:
            raise KeyboardInterrupt
        made += 1
        yield from rows(item, context)

    with monkeypatch.context() as patch:
        patch.setattr(module, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lakebed.import_from(name, tmp_path / "src", tmp_path / "lake", **arguments)
    report = lakebed.import_from(name, tmp_path / "src", tmp_path / "lake", **arguments)
    assert report.resumed
    assert report.dataset.value.text() == [f"{at}" for at in range(COUNT)]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        (
            "lmdb",
            "lmdb",
        ),
        (
            "tfrecord",
            "google_crc32c",
        ),
        (
            "tfrecord",
            "google.protobuf",
        ),
    ],
)
def test_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str) -> None:
    """The files are recognised, and the error names the extra."""
    FORMATS[name][1](tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(IngestionError, match=rf"pip install 'lakebed\[{name}\]'"):
        imported("auto", tmp_path)


def test_shares(tmp_path: Path) -> None:
    """Rows without splits are divided by shares, and parts of a split imported apart."""
    make_mds(tmp_path / "src")
    report = lakebed.import_from(
        "mds",
        tmp_path / "src",
        tmp_path / "lake",
        split="train=0.5/test=0.5",
        separate=True,
        progressbar=False,
    )
    assert sum(report.splits.values()) == COUNT
    assert set(report.splits) == {"train", "test"}
    with pytest.raises(IngestionError, match="no split 'val'"):
        imported("mds", tmp_path / "src", split="val")


def test_numbers_of_litdata_are_no_strings_of_mds(tmp_path: Path) -> None:
    """An index of one format is none of the other."""
    test_litdata.write(tmp_path / "a", {"value": 0}, ["int"], [[struct.pack("<q", 1)]])
    with pytest.raises(IngestionError, match="no shards of MDS"):
        imported("mds", tmp_path / "a")
    make_mds(tmp_path / "b")
    with pytest.raises(IngestionError, match="no chunks of LitData"):
        imported("litdata", tmp_path / "b")
