"""Everyday mistakes: the message names the value or the name, and advises nothing that would change data."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SampleAppendError, SampleUpdateError, TensorDoesNotExistError


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Tensors of numbers, pictures and labels."""
    ds = lakebed.empty("mem://mistakes", overwrite=True)
    ds.create_tensor("n", dtype="int32")
    ds.create_tensor("f", dtype="float32")
    ds.create_tensor("flag", dtype="bool")
    ds.create_tensor("img", htype="image", sample_compression="png")
    ds.create_tensor("mask", htype="segment_mask", sample_compression="lz4")
    ds.n.append(1)
    return ds


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n", 2**40, "1099511627776 does not fit int32"),
        ("n", 2**70, "1180591620717411303424 does not fit int32"),
        ("n", np.array([5, 2**40]), "1099511627776 does not fit int32"),
        ("n", [5, -(2**31) - 1], "-2147483649 does not fit int32"),
        ("n", 1.5, "1.5 does not fit int32"),
        ("n", float("nan"), "nan does not fit int32"),
        ("f", 2**24 + 1, "16777217 does not fit float32"),
        ("f", 1e300, "1e+300 does not fit float32"),
        ("flag", 5, "5 does not fit bool"),
        ("n", "seven", "the tensor holds int32, not text"),
        ("n", [1, "x"], "the tensor holds int32, not text"),
        ("n", b"x", "the tensor holds int32, not bytes"),
        ("n", 1 + 2j, "Dtype was expected to be 'int32' instead it was 'complex128'"),
    ],
)
def test_a_value_that_does_not_fit_is_named(ds: lakebed.Dataset, name: str, value: Any, message: str) -> None:
    """By append, extend and update alike, and without advice that would wrap or cut it off."""
    for call in (lambda: ds[name].append(value), lambda: ds[name].extend([value])):
        with pytest.raises(SampleAppendError, match=re.escape(message)) as caught:
            call()
        assert "astype" not in str(caught.value)
    if name == "n":
        with pytest.raises(SampleUpdateError, match=re.escape(message)):
            ds.n[0] = value


def test_a_conversion_is_advised_where_it_changes_no_value(ds: lakebed.Dataset) -> None:
    """Whole floats into integers; the advice works."""
    whole = np.array([1.0, -2.0])
    with pytest.raises(SampleAppendError, match=r"All values fit: convert them with \.astype\('int32'\)"):
        ds.n.append(whole)
    ds.n.append(whole[:1].astype("int32"))


DOORS: dict[str, Callable[[lakebed.Tensor, Any], Any]] = {
    "append": lambda tensor, value: tensor.append(value),
    "extend": lambda tensor, value: tensor.extend([value]),
    "extend by an array": lambda tensor, value: tensor.extend(value[np.newaxis]),
    "extend by Arrow": lambda tensor, value: tensor.extend(pa.array([value.tolist()])),
    "update": lambda tensor, value: tensor.__setitem__(0, value),
    "update of a part": lambda tensor, value: tensor[0].__setitem__(slice(None), value),
}


@pytest.mark.parametrize("how", DOORS)
@pytest.mark.parametrize("htype", ["generic", "embedding", "bbox"])
def test_every_door_takes_the_same_numbers(htype: str, how: str) -> None:
    """Floats are rounded to float32, whole numbers are taken where they stay whole; neither becomes another number."""
    ds = lakebed.empty("mem://doors", overwrite=True)
    ds.create_tensor("x", htype=htype, dtype="float32")
    take = DOORS[how]
    shape = (1, 4) if htype == "bbox" else (4,)
    ds.x.append(np.zeros(shape, "f4"))
    for value in (np.full(shape, 0.1), np.full(shape, 2**24)):
        take(ds.x, value)
        assert ds.x[-1].numpy().tolist() == value.astype("f4").tolist()
    for value, first in ((np.full(shape, 1e300), r"1e\+300"), (np.full(shape, 2**24 + 1), "16777217")):
        with pytest.raises((SampleAppendError, SampleUpdateError), match=f"{first} does not fit float32"):
            take(ds.x, value)
        assert len(ds.x) in (1, 3)


