"""Files whose names do not tell what they are: the first bytes do; and tables that are one JSON document."""

from __future__ import annotations

import io
import json
import socket
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import IngestionError, InvalidPathException
from lakebed.importers.core.registry import recognised
from lakebed.importers.core.source import Source
from unit_tests.lakebed.importers.sources import imported

TABLE = pa.table({"a": [1, 2], "b": ["x", None]})


def _arrow(path: Path, new: Any) -> None:
    with new(path, TABLE.schema) as writer:
        writer.write_table(TABLE)


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in (("0.cls", b"1"), ("1.cls", b"2")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _numpy(path: Path, save: Any, **arrays: Any) -> None:
    with path.open("wb") as file:
        save(file, *arrays.pop("args", ()), **arrays)


WRITERS: dict[str, tuple[str, Any]] = {
    "parquet": ("parquet", lambda path: pq.write_table(TABLE, path)),
    "arrow file": ("dataframe", lambda path: _arrow(path, pa.ipc.new_file)),
    "arrow stream": ("dataframe", lambda path: _arrow(path, pa.ipc.new_stream)),
    "npy": ("numpy", lambda path: _numpy(path, np.save, args=(np.array([1, 2]),))),
    "npz": ("numpy", lambda path: _numpy(path, np.savez, a=np.array([1, 2]))),
    "tar": ("webdataset", _tar),
    "list": ("jsonl", lambda path: path.write_text('\n [ {"a": 1}, {"a": 2} ]')),
    "lines": ("jsonl", lambda path: path.write_text('{"a": 1}\n{"a": 2}\n')),
}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("name", ["a", "export.2024-05-01"])
def test_files_are_known_by_their_first_bytes(kind: str, name: str, tmp_path: Path) -> None:
    importer, write = WRITERS[kind]
    path = tmp_path / name
    write(path)
    if importer == "jsonl" and name != "a":
        return  # text may be anything: a suffix counts
    assert recognised(Source.of(path))[0].name == importer
    for form in ("auto", importer, *(["json"] if importer == "jsonl" else [])):
        report = imported(form, path)
        column = report.dataset[next(iter(report.dataset.tensors))]
        assert [json.loads(str(one)) for one in column.to_arrow().to_pylist()] == [1, 2]


@pytest.mark.parametrize("before", [b"", b"MATLAB 7.3 MAT-file".ljust(512)])
def test_hdf5_is_known_by_its_signature(before: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.mat").write_bytes(before + b"\x89HDF\r\n\x1a\n" + bytes(100))
    assert recognised(Source.of(tmp_path / "model.mat"))[0].name == "hdf5"
    (tmp_path / "a.h5").write_bytes(before + bytes(100))
    assert Source.of(tmp_path / "a.h5").suffix == ".h5"


@pytest.mark.parametrize(
    "content",
    [b"", b"SQLite format 3\0" + bytes(500), b"\xff\xff\xff\xff" + bytes(500), b"\xff" * 600, b"PK\3\4" + bytes(100),
     b"[section]\nkey = 1\n", b"{not json", b"text"],
)  # fmt: skip
def test_other_bytes_are_of_no_format(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(IngestionError, match="is not recognised"):
        recognised(Source.of(tmp_path / "a"))


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('[{"a": 1, "b": "x"}, {"a": null}, {"b": "y"}]', {"a": [1, None, None], "b": ["x", None, "y"]}),
        ('[\n  {\n    "a": 1\n  },\n  {\n    "a": 2.5\n  }\n]\n', {"a": [1.0, 2.5]}),
        ('{"a": [1, 2], "b": ["x", null]}', {"a": [1, 2], "b": ["x", None]}),
        ('{"a": [[1, 2], [3, 4]]}', {"a": [[1, 2], [3, 4]]}),
        ('{"a": [1, 2], "b": [{"c": 1}, {}]}', {"a": [1, 2], "b": ['{"c": 1}', "{}"]}),
        ('{"a": 1, "b": "x"}', {"a": [1], "b": ["x"]}),
        ('{"a": 1}\n\n{"a": 2}\n', {"a": [1, 2]}),
        ("\ufeff" + '[{"a": "ü"}]', {"a": ["ü"]}),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_tables_that_are_one_document(content: str, rows: Any, encoding: str, tmp_path: Path) -> None:
    if encoding == "utf-16" and "\n\n" in content:
        return  # lines are of UTF-8
    (tmp_path / "cars.json").write_bytes(
        content.removeprefix("\ufeff" if encoding == "utf-16" else "").encode(encoding)
    )
    for form in ("auto", "jsonl"):
        report = imported(form, tmp_path / "cars.json")
        assert report.dataset.to_arrow().to_pydict() == rows
        assert report.skipped == 0


def test_what_of_a_list_is_no_object_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.importers.tables.json_lines._BATCH_ROWS", 2)
    (tmp_path / "a.json").write_text('[{"a": 1}, 7, {"a": 2}, {"a": 3}, {"b": "\\ud800"}]')
    report = imported("auto", tmp_path / "a.json")
    assert report.dataset.a.numpy(aslist=True) == [1, 2, 3]
    assert [one["where"] for one in report.left_out] == ["a.json, object 1", "a.json, object 4"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"version": 1, "data": [{"a": 1}]}', r"json.load\(open\(path\)\)\['data'\]"),
        ('{"data": [{"a": 1}, {"a": 2}]}', r"json.load\(open\(path\)\)\['data'\]"),
        ('{"a": {"0": 1}, "b": {"0": 2}}', "pandas.read_json"),
        ('{"a": [1, 2], "b": [3]}', "lists of one length"),
        ("[1, 2]", "object 0: no object of JSON"),
        ('[{"a": 1}, {"a": ', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("7", "not a table of JSON"),
        ("{}", "no object of JSON with keys"),
        ("[]", "no object of JSON with keys"),
    ],
)
def test_documents_that_are_no_table_say_what_to_do(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(content)
    for form in ("auto", "jsonl"):
        with pytest.raises(IngestionError, match=told):
            imported(form, tmp_path / "a.json")


def test_folders_of_tables_of_json_are_splits(tmp_path: Path) -> None:
    for split, rows in (("train", [{"a": 1}, {"a": 2}]), ("test", [{"a": 3}])):
        (tmp_path / f"{split}.json").write_text(json.dumps(rows))
    report = imported("auto", tmp_path)
    assert report.dataset.a.numpy(aslist=True) == [1, 2, 3]
    assert report.splits == {"train": 2, "test": 1}


def test_a_folder_of_documents_is_no_table(tmp_path: Path) -> None:
    for at in range(3):
        (tmp_path / f"{at}.json").write_text(json.dumps({"a": {"b": [at]}}, indent=2))
    report = imported("auto", tmp_path)
    assert report.format == "folder"
    assert [one.dict() for one in report.dataset.json] == [{"a": {"b": [at]}} for at in range(3)]


def test_a_file_that_is_no_table_costs_itself(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1}, {"a": 2}]')
    (tmp_path / "b.json").write_text('[{"a": 3}, {"a"')
    (tmp_path / "c.json").write_text('[{"a": 4}]')
    report = imported("auto", tmp_path)
    assert report.dataset.a.numpy(aslist=True) == [1, 2, 4]
    assert [one.where for one in report.problems] == ["b.json"]
    assert (report.written, report.skipped) == (3, 1)


@pytest.mark.parametrize(
    ("delimiter", "called"), [(",", "commas"), (";", "semicolons"), ("\t", "tabs"), ("|", "'|'")]
)
def test_the_delimiter_that_was_found_is_told(delimiter: str, called: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"a{delimiter}b\n1{delimiter}x\n")
    found = lakebed.import_from("auto", tmp_path / "a.csv", dry_run=True)
    assert f", {called} between fields" in str(found)
    assert "between" not in str(
        lakebed.import_from("csv", tmp_path / "a.csv", dry_run=True, delimiter=delimiter)
    )


def test_an_unknown_host_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after all tries of a client; behind a proxy nobody here can tell."""

    def unknown(*_: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setattr("urllib.request.getproxies", dict)
    for form in ("auto", "csv"):
        with pytest.raises(
            InvalidPathException,
            match=r"the host .nowhere.test. of https:..nowhere.test.x.csv.* is not known",
        ):
            imported(form, "https://user:secret@nowhere.test/x.csv?key=1")
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://proxy"})
    assert Source.of("https://nowhere.test/x.csv").shown == "https://nowhere.test/x.csv"
