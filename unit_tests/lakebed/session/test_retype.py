"""Tensors that get a wider type: what every kind of value becomes, what stays, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import InvalidOperationError, TensorDoesNotExistError
from lakebed.versions.state import contradiction
from unit_tests.effort import examples
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


def holding(values: Any, **kind: Any) -> lakebed.Dataset:
    """A dataset of one tensor between two others, committed; chunks are small."""
    ds = create_on(new_memory())
    ds.create_tensor("before", dtype="int8")
    ds.create_tensor("x", max_chunk_size=200, **kind)
    ds.create_tensor("after", dtype="int8")
    ds.extend({"x": values, "before": np.zeros(len(values), "i1"), "after": np.zeros(len(values), "i1")})
    ds.commit("before")
    return ds


def values_of(ds: lakebed.Dataset) -> list[Any]:
    found: list[Any] = ds.read_columns(0, len(ds), ["x"])["x"].to_pylist()
    if ds["x"].htype == "json":
        return [None if text is None else json.loads(text) for text in found]
    return found


MOMENT = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
TICK = datetime(2024, 2, 3, 4, 5, 6, 700, tzinfo=UTC)
INT = pa.array([1, None, -3] * 30, pa.int64())
STAMP = pa.array([MOMENT, None, TICK] * 30, pa.timestamp("us", "UTC"))
LOCAL = pa.array([MOMENT.replace(tzinfo=None), None], pa.timestamp("ms"))
ZONED = pa.array([MOMENT, None], pa.timestamp("s", "Asia/Kolkata"))
TEXT = pa.array(['a"\\', None, "", "ü\n\x07", "\U0001f600"])
JSON = {"htype": "json"}


@pytest.mark.parametrize(
    ("given", "kind", "change", "expected"),
    [
        (INT, {"dtype": "int64"}, {"dtype": "float64"}, [1.0, None, -3.0] * 30),
        (INT, {"dtype": "int64"}, {"htype": "text"}, ["1", None, "-3"] * 30),
        (INT, {"dtype": "int64"}, JSON, [1, None, -3] * 30),
        (INT, {"dtype": "int64", "chunk_compression": "lz4"}, JSON, [1, None, -3] * 30),
        (INT, {"dtype": "int8"}, {"dtype": "int32"}, [1, None, -3] * 30),
        (INT, {"dtype": "int16"}, {"dtype": "float32"}, [1.0, None, -3.0] * 30),
        (pa.array([0.5, None, 1e300]), {"dtype": "float64"}, {"htype": "text"}, ["0.5", None, "1e+300"]),
        (pa.array([0.5, None, 2.0]), {"dtype": "float64"}, JSON, [0.5, None, 2]),
        (pa.array([True, None, False]), {"dtype": "bool"}, {"htype": "text"}, ["true", None, "false"]),
        (pa.array([True, None, False]), {"dtype": "bool"}, JSON, [True, None, False]),
        (pa.array([True, None]), {"dtype": "bool"}, {"dtype": "int64"}, [1, None]),
        (STAMP, {}, {"htype": "text"}, ["2024-02-03T04:05:06Z", None, "2024-02-03T04:05:06.000700Z"] * 30),
        (STAMP, {}, JSON, ["2024-02-03T04:05:06Z", None, "2024-02-03T04:05:06.000700Z"] * 30),
        (LOCAL, {}, {"htype": "text"}, ["2024-02-03T04:05:06", None]),
        (ZONED, {}, {"htype": "text"}, ["2024-02-03T09:35:06+05:30", None]),
        (pa.array([date(2024, 2, 3), None]), {}, {"htype": "text"}, ["2024-02-03", None]),
        (pa.array([time(4, 5, 6), None]), {}, JSON, ["04:05:06", None]),
        (TEXT, {"htype": "text"}, JSON, ['a"\\', None, "", "ü\n\x07", "\U0001f600"]),
        (TEXT, {"htype": "text", "sample_compression": "lz4"}, JSON, TEXT.to_pylist()),
        (["b", "a", "b"], {"htype": "class_label"}, {"htype": "text"}, ["b", "a", "b"]),
        (["b", "a", "b"], {"htype": "class_label"}, JSON, ["b", "a", "b"]),
        ([[1, 2], ["x"]], {"htype": "list"}, JSON, [[1, 2], ["x"]]),
        (np.arange(6, dtype="f4").reshape(3, 2), {"dtype": "float32"}, JSON, [[0, 1], [2, 3], [4, 5]]),
        (
            np.arange(6, dtype="f4").reshape(3, 2),
            {"dtype": "float32"},
            {"dtype": "float64"},
            [[0, 1], [2, 3], [4, 5]],
        ),
        ([np.arange(2), np.arange(3)], {"dtype": "int64"}, JSON, [[0, 1], [0, 1, 2]]),
        (pa.array([[1, 2], None, [3]], pa.list_(pa.int8())), {}, {"dtype": "float32"}, [[1, 2], None, [3]]),
        (pa.array([[[1]], [[2, 3]]]), {}, {"dtype": "float64"}, [[[1]], [[2, 3]]]),
        ([], {"dtype": "int64"}, {"htype": "text"}, []),
    ],
)
def test_what_values_become(given: Any, kind: Any, change: Any, expected: Any) -> None:
    """Values, nulls, ids, the order of tensors and earlier commits are kept; both can be written on."""
    ds = holding(given, **kind)
    first, old, ids = ds.commit_id, values_of(ds), ds["_x_id"].numpy().tolist() if len(given) else []
    ds.change_type("x", **change)
    assert values_of(ds) == expected
    ds.flush()
    again = open_on(ds.storage)
    assert values_of(again) == expected
    assert list(again.tensors) == ["before", "x", "after"]
    assert all(len(again[name]) == len(expected) for name in ("x", "_x_shape") if name in again)
    assert not expected or again["_x_id"].numpy().tolist() == ids
    assert contradiction(again._session.snapshot) is None
    more = pa.array([None]) if again["x"].htype != "generic" else np.array([7], again["x"].dtype)
    if expected and not isinstance(expected[0], list):
        again["x"].extend(more)
        assert values_of(again[["x"]])[:-1] == expected
    again.commit("after", allow_empty=True)
    again.checkout(first)
    assert values_of(again) == old


def test_lists_of_arrow_get_another_dtype() -> None:
    """They are still lists, now of that, and take more of both."""
    ds = holding(pa.array([[1, 2], None, [3]], pa.list_(pa.int8())))
    ds.change_type("x", dtype="float32")
    assert ds["x"].info.logical_type == "list<item: float>"
    assert ds["x"].to_arrow().type == pa.list_(pa.float32())
    ds["x"].extend(pa.array([[0.5]], pa.list_(pa.float32())))
    ds["x"].extend(pa.array([[7]], pa.list_(pa.int8())))
    assert ds["x"].tolist() == [[1, 2], None, [3], [0.5], [7]]
    moments = holding(pa.array([[date(2024, 2, 3)]]))
    with pytest.raises(InvalidOperationError, match="list<item: date32"):
        moments.change_type("x", dtype="float64")


def test_what_a_version_records() -> None:
    """A tensor whose type changed counts as transformed; of a new one that goes without saying."""
    ds = holding([1, 2, 3], dtype="int64")
    ds.change_type("x", dtype="float64")
    entry = ds.diff(as_dict=True)["tensor"][0]["x"]
    assert (entry["data_transformed_in_place"], entry["created"], entry["data_added"]) == (
        True,
        False,
        [3, 3],
    )
    ds.create_tensor("new", dtype="int64").extend([1, 2, 3])
    ds.change_type("new", htype="text")
    entry = ds.diff(as_dict=True)["tensor"][0]["new"]
    assert (entry["data_transformed_in_place"], entry["created"]) == (False, True)


@pytest.mark.parametrize(
    ("given", "kind", "change", "message"),
    [
        ([1, 2**53 + 1], {"dtype": "int64"}, {"dtype": "float64"}, "tensor 'x', rows 0 to 1: .*lose digits"),
        ([-(2**63)], {"dtype": "int64"}, {"dtype": "float64"}, "lose digits"),
        ([2**24 + 1], {"dtype": "int64"}, {"dtype": "float32"}, "lose digits"),
        ([0.5], {"dtype": "float64"}, {"dtype": "int64"}, "not a wider type"),
        ([300], {"dtype": "int64"}, {"dtype": "int8"}, "not a wider type"),
        (["a"], {"htype": "text"}, {"htype": "generic", "dtype": "int64"}, "not a wider type"),
        ([{"a": 1}], {"htype": "json"}, {"htype": "text"}, "not a wider type"),
        (np.ones((2, 2)), {"dtype": "float64"}, {"htype": "text"}, "json can hold them"),
        (STAMP, {}, {"dtype": "float64"}, "timestamp"),
        (pa.array([date(2024, 2, 3)]), {}, {"dtype": "int64"}, "date32"),
        ([1], {"dtype": "int8", "sample_compression": "lz4"}, {"dtype": "int16"}, "each sample separately"),
        ([[1], [2]], {"htype": "sequence[generic]", "dtype": "int64"}, {"htype": "json"}, "sequences"),
        (
            [np.ones((4, 4, 3), "u1")],
            {"htype": "image", "sample_compression": "png"},
            {"htype": "json"},
            "files",
        ),
        ([np.ones((40, 40), "u1")], {"dtype": "uint8", "tiling_threshold": 99}, {"dtype": "int64"}, "tiles"),
        ([1], {"dtype": "int64"}, {"htype": "sequence[text]"}, "can not become"),
    ],
)
def test_what_is_refused(given: Any, kind: Any, change: Any, message: str) -> None:
    """Nothing is changed then."""
    ds = holding(given, **kind)
    before = (ds["x"].htype, ds["x"].dtype, len(ds["x"]))
    with pytest.raises(InvalidOperationError, match=message):
        ds.change_type("x", **change)
    assert (ds["x"].htype, ds["x"].dtype, len(ds["x"])) == before
    assert not ds.has_head_changes


def test_settings_of_the_htype_stay() -> None:
    """A box keeps its coordinates when its numbers get wider."""
    ds = create_on(new_memory())
    coords = {"type": "pixel", "mode": "LTWH"}
    ds.create_tensor("x", htype="bbox", dtype="float32", coords=coords)
    ds["x"].extend([np.ones((2, 4), np.float32)])
    ds.change_type("x", dtype="float64")
    assert (ds["x"].htype, ds["x"].dtype, dict(ds["x"].info["coords"])) == ("bbox", np.float64, coords)


def test_no_such_tensor() -> None:
    with pytest.raises(TensorDoesNotExistError):
        holding([1]).change_type("y", htype="text")


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.none() | st.text(max_size=6), max_size=30))
def test_any_text_is_itself_as_json(texts: list[str | None]) -> None:
    """Whatever characters there are, the JSON string reads back as the text."""
    ds = create_on(new_memory())
    ds.create_tensor("x", htype="text")
    ds["x"].extend(pa.array(texts, pa.string()))
    ds.change_type("x", htype="json")
    assert values_of(ds) == texts


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=30))
def test_any_float_is_itself_as_text_and_as_json(numbers: list[float | None]) -> None:
    """The text of a float, alone or in JSON, reads back as the same float."""
    for htype in ("text", "json"):
        ds = create_on(new_memory())
        ds.create_tensor("x", dtype="float64")
        ds["x"].extend(pa.array(numbers, pa.float64()))
        ds.change_type("x", htype=htype)
        assert [None if v is None else float(v) for v in values_of(ds)] == numbers
