"""Tables of the program become datasets in one call; rows of Python get the types that all their values have."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import itertools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import DatasetExistsError, IngestionError, InvalidPandasDataframeError, LakebedError

NUMBER = itertools.count()

COLUMNS: dict[str, list[Any]] = {
    "n": [2**60 + 1, None, 3],
    "f": [0.5, None, 2.0],
    "flag": [True, None, False],
    "word": ["a", None, ""],
    "when": [dt.datetime(2024, 2, 3, 4, 5, 6, 7, dt.UTC), None, dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    "vector": [[0.5, 1.5], None, [2.5, 3.5]],
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


def address() -> str:
    return f"mem://from-tables-{next(NUMBER)}"


def made_in_every_way() -> list[lakebed.Dataset]:
    table = pa.table(COLUMNS)
    frame = table.to_pandas().astype({"n": "Int64", "flag": "boolean"})
    frame["n"] = pd.array(COLUMNS["n"], "Int64")
    return [
        lakebed.from_arrow(address(), table),
        lakebed.from_arrow(address(), pa.RecordBatchReader.from_batches(table.schema, table.to_batches())),
        lakebed.from_arrow(address(), duckdb.from_arrow(table)),
        lakebed.from_polars(address(), pl.DataFrame(table)),
        lakebed.from_polars(address(), pl.DataFrame(table).lazy()),
        lakebed.from_pandas(address(), frame),
        lakebed.from_rows(address(), ROWS),
        lakebed.from_rows(address(), iter(ROWS)),
    ]


def test_tables_of_all_libraries_become_the_same_dataset() -> None:
    for ds in made_in_every_way():
        assert ds.to_arrow().to_pydict() == COLUMNS
        assert ds.n.dtype == "int64"
        assert ds.when.info["logical_type"].startswith("timestamp[")
        assert not ds.has_head_changes or ds.commit_id is None


def test_an_open_dataset_is_appended_to_and_another_is_not_overwritten() -> None:
    ds = lakebed.from_rows(address(), ROWS)

    assert lakebed.from_arrow(ds, pa.table(COLUMNS)) is ds
    assert ds.n.to_arrow().to_pylist() == COLUMNS["n"] * 2
    with pytest.raises(DatasetExistsError, match="overwrite=True"):
        lakebed.from_rows(ds.path, ROWS)
    assert len(lakebed.from_rows(ds.path, ROWS[:1], overwrite=True)) == 1


@pytest.mark.parametrize(
    ("values", "htype", "dtype", "stored"),
    [
        ([1, 2.5], "generic", "float64", [1.0, 2.5]),
        ([2**60 + 1, 0.5], "json", None, ["1152921504606846977", "0.5"]),
        ([1, True], "json", None, ["1", "true"]),
        ([{"a": 1}, {"b": [1, np.float32(2)]}], "json", None, ['{"a": 1}', '{"b": [1, 2.0]}']),
        ([[1, 2], [3]], "generic", "int64", [[1, 2], [3]]),
        ([[1.5], [2.5]], "embedding", "float64", [[1.5], [2.5]]),
        ([np.ones(2, "f4"), None], "embedding", "float32", [[1.0, 1.0], None]),
        ([[1, "a"], [2]], "json", None, ['[1, "a"]', "[2]"]),
        ([[[1, 2]], [[3, 4]]], "generic", "int64", [[[1, 2]], [[3, 4]]]),
        (
            [[[1, 2, 3, 4]], None, [], [[1, 2, 3, 4]] * 2],
            "generic",
            "int64",
            [[[1, 2, 3, 4]], None, [], [[1, 2, 3, 4]] * 2],
        ),
        ([[[1, 2.5]], [[3, 4]]], "generic", "float64", [[[1.0, 2.5]], [[3.0, 4.0]]]),
        ([[np.ones(2, "f4")] * 2], "generic", "float32", [[[1.0, 1.0], [1.0, 1.0]]]),
        ([[[True]]], "generic", "bool", [[[True]]]),
        ([[[1, True]]], "json", None, ["[[1, true]]"]),
        ([[[1, "a"]]], "json", None, ['[[1, "a"]]']),
        ([[[2**60 + 1, 0.5]]], "json", None, ["[[1152921504606846977, 0.5]]"]),
        ([[[2**60 + 1]], [[0.5]]], "json", None, ["[[1152921504606846977]]", "[[0.5]]"]),
        ([[[2**70]]], "json", None, ["[[1180591620717411303424]]"]),
        ([[[1]], [[[1]]]], "json", None, ["[[1]]", "[[[1]]]"]),
        ([np.datetime64("2024"), np.datetime64("NaT", "D")], "generic", "int32", [dt.date(2024, 1, 1), None]),
        ([{"d": np.datetime64("2024-02-03")}], "json", None, ['{"d": "2024-02-03"}']),
        ([np.array(3, "i2"), None], "generic", "int16", [3, None]),
        ([np.ones((1, 2), "u1"), None], "generic", "uint8", [[[1, 1]], None]),
        ([b"ab", None], "generic", "uint8", [[97, 98], None]),
        ([None, None], "text", None, [None, None]),
        ([pd.NA, 3], "generic", "int64", [None, 3]),
        ([np.int16(3), None], "generic", "int16", [3, None]),
    ],
    ids=str,
)
def test_types_of_rows(values: list[Any], htype: str, dtype: str | None, stored: list[Any]) -> None:
    ds = lakebed.from_rows(address(), [{"x": value} for value in values])

    assert (ds.x.htype, ds.x.to_arrow().to_pylist()) == (htype, stored)
    assert dtype is None or ds.x.dtype == dtype


def test_files_and_pictures_in_rows(tmp_path: Path) -> None:
    Image.new("RGB", (4, 3), "red").save(tmp_path / "a.png")
    Image.new("L", (5, 6)).save(tmp_path / "B.JPG")
    png = (tmp_path / "a.png").read_bytes()
    rows = [
        {"pillow": Image.new("RGB", (4, 3)), "read": lakebed.read(tmp_path / "a.png"), "path": tmp_path / "a.png",
         "link": lakebed.link(str(tmp_path / "a.png")), "foreign": Foreign(), "raw": png},
        {"pillow": Image.new("L", (2, 2), 7), "path": tmp_path / "B.JPG"},
    ]  # fmt: skip
    ds = lakebed.from_rows(address(), rows, media={"raw": "image"})
    assert {name: (ds[name].htype, ds[name].meta.sample_compression) for name in ds.tensors} == {
        "pillow": ("image", "png"), "read": ("image", "png"), "path": ("image", "png"),
        "link": ("link[image]", "png"), "foreign": ("generic", None), "raw": ("image", "png"),
    }  # fmt: skip
    assert [one.shape[:2] for one in ds.pillow] == [(3, 4), (2, 2)]
    assert ds.pillow[1].numpy().ravel().tolist()[0] == 7
    assert ds["read"][0].tobytes() == png
    assert [one.shape[:2] for one in ds["path"]] == [(3, 4), (6, 5)]
    assert ds.link[0].numpy()[0, 0].tolist() == [255, 0, 0]
    assert ds.foreign.numpy(aslist=True)[0].tolist() == [[1, 2]]
    assert ds["read"].null_mask().tolist() == [False, True]
    with pytest.raises(LakebedError, match=r"b\.png"):
        lakebed.from_rows(address(), [{"x": tmp_path / "b.png"}])


class Foreign:
    """A tensor of another library, as those of PyTorch are."""

    def detach(self) -> Foreign:
        return self

    def cpu(self) -> Foreign:
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array([[1, 2]])


def test_json_of_arrow_is_the_same_by_every_door() -> None:
    """Dates, decimals and bytes in lists and structs: a new dataset, rows of a table, a column, an update."""
    photo = io.BytesIO()
    Image.new("RGB", (4, 3)).save(photo, "PNG")
    table = pa.table(
        {
            "days": pa.array([[dt.date(2024, 2, 3)], None]),
            "when": pa.array(
                [[dt.datetime(2024, 2, 3, tzinfo=dt.UTC)], None], pa.list_(pa.timestamp("ns", "UTC"))
            ),
            "more": pa.array([{"d": Decimal("1.10"), "b": b"x", "t": dt.time(1, 2)}, None]),
            "photo": pa.array([{"bytes": photo.getvalue(), "path": "a.png"}, None]),
        }
    )
    ds = lakebed.from_arrow(address(), table)
    ds.extend(table)
    for name in ("days", "when", "more"):
        ds[name].extend(table[name])
        ds[name][0:2] = table[name]
        found = ds[name].to_arrow().to_pylist()
        assert found == found[:2] * 3
        assert found[1] is None
    assert ds.days[0].dict() == ["2024-02-03"]
    assert ds.more[2].dict() == {"d": "1.10", "b": b"x", "t": "01:02:00"}
    assert [one.shape for one in ds.photo[:4]] == [(3, 4, 3), (0, 0, 0)] * 2
    with pytest.raises(LakebedError, match=r"lakebed\.read"):
        ds.photo.extend(pa.array([{"bytes": None, "path": "a.png"}], table.schema.field("photo").type))


def test_keys_keep_their_order_and_may_be_missing() -> None:
    ds = lakebed.from_rows(address(), [{"b": {"x": 1}, "a": 1}, {"a": 2, "path": "x"}], labels=["path"])

    assert list(ds.tensors) == ["b", "a", "path"]
    assert ds.to_arrow().to_pylist() == [
        {"b": '{"x": 1}', "a": 1, "path": None},
        {"b": None, "a": 2, "path": "x"},
    ]
    assert ds.path.startswith("mem://")


def test_columns_of_any_name_are_found_by_it() -> None:
    """Those of which Deep Lake 3 could not open the dataset, or that cannot be stored, have tensors of other names."""
    renamed = {"index": "index_", "version_state": "version_state_", "a,b": "a_b", "g/index": "g/index_"}
    names = [*renamed, "path", "info", "query", "to_pandas", "_id", "tensors", "map"]
    frame = pd.DataFrame({name: [1, 2, 3] for name in names})
    report = lakebed.import_from("dataframe", frame, address(), progressbar=False)
    assert {one.where: one.reason.split("'")[1] for one in report.problems} == renamed
    ds = report.dataset
    assert list(ds.tensors) == [renamed.get(name, name) for name in names]
    ds.append(dict.fromkeys(names, 4))
    ds.extend(frame[:1])
    ds.commit("as a reader of versions finds them")
    for name in names:
        assert name in ds
        assert ds[name].numpy().ravel().tolist() == [1, 2, 3, 4, 1]
        assert ds[1][name].numpy().item() == 2
        assert ds[[name]].to_pandas().iloc[:, 0].tolist() == [1, 2, 3, 4, 1]
        assert ds.to_arrow([name]).column(0).to_pylist() == [1, 2, 3, 4, 1]
    assert ds.query('SELECT path, "index" WHERE query > 1 AND index < 4').to_arrow().to_pydict() == {
        "path": [2, 3],
        "index": [2, 3],
    }
    assert next(iter(ds.batches(2, tensors=["path", "index"])))["path"].ravel().tolist() == [1, 2]
    ds["index"][0] = 9
    assert ds["index_"][0].numpy().item() == 9
    assert not hasattr(ds, "a,b")


def test_a_column_that_an_earlier_release_renamed_is_not_made_twice() -> None:
    ds = lakebed.empty(address())
    ds.create_tensor("path_", htype="text").info["column"] = "path"
    with pytest.raises(IngestionError, match=r"ds.rename_tensor\('path_', 'path'\)"):
        lakebed.from_rows(ds, [{"path": "x"}])
    ds.extend({"path": ["x"]})
    assert ds["path"].text() == ["x"]


def test_wishes() -> None:
    rows = [{"v": [1, 2], "d": [1, 2], "k": "cat"}, {"v": [3, 4], "d": [None], "k": "dog"}]
    ds = lakebed.from_rows(address(), rows, embeddings=["v"], documents=["d"], labels=["k"])

    assert [ds[name].htype for name in ("v", "d", "k")] == ["embedding", "json", "class_label"]
    with pytest.raises(IngestionError, match="no column 'x'"):
        lakebed.from_rows(address(), rows, labels=["x"])


def test_what_cannot_be_stored_leaves_no_dataset() -> None:
    where = address()
    with pytest.raises(IngestionError, match=r"ds\.create_tensor"):
        lakebed.from_rows(where, [{"x": object()}])
    with pytest.raises(IngestionError, match="row 1 is of type int"):
        lakebed.from_rows(where, [{"x": 1}, 3])  # type: ignore[list-item]
    with pytest.raises(IngestionError, match="null inside a list"):
        lakebed.from_arrow(where, pa.table({"x": [[1, None], [2]]}))
    assert not lakebed.exists(where)


def test_wrong_arguments_are_told() -> None:
    table = pa.table(COLUMNS)
    with pytest.raises(IngestionError, match="first argument must be the address of a new dataset"):
        lakebed.from_arrow(table, table)  # type: ignore[arg-type]
    with pytest.raises(IngestionError, match="second argument, not str"):
        lakebed.from_arrow(table, "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidPandasDataframeError, match=r"second argument, not pyarrow\.Table"):
        lakebed.from_pandas(address(), table)
    with pytest.raises(IngestionError, match="second argument, not Table"):
        lakebed.from_polars(address(), table)


def test_a_table_without_rows_makes_the_tensors() -> None:
    ds = lakebed.from_arrow(address(), pa.table({"n": pa.array([], pa.int16())}))

    assert (len(ds), ds.n.dtype) == (0, "int16")
    assert list(lakebed.from_rows(address(), []).tensors) == []


def test_extend_takes_tables_and_rows() -> None:
    first = lakebed.from_rows(address(), ROWS)
    first.create_tensor("animal", htype="class_label", class_names=["cat", "dog"]).extend(
        ["cat", None, "dog"]
    )
    table = first.to_arrow()
    for rows in (
        table,
        table.to_batches()[0],
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        first.to_polars(),
        first.to_pandas().astype({"f": "Float64"}),  # in NumPy's floats NaN is a number
        duckdb.from_arrow(table),
        first,
        [first[i] for i in range(3)],
        [dict(row) for row in table.to_pylist()],
        (row for row in table.to_pylist()),
        table.to_pydict(),
    ):
        ds = lakebed.like(address(), first)
        ds.animal.info["class_names"] = ["dog", "cat"]
        if rows is first or isinstance(rows, list):  # numbers of another dataset
            ds.animal.info["class_names"] = ["cat", "dog"]
        ds.extend(rows)
        assert ds.to_arrow().to_pydict() == table.to_pydict(), type(rows)
    named = np.array([(1, 2.5), (3, 4.5)], [("n", "i8"), ("f", "f8")])
    ds = lakebed.from_rows(address(), [{"n": 1, "f": 0.5}])
    ds.extend(named)
    assert ds.to_arrow().to_pydict() == {"n": [1, 1, 3], "f": [0.5, 2.5, 4.5]}


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (3, "this is of type int"),
        ("abc", "this is of type str"),
        ([{"n": 1}, 3], "row 1 is of type int"),
        ([{"n": 1}, {"n": 2, "m": 3}], "row 1 and row 0 differ in m"),
        (pd.DataFrame([[1, 2]], columns=["n", "n"]), "several columns are called 'n'"),
        (pa.array([1, 2]), "this is of type Int64Array"),
        ([{"m": 1}], "Tensors: n"),
    ],
    ids=str,
)
def test_what_is_no_table_is_told(rows: Any, told: str) -> None:
    ds = lakebed.from_rows(address(), [{"n": 1}])

    with pytest.raises(
        (lakebed.errors.SampleExtendingError, lakebed.errors.TensorDoesNotExistError)
    ) as error:
        ds.extend(rows)
    assert told in str(error.value)
    assert len(ds) == 1


@pytest.mark.parametrize(
    ("value", "logical"),
    [
        (dt.datetime(2024, 2, 3, 4, 5, 6, tzinfo=dt.UTC), "timestamp[us, tz=UTC]"),
        (dt.date(2024, 2, 3), "date32[day]"),
        (dt.time(4, 5, 6), "time64[us]"),
        (dt.timedelta(seconds=3), "duration[us]"),
    ],
    ids=str,
)
def test_dates_and_times_of_python_come_in_by_every_door(value: Any, logical: str) -> None:
    ds = lakebed.empty(address())
    ds.create_tensor("t")
    ds.t.extend([value, None])
    ds.t.append(value)
    ds.append({"t": value})
    ds.extend([{"t": None}, {"t": value}])

    assert ds.t.info["logical_type"] == logical
    assert ds.t.to_arrow().to_pylist() == [value, None, value, value, None, value]
    with pytest.raises(lakebed.errors.SampleAppendError, match="holds"):
        ds.t.append(dt.date(2024, 1, 1) if logical.startswith("time") else dt.time(1))


def test_moments_of_numpy_and_pandas_come_in() -> None:
    ds = lakebed.empty(address())
    ds.create_tensor("t")
    ds.t.extend(np.array(["2024-02-03", "NaT"], "M8[us]"))
    ds.t.extend([pd.Timestamp("2024-02-03"), pd.NaT])

    assert ds.t.to_pandas().tolist() == [pd.Timestamp("2024-02-03"), pd.NaT] * 2


VIEWS = {
    "binary_view": (pa.binary(), [b"\x00\xff", None, b"", b"a" * 20]),
    "large_binary": (pa.binary(), [b"\x00\xff", None, b"", b"a" * 20]),
    "string_view": (pa.string(), ["a", None, "", "longer than twelve bytes"]),
    "large_string": (pa.string(), ["a", None, "", "longer than twelve bytes"]),
    "list_view": (pa.list_(pa.int32()), [[1, 2], None, [], [3]]),
    "large_list_view": (pa.list_(pa.int32()), [[1, 2], None, [], [3]]),
    "large_list": (pa.list_(pa.int32()), [[1, 2], None, [], [3]]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_large_types_of_arrow_are_what_they_mean(name: str) -> None:
    """By every door: a new dataset, rows, a column, an update, rows of a slice."""
    plain, values = VIEWS[name]
    kind = getattr(pa, name)(*([pa.int32()] if "list" in name else []))
    column = pa.array(values, kind)
    expected = lakebed.from_arrow("mem://", pa.table({"x": pa.array(values, plain)}))
    ds = lakebed.from_arrow("mem://", pa.table({"x": column}))
    assert (ds.x.htype, ds.x.dtype) == (expected.x.htype, expected.x.dtype)
    once = expected.x.to_arrow().to_pylist()
    assert ds.x.to_arrow().to_pylist() == once
    for found in (ds, expected):
        found.extend(pa.table({"x": column}))
        found.x.extend(column[1:])
        found.x[0:2] = column[2:4]
        assert found.x.to_arrow().to_pylist() == [*once[2:], *once[2:], *once, *once[1:]]


def test_views_inside_of_others() -> None:
    kinds = {
        "lists": pa.list_view(pa.list_view(pa.int32())),
        "struct": pa.struct([("a", pa.binary_view()), ("b", pa.list_view(pa.string_view()))]),
        "words": pa.list_(pa.string_view()),
        "map": pa.map_(pa.string_view(), pa.list_view(pa.int8())),
    }
    values: dict[str, list[Any]] = {
        "lists": [[[1], [2]], None, [[3], [4]]],
        "struct": [{"a": b"x", "b": ["y"]}, None, {"a": None, "b": None}],
        "words": [["u", None], [], ["a text longer than twelve bytes"]],
        "map": [[("k", [1])], None, [("l", [2, 3])]],
    }
    table = pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()})
    ds = lakebed.from_arrow("mem://", table[1:])
    ds.extend(table)
    found = ds.to_arrow()
    assert found["lists"].to_pylist() == values["lists"][1:] + values["lists"]
    assert json.loads(found["words"].to_pylist()[1]) == values["words"][2]
    assert json.loads(found["map"].to_pylist()[1]) == [["l", [2, 3]]]


def test_polars() -> None:
    photo = io.BytesIO()
    Image.new("RGB", (4, 3)).save(photo, "PNG")
    frame = pl.DataFrame(
        {"raw": [b"\x00\xff", None], "photo": [photo.getvalue(), None], "kind": ["a", "b"]},
        schema_overrides={"kind": pl.Categorical},
    )
    ds = lakebed.from_polars("mem://", frame, media={"photo": "image"})
    ds.extend(frame)
    assert ds.raw.to_arrow().to_pylist() == [[0, 255], None] * 2
    assert (ds.photo.htype, ds.photo.meta.sample_compression) == ("image", "png")
    assert [ds.photo[row].shape for row in (0, 2)] == [(3, 4, 3)] * 2
    assert ds.kind.to_arrow().to_pylist() == ["a", "b"] * 2


def test_rows_become_what_their_tensors_are() -> None:
    """Lists of several axes are arrays in a new dataset, and stay JSON where a tensor of JSON is."""
    ds = lakebed.empty("mem://")
    ds.create_tensor("boxes", htype="json")
    lakebed.from_rows(ds, iter([{"boxes": [[1, 2, 3, 4]]}, {"boxes": None}]))
    assert ds.boxes[0].dict() == [[1, 2, 3, 4]]
    assert ds.boxes.null_mask().tolist() == [False, True]


def test_dictionaries_of_a_frame_keep_their_keys() -> None:
    """Arrow would give each dictionary of a column the keys of all others."""
    values = [{"a": 1}, None, {"b": [1], "a": {"c": 2.5}}, {}]
    lists = [[{"a": 1}, {"b": 2}], [], None, [{}]]
    frame = pd.DataFrame({"one": values, "many": lists})
    ds = lakebed.from_pandas(frame)
    ds["later"], ds["lists"] = frame["one"], frame["many"]
    for row, one, many in zip(ds.rows(), values, lists, strict=True):
        assert row["one"] == row["later"] == one
        assert row["many"] == row["lists"] == many
    assert list(ds.one[2].dict()) == ["b", "a"]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (pd.Index(["x", "y"], name="key"), "index 'key' of"),
        (pd.Index([5, 6], name="id"), "index 'id' of"),
        (pd.date_range("2024-01-01", periods=2), "the index of"),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["x", "y"]), "index 'x', 'y' of"),
        (pd.Index([5, 6]), None),
        (None, None),
    ],
)
def test_an_index_with_a_meaning_is_not_lost_in_silence(index: Any, told: str | None) -> None:
    frame = pd.DataFrame({"v": [1, 2]}, index=index)
    with (
        contextlib.nullcontext()
        if told is None
        else pytest.warns(UserWarning, match=rf"{told} the frame: .*reset")
    ):
        ds = lakebed.from_pandas(frame)
    assert ds.column_names == ["v"]


def test_labels_of_categories_keep_their_codes() -> None:
    """Categories that no row has are numbered, too; columns stay in their order."""
    frame = pd.DataFrame(
        {
            "size": pd.Categorical(["low", "high", None], ["low", "middle", "high"], ordered=True),
            "range": pd.cut([1, 9, 2], [0, 3, 6, 10]),
            "none": pd.Categorical([None] * 3, ["a", "b"]),
            5: [{"a": 1}, None, {}],
        }
    )
    ds = lakebed.from_pandas(frame)
    assert ds.column_names == ["size", "range", "none", "5"]
    assert ds["size"].info.class_names == ["low", "middle", "high"]
    for name in ("size", "range", "none"):
        found = ds[name].numpy(fill=99).ravel().tolist()
        assert found == [99 if code < 0 else code for code in frame[name].cat.codes]
    assert len(ds[ds["size"] == "middle"]) == 0
    lakebed.from_pandas(ds, frame)
    assert ds["size"].tolist() == ["low", "high", None] * 2
