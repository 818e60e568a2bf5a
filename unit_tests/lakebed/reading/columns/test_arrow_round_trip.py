"""Arrow in, Arrow out: what a table says is what the dataset says, nulls included."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(60))
NUMBER = itertools.count()


def stored(table: pa.Table, pieces: int = 1, **create: Any) -> lakebed.Dataset:
    """A new dataset with the table's columns, written in some pieces."""
    ds = lakebed.empty(f"mem://round-trip-{next(NUMBER)}")
    for name in table.column_names:
        ds.create_tensor(name, create_id_tensor=False, create_shape_tensor=False, **create)
    bounds = np.linspace(0, len(table), pieces + 1).astype(int).tolist()
    for a, b in itertools.pairwise(bounds):
        part = table.slice(a, b - a)
        ds.extend({name: part[name] for name in part.column_names})
    ds.flush()
    return ds


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Equal names, types, nulls and values, however chunked."""
    found.validate(full=True)
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert found.to_pylist() == expected.to_pylist()


PRIMITIVE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *((getattr(pa, f"int{n}")(), st.integers(-(2 ** (n - 1)), 2 ** (n - 1) - 1)) for n in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{n}")(), st.integers(0, 2**n - 1)) for n in (8, 16, 32, 64)),
    (pa.float16(), st.floats(width=16, allow_nan=False).map(np.float16)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
]
TEMPORAL = [
    pa.date32(),
    pa.date64(),
    *(pa.time32(u) for u in ("s", "ms")),
    *(pa.time64(u) for u in ("us", "ns")),
    *(pa.timestamp(u, z) for u in ("s", "ms", "us", "ns") for z in (None, "UTC", "Europe/Berlin")),
    *(pa.duration(u) for u in ("s", "ms", "us", "ns")),
]
DAY_MS = 86_400_000


def moments(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    """Values of a temporal type from small integers; a date64 holds whole days."""
    scale = DAY_MS if kind == pa.date64() else 1
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([None if n is None else n * scale for n in numbers], type=width).cast(kind)


@st.composite
def columns(draw: st.DrawFn) -> pa.ChunkedArray:
    """A column of any type that comes back as it is: with or without nulls, sliced, in one or more chunks."""
    kind, values = draw(st.sampled_from([*PRIMITIVE, (pa.string(), st.text(max_size=5))]))
    if draw(st.booleans()):
        kind, values = pa.list_(kind), st.lists(values, max_size=4)
    if draw(st.booleans()):
        values = st.none() | values
    chunks = []
    for _ in range(draw(st.integers(1, 3))):
        padding = draw(st.integers(0, 9))
        items = draw(st.lists(values, min_size=1 + padding, max_size=6 + padding))
        chunks.append(pa.array(items, type=kind).slice(padding))
    return pa.chunked_array(chunks)


@SMALL
@given(
    columns().filter(lambda c: not pa.types.is_list(c.type) or c.type.value_type != pa.string()),
    st.integers(1, 3),
)
def test_columns_come_back(column: pa.ChunkedArray, pieces: int) -> None:
    """Type, nulls and values of every primitive type, strings and lists survive, from slices and chunks too."""
    table = pa.table({"c": column})
    ds = stored(table, pieces)
    assert_same(pa.table(ds), table)
    for a, b in ((0, 1), (1, 4), (2, len(table))):
        assert_same(pa.table(ds[a:b]), table.slice(a, b - a))
    rows = [len(table) - 1, 0, 0]
    assert_same(pa.table(ds[rows]), table.take(rows))


@pytest.mark.parametrize("kind", TEMPORAL, ids=str)
def test_moments_come_back(kind: pa.DataType) -> None:
    """Dates, times, timestamps and durations keep unit and time zone, and their nulls."""
    table = pa.table({"full": moments(kind, [3, 0, 86_399]), "holes": moments(kind, [None, 7, None])})
    ds = stored(table)
    assert_same(pa.table(ds), table)
    assert ds.full.info["logical_type"] == str(kind)


def test_null_and_empty_text_are_two_things() -> None:
    """Null is null and "" is "" through Arrow, batches and values; so for json and lists. JSON's null is a value."""
    table = pa.table(
        {
            "t": pa.array(["", None, "x", None]),
            "j": pa.array(["{}", None, "[1]", "null"], type=pa.json_()),
            "l": pa.array([[], None, [1], None], type=pa.list_(pa.int64())),
        }
    )
    ds = stored(table, pieces=2)
    assert pa.table(ds)["t"].to_pylist() == ["", None, "x", None]
    assert pa.table(ds)["j"].to_pylist() == ["{}", None, "[1]", "null"]
    assert pa.table(ds)["l"].to_pylist() == [[], None, [1], None]
    assert [None if v is None else list(v) for v in ds.l.values()] == [[], None, [1], None]
    assert list(ds.t.values()) == ["", None, "x", None]
    assert list(ds.j.values()) == [{}, None, [1], None]
    for name, mask in (("t", [1, 3]), ("j", [1]), ("l", [1, 3])):
        assert np.flatnonzero(ds[name].null_mask()).tolist() == mask
    (batch,) = ds.batches(4)
    assert list(batch["t"]) == ["", None, "x", None]
    assert list(batch["j"]) == [{}, None, [1], None]
    assert [None if v is None else v.tolist() for v in batch["l"]] == [[], None, [1], None]


