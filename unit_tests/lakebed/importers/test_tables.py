"""Tables: types, nulls and names as they were, whatever file or program they come from."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.tables import delimited, json_lines
from unit_tests.lakebed.importers.sources import imported

UTC = dt.UTC
TABLE = pa.table(
    {
        "id": pa.array([1, 2, None, 4], pa.int32()),
        "share": pa.array([0.5, None, float("nan"), 1e300]),
        "is ok": pa.array([True, None, False, True]),
        "name": pa.array(["ada", "", None, "ü"]),
        "path": pa.array(["a", "b", "c", "d"]),
        "at": pa.array(
            [dt.datetime(2024, 2, 3, 4, 5, tzinfo=UTC), None, None, None], pa.timestamp("us", "UTC")
        ),
        "day": pa.array([dt.date(2024, 2, 3), None, None, None]),
        "price": pa.array([decimal.Decimal("1.10"), None, None, None], pa.decimal128(10, 2)),
        "kind": pa.array(["cat", "dog", None, "cat"]).dictionary_encode(),
        "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
        "ragged": pa.array([[1], [], None, [1, 2, 3]], pa.list_(pa.int64())),
        "more": pa.array([{"a": 1}, None, {"a": None}, {"a": 4}]),
        "words": pa.array([["x", "y"], None, [], ["z"]]),
        "raw": pa.array([b"\x00\x01", None, b"", b"z"]),
        "nothing": pa.nulls(4),
    }
)


def check(ds: lakebed.Dataset) -> None:
    assert ds.id.dtype == np.int32
    assert ds.id.null_mask().tolist() == [False, False, True, False]
    found = pa.table(ds)
    assert found["share"].to_pylist()[1] is None
    assert np.isnan(found["share"].to_pylist()[2])
    assert found["is ok"].to_pylist() == [True, None, False, True]
    assert found["name"].to_pylist() == ["ada", "", None, "ü"]
    assert found["path"].to_pylist() == ["a", "b", "c", "d"]
    assert found["at"].to_pylist()[0] == dt.datetime(2024, 2, 3, 4, 5, tzinfo=UTC)
    assert found["day"].to_pylist() == [dt.date(2024, 2, 3), None, None, None]
    assert found["price"].to_pylist() == ["1.10", None, None, None]
    assert ds.kind.htype == "class_label"
    assert ds.kind[3].data()["text"] == ["cat"]
    assert ds.kind.null_mask().tolist() == [False, False, True, False]
    assert ds.vector.htype == "embedding"
    assert found["vector"].to_pylist() == [[1, 2], None, [3, 4], [5, 6]]
    assert found["ragged"].to_pylist() == [[1], [], None, [1, 2, 3]]
    assert [None if one is None else json.loads(one) for one in found["more"].to_pylist()] == [
        {"a": 1}, None, {"a": None}, {"a": 4}
    ]  # fmt: skip
    assert ds.words[0].dict() == ["x", "y"]
    assert ds.raw[0].numpy().tolist() == [0, 1]
    assert found["nothing"].to_pylist() == [None] * 4


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet", row_group_size=3)
    check(lakebed.import_from("auto", tmp_path / "t.parquet", tmp_path / "lake", progressbar=False).dataset)


@pytest.mark.parametrize("form", ["table", "reader", "batch", "polars", "arrow file", "arrow stream"])
def test_tables_of_programs_and_arrow_files(form: str, tmp_path: Path) -> None:
    src: Any = TABLE
    if form == "reader":
        src = TABLE.to_reader(max_chunksize=3)
    elif form == "batch":
        src = TABLE.combine_chunks().to_batches()[0]
    elif form == "polars":
        src = pl.from_arrow(TABLE)
        assert imported("dataframe", src).written == 4
        return
    elif form != "table":
        src = tmp_path / "t.arrow"
        new = pa.ipc.new_file if form == "arrow file" else pa.ipc.new_stream
        with new(src, TABLE.schema) as writer:
            writer.write_table(TABLE)
    check(lakebed.import_from("auto", src, tmp_path / "lake", progressbar=False).dataset)


def test_a_bad_value_beside_arrays_of_python_costs_its_row() -> None:
    arrays = [np.full((1, row), row) for row in (1, 2, 3)]
    frame = pd.DataFrame({"v": [[1.0], [1.0, None], [2.0, 3.0]], "array": arrays})
    report = imported("dataframe", frame)
    assert (report.written, [one["where"] for one in report.left_out]) == (2, ["row 1"])
    assert [one.tolist() for one in report.dataset.array.numpy(aslist=True)] == [[[1]], [[3, 3, 3]]]


def test_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1, 2], "s": ["a", None], "c": pd.Categorical(["u", "v"]), "v": [[1, 2], [3]]})
    ds = lakebed.import_from("dataframe", frame, tmp_path / "lake", progressbar=False).dataset
    assert pa.table(ds)["s"].to_pylist() == ["a", None]
    assert ds.c.htype == "class_label"
    mixed = imported("dataframe", pd.DataFrame({"x": [1, "a"]})).dataset
    assert mixed.to_dict() == {"x": [1, "a"]}
    with pytest.raises(IngestionError, match="not a table that Arrow knows"):
        imported("dataframe", pd.DataFrame({"x": [1j]}))


def test_folders_of_parquet_are_splits(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, count in (
        ("train-00000-of-00002", 2),
        ("train-00001-of-00002", 1),
        ("validation-00000-of-00001", 1),
    ):
        pq.write_table(TABLE.slice(0, count).select(["id"]), tmp_path / f"data/{name}.parquet")
    report = imported("auto", tmp_path / "data")
    assert report.splits == {"train": 3, "val": 1}
    pq.write_table(TABLE.select(["name"]), tmp_path / "data/other.parquet")
    with pytest.raises(IngestionError, match=r"column '(id|name)' is missing"):
        imported("parquet", tmp_path / "data")


def test_files_without_the_name_of_a_split_among_others(tmp_path: Path) -> None:
    for name, lines in (("more", "3\n"), ("train", "1\n2\n")):
        (tmp_path / f"{name}.csv").write_text(f"a\n{lines}")
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"a": {line}}}\n' for line in lines.split()))
    for form in ("csv", "jsonl"):
        report = imported(form, tmp_path)
        assert (report.splits, report.dataset.a.tolist()) == ({"train": 2, "others": 1}, [1, 2, 3])


def test_media_as_bytes_paths_and_in_the_way_of_hugging_face(tmp_path: Path) -> None:
    out = io.BytesIO()
    Image.fromarray(np.zeros((3, 4, 3), np.uint8)).save(out, "PNG")
    (tmp_path / "a.png").write_bytes(out.getvalue())
    features = {"photo": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["no", "yes"]}}
    schema = pa.schema(
        [
            ("photo", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("label", pa.int64()),
            ("raw", pa.binary()),
            ("at", pa.string()),
        ],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    rows = [
        {"photo": {"bytes": out.getvalue(), "path": None}, "label": 1, "raw": out.getvalue(), "at": "a.png"},
        {"photo": None, "label": 0, "raw": None, "at": None},
        {"photo": None, "label": 0, "raw": None, "at": "missing.png"},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "t.parquet")
    options = {"media": {"raw": "image", "at": "image"}, "progressbar": False}
    report = lakebed.import_from("parquet", tmp_path / "t.parquet", tmp_path / "lake", **options)
    ds = report.dataset
    assert (report.written, report.skipped) == (2, 1)
    assert "missing.png" in report.left_out[0]["reason"]
    for name in ("photo", "raw", "at"):
        assert ds[name].meta.sample_compression == "png"
        assert ds[name][0].tobytes() == out.getvalue()
        assert ds[name].null_mask().tolist() == [False, True]
    assert ds.label.info["class_names"] == ["no", "yes"]
    assert ds.label[0].data()["text"] == ["yes"]
    linked = imported("parquet", tmp_path / "t.parquet", link=True, **options).dataset
    assert linked["at"].htype == "link[image]"
    assert linked["at"][0].shape == (3, 4, 3)


CSV = """id,zip,share,ok,at,day,text,empty,big
1,007,1.5,true,2024-02-03 04:05:06,2024-02-03,"a,b",,12345678901234567890
-2,100,,false,,,"",,1
,5,3,True,,,,,2
"""


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(CSV)
    ds = lakebed.import_from("auto", tmp_path / "t.csv", tmp_path / "lake", progressbar=False).dataset
    found = pa.table(ds).to_pydict()
    assert found["id"] == [1, -2, None]
    assert found["zip"] == ["007", "100", "5"]
    assert found["share"] == [1.5, None, 3.0]
    assert found["ok"] == [True, False, True]
    assert found["at"][0] == dt.datetime(2024, 2, 3, 4, 5, 6)  # noqa: DTZ001 - without a zone
    assert found["day"] == [dt.date(2024, 2, 3), None, None]
    assert found["text"] == ["a,b", "", None]
    assert found["empty"] == [None, None, None]
    assert found["big"] == [12345678901234567890, 1, 2]


def test_types_of_csv_are_those_of_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first block says is not what the last line says."""
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 256)
    lines = [f"{number};{number}" for number in range(500)]
    (tmp_path / "t.csv").write_text("a;b\n" + "\n".join(lines) + "\n1.5;x\n")
    ds = imported("csv", tmp_path / "t.csv").dataset
    assert (len(ds), ds.a.dtype, ds.b.htype) == (501, np.float64, "text")
    assert ds.b[500].text() == "x"


