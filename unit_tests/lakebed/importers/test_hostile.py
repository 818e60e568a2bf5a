"""Damaged and hostile sources of all formats: errors or counted rows, no crash, no hang, no file outside the root."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import AF_UNIX, socket
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lakebed
from lakebed.errors import EmptyTensorError, IngestionError, LakebedError
from lakebed.importers.core.source import Source
from lakebed.importers.tables import delimited
from unit_tests.lakebed.importers import (
    test_cvat,
    test_labelme,
    test_litdata,
    test_mds,
    test_open_images,
    test_tfrecord,
    test_tsv,
    test_voc,
    test_webdataset,
    test_yolo,
)
from unit_tests.lakebed.importers.families import FAMILIES, Family
from unit_tests.lakebed.importers.hostile import Outside, check_hostile
from unit_tests.lakebed.importers.sources import imported

SOURCES = {
    **FAMILIES,
    "cvat": Family("cvat", test_cvat.make_all, suffixes=(".xml",)),
    "labelme": Family("labelme", test_labelme.pets),
    "open images": Family("open_images", test_open_images.pets, suffixes=(".csv", ".json")),
    "voc": Family("voc", test_voc.pets),
    "yolo": Family("yolo", test_yolo.make_all),
    "mds": Family("mds", test_mds.hostile),
    "mds that we exported": Family("mds", test_mds.exported),
    "litdata": Family("litdata", test_litdata.hostile),
    "webdataset": Family("webdataset", test_webdataset.hostile),
    "tfrecord": Family("tfrecord", test_tfrecord.hostile),
    "tfrecord with right checksums": Family(
        "tfrecord", test_tfrecord.hostile, {"mutations": [test_tfrecord.reseal]}, (".tfrecord",)
    ),
    **{
        f"TSV {make.__name__}, link={link}": Family("tsv", make, {"link": link})
        for make in (test_tsv.detection, test_tsv.composite, test_tsv.everything)
        for link in (False, True)
    },
}


@pytest.mark.parametrize("name", SOURCES)
def test_damage_ends_in_a_report_or_an_error(name: str, tmp_path: Path) -> None:
    one = SOURCES[name]
    check_hostile(one.format, one.make, tmp_path, 3, suffixes=one.suffixes, **one.options)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", SOURCES)
def test_five_hundred_damaged_sources(name: str, seed: int, tmp_path: Path) -> None:
    one = SOURCES[name]
    check_hostile(one.format, one.make, tmp_path, 500, seed=seed, suffixes=one.suffixes, **one.options)


def _png(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((5, 6, 3), 9, np.uint8)).save(path)


def _coco(name: str) -> dict[str, str]:
    images = [{"id": 1, "file_name": name, "height": 5, "width": 6}, {"id": 2, "file_name": "in.png"}]
    return {"annotations.json": json.dumps({"images": images, "annotations": [], "categories": []})}


# What names a file in each format, beside a picture in.png: {file: text} for a name.
NAMED: dict[str, tuple[dict[str, Any], Callable[[str], dict[str, str]]]] = {
    "coco": ({}, _coco),
    "yolo": (
        {},
        lambda name: {
            "data.yaml": "train: train.txt\nnc: 1\nnames: [a]\n",
            "train.txt": f"{name}\nin.png\n",
            "in.txt": "0 .5 .5 .5 .5\n",
        },
    ),
    "voc": (
        {},
        lambda name: {
            "Annotations/a.xml": f"<annotation><filename>{name}</filename><folder>..</folder>"
            "<size><width>6</width><height>5</height></size></annotation>",
            "Annotations/in.xml": "<annotation><filename>in.png</filename></annotation>",
        },
    ),
    "cvat": (
        {},
        lambda name: {
            "annotations.xml": f'<annotations><image id="0" name="{name}" width="6" height="5"/>'
            '<image id="1" name="in.png" width="6" height="5"/></annotations>'
        },
    ),
    "labelme": (
        {},
        lambda name: {
            f"{stem}.json": json.dumps(
                {"version": "5", "shapes": [], "imagePath": path, "imageHeight": 5, "imageWidth": 6}
            )
            for stem, path in (("a", name), ("in", "in.png"))
        },
    ),
    "csv": ({"media": {"file": "image"}}, lambda name: {"a.csv": f"file,x\n{name},1\nin.png,2\n"}),
    "jsonl": (
        {"media": {"file": "image"}},
        lambda name: {"a.jsonl": json.dumps({"file": name}) + '\n{"file": "in.png"}\n'},
    ),
    "huggingface": (
        {},
        lambda name: {
            "state.json": json.dumps({"_data_files": [{"filename": name}]}),
            "dataset_info.json": "{}",
        },
    ),
}


@pytest.mark.parametrize("how", ["above", "deep above", "absolute", "URL", "link"])
@pytest.mark.parametrize("format", NAMED)
def test_names_that_lead_out_of_the_root(format: str, how: str, tmp_path: Path) -> None:  # noqa: A002
    """A picture beside the root is not read by any name; the picture inside is imported."""
    outside = Outside(tmp_path)
    secret = tmp_path / "outside/secret.png"
    _png(secret)
    outside.forget()
    root = tmp_path / "root"
    _png(root / "in.png")
    if how == "link":
        (root / "link.png").symlink_to(secret)
    name = {
        "above": "../outside/secret.png",
        "deep above": "a/../../outside/secret.png",
        "absolute": str(secret),
        "URL": secret.as_uri(),
        "link": "link.png",
    }[how]
    options, files = NAMED[format]
    for file, text in files(name).items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    try:
        report = imported(format, root, **options)
    except LakebedError:
        assert format == "huggingface"
    else:
        told = " ".join(
            [*(one["where"] + one["reason"] for one in report.left_out), *map(str, report.problems)]
        )
        assert "secret" in told or "link.png" in told or "a.xml" in told or "a.json" in told
        assert len(report.dataset) == 1
    assert not outside.read()


@pytest.mark.parametrize("name", ["folder", "csv", "jsonl", "npy", "coco"])
def test_pipes_devices_and_links_are_no_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are told, and never opened: a pipe without a writer would never end."""
    one = FAMILIES[name]
    root = tmp_path / "root"
    one.make(root)
    os.mkfifo(root / "pipe.png")
    (root / "zero.csv").symlink_to("/dev/zero")
    (root / "endless.jsonl").symlink_to("/dev/zero")
    (root / "pipe.npy").symlink_to(root / "pipe.png")
    (root / "gone.json").symlink_to(root / "nothing.json")
    monkeypatch.chdir(root)  # addresses of sockets are short
    with socket(AF_UNIX) as listening:
        listening.bind("socket.txt")
        report = imported(one.format, root, **one.options)
    told = {problem.where for problem in report.problems}
    assert {"pipe.png", "zero.csv", "endless.jsonl", "pipe.npy", "gone.json", "socket.txt"} <= told
    for path in (root / "pipe.png", Path("/dev/zero")):
        with pytest.raises(LakebedError, match="neither a file nor a folder"):
            imported(one.format, path)


