"""Rows leave a dataset, a view and a result as values, arrays, single files and datasets, as others spell it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import ExportError, InvalidInputError
from lakebed.verbs.output import OutputVerbs

COLUMNS: dict[str, list[Any]] = {
    "name": ["a", "ä", None, ""],
    "age": [1, None, 3, 4],
    "kind": ["cat", "dog", None, "cat"],
    "day": [dt.date(2024, 1, 1), None, dt.date(2024, 1, 3), dt.date(2024, 1, 4)],
    "about": [{"x": [1]}, None, ["y"], 2.5],
    "split": ["train", "val", "train", "val"],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


@pytest.fixture
def ds() -> lakebed.Dataset:
    return lakebed.from_dict(COLUMNS, labels=["kind", "split"])


def test_rows_and_columns_of_python(ds: lakebed.Dataset) -> None:
    assert ds.to_list() == ROWS
    assert ds.to_dict() == COLUMNS
    assert ds[2].to_dict() == ROWS[2]
    assert ds[[3, 1]].to_list() == [ROWS[3], ROWS[1]]
    assert ds[1:3][["age", "name"]].to_dict() == {"age": [None, 3], "name": ["ä", None]}
    assert ds[:0].to_dict() == {name: [] for name in COLUMNS}
    assert ds[:0].to_list() == []


def test_arrays() -> None:
    ds = lakebed.from_dict(
        {**COLUMNS, "n": [1, 2, 3, 4], "v": np.ones((4, 2), "f4"), "r": [[1], [2, 3], None, []]},
        labels=["kind"],
    )
    found = ds.to_numpy()
    assert (found["n"].shape, found["n"].dtype) == ((4,), np.dtype("int64"))
    assert found["v"].tolist() == [[1.0, 1.0]] * 4
    assert found["age"].tolist() == [1, None, 3, 4]
    assert found["kind"].filled(9).tolist() == [0, 1, 9, 0]
    assert found["day"].dtype == "M8[D]"
    assert np.isnat(found["day"]).tolist() == [False, True, False, False]
    assert found["name"].tolist() == COLUMNS["name"]
    assert [None if one is None else one.tolist() for one in found["r"]] == [[1], [2, 3], None, []]
    assert {name: len(array) for name, array in ds[:0].to_numpy().items()} == dict.fromkeys(ds.tensors, 0)


def test_a_parquet_file_is_one_file_and_comes_back_exactly(ds: lakebed.Dataset, tmp_path: Path) -> None:
    report = ds.to_parquet(tmp_path / "x.parquet")
    assert (report.written, report.files) == (4, 1)
    assert pq.read_table(tmp_path / "x.parquet").column_names == list(COLUMNS)
    back = lakebed.read_parquet(tmp_path / "x.parquet")
    assert back.to_list() == ROWS
    assert {name: back[name].htype for name in back.tensors} == {name: ds[name].htype for name in ds.tensors}
    ds[[3, 0]].to_parquet(tmp_path / "view.parquet", tensors=["age"])
    assert pq.read_table(tmp_path / "view.parquet").to_pydict() == {"age": [4, 1]}


def test_csv_and_json_lines(ds: lakebed.Dataset, tmp_path: Path) -> None:
    ds.to_csv(tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()[:3] == [
        "name,age,kind,day,about,split",
        'a,1,cat,2024-01-01,"{""x"": [1]}",train',
        "ä,,dog,,,val",
    ]
    back = lakebed.read_csv(tmp_path / "x.csv", labels=["kind", "split"])
    assert back[["name", "age", "kind", "split"]].to_list() == ds[["name", "age", "kind", "split"]].to_list()
    ds[1:].to_json(tmp_path / "x.json")
    told = [json.loads(line) for line in (tmp_path / "x.json").read_text(encoding="utf-8").splitlines()]
    days = [one and one.isoformat() for one in COLUMNS["day"]]
    assert told == [{**row, "day": day} for row, day in zip(ROWS, days, strict=True)][1:]
    assert lakebed.read_json(tmp_path / "x.json").age.tolist() == [None, 3, 4]


def test_numbers_that_json_has_not(tmp_path: Path) -> None:
    ds = lakebed.from_dict({"f": [float("nan"), 1.5], "v": [np.array([1.0, np.nan]), np.zeros(2)]})
    ds.to_json(tmp_path / "x.json")
    lines = (tmp_path / "x.json").read_text().splitlines()
    assert lines == ['{"f": null, "v": [1.0, null]}', '{"f": 1.5, "v": [0.0, 0.0]}']
    ds.f[1] = np.inf
    with pytest.raises(ExportError, match=r"row 1 .*no infinite numbers"):
        ds.to_json(tmp_path / "y.json")
    assert not (tmp_path / "y.json").exists()
    report = ds.export("jsonl", tmp_path / "some", progressbar=False)
    assert (report.written, report.skipped) == (1, 1)


def test_nothing_is_replaced_or_left_out_in_silence(tmp_path: Path) -> None:
    ds = lakebed.from_dict({"n": [1]})
    ds.create_tensor("photo", htype="image", sample_compression="png").append(np.zeros((2, 2, 3), "u1"))
    with pytest.warns(UserWarning, match=r"no column for photo \(image\)"):
        ds.to_csv(tmp_path / "x.csv")
    with pytest.raises(ExportError, match="overwrite=True"):
        ds.to_csv(tmp_path / "x.csv", tensors=["n"])
    ds.n.append(2)
    ds.photo.append(None)
    ds.to_csv(tmp_path / "x.csv", tensors=["n"], overwrite=True, delimiter=";")
    assert (tmp_path / "x.csv").read_text() == "n\n1\n2\n"
    ds.to_parquet(tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["photo"].to_pylist()[0]["bytes"].startswith(b"\x89PNG")
    with pytest.raises(ExportError, match="single_file is for csv, jsonl, parquet"):
        ds.export("folder", tmp_path / "f", single_file=True)


def test_a_copy_and_another_format(ds: lakebed.Dataset, tmp_path: Path) -> None:
    ds[1:].save_to_disk(tmp_path / "lake")
    assert lakebed.load(tmp_path / "lake").to_list() == ROWS[1:]
    ds.export("parquet", tmp_path / "folder", progressbar=False)
    assert sorted(one.name for one in (tmp_path / "folder").iterdir()) == ["train.parquet", "val.parquet"]


def test_batches(ds: lakebed.Dataset) -> None:
    batches = ds[["age"]].iter(batch_size=3)
    assert next(batches)["age"].ravel().tolist() == [1, None, 3]
    assert next(batches)["age"].ravel().tolist() == [4]
    assert [len(batch["name"]) for batch in itertools.chain(ds.batch(3), ds.batch(3))] == [3, 1, 3, 1]


def test_formats(ds: lakebed.Dataset) -> None:
    assert ds.with_format(None) is ds
    assert ds.with_format("numpy") is ds
    for name in ("pandas", "arrow", "polars"):
        with pytest.raises(InvalidInputError, match=rf"ds\.to_{name}\(\).* read all rows"):
            ds.with_format(name)
    with pytest.raises(InvalidInputError, match=r"choose 'torch' .*, 'numpy' or None"):
        ds.with_format("x")


def test_results_of_queries(ds: lakebed.Dataset, tmp_path: Path) -> None:
    result: Any = ds.query("SELECT name, age * 2 AS twice, day, kind WHERE age > 1")
    OutputVerbs.to_csv(result, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text() == 'name,twice,day,kind\n,6,2024-01-03,\n"",8,2024-01-04,cat\n'
    OutputVerbs.to_parquet(result, tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["twice"].to_pylist() == [6, 8]
    OutputVerbs.to_json(result, tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text().splitlines()[1])["kind"] == "cat"
    assert [row["name"] for row in OutputVerbs.to_list(result)] == [None, ""]
    assert OutputVerbs.to_numpy(result)["twice"].tolist() == [6, 8]
    assert OutputVerbs.save_to_disk(result, tmp_path / "lake").twice.numpy().ravel().tolist() == [6, 8]
    with pytest.raises(InvalidInputError, match="materialize"):
        OutputVerbs.with_format(result, "torch")


def test_data_frames_of_pandas() -> None:
    """Names of columns that dictionaries have as methods, and that no attribute can have, too."""
    columns = {"name": ["a", None], "g/keys": [1, 2], "items": [{"a": 1}, [2]], "v": [np.ones(2), None]}
    ds = lakebed.from_dict(columns)
    frame = pd.DataFrame(ds)
    assert list(frame.columns) == list(columns)
    assert frame["g/keys"].tolist() == [1, 2]
    assert frame["items"].tolist() == columns["items"]
    assert frame["v"][0].tolist() == [1.0, 1.0]
    assert pd.DataFrame(ds[1:], columns=["name"]).to_dict("list") == {"name": [None]}
    assert [dict(row)["g/keys"] for row in np.asarray(ds)] == [1, 2]
    assert not any(map(pd.api.types.is_list_like, np.asarray(ds)))  # or pandas 3.1 makes one column of all
    assert [list(row) for row in np.asarray(ds)] == [list(columns)] * 2


def test_tensors_hide_verbs_and_verbs_go_on(tmp_path: Path) -> None:
    names = ["to_list", "batch", "rows", "to_csv", "export", "iter"]
    ds = lakebed.from_rows([dict.fromkeys(names, 1)])
    assert ds.to_list.numpy().item() == 1
    assert ds.to_dict() == {name: [1] for name in names}
    ds.to_json(tmp_path / "x.json")
    assert json.loads((tmp_path / "x.json").read_text()) == dict.fromkeys(names, 1)
    assert list(ds.to_numpy()) == names
    assert lakebed.from_dict({"rows": [1]}).to_list() == [{"rows": 1}]


def test_a_format_is_set_where_it_is_what_rows_have(ds: lakebed.Dataset) -> None:
    ds.set_format("numpy")
    ds.set_format()
    with pytest.raises(InvalidInputError, match=r"ds\.with_format\('torch'\)"):
        ds.set_format("torch")


def test_documents_are_values_by_every_way_out() -> None:
    values: list[Any] = [
        {"a": 1, "b": [None, {"c": 2.5}]},
        None,
        [1, "x"],
        "text",
        7,
        {"d": []},
    ]
    ds = lakebed.from_dict({"n": range(6), "doc": [{"x": value} for value in values], "word": list("abcdef")})
    ds.create_tensor("list", htype="list").extend([*([value] for value in values[:5]), [np.arange(2)]])
    ds.create_tensor("items", htype="sequence[json]").extend([[value, 1] for value in values])
    documents = ds["doc"].tolist()
    assert repr(documents) == repr([{"x": value} for value in values])
    assert repr(ds["list"].tolist()) == repr([*([value] for value in values[:5]), [np.arange(2)]])
    assert repr(ds["items"].tolist()[2:5]) == repr([[value, 1] for value in values[2:5]])
    assert ds["doc"][2].tolist() == {"x": [1, "x"]}
    result = ds.query("SELECT n + 0 AS n, doc, doc['x'] AS x, word")
    assert repr(result["doc"].tolist()) == repr(documents)
    assert repr(result["x"].tolist()) == repr(values)
    assert result["word"].tolist() == list("abcdef")
    for rows in (result.to_list(), [row.to_dict() for row in result]):
        assert [row["n"] for row in rows] == list(range(6))
        assert (
            repr([row["doc"] for row in rows])
            == repr([row["doc"] for row in ds.to_list()])
            == repr(documents)
        )
    assert result.to_dict()["x"][:4] == values[:4]
    assert ds.query("SELECT n + 0 AS n WHERE n > 9").to_list() == []
    (group,) = ds.query("SELECT doc, word GROUP BY true").to_list()
    assert repr(group) == repr({"doc": documents, "word": list("abcdef")})
