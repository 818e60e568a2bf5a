"""Columns and rows that are added, changed and removed; and views of other columns."""

from __future__ import annotations

import datetime as dt
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    IngestionError,
    InvalidInputError,
    InvalidOperationError,
    RenameError,
    SampleAppendError,
    SampleUpdateError,
    TensorDoesNotExistError,
    TransformError,
)
from unit_tests.lakebed.verbs.rows import ROWS

NUMBER = itertools.count()


@pytest.mark.parametrize(
    ("values", "expected", "dtype"),
    [
        (np.arange(20, dtype=np.float32), list(range(20)), "float32"),
        (range(20), list(range(20)), "int64"),
        ([True, False] * 10, [True, False] * 10, "bool"),
        ([*range(19), None], [*range(19), None], "int64"),
        ([f"t{i}" for i in range(20)], [f"t{i}" for i in range(20)], "<U0"),
        (iter(range(20)), list(range(20)), "int64"),
        (pa.array(range(20), pa.int16()), list(range(20)), "int16"),
        (7, [7] * 20, "int64"),
        ("x", ["x"] * 20, "<U0"),
        (lambda row: len(row["name"] or ""), [len(row["name"] or "") for row in ROWS], "int64"),
    ],
    ids=["array", "range", "booleans", "nulls", "texts", "iterator", "arrow", "number", "text", "function"],
)
@pytest.mark.parametrize("way", ["assign", "add_column"])
def test_a_new_column(ds: lakebed.Dataset, way: str, values: Any, expected: list[Any], dtype: str) -> None:
    if way == "assign":
        ds["new"] = values if not hasattr(values, "__next__") else range(20)
    else:
        assert ds.add_column("new", values if not hasattr(values, "__next__") else iter(range(20))) is ds
    assert ds["new"].tolist() == expected
    assert str(ds["new"].dtype) == dtype
    assert ds["name"].tolist() == [row["name"] for row in ROWS]


def test_columns_of_settings_of_conditions_and_of_pandas(ds: lakebed.Dataset) -> None:
    pandas = pytest.importorskip("pandas")
    ds["old"] = ds["age"] > 4
    assert ds["old"].tolist() == [bool(row["age"] is not None and row["age"] > 4) for row in ROWS]
    ds.add_column(
        "again", [row["kind"] for row in ROWS], htype="class_label", class_names=["cat", "dog", "emu"]
    )
    assert (ds["again"].htype, ds["again"].tolist()) == ("class_label", ds["kind"].tolist())
    ds["series"] = pandas.Series(range(20)) * 2
    assert ds["series"].tolist() == [2 * i for i in range(20)]
    ds["series"] = ds["series"].numpy() + 1
    assert ds["series"].tolist() == [2 * i + 1 for i in range(20)]
    ds["series"] = lambda row: row["series"] * 10
    assert ds["series"].tolist() == [20 * i + 10 for i in range(20)]
    ds["series"] = 0
    assert ds["series"].tolist() == [0] * 20
    with pytest.raises(InvalidInputError, match="'kind' exists and has its settings: htype"):
        ds.add_column("kind", 0, htype="text")


def test_columns_of_other_libraries_and_of_results(ds: lakebed.Dataset) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    kinds = [row["kind"] for row in ROWS]
    texts = [row["name"] for row in ROWS]
    result = ds.query("SELECT kind, UPPER(name) AS loud")
    for values, expected, htype in [
        (ds["vec"], ds["vec"].tolist(), "embedding"),
        (ds["kind"], kinds, "class_label"),
        (result["kind"], kinds, "class_label"),
        (result["loud"], [text and text.upper() for text in texts], "text"),
        (pandas.Series(kinds, dtype="category"), kinds, "class_label"),
        (pandas.Series(texts), texts, "text"),
        (polars.Series(texts), texts, "text"),
        ([True, None, *[False] * 18], [True, None, *[False] * 18], "generic"),
        ([["a"], [], *[["b", "c"]] * 18], [["a"], [], *[["b", "c"]] * 18], "json"),
        ([{"a": 1}] * 20, [{"a": 1}] * 20, "json"),
        (
            [dt.date(2024, 1, 1 + i) for i in range(20)],
            [dt.date(2024, 1, 1 + i) for i in range(20)],
            "generic",
        ),
    ]:
        ds["new"] = values
        assert (ds["new"].tolist(), ds["new"].htype) == (expected, htype)
        ds["new"] = values  # also where it is there
        assert ds["new"].tolist() == expected
        del ds["new"]


