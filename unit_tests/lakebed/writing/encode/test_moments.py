"""Dates and times, and what is no number, as people append them."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    SampleAppendError,
    SampleExtendError,
    TensorMetaInvalidHtype,
    TensorMetaInvalidHtypeOverwriteValue,
)

DAY = date(2020, 1, 2)
NOON = datetime(2020, 1, 2, 12)  # noqa: DTZ001 - has no zone


@pytest.mark.parametrize("dtype", [None, "int32", "int64"])
@pytest.mark.parametrize("value", [DAY, np.datetime64("2020-01-02"), np.datetime64("2020-01-02", "W")])
def test_a_date_is_a_date_whatever_the_width_of_the_tensor(dtype: str | None, value: Any) -> None:
    """One by one and many, in data, tables and queries; in int64 tensors it was read as a number."""
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x", dtype=dtype)
    ds.x.append(value)
    ds.append({"x": value})
    ds.x.extend([value, None])
    ds.x.extend(np.array([value]))
    wanted = value if isinstance(value, date) else value.astype("M8[D]").item()
    assert ds.x.data()["value"] == [wanted, wanted, wanted, None, wanted]
    assert pa.table(ds)["x"].to_pylist() == [wanted, wanted, wanted, None, wanted]
    assert len(ds.query("SELECT * WHERE x > '2019-06-01' AND year(x) > 2018")) == 4


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16", "bool"])
def test_a_tensor_that_can_hold_no_date_refuses_it(dtype: str) -> None:
    """Floats that stand for dates were read back as other dates, or not at all."""
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x", dtype=dtype)
    for value in (DAY, NOON):
        with pytest.raises(SampleAppendError, match=r"create it with dtype='int64', or without a dtype"):
            ds.x.append(value)
    ds.x.append(True)
    assert len(ds.x) == 1


def test_a_time_of_day_is_not_dropped_in_silence() -> None:
    """A moment goes into a tensor of dates at midnight only, and into one of times never."""
    for first in (DAY, time(1, 2)):
        for dtype in (None, "int64"):
            ds = lakebed.empty("mem://dates", overwrite=True)
            ds.create_tensor("x", dtype=dtype).append(first)
            with pytest.raises(SampleAppendError, match="would be lost"):
                ds.x.append(NOON)
            assert ds.x.data()["value"] == [first]
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x").append(DAY)
    ds.x.append(datetime(2020, 1, 3))  # noqa: DTZ001 - has no zone
    assert ds.x.data()["value"] == [DAY, date(2020, 1, 3)]


@pytest.mark.parametrize("unit", ["D", "s", "us"])
def test_a_tensor_of_datetime64_takes_scalars_and_is_read_as_dates_by_arrow(unit: str) -> None:
    """Days, of which Arrow has 32 bits, were read from the wrong bytes."""
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x", dtype=f"datetime64[{unit}]")
    days = np.array(["2020-01-01", "2021-01-01", "1969-12-31"], f"M8[{unit}]")
    ds.x.append(days)
    ds.x.append(np.datetime64("2020-01-01"))
    ds.x.extend(days)
    assert [value.tolist() for value in ds.x.numpy(aslist=True)] == [
        days.tolist(), days[:1].tolist(), days[:1].tolist(), days[1:2].tolist(), days[2:].tolist(),
    ]  # fmt: skip
    assert pa.table(ds)["x"].to_pylist()[0] == days.tolist()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([1, None], "has no place for None; use NaN, or htype='list'"),
        (Decimal("1.5"), "the tensor holds int64, not Decimal"),
        ([1, Decimal("1.5")], "the tensor holds int64, not Decimal"),
        (np.array([np.zeros(2), "x"], object), "the tensor holds int64, not ndarray"),
        (Path("a.jpg"), "the tensor holds int64, not PosixPath"),
        (2**70, "1180591620717411303424 does not fit int64"),
        ([1, 2**70], "1180591620717411303424 does not fit int64"),
    ],
)
def test_what_is_no_number_is_named(value: Any, told: str) -> None:
    """The odd one of a list, and not one that would fit."""
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    with pytest.raises(SampleAppendError, match=told):
        ds.x.append(value)


def test_a_path_among_images_is_told_how_to_read_it() -> None:
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x", htype="image", sample_compression="png")
    with pytest.raises(SampleAppendError, match=r"pass lakebed\.read\(path\)"):
        ds.x.append(Path("a.jpg"))


@pytest.mark.parametrize(
    ("htype", "told"),
    [
        ("string", "did you mean 'text'"),
        ("Image", "did you mean 'image'"),
        ("boxes", "did you mean 'bbox'"),
        ("class_labels", "did you mean 'class_label'"),
        ("float32", "numbers need no htype, but dtype='float32'"),
        ("datetime", "dates and times need no htype"),
        ("zzz", r"does not exist\. Available htypes"),
    ],
)
def test_an_unknown_htype_is_told_with_the_one_that_is_meant(htype: str, told: str) -> None:
    with pytest.raises(TensorMetaInvalidHtype, match=told):
        lakebed.empty("mem://dates", overwrite=True).create_tensor("x", htype=htype)


@pytest.mark.parametrize(
    ("dtype", "told"),
    [(str, "htype='text'"), ("string", "htype='text'"), ("timestamp", "need no dtype"), (object, "json")],
)
def test_an_unknown_dtype_is_told_with_what_is_meant(dtype: Any, told: str) -> None:
    with pytest.raises(TensorMetaInvalidHtypeOverwriteValue, match=told):
        lakebed.empty("mem://dates", overwrite=True).create_tensor("x", dtype=dtype)


@pytest.mark.parametrize("value", [5, np.int64(5), None, "x", {"a": 1}])
def test_one_value_is_no_column(value: Any) -> None:
    """It is told what a column is; "'int' object is not iterable" was not."""
    ds = lakebed.empty("mem://dates", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    with pytest.raises(
        SampleExtendError, match=r"column 'x': a column .* not a single .*append takes one row"
    ):
        ds.extend({"x": value})
    with pytest.raises(
        SampleAppendError, match="a column of samples must be an array or a list, not a single"
    ):
        ds.x.extend(value)
    assert len(ds) == 0
