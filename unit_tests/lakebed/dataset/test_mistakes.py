"""Mistakes that people make are told, with what to write instead."""

from __future__ import annotations

import copy
import itertools
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidInputError, SampleAppendError, UnusualSampleWarning

NUMBER = itertools.count()


@pytest.fixture
def ds() -> lakebed.Dataset:
    ds = lakebed.empty(f"mem://mistakes-{next(NUMBER)}")
    ds.create_tensor("n", dtype="int32")
    ds.create_tensor("img", htype="image", sample_compression="png")
    ds.create_tensor("box", htype="bbox")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    return ds


@pytest.mark.parametrize("value", [[1], np.array([1])], ids=repr)
def test_a_comparison_with_arrays_says_what_to_write(ds: lakebed.Dataset, value: Any) -> None:
    ds.n.append(1)
    with pytest.raises(TypeError, match=r"compare ds\['n'\]\.numpy\(\) =="):
        _ = ds.n == value
    with pytest.raises(TypeError, match="is not compared with arrays"):
        _ = ds.n != value
    with pytest.raises(TypeError, match="is not compared with arrays"):
        _ = ds.n > value


def test_tensors_compare_as_before(ds: lakebed.Dataset) -> None:
    assert ds.n == ds["n"]
    assert ds.n != ds.box
    assert ds.n is not None
    assert ds.n in [None, ds.box, ds.n]
    assert not ds.n == object()  # noqa: SIM201
    ds.n.extend([1, 2, 1])
    assert len(ds[["n"]][(ds.n.numpy() == 1).ravel()]) == 2


@pytest.mark.parametrize("door", ["append", "extend", "array", "arrow"])
def test_a_number_that_does_not_fit_is_named(ds: lakebed.Dataset, door: str) -> None:
    value = 2**40
    made = {"extend": [1, value], "array": np.array([1, value]), "arrow": pa.array([1, value])}
    put = ds.n.append if door == "append" else ds.n.extend
    with pytest.raises(SampleAppendError, match="1099511627776 does not fit int32") as error:
        put(made.get(door, value))
    assert "astype" not in str(error.value)
    assert len(ds.n) == 0
    with pytest.raises(SampleAppendError, match="takes numbers, not text"):
        ds.n.append("seven")


@pytest.mark.parametrize(
    "samples", [[2], [[0, 5]], [np.array([7], np.uint32)], np.array([3], np.uint32)], ids=repr
)
def test_a_label_without_a_name_is_told(ds: lakebed.Dataset, samples: Any) -> None:
    with pytest.warns(UnusualSampleWarning, match="names of 2 classes, and the label"):
        ds.label.extend(samples)
    assert len(ds.label) == 1
    with pytest.warns(UnusualSampleWarning, match="the label"):
        ds.label.append(samples[0])  # however quickly single samples are taken
    assert len(ds.label) == 2


def test_boxes_that_are_none_are_told_and_others_are_not(ds: lakebed.Dataset) -> None:
    with pytest.warns(
        UnusualSampleWarning, match=r"a box .* has 4 numbers, and a sample has the shape \(2, 5\)"
    ):
        ds.box.append(np.ones((2, 5), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.label.extend([0, 1, "cat", None, [0, 1], np.zeros(0, np.uint32)])
        ds.create_tensor("good", htype="bbox").extend([np.ones((2, 4), "f4"), np.zeros((0, 4), "f4"), None])
        ds.create_tensor("free", htype="class_label").extend([7])
        ds.flush()


def test_unknown_names_are_guessed(ds: lakebed.Dataset) -> None:
    for ask in (
        lambda: ds.imgs,
        lambda: ds["imgs"],
        lambda: ds.append({"imgs": 1}),
        lambda: ds.to_pandas(["imgs"]),
    ):
        with pytest.raises((AttributeError, KeyError), match="did you mean 'img'") as error:
            ask()
        assert "Tensors: n, img" in str(error.value)


@pytest.mark.parametrize("rows", [[2, 0], [1, 1, 0], [], [0, 2]], ids=str)
def test_rows_are_taken_in_any_order(ds: lakebed.Dataset, rows: list[int]) -> None:
    ds.n.extend([5, 6, 7])

    assert ds.take_rows(rows, ["n"])["n"].to_pylist() == [5 + row for row in rows]
    with pytest.raises(IndexError, match="out of range"):
        ds.take_rows([3, 0], ["n"])
    with pytest.raises(InvalidInputError, match="row numbers"):
        ds.take_rows([0.5], ["n"])


@pytest.mark.parametrize("part", [slice(None), slice(0, 1)], ids=["whole", "view"])
def test_a_deep_copy_of_a_handle_names_what_copies(ds: lakebed.Dataset, part: slice) -> None:
    ds.n.extend([1, 2])
    shallow = copy.copy(ds[part])
    assert shallow.n.numpy().tolist() == ds[part].n.numpy().tolist()
    with pytest.raises(TypeError, match=r"Use ds\.copy\(dest\)"):
        copy.deepcopy(ds[part])
    with pytest.raises(TypeError, match=r"Use ds\.copy\(dest\)"):
        copy.deepcopy([ds])
