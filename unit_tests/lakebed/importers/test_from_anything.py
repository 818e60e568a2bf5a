"""Datasets of whatever holds rows: with or without a place, of values as machine learning has them, of files."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import DatasetExistsError, IngestionError, InvalidInputError, LakebedError

ROWS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
COLUMNS = {"a": [1, None], "b": ["x", "y"]}
FRAME = pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": ["x", "y"]})


def generated() -> Iterator[dict[str, Any]]:
    yield from ROWS


@pytest.mark.parametrize(
    ("make", "data"),
    [
        (lakebed.from_rows, ROWS),
        (lakebed.from_rows, COLUMNS),
        (lakebed.from_rows, generated),
        (lakebed.from_list, ROWS),
        (lakebed.from_dict, COLUMNS),
        (lakebed.from_dict, {"a": pa.array([1, None]), "b": pl.Series(["x", "y"])}),
        (lakebed.from_dict, {"a": FRAME["a"], "b": np.array(["x", "y"])}),
        (lakebed.from_generator, generated),
        (lakebed.from_pandas, FRAME),
        (lakebed.from_polars, pl.DataFrame(COLUMNS)),
        (lakebed.from_arrow, pa.table(COLUMNS)),
    ],
)
def test_the_place_comes_first_and_may_be_left_out(make: Any, data: Any, tmp_path: Path) -> None:
    made = make(data)
    assert made.to_arrow().to_pydict() == COLUMNS
    assert made.path.startswith("mem://")
    assert len(lakebed.load(made.path)) == 2
    assert make(data).path != made.path
    there = make(tmp_path / "lake", data)
    assert make(there, data) is there
    assert lakebed.load(tmp_path / "lake").a.to_arrow().to_pylist() == [1, None] * 2
    with pytest.raises(DatasetExistsError):
        make(str(tmp_path / "lake"), data)
    with pytest.raises(IngestionError, match=r"got a place, .* but no data"):
        make(tmp_path / "other")


def test_a_generator_that_has_begun_is_read_to_its_end() -> None:
    rows = generated()
    next(rows)
    assert lakebed.from_generator(rows).to_list() == ROWS[1:]


def test_columns_that_are_none_are_told() -> None:
    with pytest.raises(IngestionError, match=r"differ in length: \{'a': 1, 'b': 2\}"):
        lakebed.from_dict({"a": [1], "b": [1, 2]})
    for wrong in (1, "ab", {"x": 1}):
        with pytest.raises(IngestionError, match=r"pass one row as a list of one dictionary"):
            lakebed.from_rows({"a": wrong})


def test_columns_of_arrays_are_rows_of_arrays() -> None:
    ds = lakebed.from_dict(
        {"v": np.ones((2, 3), "f4"), "n": np.arange(2, dtype="u1"), "x": np.zeros((2, 2, 2))}
    )
    assert [(ds[name].htype, ds[name].dtype) for name in ds.tensors] == [
        ("embedding", "float32"),
        ("generic", "uint8"),
        ("generic", "float64"),
    ]
    assert ds.x.numpy().shape == (2, 2, 2)


class _Jax:
    """An array of another library, as those of JAX are."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.values


UUID_5 = UUID(int=5)

VALUES: list[tuple[list[Any], str, list[Any]]] = [
    ([UUID_5, None], "text", [str(UUID_5), None]),
    ([Decimal("1.10"), None], "text", ["1.10", None]),
    ([Path("notes/a.txt")], "text", ["notes/a.txt"]),
    ([pd.Period("2024-01", "M"), None], "text", ["2024-01", None]),
    ([pd.Interval(0, 1, closed="left")], "text", ["[0, 1)"]),
    ([np.datetime64("2024-01-02"), None], "generic", [dt.date(2024, 1, 2), None]),
    ([dt.date(2024, 1, 2), None], "generic", [dt.date(2024, 1, 2), None]),
    ([pd.Timestamp("2024-01-02"), pd.NaT], "generic", [pd.Timestamp("2024-01-02"), None]),
    ([np.timedelta64(3, "D")], "generic", [dt.timedelta(days=3)]),
    ([np.bool_(True), None], "generic", [True, None]),
    ([[[1, 2, 3, 4]], [], [[1, 2, 3, 4]] * 2], "generic", [[[1, 2, 3, 4]], [], [[1, 2, 3, 4]] * 2]),
    ([[[1, 2], [3]]], "json", ["[[1, 2], [3]]"]),
    ([["a", "b"], []], "json", ['["a", "b"]', "[]"]),
    ([{"a": 1}, [1]], "json", ['{"a": 1}', "[1]"]),
    ([1, "a"], "json", ["1", '"a"']),
    ([[UUID_5, pd.Period("2024", "Y")]], "json", [f'["{UUID_5}", "2024"]']),
]


