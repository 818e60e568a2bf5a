"""A row is a dictionary, and rows are had by chunks."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import TensorDoesNotExistError
from lakebed.session import row_values

NUMBER = itertools.count()

ROWS: list[dict[str, Any]] = [
    {
        "n": None if i % 3 == 1 else i,
        "flag": i % 2 == 0,
        "word": None if i % 4 == 2 else f"w{i}",
        "doc": {"i": i},
        "label": None if i % 5 == 3 else ("cat", "dog")[i % 2],
        "labels": ["dog"] * (i % 3),
        "when": None if i % 2 else dt.datetime(2024, 1, 1, i, tzinfo=dt.UTC),
        "vector": [i, i + 1],
        "g/list": [i, "a"],
    }
    for i in range(20)
]


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in row.items()}


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    ds = lakebed.empty(f"mem://row-values-{next(NUMBER)}")
    ds.create_tensor("n", dtype="int64", max_chunk_size=64)
    ds.create_tensor("flag", dtype="bool")
    ds.create_tensor("word", htype="text", max_chunk_size=64)
    ds.create_tensor("doc", htype="json")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("labels", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("when")
    ds.create_tensor("vector", dtype="int32")
    ds.create_tensor("g/list", htype="list")
    ds.extend(ROWS)
    return ds


@pytest.mark.parametrize("at_once", [1, 7, 4096])
def test_rows_are_dictionaries(ds: lakebed.Dataset, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_values, "_MOST_ROWS", at_once)

    assert [plain(row) for row in ds.rows()] == ROWS
    assert [plain(row) for row in ds[[5, 2, 2]].rows()] == [ROWS[5], ROWS[2], ROWS[2]]
    assert [plain(row) for row in ds[3:1:-1].rows(["n", "word"])] == [
        {"n": ROWS[i]["n"], "word": ROWS[i]["word"]} for i in (3, 2)
    ]
    assert [row["list"] for row in ds.g.rows()] == [row["g/list"] for row in ROWS]
    with pytest.raises(TensorDoesNotExistError):
        ds.rows(["m"])


@pytest.mark.parametrize("row", [0, 1, 3, -1])
def test_one_row(ds: lakebed.Dataset, row: int) -> None:
    assert plain(ds[row].to_dict()) == ROWS[row]
    assert plain(dict(ds[row])) == ROWS[row]
    assert [plain(one) for one in ds[row].rows()] == [ROWS[row]]
    label = ROWS[row]["label"]
    assert ds[row].to_dict(labels="numbers")["label"] == (
        None if label is None else ["cat", "dog"].index(label)
    )


def test_values_have_the_types_of_python(ds: lakebed.Dataset) -> None:
    row = ds[0].to_dict()

    assert [type(row[name]) for name in ("n", "flag", "word", "label")] == [int, bool, str, str]
    assert isinstance(row["vector"], np.ndarray)
    assert type(next(ds.rows())["n"]) is int


def test_data_gives_what_each_tensor_gives(ds: lakebed.Dataset) -> None:
    data = ds[0].data()

    assert data["label"] == {"value": np.array([0]), "text": ["cat"]}
    assert data["word"] == {"value": "w0"}


def test_several_rows_are_columns(ds: lakebed.Dataset) -> None:
    words = ds[["word", "label"]]
    assert words.to_dict() == {name: [row[name] for row in words.rows()] for name in ("word", "label")}
    numbers = [row["label"] for row in ds[2:4].rows(labels="numbers")]
    assert ds[2:4].to_dict(labels="numbers")["label"] == numbers


def test_a_tensor_may_have_the_name_of_a_method() -> None:
    ds = lakebed.empty(f"mem://row-values-{next(NUMBER)}")
    ds.create_tensor("rows").append(3)
    ds.create_tensor("data").append(4)

    assert (ds.rows.numpy().tolist(), ds.data.numpy().tolist()) == ([[3]], [[4]])
    assert dict(ds[0]) == {"rows": 3, "data": 4}


@pytest.mark.filterwarnings("ignore::lakebed.errors.UnusualSampleWarning")
def test_files_moments_out_of_range_and_labels_without_names() -> None:
    file = io.BytesIO()
    Image.new("RGB", (5, 4)).save(file, "png")
    ds = lakebed.empty(f"mem://row-values-{next(NUMBER)}")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("when")
    ds.create_tensor("label", htype="class_label", class_names=["a"])
    ds.create_tensor("items", htype="sequence[text]")
    far = pa.array([10**17, 0]).cast(pa.timestamp("us"))
    ds.extend(
        {
            "image": [lakebed.read(file.getvalue()), None],
            "when": far,
            "label": [0, 7],
            "items": [["x", "y"], []],
        }
    )
    first, second = ds.rows()

    assert (first["image"].shape, second["image"]) == ((4, 5, 3), None)
    assert (first["when"], second["when"]) == (far[0].as_py(), far[1].as_py())
    assert (first["label"], second["label"]) == ("a", "7")
    assert (first["items"], second["items"]) == (["x", "y"], [])
    ds = lakebed.empty(f"mem://row-values-{next(NUMBER)}")
    ds.create_tensor("when").extend(pa.array([10**18]).cast(pa.timestamp("us")))
    assert ds[0].to_dict()["when"] == next(ds.rows())["when"] == 10**18


@pytest.mark.parametrize(
    "settings", [{}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"}], ids=str
)
def test_the_shape_of_one_sample_is_that_of_the_sample(settings: dict[str, Any]) -> None:
    ds = lakebed.empty(f"mem://row-values-{next(NUMBER)}")
    made = ds.create_tensor("x", **settings)
    samples = [np.ones((2, 3)), np.ones((4, 1)), np.ones((0, 0)), np.ones((4, 1))]
    made.extend(samples[:1] * 3)
    assert [made[i].shape for i in range(3)] == [(2, 3)] * 3
    made.extend(samples)

    assert [made[i].shape for i in range(3, 7)] == [(2, 3), (4, 1), (0, 0), (4, 1)]
    assert ds.max_view.x[0].shape == (2, 3)