def test_the_methods_of_3x_read_a_null_as_the_empty_sample() -> None:
    """Deep Lake 3.x knows no null: its methods give what it would give, so its programs run on."""
    ds = stored(pa.table({"t": ["", None], "j": pa.array(["[1]", None], pa.json_()), "l": [[1], None]}))
    assert ds.t.text() == [ds.t[i].text() for i in range(2)] == ["", ""]
    assert ds.t.numpy().tolist() == [[""], [""]]
    assert ds.t.numpy().dtype.kind == "U"
    assert ds.j.dict() == [[1], {}]
    assert ds.j.numpy(aslist=True)[1].tolist() == [{}]
    assert ds.l.list() == [[1], []]
    assert [ds[name].data()["value"] for name in "tj"] == [["", ""], [[1], {}]]


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0), (3, 0, 2)])
def test_arrays_without_anything_are_empty_lists(shape: tuple[int, ...]) -> None:
    """A table can be read whose samples all have an axis of no length, as boxes of pictures without objects."""
    ds = lakebed.empty(f"mem://round-trip-{next(NUMBER)}")
    ds.create_tensor("x", dtype="float32").extend([np.zeros(shape, np.float32)] * 3)
    table = pa.table(ds)
    table.validate(full=True)
    assert table["x"].to_pylist() == [np.zeros(shape).tolist()] * 3
    assert ds.take_rows([0, 2])["x"].to_pylist() == [np.zeros(shape).tolist()] * 2


@pytest.mark.parametrize("compression", [{}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"}])
def test_nothing_but_nulls_and_empty_lists_comes_back(compression: dict[str, str]) -> None:
    """A column of lists that are all null or empty is read as it was given, in every layout."""
    table = pa.table({"x": pa.array([None, [], None, []], type=pa.list_(pa.int64()))})
    ds = stored(table, **compression)
    assert pa.table(ds)["x"].to_pylist() == [None, [], None, []]
    assert ds.read_columns(1, 3)["x"].to_pylist() == [[], None]
    (batch,) = ds.batches(4)
    assert [None if row is None else row.tolist() for row in batch["x"]] == [None, [], None, []]


def test_absent_numbers_stay_null_when_lists_of_one_number_come() -> None:
    """Lists settle that an empty sample is an empty list: numbers that were null before go on record."""
    ds = stored(pa.table({"x": pa.array([1, None], pa.float32())}))
    ds.x.extend(pa.array([[2.0], []], pa.list_(pa.float32())))
    assert pa.table(ds)["x"].to_pylist() == [[1.0], None, [2.0], []]
    ds.flush()
    assert pa.table(ds)["x"].to_pylist() == [[1.0], None, [2.0], []]


def test_nulls_may_come_late_and_stop_again() -> None:
    """The record of nulls is made with the first null; rows before it and after its end are not null."""
    ds = stored(pa.table({"t": pa.array(["a", "b"])}))
    assert ds.meta.hidden_tensors == []
    ds.extend({"t": pa.array([None, "c"])})
    ds.extend({"t": pa.array(["", "d"])})
    ds.extend({"t": ["plain", None]})
    assert ds.meta.hidden_tensors == ["_t_null"]
    assert list(ds.t.values()) == ["a", "b", None, "c", "", "d", "plain", None]
    assert pa.table(ds[1:]).column("t").to_pylist() == ["b", None, "c", "", "d", "plain", None]
    ds.extend({"t": pa.array([None])})
    assert pa.table(ds)["t"].null_count == 3


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.string(), pa.list_(pa.int16()), pa.timestamp("us"), pa.bool_()]
)
def test_columns_of_nulls_only(kind: pa.DataType) -> None:
    """A column that holds nothing but nulls keeps type and nulls, and takes values later."""
    table = pa.table({"c": pa.nulls(3, kind)})
    ds = stored(table)
    assert_same(pa.table(ds), table)
    value = {pa.string(): "x", pa.list_(pa.int16()): [1, 2], pa.bool_(): True}.get(kind, 5)
    more = pa.table({"c": pa.array([value], type=kind)})
    ds.extend({"c": more["c"]})
    assert_same(pa.table(ds), pa.concat_tables([table, more]))