@pytest.mark.parametrize(("values", "htype", "stored"), VALUES, ids=str)
def test_values_by_every_door(values: list[Any], htype: str, stored: list[Any]) -> None:
    """Rows, a data frame, and what is appended afterwards, where a tensor takes it."""
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    by_rows, by_frame = lakebed.from_rows([{"x": value} for value in values]), lakebed.from_pandas(frame)
    for ds in (by_rows, by_frame):
        assert (ds.x.htype, ds.x.to_arrow().to_pylist()) == (htype, stored)
    if htype == "json" and any(isinstance(value, list) and UUID_5 in value for value in values):
        return  # appended to JSON, it is an error that says so
    by_rows.x.append(values[0])
    by_rows.extend([{"x": value} for value in values])
    by_rows.extend(frame)
    assert by_rows.x.to_arrow().to_pylist() == [*stored, stored[0], *stored, *stored]


@pytest.mark.parametrize("unit", ["h", "m", "s", "ms", "us", "ns", "ps", "fs"])
def test_moments_of_numpy_in_every_unit(unit: str) -> None:
    moment = np.datetime64("1970-01-01T02" if unit in ("ps", "fs") else "2024-01-02T03", "s")
    values = [moment.astype(f"M8[{unit}]"), np.datetime64("NaT", unit)]
    wait = np.timedelta64(7200, "s").astype(f"m8[{unit}]")
    for ds in (
        lakebed.from_rows([{"x": x, "w": wait} for x in values]),
        lakebed.from_dict({"x": values, "w": [wait] * 2}),
    ):
        ds.x.extend(np.array(values))
        found = ds.x.numpy(datetimes=True).ravel()
        assert found[0] == found[2] == moment
        assert np.isnat(found[[1, 3]]).all()
        assert ds.w.to_arrow().to_pylist()[0] == dt.timedelta(hours=2)


def test_moments_that_would_be_others_are_refused() -> None:
    for value in (
        np.datetime64(5, "ps"),
        np.timedelta64(1500, "ps"),
        np.timedelta64(5, "M"),
        np.timedelta64(1, "Y"),
    ):
        with pytest.raises(InvalidInputError, match="choose a unit"):
            lakebed.from_rows([{"x": value}])
        ds = lakebed.empty("mem://")
        ds.create_tensor("x")
        with pytest.raises(LakebedError, match="choose a unit"):
            ds.x.append(value)
        with pytest.raises(LakebedError, match="choose a unit"):
            ds.x.extend(np.array([value]))
        assert len(ds.x) == 0


def test_types_of_pandas_whose_numbers_mean_nothing() -> None:
    frame = pd.DataFrame(
        {
            "period": pd.PeriodIndex(["2024-01", None], freq="M"),
            "interval": pd.arrays.IntervalArray.from_tuples([(0, 1), None]),
            "cut": pd.cut([1, 2], [0, 1, 2]),
            "id": [UUID_5, None],
        }
    )
    ds = lakebed.from_pandas(frame)
    ds.extend(frame)
    ds.period.extend(frame["period"])
    ds.period.pop(5)
    ds.period.pop(4)
    assert {name: ds[name].htype for name in ds.tensors} == {
        "period": "text",
        "interval": "text",
        "cut": "class_label",
        "id": "text",
    }
    assert ds.to_dict() == {
        "period": ["2024-01", None] * 2,
        "interval": ["(0.0, 1.0]", None] * 2,
        "cut": ["(0, 1]", "(1, 2]"] * 2,
        "id": [str(UUID_5), None] * 2,
    }
    table = pa.table({"id": pa.array([UUID_5.bytes, None], pa.uuid())})
    assert lakebed.from_arrow(table).to_dict() == {"id": [str(UUID_5), None]}


