"""None comes in through every door, stays null whatever happens to the rows, and leaves as null."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakebed
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

PICTURE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
BOXES = np.arange(8, dtype=np.float32).reshape(2, 4)
VECTOR = np.arange(3, dtype=np.float32)
PNG = {"htype": "image", "sample_compression": "png"}

# Settings of a tensor; a value, the empty sample that is none, another value.
TENSORS: dict[str, tuple[dict[str, Any], Any, Any, Any]] = {
    "text": ({"htype": "text"}, "a", "", "b"),
    "text, lz4 chunks": ({"htype": "text", "chunk_compression": "lz4"}, "a", "", "b"),
    "text, lz4": ({"htype": "text", "sample_compression": "lz4"}, "a", "", "b"),
    "json": ({"htype": "json"}, {"a": 1}, {}, [1]),
    "list": ({"htype": "list"}, [1, "a"], [], [None]),
    "tag": ({"htype": "tag"}, ["a"], [], ["b", "c"]),
    "no htype": ({}, [1, 2], [], [3]),
    "bbox": ({"htype": "bbox"}, BOXES, np.zeros((0, 4), np.float32), BOXES[:1]),
    "embedding": ({"htype": "embedding"}, VECTOR, np.zeros(0, np.float32), VECTOR + 1),
    "image, png": (PNG, PICTURE, np.zeros((0, 0, 3), np.uint8), PICTURE[:2]),
    "image": ({"htype": "image", "chunk_compression": "lz4"}, PICTURE, PICTURE[:0], PICTURE[:2]),
    "segment_mask": ({"htype": "segment_mask", "sample_compression": "lz4"}, [[1]], [[]], [[1, 2]]),
    "polygon": ({"htype": "polygon"}, np.ones((1, 3, 2), "f4"), [], np.ones((2, 3, 2), "f4")),
}

NUMBERS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "no htype": ({}, 1, 2),
    "int8": ({"dtype": "int8"}, 1, 2),
    "bool": ({"dtype": "bool"}, True, False),
    "float32": ({"dtype": "float32"}, 0.5, float("nan")),
    "class_label": ({"htype": "class_label"}, "a", "b"),
    "int16, lz4": ({"dtype": "int16", "sample_compression": "lz4"}, 1, 2),
}

DOORS: dict[str, Callable[[lakebed.Dataset, Sequence[Any]], object]] = {
    "append": lambda ds, rows: [ds.t.append(row) for row in rows],
    "extend": lambda ds, rows: ds.t.extend(list(rows)),
    "tuple": lambda ds, rows: ds.t.extend(tuple(rows)),
    "leaving out errors": lambda ds, rows: ds.t.extend(list(rows), ignore_errors=True),
    "row by row": lambda ds, rows: [ds.append({"t": row}) for row in rows],
    "rows": lambda ds, rows: ds.extend({"t": list(rows)}),
    "rows, leaving out errors": lambda ds, rows: ds.extend({"t": list(rows)}, ignore_errors=True),
    "array of objects": lambda ds, rows: ds.extend({"t": objects(rows)}),
    "series of objects": lambda ds, rows: ds.extend({"t": pd.Series(objects(rows))}),
    "assignment behind the end": lambda ds, rows: [ds.t.__setitem__(i, row) for i, row in enumerate(rows)],
}


def objects(rows: Sequence[Any]) -> np.ndarray[Any, Any]:
    """An array of objects with a row in each item."""
    array = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        array[i] = row
    return array


def new(settings: dict[str, Any]) -> lakebed.Dataset:
    """A dataset with the tensor t."""
    ds = create_on(new_memory())
    ds.create_tensor("t", **settings)
    return ds


def nulls(ds: lakebed.Dataset) -> list[int]:
    """The rows that are null, as Arrow, `batches`, `null_mask` and `values` all say."""
    column = pa.table(ds)["t"]
    (batch,) = ds[["t"]].batches(1000)
    found = batch["t"]
    if isinstance(found, np.ma.MaskedArray):
        gone = np.ma.getmaskarray(found).reshape(len(found)).tolist()
    else:
        gone = [value is None for value in found]
    mask = ds.t.null_mask()
    assert ([False] * len(ds.t) if mask is None else mask.tolist()) == gone
    assert [value is None for value in column.to_pylist()] == gone
    found = [row for row, is_gone in enumerate(gone) if is_gone]
    values = list(ds.t.values())
    assert all(values[row] is None or values[row].size == 0 for row in found)
    return found


def again(ds: lakebed.Dataset) -> lakebed.Dataset:
    """The dataset as the next one to open it sees it."""
    ds.flush()
    return open_on(ds._session.storage)


@pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
@pytest.mark.parametrize("kind", TENSORS)
def test_none_is_null_and_an_empty_sample_is_not(
    kind: str, door: Callable[[lakebed.Dataset, Sequence[Any]], object]
) -> None:
    """Wherever None stands among values, it is null in memory and on disk; 3.x methods read it as they did."""
    settings, value, empty, other = TENSORS[kind]
    ds = new(settings)
    door(ds, [value, None, empty, None, other])
    assert nulls(ds) == [1, 3]
    assert nulls(again(ds)) == [1, 3]
    shapes = ds.t.shapes()
    assert kind == "tag" or shapes[1].tolist() == shapes[3].tolist()
    first = new(settings)
    door(first, [None, value, None])
    assert nulls(again(first)) == [0, 2]


@pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))
@pytest.mark.parametrize("kind", NUMBERS)
def test_none_among_numbers_is_null(
    kind: str, door: Callable[[lakebed.Dataset, Sequence[Any]], object]
) -> None:
    """Numbers and labels that are missing are null; NaN is a number, unless a column of objects holds it."""
    settings, value, other = NUMBERS[kind]
    for rows in ([value, None, other, None], [None, value, None, other]):
        ds = new(settings)
        door(ds, rows)
        wanted = [i for i, row in enumerate(rows) if row is None]
        if kind == "float32" and door is DOORS["series of objects"]:
            wanted = sorted([*wanted, rows.index(other)])
        assert nulls(ds) == wanted
        assert nulls(again(ds)) == wanted


def test_columns_of_nothing_but_none() -> None:
    """A tensor that has no value yet is null in every row, in batches, too, before it knows what it holds."""
    for settings, value, _, _ in TENSORS.values():
        ds = new(settings)
        ds.extend({"t": [None, None]})
        assert nulls(ds) == [0, 1]
        ds.append({"t": value})
        assert nulls(again(ds)) == [0, 1]


COLUMNS: dict[str, tuple[Any, list[int]]] = {
    "pandas, objects": (pd.Series(["a", None, float("nan"), pd.NA, pd.NaT]), [1, 2, 3, 4]),
    "pandas, string": (pd.Series(["a", None, "b"], dtype="string"), [1]),
    "pandas, category": (pd.Series(["a", None, "b"], dtype="category"), [1]),
    "pandas, Int64": (pd.Series([1, None, 3], dtype="Int64"), [1]),
    "pandas, boolean": (pd.Series([True, None], dtype="boolean"), [1]),
    "pandas, Float64": (pd.Series([0.5, None], dtype="Float64"), [1]),
    "pandas, float64": (pd.Series([0.5, None, float("nan")]), []),
    "pandas, times": (pd.Series([pd.Timestamp("2026-01-02"), pd.NaT]), [1]),
    "pandas, times of a zone": (pd.Series([pd.NaT, pd.Timestamp("2026-01-02", tz="UTC")]), [0]),
    "pandas, durations": (pd.Series([pd.Timedelta(3, "s"), pd.NaT]), [1]),
    "pandas, Arrow texts": (pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string())), [1]),
    "pandas, Arrow numbers": (pd.Series([1, None], dtype=pd.ArrowDtype(pa.int16())), [1]),
    "pandas, arrays": (pd.Series([VECTOR, None, VECTOR[:2]]), [1]),
    "pandas, index": (pd.Index(["a", None]), [1]),
    "pandas, array": (pd.array([1, None], dtype="Int32"), [1]),
    "polars, texts": (pl.Series(["a", None]), [1]),
    "polars, integers": (pl.Series([1, None]), [1]),
    "polars, booleans": (pl.Series([True, None]), [1]),
    "polars, dates": (pl.Series([dt.date(2026, 1, 2), None]), [1]),
    "polars, lists": (pl.Series([[1], None, [], [1, 2]]), [1]),
    "polars, arrays": (pl.Series([[1.0, 2.0], None], dtype=pl.Array(pl.Float32, 2)), [1]),
    "polars, structs": (pl.Series([{"a": 1}, None]), [1]),
    "polars, nothing": (pl.Series([None, None]), [0, 1]),
    "Arrow, texts": (pa.array(["a", None]), [1]),
    "Arrow, chunks": (pa.chunked_array([["a"], [None], ["b"]]), [1]),
    "Arrow, dictionary": (pa.array(["a", None]).dictionary_encode(), [1]),
    "Arrow, column of a table": (pa.table({"c": [1, None]})["c"], [1]),
    "Arrow, nothing": (pa.nulls(2), [0, 1]),
    "masked integers": (np.ma.MaskedArray(np.array([1, 99, 3], "i1"), [False, True, False]), [1]),
    "masked booleans": (np.ma.MaskedArray([True, False], [True, False]), [0]),
    "masked halves": (np.ma.MaskedArray(np.array([1, 2], "f2"), [False, True]), [1]),
    "masked times": (np.ma.MaskedArray(np.array(["2026", "2027"], "M8[s]"), [True, False]), [0]),
    "masked texts": (np.ma.MaskedArray(["a", "b"], [False, True]), [1]),
    "masked rows": (np.ma.MaskedArray(np.ones((3, 2)), [[False] * 2, [True] * 2, [False] * 2]), [1]),
    "masked nowhere": (np.ma.MaskedArray([1, 2]), []),
    "list with NA": ([1, pd.NA, 2], [1]),
    "list with masked": ([1, np.ma.masked, 2], [1]),
    "list with NaT": (["a", pd.NaT], [1]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_others_keep_their_nulls(name: str) -> None:
    """Columns of pandas, polars, Arrow and NumPy, whole or leaving out errors, in a tensor or a row."""
    column, expected = COLUMNS[name]
    for door in (
        lambda ds: ds.t.extend(column),
        lambda ds: ds.t.extend(column, ignore_errors=True),
        lambda ds: ds.extend({"t": column}),
        lambda ds: ds.extend({"t": column}, ignore_errors=True),
    ):
        ds = new({})
        door(ds)
        assert len(ds) == len(column)
        assert nulls(again(ds)) == expected
    if "times" not in name and "durations" not in name and "dates" not in name:
        rows = [pd.NA if row in expected else "x" for row in range(len(column))]
        ds = new({"htype": "text"})
        ds.extend({"t": rows})
        assert nulls(ds) == expected


def test_values_beside_nulls_are_exact() -> None:
    """What is not missing arrives as it is, with its type."""
    ds = new({})
    ds.extend({"t": np.ma.MaskedArray(np.array([1, 99, -3], "i1"), [False, True, False])})
    assert ds.t.dtype == np.int8
    assert pa.table(ds)["t"].to_pylist() == [1, None, -3]
    ds = new({})
    moments = pd.Series([pd.Timestamp("2026-01-02 03:04:05", tz="UTC"), pd.NaT])
    ds.extend({"t": moments})
    assert pa.table(ds)["t"].to_pylist() == [moments[0].to_pydatetime(), None]
    ds = new({"htype": "class_label"})
    ds.extend({"t": pd.Series(["x", None, "y"], dtype="category")})
    assert pa.table(ds)["t"].to_pylist() == ["x", None, "y"]
    ds = new({"htype": "json"})
    ds.extend({"t": pd.Series(["no JSON", None], dtype="string")})
    assert list(ds.t.values()) == ["no JSON", None]


def test_a_sample_that_is_masked_in_part_is_refused() -> None:
    """There is no sample of which a part is missing; nothing is stored."""
    partly = np.ma.MaskedArray(np.ones((2, 2)), [[False, True], [False, False]])
    ds = new({})
    with pytest.raises(lakebed.errors.SampleAppendError, match="part of a sample is masked"):
        ds.t.extend(partly)
    with pytest.raises(lakebed.errors.SampleExtendError, match="part of a sample is masked"):
        ds.extend({"t": partly})
    assert len(ds) == 0


@pytest.mark.parametrize("flushed", [False, True], ids=["in memory", "published"])
@pytest.mark.parametrize("kind", TENSORS)
def test_null_follows_its_row(kind: str, flushed: bool) -> None:
    """Updates put nulls over values and values over nulls; pops, commits, copies and rechunking move them along."""
    settings, value, empty, other = TENSORS[kind]
    ds = new(settings)
    ds.extend({"t": [value, None, empty, None, other]})
    if flushed:
        ds = again(ds)
    ds.t[0] = None
    ds.t[1] = value
    assert nulls(ds) == [0, 3]
    ds.t[2:4] = [None, other]
    assert nulls(ds) == [0, 2]
    ds.t.pop(1)
    assert nulls(ds) == [0, 1]
    ds.commit()
    ds.update_rows([0, 2], {"t": [value, None]})
    assert nulls(ds) == [1, 2]
    ds.rechunk()
    ds = again(ds)
    assert nulls(ds) == [1, 2]
    copied = ds.copy(f"mem://{new_memory().url.rpartition('/')[2]}-copy")
    assert nulls(copied) == [1, 2]
    copied.extend(ds)
    assert nulls(copied) == [1, 2, 5, 6]
    copied.append({"t": ds.t[1]})
    assert nulls(copied)[-1] == 8


def test_merged_rows_are_as_null_as_they_were() -> None:
    """A merge brings nulls that were added and set on another branch, and values that took their place."""
    ds = new({"htype": "text"})
    ds.extend({"t": ["a", None, "c"]})
    ds.commit()
    ds.checkout("other", create=True)
    ds.t[0] = None
    ds.t[1] = "b"
    ds.append({"t": None})
    ds.append({"t": ""})
    ds.commit()
    ds.checkout("main")
    ds.merge("other", conflict_resolution="theirs")
    assert list(ds.t.values()) == [None, "b", "c", None, ""]
    assert nulls(again(ds)) == [0, 3]


@pytest.mark.parametrize("first", [[], [[1], None]], ids=["empty", "numbers"])
def test_missing_numbers_before_lists_in_rows_taken_one_by_one(first: list[Any]) -> None:
    """Rows that are looked at one by one, to leave out those that do not fit, become lists in the middle."""
    rows = [[1], None, [2, 3], None, []]
    wanted = [i for i, row in enumerate([*first, *rows]) if row is None]
    for door in (DOORS["leaving out errors"], DOORS["rows, leaving out errors"]):
        ds = new({})
        door(ds, first)
        door(ds, rows)
        assert nulls(ds) == wanted
        assert nulls(again(ds)) == wanted


@pytest.mark.parametrize("where", ["main", "other"])
def test_missing_numbers_stay_so_when_another_branch_has_lists(where: str) -> None:
    """One branch goes on with numbers and None, the other with lists: merged, what was null there still is."""
    ds = new({})
    ds.extend({"t": [[1], None]})
    ds.commit()
    ds.checkout("other", create=True)
    ds.extend({"t": [[3], None] if where == "main" else [[4, 5], []]})
    ds.commit()
    ds.checkout("main")
    ds.extend({"t": [[4, 5], []] if where == "main" else [[3], None]})
    ds.merge("other")
    rows = [row.tolist() for row in ds.t.numpy(aslist=True)]
    assert nulls(again(ds)) == [1, 3 if where == "other" else 5]
    assert [rows[2], rows[4]] == ([[4, 5], [3]] if where == "main" else [[3], [4, 5]])


@pytest.mark.parametrize("flushed", [False, True], ids=["in memory", "published"])
@pytest.mark.parametrize(
    "settings", [{}, {"chunk_compression": "lz4"}, {"sample_compression": "lz4"}], ids=str
)
def test_numbers_that_are_missing_stay_so_when_lists_follow(settings: dict[str, Any], flushed: bool) -> None:
    """Rows of one number and None turn out to be lists: what was null stays, and an empty list is none from then on."""
    for grow in (
        lambda ds: ds.t.append([4, 5]),
        lambda ds: ds.extend({"t": pa.array([[4, 5]])}),
        lambda ds: [ds.t.append(7), ds.t.__setitem__(4, [4, 5])],
        lambda ds: [ds.t.append(7), ds.t.__setitem__(slice(0, 5), [[1], None, [3], None, [4, 5]])],
    ):
        ds = new(settings)
        for row in ([1], None, [3], None):
            ds.t.append(row)
        if flushed:
            ds = again(ds)
        grow(ds)
        ds.t.append([])
        ds.t.append(None)
        assert nulls(ds) == [1, 3, 6]
        assert nulls(again(ds)) == [1, 3, 6]
        assert [row.tolist() for row in ds.t.numpy(aslist=True)] == [[1], [], [3], [], [4, 5], [], []]


def test_the_error_of_numbers_with_nulls_names_them() -> None:
    """Whoever wants one array of a column with nulls is told how many there are, and where the first one is."""
    ds = new({"dtype": "int32"})
    ds.extend({"t": [1, 2, None, 4, None, None]})
    with pytest.raises(
        lakebed.errors.DynamicTensorNumpyError,
        match=r"3 of 6 rows are null, the first is row 2: pass masked=True",
    ):
        ds.t.numpy()
    with pytest.raises(
        lakebed.errors.DynamicTensorNumpyError, match=r"1 of 2 rows is null, the first is row 4: pass"
    ):
        ds.t[3:5].numpy()
    ragged = new({})
    ragged.extend({"t": [[1], [2, 3]]})
    with pytest.raises(lakebed.errors.DynamicTensorNumpyError) as told:
        ragged.t.numpy()
    assert "null" not in str(told.value)


@pytest.mark.parametrize("name", NUMBERS)
def test_nulls_among_single_numbers_come_out_as_none(name: str) -> None:
    """As those of any other tensor; `numpy` gives the empty sample, as in 3.x."""
    settings, one, other = NUMBERS[name]
    ds = create_on(new_memory())
    ds.create_tensor("t", **settings)
    ds.t.extend([one, None, other])
    assert [value is None for value in ds.t.values()] == [False, True, False] == ds.t.null_mask().tolist()
    assert [value is None for value in ds[1:].t.values()] == [True, False]
    assert ds.t[1].numpy().tolist() == []
