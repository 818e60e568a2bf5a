"""Data sets in a bucket become datasets as those on this machine do, and exports appear in a bucket."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from integration_tests.stores.servers import Server
from lakebed.importers.tables import json_index
from lakebed.storage.url import open_storage, parse
from unit_tests.lakebed.importers import (
    test_coco,
    test_cvat,
    test_labelme,
    test_leveldb_files,
    test_lmdb_files,
    test_open_images,
    test_tsv,
    test_voc,
    test_yolo,
)

MAKERS: dict[str, Callable[[Path], object]] = {
    "coco": test_coco.make_coco,
    "yolo": test_yolo.pets,
    "voc": test_voc.pets,
    "labelme": test_labelme.pets,
    "cvat": test_cvat.pets,
    "open_images": test_open_images.pets,
    "tsv": test_tsv.detection,
    "lmdb": test_lmdb_files.words,
    "leveldb": test_leveldb_files.words,
}


def put(folder: Path, url: str, creds: dict[str, str]) -> None:
    """Copy a folder to a bucket."""
    storage = open_storage(parse(url, creds=creds))
    for path in folder.rglob("*"):
        if path.is_file():
            storage.put(str(path.relative_to(folder)), path.read_bytes())


def shown(ds: lakebed.Dataset) -> list[Any]:
    """What rows hold, for comparison."""
    return [
        [name, repr(ds[row][name].tobytes() if name == "images" else ds[row][name].data())]
        for row in range(len(ds))
        for name in sorted(ds.tensors)
    ]


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_a_bucket_is_read_as_a_folder_is(tmp_path: Path, moto: Server, kind: str) -> None:
    MAKERS[kind](tmp_path / "source")
    url = moto.url(kind)
    put(tmp_path / "source", url, moto.creds)
    here = lakebed.import_from("auto", tmp_path / "source", "mem://", progressbar=False)
    there = lakebed.import_from("auto", url, "mem://", src_creds=moto.creds, progressbar=False)
    assert there.format == kind
    assert (there.written, there.splits) == (here.written, here.splits)
    assert shown(there.dataset) == shown(here.dataset)


def test_copies_of_large_annotation_files_go_with_the_import(
    tmp_path: Path, moto: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a bucket that are read an element at a time are copied to this machine for as long as it takes."""
    monkeypatch.setattr(json_index, "HELD_BYTES", 0)
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    url = moto.url("large")
    put(test_coco.make_coco(tmp_path / "source"), url, moto.creds)
    found = lakebed.import_from("coco", url, "mem://", src_creds=moto.creds, progressbar=False)
    assert found.written == 3
    gc.collect()
    assert list(copies.glob("*.json")) == []


def test_yolo_from_bucket_to_bucket(tmp_path: Path, moto: Server) -> None:
    test_yolo.pets(tmp_path / "source")
    first, out = moto.url("in"), moto.url("out")
    put(tmp_path / "source", first, moto.creds)
    ds = lakebed.import_from(
        "yolo", f"{first}/data.yaml", "mem://", src_creds=moto.creds, progressbar=False
    ).dataset
    lakebed.export_to("yolo", ds, out, dest_creds=moto.creds, progressbar=False)
    again = lakebed.import_from("auto", out, "mem://", src_creds=moto.creds, progressbar=False).dataset
    assert shown(again) == shown(ds)
    links = lakebed.ingest_yolo(
        f"{first}/images",
        "mem://",
        annotations_directory=f"{first}/labels",
        allow_no_annotation=True,
        src_creds=moto.creds,
        progressbar=False,
    )
    assert len(links) == 4
    assert len(links.boxes[0].numpy()) == 2


def test_images_of_a_table_are_linked_where_they_are(tmp_path: Path, moto: Server) -> None:
    test_tsv.composite(tmp_path / "source")
    url = moto.url("linked")
    put(tmp_path / "source", url, moto.creds)
    here = lakebed.import_from("tsv", tmp_path / "source", "mem://", progressbar=False, strict=True).dataset
    ds = lakebed.empty("mem://linked")
    ds.add_creds_key("bucket")
    ds.populate_creds("bucket", moto.creds)
    report = lakebed.import_from(
        "tsv", url, ds, src_creds=moto.creds, link=True, creds_key="bucket", progressbar=False, strict=True
    )
    assert report.written == 5
    assert [ds.images[row].tobytes() for row in range(5)] == [here.images[row].tobytes() for row in range(5)]
    assert all(str(path).startswith(f"{url}/data/part") for row in range(5) for path in ds.images[row].path())