def test_a_column_that_does_not_fit_leaves_nothing(ds: lakebed.Dataset) -> None:
    before = ds.column_names
    for wrong in ([1, 2], range(21), np.zeros((3, 20))):
        with pytest.raises(InvalidInputError, match=r"values cannot fill the 20 rows of column 'new'"):
            ds["new"] = wrong
    with pytest.raises(IngestionError, match="row 19: 'new' is of type object"):
        ds["new"] = [1] * 19 + [object()]
    with pytest.raises(SampleAppendError):
        ds["new"] = [1] * 19 + ["x"]
    with pytest.raises(TransformError, match="ZeroDivisionError"):
        ds["new"] = lambda row: 1 / (row["score"] or 0)
    assert ds.column_names == before
    for rows in (ds[:5], ds[0]):
        with pytest.raises(TensorDoesNotExistError, match="'new' does not exist"):
            rows["new"] = 1
    with pytest.raises(InvalidOperationError, match="cannot be called on a Dataset view"):
        ds[:5]["new"] = lambda row: 1
    empty = lakebed.empty(f"mem://change-{next(NUMBER)}")
    with pytest.raises(InvalidInputError, match="no rows exist for this value"):
        empty["a"] = 1
    empty["a"] = [1, 2]
    assert empty["a"].tolist() == [1, 2]


def test_values_of_some_rows(ds: lakebed.Dataset) -> None:
    ds["age"][[1, 3]] = 50
    ds["name"][2:4] = "same"
    ds["kind"][ds["age"] == 50] = "emu"
    ds["score"][:] = 0.5
    assert [ds["age"].tolist()[i] for i in (1, 3)] == [50, 50]
    assert ds["name"].tolist()[1:5] == ["n1", "same", "same", "n4"]
    assert ds["kind"].tolist()[1:4:2] == ["emu", "emu"]
    assert ds["score"].tolist() == [0.5] * 20
    ds["age"][[1, 3]] = [51, None]
    assert [ds["age"].tolist()[i] for i in (1, 3)] == [51, None]
    with pytest.raises(SampleUpdateError, match=r"Index length \(3\) and length of samples \(2\)"):
        ds["age"][:3] = [1, 2]


def test_rows_are_replaced(ds: lakebed.Dataset) -> None:
    ds[0] = {"name": "first", "age": 1}
    ds[[1, 2]] = {"name": ["second", "third"], "age": 2}
    ds[ds["age"] == 6] = {"score": 7.0}
    assert ds["name"].tolist()[:4] == ["first", "second", "third", "n3"]
    assert ds["age"].tolist()[:3] == [1, 2, 2]
    assert {row["score"] for row in ds.rows() if row["age"] == 6} == {7.0}
    with pytest.raises(TensorDoesNotExistError):
        ds[0] = {"agee": 1}
    with pytest.raises(TypeError, match="update takes a dictionary"):
        ds[0] = 5


@pytest.mark.parametrize("of", ["condition", "text", "function", "view", "numbers", "mask", "pop", "del"])
def test_rows_are_removed(ds: lakebed.Dataset, of: str) -> None:
    def is_old(row: dict[str, Any]) -> bool:
        return row["age"] is not None and row["age"] > 4

    rows = [i for i, row in enumerate(ROWS) if is_old(row)]
    kept = [row["name"] for row in ROWS if not is_old(row)]
    if of == "condition":
        ds.remove(ds["age"] > 4)
    elif of == "text":
        ds.remove("age > 4")
    elif of == "function":
        ds.remove(lambda row: row.age.numpy().max(initial=0) > 4)
    elif of == "view":
        ds.remove(ds[ds["age"] > 4])
    elif of == "numbers":
        ds.remove(rows)
    elif of == "mask":
        ds.remove((ds["age"] > 4).numpy())
    elif of == "pop":
        ds.pop(ds[ds["age"] > 4])
    else:
        del ds[ds["age"] > 4]
    assert ds["name"].tolist() == kept
    with pytest.raises(InvalidInputError, match="a view of another dataset"):
        ds.remove(lakebed.from_rows(f"mem://change-{next(NUMBER)}", [{"age": 5}])[:1])
    assert len(ds) == len(kept)