DEEP = "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 10_000_000
BILLION = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n'
    "<annotation><filename>&b;</filename></annotation>"
)
EXTERNAL = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>\n<annotation><filename>&a;</filename></annotation>'
DOCUMENTS = {
    "coco": {"a.json": '{"images": %s, "annotations": []}'},
    "labelme": {"a.json": '{"shapes": %s, "imagePath": "in.png", "version": "5"}'},
    "jsonl": {"a.jsonl": '{"a": %s}'},
    "folder": {"a.json": "%s", "a.txt": "%s"},
    "csv": {"a.csv": "x,y\n%s,1\n"},
    "tsv": {"a.tsv": "x\ty\n%s\t1\n"},
    "huggingface": {"dataset_dict.json": '{"splits": %s}', "state.json": "%s"},
    "yolo": {"data.yaml": "train: .\nnames: [a]\n", "in.txt": "0 .5 .5 .5 %s\n"},
    "voc": {
        "Annotations/in.xml": "<annotation><filename>in.png</filename><size><width>%s</width></size></annotation>"
    },
    "cvat": {
        "annotations.xml": '<annotations><image id="0" name="in.png" width="%s" height="5"/></annotations>'
    },
    "open_images": {"train-annotations-bbox.csv": "ImageID,LabelName,XMin\nin,/m/1,%s\n"},
}
WORDS = {"deep": DEEP, "digits": DIGITS, "many digits": "1" * 5000, "exponent": "1e999999999"}