def test_a_column_without_a_type_takes_the_first_that_comes() -> None:
    """Nulls of no type at all stay null when numbers, texts or lists follow."""
    for values, kind in (([1], pa.int64()), (["a"], pa.string()), ([[1, 2]], pa.list_(pa.int64()))):
        ds = stored(pa.table({"c": pa.nulls(2)}))
        assert pa.table(ds)["c"].to_pylist() == [None, None]
        ds.extend({"c": pa.array(values, type=kind)})
        ds.extend({"c": pa.nulls(1)})
        assert pa.table(ds)["c"].to_pylist() == [None, None, *values, None]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "b"], type=pa.large_string()),
        pa.array(["a", None, "a longer string than twelve"], type=pa.string_view()),
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.chunked_array([["a"], [None], []], type=pa.string()),
        pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["x", "y"])).slice(1),
    ],
    ids=["large", "view", "dictionary", "chunked", "sliced dictionary"],
)
def test_every_kind_of_string_array(array: Any) -> None:
    """Strings of other layouts come back as plain strings of the same values."""
    ds = stored(pa.table({"c": array}))
    assert pa.table(ds)["c"].type == pa.string()
    assert pa.table(ds)["c"].to_pylist() == array.to_pylist()


def test_dictionaries_of_numbers() -> None:
    """Dictionary-encoded numbers are numbers."""
    array = pa.array([5, 7, None, 5], type=pa.int16()).dictionary_encode()
    assert_same(pa.table(stored(pa.table({"c": array}))), pa.table({"c": array.cast(pa.int16())}))


def test_json_extension_type_is_stored_as_it_is() -> None:
    """JSON texts of the Arrow extension type are trusted: spacing and key order survive byte for byte."""
    texts = ['{"b": 1,  "a": [1.0]}', "7", None, '"x"']
    ds = stored(pa.table({"c": pa.array(texts, type=pa.json_())}))
    assert ds.c.htype == "json"
    assert pa.table(ds)["c"].to_pylist() == texts
    assert ds.c.dict() == [{"b": 1, "a": [1.0]}, 7, {}, "x"]


def test_plain_strings_for_a_json_tensor_are_checked() -> None:
    """A string that is no JSON is refused, with its place, and nothing is stored."""
    ds = lakebed.empty("mem://json-checked")
    ds.create_tensor("j", htype="json")
    ds.extend({"j": pa.array(['{"a": 1}', None, "2"])})
    with pytest.raises(lakebed.SampleAppendError, match="value 1"):
        ds.extend({"j": pa.array(["1", "{"])})
    assert list(ds.j.values()) == [{"a": 1}, None, 2]