def test_nothing_is_removed_where_nothing_is_meant(ds: lakebed.Dataset) -> None:
    ds.remove(ds["age"] > 100)
    ds.remove([])
    assert len(ds) == 20
    ds.remove(3)
    del ds[-1]
    assert ds["name"].tolist() == [row["name"] for i, row in enumerate(ROWS) if i not in (3, 19)]


def test_columns_are_removed_and_left_out(ds: lakebed.Dataset) -> None:
    for view in (ds.remove_columns(["vec", "age"]), ds.drop(["vec", "age"]), ds.drop(columns=["vec", "age"])):
        assert view.column_names == ["name", "score", "kind"]
    assert ds.select_columns(["kind", "name"]).column_names == ["kind", "name"]
    assert ds.remove_column("vec").column_names == ["name", "age", "score", "kind"]
    assert len(ds.column_names) == 5
    with pytest.raises(TensorDoesNotExistError, match="'agee'"):
        ds.drop("agee")
    del ds["vec"]
    ds.create_tensor("part/x", dtype="int64").extend(range(20))
    ds.create_tensor("part/y", dtype="int64").extend(range(20))
    with pytest.raises(InvalidOperationError, match="cannot be called on a Dataset view"):
        del ds[:5]["part"]["y"]
    del ds["part"]["y"]
    assert list(ds["part"].tensors) == ["x"]
    del ds["part"]
    assert ds.column_names == ["name", "age", "score", "kind"]
    with pytest.raises(TensorDoesNotExistError):
        del ds["vec"]


def test_items_and_types(ds: lakebed.Dataset) -> None:
    row = {"name": "last", "age": 3, "score": None, "kind": "emu", "vec": None}
    assert ds.add_item(row) is ds
    assert ds[-1].to_dict() == row
    with pytest.raises(KeyError, match="Required tensors not provided"):
        ds.add_item({"name": "last"})
    assert ds.cast_column("age", "float32") is ds
    assert (ds["age"].dtype, ds["age"].tolist()[:2]) == (np.float32, [0.0, 7.0])
    ds.cast_column("age", "text")
    assert ds["age"].tolist()[:2] == ["0", "7"]
    with pytest.raises(InvalidOperationError):
        ds.cast_column("score", "int8")


# -- other names -----------------------------------------------------------------------------------------------------


def test_a_view_by_other_names_is_a_dataset(ds: lakebed.Dataset, tmp_path: Path) -> None:
    view = ds.rename_columns({"age": "years", "name": "age"})
    assert view.column_names == ["age", "years", "score", "kind", "vec"]
    assert view["age"].tolist() == view.age.tolist() == [row["name"] for row in ROWS]
    assert view["years"].tolist() == [row["age"] for row in ROWS]
    assert ("years" in view, "name" in view, view.years.htype) == (True, False, "generic")
    assert dict(view[3])["years"] == ROWS[3]["age"]
    assert next(iter(view.rows()))["age"] == "n0"
    assert list(next(view.batches(4).__iter__())) == view.column_names
    assert view.to_arrow().column_names == view.column_names
    assert list(view[view["years"] > 4].sample_indices) == list(ds[ds["age"] > 4].sample_indices)
    chosen = view.query("SELECT years, age WHERE years > 4 ORDER BY years")
    assert (chosen.column_names, chosen[0].to_dict()["years"]) == (["years", "age"], 5)
    assert view[["years"]].column_names == ["years"]
    assert (
        view.rename_column("years", "age in years")[::2]["age in years"].tolist()
        == view["years"].tolist()[::2]
    )
    copied = view.copy(tmp_path / "copy", progressbar=False)
    assert copied["years"].tolist() == view["years"].tolist()
    assert lakebed.load(tmp_path / "copy", read_only=True).column_names == view.column_names
    assert ds.column_names == ["name", "age", "score", "kind", "vec"]