@pytest.mark.parametrize("what", WORDS)
@pytest.mark.parametrize("format", DOCUMENTS)
def test_values_without_end(format: str, what: str, tmp_path: Path) -> None:  # noqa: A002
    """Nesting of a hundred thousand, ten million digits: an error or a report, soon."""
    _png(tmp_path / "root/in.png")
    for name, text in DOCUMENTS[format].items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("%s", WORDS[what]))
    started = process_time()
    with suppress(LakebedError):
        imported("csv" if format == "tsv" else format, tmp_path / "root")
    assert process_time() - started < 10


@pytest.mark.parametrize(
    "text", [BILLION, EXTERNAL, "<a>" * 100_000, "<!DOCTYPE a [" + '<!ENTITY x "y">' * 10_000]
)
@pytest.mark.parametrize("format", ["voc", "cvat"])
def test_entities_and_nesting_of_xml(format: str, text: str, tmp_path: Path) -> None:  # noqa: A002
    """Entities are refused before they are expanded, and nothing is fetched for them."""
    _png(tmp_path / "root/JPEGImages/in.png")
    path = tmp_path / "root" / ("annotations.xml" if format == "cvat" else "Annotations/in.xml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    with pytest.raises(LakebedError):
        imported(format, tmp_path / "root", strict=True)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252", "utf-32"])
@pytest.mark.parametrize("format", ["coco", "csv", "jsonl", "folder", "labelme", "yolo", "voc", "cvat"])
def test_other_encodings(format: str, encoding: str, tmp_path: Path) -> None:  # noqa: A002
    """Files of other encodings are decoded as they say, or told: no character becomes another."""
    _png(tmp_path / "root/in.png")
    words = {"voc": "<annotation><filename>in.png</filename><object><name>größe</name></object></annotation>"}
    words["cvat"] = (
        '<annotations><image id="0" name="in.png" width="6" height="5"><tag label="größe"/></image></annotations>'
    )
    words["yolo"] = "0 .5 .5 .5 .5"
    words["coco"] = '{"images": [{"id": 1, "file_name": "in.png", "größe": 1}], "annotations": []}'
    for name, text in DOCUMENTS[format].items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = words.get(format) or text.replace(
            "%s", "größe" if name.endswith(("csv", "txt")) else '"größe"'
        )
        if name == "data.yaml":
            made = text.replace("[a]", "[größe]")
        path.write_bytes(made.encode(encoding))
    try:
        report = imported(format, tmp_path / "root")
    except LakebedError:
        assert encoding != "utf-8-sig"
        return
    ds = report.dataset
    shown = ""
    for name in ds.tensors:
        with suppress(EmptyTensorError):
            shown += "" if name == "images" else repr(ds[name].data())
    shown += str([dict(ds[name].info) for name in ds.tensors])
    assert "Ã" not in shown
    assert "\ufffd" not in shown
    assert "gr" not in shown or "größe" in shown


def test_a_bomb_of_zeros_in_an_archive(tmp_path: Path) -> None:
    """Compressed zeros are unpacked a block at a time; an archive cannot say that it holds more than fits in it."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40,)}
        )
        archive.writestr("x.npy", header.getvalue() + bytes(1 << 20))
    with pytest.raises(IngestionError, match="cut short"):
        imported("numpy", tmp_path / "a.npz")


def test_rows_without_bytes(tmp_path: Path) -> None:
    """A header may say that there are any number of rows of nothing."""
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|u1", "fortran_order": False, "shape": (1 << 60, 0)}
        )
    with pytest.raises(IngestionError, match="no arrays with rows"):
        imported("numpy", tmp_path / "a.npy")
    table = pa.table({"x": pa.nulls(1 << 30)})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(IngestionError, match="it is damaged"):
        imported("dataframe", tmp_path / "a.arrow")


def test_offsets_that_lead_out_of_memory(tmp_path: Path) -> None:
    """Texts of an Arrow file that lie elsewhere than in it cost their rows, counted; the process lives on."""
    texts = pa.array([f"text {row}" for row in range(64)])
    validity, offsets, data = texts.buffers()
    moved = np.frombuffer(offsets, np.int32).copy()
    moved[10] = 1 << 30
    broken = pa.Array.from_buffers(pa.string(), 64, [validity, pa.py_buffer(moved), data])
    table = pa.table({"text": broken, "row": pa.array(range(64))})
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    report = imported("dataframe", tmp_path / "a.arrow")
    assert (report.written, report.skipped) == (62, 2)
    assert report.dataset.row.numpy().ravel().tolist() == [row for row in range(64) if row not in (9, 10)]


def test_a_bad_picture_costs_its_row_in_a_file_of_many_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that is read in several batches, the rows before and after stay."""
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 200)
    _png(tmp_path / "in.png")
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    lines = [f"{'bad' if row == 50 else 'in'}.png,{row}" for row in range(100)]
    (tmp_path / "a.csv").write_text("\n".join(["file,row", *lines]))
    report = imported("csv", tmp_path / "a.csv", media={"file": "image"})
    assert (report.written, report.skipped) == (99, 1)
    assert report.dataset.row.numpy().ravel().tolist() == [row for row in range(100) if row != 50]