def test_rows_of_another_width_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n3\n4\t5\t6\n7\t8\n")
    report = imported("auto", tmp_path / "t.tsv")
    assert (report.written, report.skipped) == (2, 2)
    assert "fields in place of 2" in report.left_out[0]["reason"]
    with pytest.raises(IngestionError, match="fields in place of 2"):
        imported("csv", tmp_path / "t.tsv", strict=True)


def test_csv_without_a_first_line_of_other_encodings_and_nulls(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("1,é,NA\n2,b,3\n".encode("latin1"))
    with pytest.raises(IngestionError, match="--encoding"):
        imported("csv", tmp_path / "t.csv", names=["a", "b", "c"])
    ds = imported(
        "csv", tmp_path / "t.csv", names=["a", "b", "c"], encoding="latin1", nulls="NA", labels=["b"]
    ).dataset
    assert ds.b[0].data()["text"] == ["é"]
    assert pa.table(ds)["c"].to_pylist() == [None, 3]


def test_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines in pieces smaller than themselves; one that is no JSON is left out."""
    monkeypatch.setattr(json_lines, "_PIECE_BYTES", 10)
    lines: list[Any] = [
        {"n": 1, "f": 1, "s": "a", "v": [1, 2], "w": [0.5, 1], "r": [1], "o": {"x": 1}, "m": 1, "b": True},
        {
            "n": None,
            "f": 2.5,
            "s": None,
            "v": [3, 4],
            "w": [2, 3],
            "r": [1, 2],
            "o": [1, "a"],
            "m": "text",
            "z": None,
        },
    ]
    text = "\n".join([json.dumps(lines[0]), "{broken", "", json.dumps(lines[1]), "7"])
    (tmp_path / "t.jsonl").write_text(text)
    report = imported("auto", tmp_path / "t.jsonl")
    ds, found = report.dataset, pa.table(report.dataset).to_pydict()
    assert (report.written, report.skipped) == (2, 2)
    assert found["n"] == [1, None]
    assert found["f"] == [1.0, 2.5]
    assert found["s"] == ["a", None]
    assert found["v"] == [[1, 2], [3, 4]]
    assert found["w"] == [[0.5, 1], [2, 3]]
    assert found["r"] == [[1], [1, 2]]
    assert [ds.o[row].dict() for row in (0, 1)] == [{"x": 1}, [1, "a"]]
    assert [json.loads(one) for one in found["m"]] == [1, "text"]
    assert found["b"] == [True, None]
    assert found["z"] == [None, None]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.parquet", b"PAR1 nothing PAR1"),
        ("t.parquet", b""),
        ("t.csv", b""),
        ("t.csv", b"\x00\xff\xfe,b\n1,2\n"),
        ("t.jsonl", b"[]\n"),
        ("t.jsonl", b"[" * 100_000),
        ("t.arrow", b"ARROW1 nothing"),
    ],
)
def test_what_is_no_table_is_told(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    form = {"t.csv": "csv", "t.jsonl": "jsonl", "t.arrow": "dataframe"}.get(name, "parquet")
    with pytest.raises(IngestionError):
        imported(form, tmp_path / name)


def test_names_of_columns_that_are_taken_or_double(tmp_path: Path) -> None:
    table = pa.table({"path": [1], "path_": [2], "_x": [3], "a.b": [4], "tensors": [5]})
    ds = imported("dataframe", table).dataset
    told = {str(ds[name].info.get("column", name)): ds[name].numpy().item() for name in ds.tensors}
    assert told == {"path": 1, "path_": 2, "_x": 3, "a.b": 4, "tensors": 5}


def test_one_bad_file_costs_one_row(tmp_path: Path) -> None:
    photo = io.BytesIO()
    Image.new("RGB", (4, 3)).save(photo, "png")
    (tmp_path / "a.png").write_bytes(photo.getvalue())
    lines = [{"photo": name, "n": n} for n, name in enumerate(["a.png", "../b.png", "a.png", None])]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    report = imported("jsonl", tmp_path / "t.jsonl", media={"photo": "image"})
    assert (report.written, report.skipped) == (3, 1)
    assert "'../b.png' is not below" in str(report.left_out)
    assert report.dataset.n.numpy(aslist=True) == [0, 2, 3]


def test_integers_that_floats_do_not_hold_stay_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(
        f'{{"a": {2**53 + 1}, "b": 1, "c": [{2**60 + 1}]}}\n{{"a": 0.5, "b": {2**62 + 1}, "c": [1, 2]}}\n'
    )
    ds = imported("jsonl", tmp_path / "t.jsonl").dataset
    assert [row.dict() for row in ds.a] == [2**53 + 1, 0.5]
    assert ds.b.numpy(aslist=True) == [1, 2**62 + 1]
    assert [one.tolist() for one in ds.c.numpy(aslist=True)] == [[2**60 + 1], [1, 2]]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("x,y", "x_y"),
        ("C:\\a", "C__a"),
        ("..", "__"),
        ("index", "index_"),
        ("_x_id", "column_x_id"),
        ("chunks", "chunks_"),
        ("ü" * 300, "ü" * 100),
    ],
)
def test_names_that_tensors_cannot_have(column: str, name: str) -> None:
    ds = imported("dataframe", pa.table({column: [1, 2]})).dataset
    assert list(ds.tensors) == [name]
    assert ds[name].info["column"] == column


def test_columns_that_would_be_groups_of_others() -> None:
    for names, expected in ((["a", "a/b"], ["a", "a_b"]), (["a/b", "a"], ["a/b", "a_"])):
        table = pa.table({name: [1] for name in names})
        ds = imported("dataframe", table).dataset
        assert list(ds.tensors) == expected


def test_nulls_inside_of_lists_cost_their_rows_or_stay_as_json() -> None:
    table = pa.table({"v": [[1.0, None], [2.0], None], "w": [[[1]], [[2], [3]], [[None]]]})
    report = imported("dataframe", table)
    assert (report.written, report.skipped) == (1, 2)
    assert "documents=v" in str(report.left_out)
    report = imported("dataframe", table, documents=["v", "w"])
    assert [row.dict() for row in report.dataset.v[:2]] == [[1.0, None], [2.0]]
    assert report.dataset.v.null_mask().tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("lines", "values", "told"),
    [
        ("9007199254740993\n1.5", [9007199254740992.0, 1.5], "1 numbers .*first 9007199254740993 in row 1 "),
        ("1.5\n9007199254740993\n-9007199254740995", None, "2 numbers .*first 9007199254740993 in row 2 "),
        (
            "0.1234567890123456789\n1",
            [0.12345678901234568, 1.0],
            "1 numbers .*0.1234567890123456789 in row 1 ",
        ),
        ("1e400\n1e-400\n1", [float("inf"), 0.0, 1.0], "2 numbers .*1e400 in row 1 "),
        ("9007199254740992\n1.5\n-0.0\n1e5", [9007199254740992.0, 1.5, 0.0, 1e5], None),
        ("100000000000000000000000.0\n0.30000000000000004\n1.50", [1e23, 0.30000000000000004, 1.5], None),
        # As np.savetxt and C's %.17g write them.
        ("1.000000000000000056e-01\n0.10000000000000001\nnan\n-inf", None, None),
        ("9007199254740993\n1", [9007199254740993, 1], None),
    ],
)
def test_digits_that_floats_do_not_hold_are_told(
    lines: str, values: list[float] | None, told: str | None, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(f"b,a\n{lines.replace(chr(10), chr(10) + ',').join([',', chr(10)])}")
    report = imported("csv", tmp_path / "t.csv")
    if values is not None:
        assert report.dataset.a.numpy(aslist=True) == values
    assert [one.where for one in report.problems] == (["a"] if told else [])
    if told is not None:
        assert re.match(told, report.problems[0].reason)
        with pytest.raises(IngestionError, match="more digits than float64"):
            imported("csv", tmp_path / "t.csv", strict=True)
        ds = imported("csv", tmp_path / "t.csv", text=["a"]).dataset
        assert ds.a.text() == lines.split("\n")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([2**64 - 1, 3, 2**63 - 1], "uint64"),
        ([2**63, -3], None),
        ([-(2**63), 2**63], None),
        ([2**64, 1], None),
    ],
)
def test_integers_beyond_int64_are_uint64_or_told(
    suffix: str, values: list[int], dtype: str | None, tmp_path: Path
) -> None:
    lines = [f'{{"a": {value}}}' if suffix == "jsonl" else str(value) for value in values]
    (tmp_path / f"t.{suffix}").write_text("\n".join(lines if suffix == "jsonl" else ["a", *lines]))
    report = imported(suffix, tmp_path / f"t.{suffix}")
    told = [one.reason for one in report.problems]
    if dtype is None:
        (reason,) = told
        assert "its whole numbers do not fit 64 bits" in reason
        assert list(map(int, report.dataset.a.tolist())) == values
    else:
        assert (told, report.dataset.a.dtype, report.dataset.a.tolist()) == ([], dtype, values)


def test_other_columns_with_integers_beyond_int64(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"a": [{2**64}], "b": {2**64}}}\n{{"a": [1], "b": "x"}}\n')
    assert [one.where for one in imported("jsonl", tmp_path / "t.jsonl").problems] == ["a"]
    (tmp_path / "t.csv").write_text(f"a,b\n{2**64},{2**64}\n1,x\n")
    assert [one.where for one in imported("csv", tmp_path / "t.csv").problems] == ["a"]
    assert not imported("csv", tmp_path / "t.csv", text=["a"]).problems


def test_rows_of_rounded_numbers_are_counted_in_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 100)
    (tmp_path / "b.csv").write_text("a\n" + "0.5\n" * 100 + "9007199254740993\n")
    report = imported("csv", tmp_path)
    assert "9007199254740993 in row 101 (b.csv)" in report.problems[0].reason


@pytest.mark.parametrize("text", ["0x10", "-0X1f", "0b1", "1_000", "007", "+5", " 5", "5 ", "1,500", "1 000"])
def test_what_only_programs_read_as_numbers_stays_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f'a\n"{text}"\n3\n')
    report = imported("csv", tmp_path / "t.csv")
    assert report.dataset.a.text() == [text, "3"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("1\nNULL\nNA\n3\nNA", r"int64 but for 2 times 'NA', 1 times 'NULL': nulls=NULL,NA"),
        ("2024-02-03\n-", "date32 but for"),
        ("true\nN/A", "bool but for"),
        ("NULL\n" * 20 + "1", "int64 but for 20 times"),
        ("1\nNULL\nx", None),
        ("NA\nNA", None),
        ("1.5\nNaN", None),
        ("1\n", None),
    ],
)
def test_words_that_often_mean_null_are_told(
    lines: str, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay what they are, in a column of text, until the user says that they are null."""
    monkeypatch.setattr(delimited, "_BLOCK_BYTES", 16)
    (tmp_path / "t.csv").write_text(f"a\n{lines}\n")
    report = imported("csv", tmp_path / "t.csv")
    assert len(report.problems) == (told is not None)
    if told is not None:
        assert re.search(told, report.problems[0].reason)
        assert report.dataset.a.text() == lines.split("\n")
        nulls = report.problems[0].reason.partition("nulls=")[2].partition(" ")[0].split(",")
        again = imported("csv", tmp_path / "t.csv", nulls=nulls)
        assert not again.problems
        assert again.dataset.a.htype == "generic"
        assert again.dataset.a.null_mask().tolist() == [one in nulls for one in lines.split("\n")]