def test_structs_and_maps_are_json() -> None:
    """Nested records become JSON documents."""
    rows = [{"a": 1, "b": [None, "x"]}, None, {"a": None, "b": []}]
    ds = stored(pa.table({"c": pa.array(rows)}))
    assert ds.c.htype == "json"
    assert list(ds.c.values()) == rows


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1]).cast(pa.decimal128(20)),
        pa.array([["a"]]),
        pa.array([[1, None]]),
        pa.array([[[1], [None]]]),
        pa.array([[[1], [2, 3]]]),
        pa.array([[{"a": 1}]]),
        pa.array([(1, 2, 3)], type=pa.month_day_nano_interval()),
    ],
    ids=lambda array: str(array.type),
)
def test_types_that_have_no_place_are_refused(array: pa.Array) -> None:
    """Decimals, intervals, ragged inner lists and nulls inside lists are errors that name the reason."""
    ds = lakebed.empty("mem://refused")
    ds.create_tensor("c")
    with pytest.raises(lakebed.SampleAppendError):
        ds.extend({"c": array})
    assert len(ds.c) == 0


NESTED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.list_(pa.list_(pa.int16())), [[[1, 2], [3, 4]], [[5]], None, [], [[], []]]),
    (pa.list_(pa.int16(), 2), [[1, 2], [3, 4], [5, 6]]),
    (pa.list_(pa.int16(), 2), [[1, 2], None, [5, 6]]),
    (pa.list_(pa.list_(pa.float32(), 2), 3), [[[1, 2], [3, 4], [5, 6]]] * 2),
    (pa.list_(pa.int16(), 1), [[1], [2]]),
    (pa.list_(pa.int16()), [[1], [2]]),
    (pa.list_(pa.int16()), [[1, 2], [3, 4]]),
    (pa.list_(pa.bool_()), [[True], [False, True], []]),
    (pa.list_(pa.timestamp("us")), [[1, 2], [3]]),
]


@pytest.mark.parametrize(("kind", "values"), NESTED, ids=[str(k) for k, _ in NESTED])
def test_lists_of_lists_and_fixed_lists(kind: pa.DataType, values: list[Any]) -> None:
    """Nested and fixed-size lists come back with their type, dtype and nulls."""
    table = pa.table({"c": pa.array([None] * 2 + values, type=kind).slice(2)})
    found = pa.table(stored(table))
    if pa.types.is_timestamp(getattr(kind, "value_type", kind)):
        assert found["c"].to_pylist() == [[1, 2], [3]]
    elif pa.types.is_fixed_size_list(kind) and None in values:
        # The extents differ once a row is missing, so the length is no longer part of the type.
        assert found["c"].to_pylist() == values
    else:
        assert_same(found, table)


def test_large_lists_are_lists() -> None:
    """64-bit offsets make no difference to the values."""
    table = pa.table({"c": pa.array([[1], None, [2, 3]], type=pa.large_list(pa.int8()))})
    assert_same(pa.table(stored(table)), table.cast(pa.schema([("c", pa.list_(pa.int8()))])))


def test_units_of_moments_do_not_mix() -> None:
    """Later values are converted to the first unit; what would lose digits or change meaning is refused."""
    ds = stored(pa.table({"c": moments(pa.timestamp("ms"), [1, 2])}))
    ds.extend({"c": moments(pa.timestamp("s"), [3])})
    assert ds.c.numpy().ravel().tolist() == [1, 2, 3000]
    for wrong in (
        moments(pa.timestamp("us"), [1]),
        moments(pa.timestamp("ms", "UTC"), [1]),
        moments(pa.time32("s"), [1]),
    ):
        with pytest.raises(lakebed.SampleAppendError, match=r"timestamp\[ms\]"):
            ds.extend({"c": wrong})
    ds.extend({"c": moments(pa.timestamp("us"), [4000])})
    assert ds.c.numpy().ravel().tolist() == [1, 2, 3000, 4]


def test_moments_do_not_join_plain_numbers() -> None:
    """A tensor of numbers does not turn into one of timestamps because some arrive."""
    ds = stored(pa.table({"c": pa.array([1, 2])}))
    with pytest.raises(lakebed.SampleAppendError, match="plain numbers"):
        ds.extend({"c": moments(pa.timestamp("s"), [1])})
    assert pa.table(ds)["c"].to_pylist() == [1, 2]