def test_a_row_group_that_is_damaged_counts_all_of_its_rows(tmp_path: Path) -> None:
    """Rows that cannot be read are counted, not the group they are in."""
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"x": range(100)}), path, row_group_size=25, compression="none", use_dictionary=False
    )
    chunk = pq.ParquetFile(path).metadata.row_group(2).column(0)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + 8] = b"\xff" * 8
    path.write_bytes(data)
    report = imported("parquet", path)
    assert (report.written, report.skipped, report.planned) == (75, 25, 100)


def test_files_that_are_empty_missing_or_of_another_kind(tmp_path: Path) -> None:
    """Each costs its row."""
    _png(tmp_path / "root/a.png")
    (tmp_path / "root/empty.png").write_bytes(b"")
    (tmp_path / "root/text.png").write_text("no picture")
    (tmp_path / "root/empty.npy").write_bytes(b"")
    (tmp_path / "root/empty.json").write_bytes(b"")
    Image.new("RGB", (4, 4)).save(tmp_path / "root/jpeg.png", "JPEG")
    report = imported("folder", tmp_path / "root")
    assert report.dataset.file.text() == ["a.png", "jpeg.png"]
    assert report.skipped == 2  # files of one stem are one row


def test_a_file_that_disappears_during_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row is counted; of a table, its file."""
    for name in ("a", "b", "c"):
        _png(tmp_path / f"root/{name}.png")
    source = Source.of(tmp_path / "root")
    assert len(source.files) == 3
    (tmp_path / "root/b.png").unlink()
    report = imported("folder", source)
    assert (report.written, report.skipped) == (2, 1)
    assert report.left_out[0]["where"] == "b.png"
    (tmp_path / "t.csv").write_text("x\n1\n")
    source = Source.of(tmp_path / "t.csv")
    assert source.is_file
    (tmp_path / "t.csv").unlink()
    with pytest.raises(LakebedError):
        imported("csv", source)


@pytest.mark.soak
def test_a_hundred_thousand_files_are_planned_in_seconds(tmp_path: Path) -> None:
    """A plan takes neither long nor much memory."""
    for number in range(100_000):
        (tmp_path / f"{number}.txt").touch()
    tracemalloc.start()
    started = process_time()
    report = lakebed.import_from("folder", tmp_path, dry_run=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.planned == 100_000
    assert process_time() - started < 60
    assert peak < 200_000_000