def test_copies_of_a_view_by_other_names_have_these_or_are_refused(
    ds: lakebed.Dataset, tmp_path: Path
) -> None:
    view = ds.rename_column("age", "years")
    made = lakebed.like(tmp_path / "like", view)
    assert (made.column_names, len(made)) == (view.column_names, 0)
    assert lakebed.like(tmp_path / "one", ds[["age"]]).column_names == ["age"]
    assert lakebed.copy(view, tmp_path / "copy", progressbar=False)["years"].tolist() == ds["age"].tolist()
    with pytest.raises(TypeError, match="not supported for views, which have no history; use copy"):
        lakebed.deepcopy(view, tmp_path / "deep")
    with pytest.raises(TypeError, match="a view cannot be packed"):
        lakebed.pack(view, tmp_path / "packed.lake")
    assert not (tmp_path / "deep").exists()


def test_a_view_by_other_names_goes_to_processes(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds["a"] = [1, 2, 3]
    ds.commit()
    view = pickle.loads(pickle.dumps(ds.rename_column("a", "b")))
    assert view["b"].tolist() == [1, 2, 3]
    loader = view.dataloader().batch(3)
    assert [batch["b"].ravel().tolist() for batch in loader] == [[1, 2, 3]]
    with pytest.raises(InvalidOperationError, match="a saved view shows tensors by their stored names"):
        view.save_view()


def test_names_that_are_not_there_or_taken(ds: lakebed.Dataset) -> None:
    with pytest.raises(TensorDoesNotExistError, match="'agee'"):
        ds.rename_column("agee", "b")
    with pytest.raises(InvalidInputError, match="two columns would have the same name"):
        ds.rename_column("age", "name")
    swapped = ds.rename_columns({"age": "score", "score": "age"})
    assert swapped["age"].tolist() == ds["score"].tolist()
    with pytest.raises(TensorDoesNotExistError, match="'name'"):
        _ = ds.rename_column("name", "title")["name"]


def test_columns_that_functions_make_have_the_type_of_their_values(ds: lakebed.Dataset) -> None:
    ds["copied"] = lambda row: row["kind"]
    ds["is_cat"] = lambda row: row["kind"] == "cat"
    ds["mixed"] = [1, None, 2.5, *range(17)]
    assert ds["copied"].tolist() == ds["kind"].tolist()
    assert (ds["is_cat"].dtype, ds["is_cat"].tolist()) == (bool, [row["kind"] == "cat" for row in ROWS])
    assert ds["mixed"].tolist()[:4] == [1.0, None, 2.5, 0.0]


def test_rename_of_pandas_says_what_to_write(ds: lakebed.Dataset) -> None:
    for wrong in (lambda: ds.rename(columns={"age": "years"}), lambda: ds.rename({"age": "years"})):
        with pytest.raises(RenameError, match=r"ds.rename_columns\(\{'age': 'years'\}\)"):
            wrong()


def test_functions_hand_on_dates_and_times() -> None:
    pandas = pytest.importorskip("pandas")
    moments = pandas.to_datetime([None, 1_577_847_600_000_000_001, 5], unit="ns")
    rows = pandas.DataFrame({"ns": moments, "zone": moments.floor("s").tz_localize("Europe/Berlin")})
    ds = lakebed.from_pandas("mem://dates-handed-on", rows)
    ds["day"] = [None, dt.date(2020, 1, 2), dt.date(2021, 1, 2)]
    ds["time"] = [None, dt.time(1, 2), dt.time(3, 4)]
    for name in list(ds.column_names):
        ds[f"new {name}"] = lambda row, name=name: row[name]
        assert ds[f"new {name}"].tolist() == ds[name].tolist(), name
        before = ds[name].tolist(), dict(ds[name].info)
        ds[name] = lambda row, name=name: row[name]
        assert (ds[name].tolist(), dict(ds[name].info)) == before, name
    ds["year"] = lambda row: None if row["day"].isna() else row["day"].year

    assert ds["year"].tolist() == [None, 2020, 2021]
    assert ds["new zone"].info.logical_type == "timestamp[us, tz=Europe/Berlin]"