def test_chunks_of_one_column_build_on_each_other() -> None:
    """Class names and extents learned from one chunk hold for the next."""
    ds = lakebed.empty("mem://chunked-labels")
    ds.create_tensor("label", htype="class_label")
    ds.create_tensor("list")
    labels = pa.chunked_array([["cat", "dog"], ["dog", "bird", None]])
    lists = pa.chunked_array([[[1, 2, 3], [1]], [[1], [2], [3]]])
    ds.extend({"label": labels, "list": lists})
    assert ds.label.info.class_names == ["cat", "dog", "bird"]
    assert [v.tolist() for v in ds.label.numpy(aslist=True)] == [[0], [1], [1], [2], []]
    assert (ds["list"].meta.min_shape, ds["list"].meta.max_shape) == ([1], [3])
    assert pa.table(ds)["label"].to_pylist() == ["cat", "dog", "dog", "bird", None]


def readers(ds: lakebed.Dataset) -> Iterator[tuple[str, list[Any]]]:
    """Column `n` and `t` as other libraries see them."""
    frame = pl.DataFrame(ds)
    yield "polars", [frame["n"].to_list(), frame["t"].to_list()]
    table = pa.table(ds)
    yield "pandas", [[None if pd.isna(v) else v for v in table.to_pandas()[c]] for c in ("n", "t")]
    with duckdb.connect() as database:
        database.register("stream", pa.RecordBatchReader.from_stream(ds))
        rows = database.sql("select n, t from stream").fetchall()
    yield "duckdb", [list(column) for column in zip(*rows, strict=True)]


def test_other_libraries_read_and_feed_a_dataset() -> None:
    """polars, pandas and DuckDB see the same values; polars series go in as Arrow, pandas columns as lists."""
    table = pa.table({"n": pa.array([1, None, 3]), "t": pa.array(["a", None, ""])})
    for name, seen in readers(stored(table)):
        assert seen == [[1, None, 3], ["a", None, ""]], name
    frame = pl.from_arrow(table)
    ds = lakebed.empty("mem://from-polars")
    for name in ("n", "t"):
        ds.create_tensor(name)
    ds.extend({name: frame[name] for name in ("n", "t")})
    assert_same(pa.table(ds), table)
    ds.extend({"n": pd.Series([4]), "t": pd.Series(["b"])})
    assert pa.table(ds).slice(3).to_pylist() == [{"n": 4, "t": "b"}]


def test_requested_schema_and_empty_datasets() -> None:
    """A dataset without rows, and one without tensors, are tables without rows."""
    ds = lakebed.empty("mem://nothing")
    assert pa.table(ds).num_rows == 0
    ds.create_tensor("x", dtype="int32")
    ds.create_tensor("t", htype="text")
    assert pa.table(ds).schema == pa.schema([("x", pa.int32()), ("t", pa.string())])
    assert pa.table(ds).num_rows == 0
    assert pa.table(ds[0:0]).num_rows == 0


def test_group_and_selected_columns() -> None:
    """A group exports its own tensors, a selection of columns those, in the order asked for."""
    ds = lakebed.empty("mem://grouped")
    for name in ("g/a", "g/b", "c"):
        ds.create_tensor(name, dtype="int64")
    ds.extend({"g/a": [1], "g/b": [2], "c": [3]})
    assert pa.table(ds["g"]).to_pylist() == [{"a": 1, "b": 2}]
    assert pa.table(ds[["c", "g/a"]]).column_names == ["c", "g/a"]
    assert pa.table(ds).column_names == ["g/a", "g/b", "c"]


@pytest.mark.parametrize("how", [{"sample_compression": "lz4"}, {"chunk_compression": "lz4"}])
def test_compressed_columns_come_back(how: dict[str, str]) -> None:
    """Compression of samples or chunks changes nothing of what comes out."""
    table = pa.table(
        {
            "n": pa.array([1, 2, None]),
            "t": pa.array(["a" * 99, "", None]),
            "j": pa.array(["{}", "[1]", None], type=pa.json_()),
            "f": pa.array([0.5, 1.5, 2.5]),
        }
    )
    ds = stored(table, htype="unspecified", **how)
    found = pa.table(ds)
    assert found.to_pylist() == table.to_pylist()
    assert next(iter(ds.batches(3)))["t"][0] == "a" * 99