@pytest.mark.parametrize("tiled", [False, True])
def test_a_part_is_no_back_door(tiled: bool) -> None:
    """What a sample does not take, a part of it does not take: nothing wraps or is cut off; masks take 0 and 1."""
    ds = lakebed.empty("mem://parts", overwrite=True)
    options = {"tiling_threshold": 16} if tiled else {}
    ds.create_tensor("n", dtype="int32", **options)
    ds.create_tensor("mask", htype="binary_mask", **options)
    ds.create_tensor("boxes", htype="sequence[bbox]")
    ds.n.append(np.arange(16, dtype="i4"))
    ds.mask.append(np.zeros((8, 8), bool))
    ds.boxes.append([np.zeros((1, 4), "f4")] * 2)
    for value in (1.7, 2**40, np.array([2**40, 1]), np.float64(1.5)):
        with pytest.raises(SampleUpdateError, match="does not fit int32"):
            ds.n[0][:2] = value
    with pytest.raises(SampleUpdateError, match="1e\\+300 does not fit float32"):
        ds.boxes[0, :, 0, 0] = 1e300
    ds.n[0][:2] = np.array([7, 8])
    ds.mask[0][0, :2] = 1
    with pytest.raises(SampleUpdateError, match="2 does not fit bool"):
        ds.mask[0][1] = 2
    assert ds.n[0].numpy()[:3].tolist() == [7, 8, 2]
    assert ds.mask.numpy().sum() == 2
    assert not ds.boxes[0].numpy().any()


def test_files_are_spoken_of_only_where_files_go(ds: lakebed.Dataset) -> None:
    """A path handed to pictures and masks is told how to be read; one handed to numbers is text."""
    for name in ("img", "mask"):
        with pytest.raises(SampleAppendError, match=r"pass lakebed\.read\(path\)"):
            ds[name].append("a.png")
    with pytest.raises(SampleAppendError, match="not text") as caught:
        ds.f.append("a.png")
    assert "read" not in str(caught.value)


def test_a_name_that_is_none_is_answered_with_those_that_are(ds: lakebed.Dataset) -> None:
    """Which was meant, and which there are, wherever a name goes."""
    answer = "did you mean 'img'? Tensors: n, f, flag, img, mask"
    calls = (
        lambda: ds["imgs"],
        lambda: ds.append({"imgs": 1}),
        lambda: ds.extend({"imgs": [1]}),
        lambda: ds.delete_tensor("imgs"),
        lambda: ds.rename_tensor("imgs", "x"),
        lambda: ds.batches(2, ["imgs"]),
        lambda: ds.copy("mem://mistakes-copy", tensors=["imgs"]),
    )
    for call in calls:
        with pytest.raises(
            TensorDoesNotExistError, match=re.escape(f"Tensor 'imgs' does not exist; {answer}")
        ):
            call()
    with pytest.raises(AttributeError, match=re.escape(f"no tensor of that name; {answer}")):
        _ = ds.imgs
    with pytest.raises(AttributeError, match=r"no tensor of that name\. Tensors: n, "):
        _ = ds.entirely_different
    with pytest.raises(AttributeError) as caught:
        _ = ds._repr_latex_
    assert "Tensors" not in str(caught.value)


def test_many_names_are_not_all_told() -> None:
    """Twenty of them; none is said to be none."""
    ds = lakebed.empty("mem://names", overwrite=True)
    with pytest.raises(TensorDoesNotExistError, match="'x' does not exist: there are no tensors yet"):
        _ = ds["x"]
    for i in range(25):
        ds.create_tensor(f"column_{i}", dtype="int8")
    with pytest.raises(
        TensorDoesNotExistError, match=r"did you mean 'column_2\d*'\? .* column_19, and 5 more$"
    ):
        _ = ds["column_2x"]