def test_rows_of_machine_learning(tmp_path: Path) -> None:
    """Pictures, labels and boxes; columns of a frame keep their order."""
    Image.new("RGB", (4, 3), "red").save(tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as opened:
        rows = [
            {"image": opened, "file": tmp_path / "a.jpg", "read": lakebed.read(tmp_path / "a.jpg"), "label": "cat",
             "boxes": [[1, 2, 3, 4]], "points": _Jax([[0.5, 1.5]]), "n": _Jax(3)},
            {"image": None, "file": None, "read": None, "label": None, "boxes": [], "points": None, "n": None},
        ]  # fmt: skip
        made = (
            lakebed.from_rows(rows, labels=["label"]),
            lakebed.from_pandas(pd.DataFrame(rows), labels=["label"]),
        )
    for ds in made:
        assert {name: (ds[name].htype, ds[name].meta.sample_compression) for name in ds.tensors} == {
            "image": ("image", "png"), "file": ("image", "jpeg"), "read": ("image", "jpeg"),
            "label": ("class_label", None), "boxes": ("generic", None), "points": ("generic", None),
            "n": ("generic", None),
        }  # fmt: skip
        assert list(ds.tensors) == list(rows[0])
        assert ds.file[0].tobytes() == ds["read"][0].tobytes() == (tmp_path / "a.jpg").read_bytes()
        assert ds[["label", "n"]].to_dict() == {"label": ["cat", None], "n": [3, None]}
        assert [None if one is None else one.tolist() for one in ds.to_numpy()["boxes"]] == [
            [[1, 2, 3, 4]],
            [],
        ]
        assert ds.points[0].numpy().tolist() == [[0.5, 1.5]]
        assert ds.image.null_mask().tolist() == [False, True]


def test_nan_in_columns_of_pictures_is_null_and_what_the_caller_says_counts(tmp_path: Path) -> None:
    Image.new("RGB", (4, 3), "red").save(tmp_path / "a.png")
    frame = pd.DataFrame({"p": [tmp_path / "a.png", float("nan")], "m": [[[1, 2], [3]], {"a": 1}]})
    ds = lakebed.from_pandas(frame, documents=["m"])
    assert ds.p.null_mask().tolist() == [False, True]
    assert ds.m.to_arrow().to_pylist() == ["[[1, 2], [3]]", '{"a": 1}']
    with pytest.raises(IngestionError, match="no column 'x'"):
        lakebed.from_pandas(frame[["p"]], documents=["x"])


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n1,x\n2,\n")
    Path("u.csv").write_text("a;b\n3;z\n")
    Path("t.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    FRAME.to_parquet("t.parquet")
    assert lakebed.read_csv("t.csv").to_dict() == {"a": [1, 2], "b": ["x", None]}
    assert lakebed.read_csv("u.csv", delimiter=";").a.tolist() == [3]
    assert lakebed.read_json(Path("t.jsonl")).a.tolist() == [1, 2]
    ds = lakebed.read_parquet("t.parquet", "lake")
    assert ds.to_dict() == COLUMNS
    assert lakebed.open("lake").to_dict() == COLUMNS
    assert lakebed.open is lakebed.load
    with pytest.raises(DatasetExistsError):
        lakebed.read_parquet("t.parquet", "lake")
    assert lakebed.read_csv("t.csv", ds, append=True) is ds
    assert ds.a.tolist() == [1, None, 1, 2]
    Path("bad.jsonl").write_text('{"a": 1}\n{"a"\n')
    with pytest.warns(UserWarning, match="1 rows written, 1 left out"):
        assert len(lakebed.read_json("bad.jsonl")) == 1


def test_load_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a\n1\n2\n")
    Path("u.csv").write_text("a\n3\n")
    Path("t.jsonl").write_text(json.dumps({"a": 4}))
    for label in ("cat", "dog"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        Image.new("RGB", (2, 2)).save(tmp_path / "photos" / label / "a.png")
    load = lakebed.load_dataset
    assert load("csv", data_files="t.csv").a.tolist() == [1, 2]
    assert load("csv", data_files="t.csv", split="train").a.tolist() == [1, 2]
    assert load("csv", data_files=["t.csv", "u.csv"]).a.tolist() == [1, 2, 3]
    assert load("csv", data_files={"train": "t.csv", "test": ["u.csv"]}, split="test").a.tolist() == [3]
    assert load("json", data_files="t.jsonl", dest="lake").a.tolist() == [4]
    assert len(load("imagefolder", data_dir="photos")) == 2
    assert load("lake").to_dict() == {"a": [4]}
    assert load("t.csv").a.tolist() == [1, 2]
    with pytest.raises(IngestionError, match=r"split=None is not a split of data_files; splits: train"):
        load("csv", data_files={"train": "t.csv"})
    with pytest.raises(IngestionError, match=r"ingest_huggingface\(datasets\.load_dataset\('imdb'\), dest\)"):
        load("imdb")
    with pytest.raises(IngestionError, match="no split 'test'"):
        load("csv", data_files="t.csv", split="test")


@pytest.mark.parametrize("value", [1j, np.complex64(1j), np.complex128(1j), np.full(2, 1j)], ids=repr)
def test_complex_numbers_are_refused_and_do_not_become_text(value: Any) -> None:
    with pytest.raises(IngestionError, match=r"row 1: 'x' is of type complex.*ds\.create_tensor"):
        lakebed.from_rows([{"x": None}, {"x": value}])
