"""Vectors of an embedding are of one length; of several only where Deep Lake 3.x stored them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SampleAppendError, SampleExtendError, SampleUpdateError, UnusualSampleWarning

NUMBER = itertools.count()


def made(**options: Any) -> lakebed.Dataset:
    ds = lakebed.empty(f"mem://lengths-{next(NUMBER)}")
    ds.create_tensor("e", **{"htype": "embedding", **options})
    ds.create_tensor("n", dtype="int32")
    return ds


def lengths(ds: lakebed.Dataset) -> list[int]:
    return [len(vector) for vector in ds.e.numpy(aslist=True)]


def ones(*counts: int) -> list[Any]:
    return [np.ones(count, np.float32) for count in counts]


WAYS: dict[str, Callable[[lakebed.Dataset], object]] = {
    "append": lambda ds: ds.e.append(ones(2)[0]),
    "list": lambda ds: ds.e.append([1.0, 2.0]),
    "array": lambda ds: ds.e.extend(np.ones((2, 2), np.float32)),
    "doubles": lambda ds: ds.e.extend(np.ones((2, 2))),
    "among others": lambda ds: ds.e.extend(ones(3, 3, 2)),
    "Arrow": lambda ds: ds.e.extend(pa.array([[1.0, 2.0]], pa.list_(pa.float32()))),
    "Arrow of one length": lambda ds: ds.e.extend(pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))),
    "row": lambda ds: ds.append({"e": ones(2)[0], "n": 1}),
    "rows": lambda ds: ds.extend({"e": ones(3, 2), "n": [1, 2]}),
    "table": lambda ds: ds.extend(pa.table({"e": [[1.0, 2.0]], "n": [1]})),
    "singly": lambda ds: ds.e.extend(ones(3, 2), progressbar=True),
    "behind the last": lambda ds: ds.e.__setitem__(len(ds.e), ones(2)[0]),
    "another tensor": lambda ds: ds.e.extend(other().e),
}


def other() -> lakebed.Dataset:
    ds = made()
    ds.e.extend(ones(2, 2))
    return ds


@pytest.mark.parametrize(
    ("before", "compression"), [(ones(3, 3), None), ([None, *ones(3)], "lz4")], ids=["whole", "nulls"]
)
@pytest.mark.parametrize("way", WAYS)
def test_another_length_is_refused_by_every_way(way: str, compression: str | None, before: list[Any]) -> None:
    """With both lengths, and nothing is added; the next vector that fits is taken."""
    ds = made(sample_compression=compression)
    for vector in before:
        ds.append({"e": vector, "n": 0})
    with pytest.raises(
        (SampleAppendError, SampleExtendError, SampleUpdateError), match="have 3 numbers, and a sample has 2"
    ):
        WAYS[way](ds)
    assert (len(ds.e), len(ds.n)) == (len(before), len(before))
    ds.append({"e": ones(3)[0], "n": 1})
    ds.append({"e": None, "n": 1})
    ds.append({"e": ones(0)[0], "n": 1})
    known = [0 if vector is None else 3 for vector in before]
    assert lengths(ds) == [*known, 3, 0, 0]


def test_the_first_vector_says_the_length() -> None:
    """One by one, after empty ones, and in one call."""
    ds = made()
    for vector in (None, *ones(0), None, *ones(4, 4, 4)):
        ds.e.append(vector)
    with pytest.raises(SampleAppendError, match="have 4 numbers, and a sample has 5"):
        ds.e.append(ones(5)[0])
    assert lengths(ds) == [0, 0, 0, 4, 4, 4]
    with pytest.raises(SampleAppendError, match="have 2 numbers, and a sample has 3"):
        made().e.extend(ones(0, 2, 3))
    ds.e.extend(ones(4, 5, 4), ignore_errors=True)
    assert lengths(ds) == [0, 0, 0, 4, 4, 4, 4, 4]


def test_what_3x_stored_is_read_and_copied_and_grows(tmp_path: Any) -> None:
    ds = made()
    ds.e.extend(ones(3, 3))
    with pytest.warns(
        UnusualSampleWarning,
        match="vectors of 3 numbers, and a sample has 2: they cannot be searched together",
    ):
        ds.e[1] = ones(2)[0]
    ds.commit("several lengths")
    assert lengths(ds) == [3, 2]
    with pytest.warns(UnusualSampleWarning, match="vectors of several lengths, and a sample has 5"):
        ds.e.append(ones(5)[0])
    assert lengths(ds) == [3, 2, 5]
    assert lengths(ds.copy(tmp_path / "flat", progressbar=False)) == [3, 2, 5]
    assert lengths(lakebed.deepcopy(ds, tmp_path / "deep", progressbar=False)) == [3, 2, 5]
    ds.pop(0)
    assert lengths(ds) == [2, 5]


def test_other_tensors_take_any_length() -> None:
    ds = made(htype="generic", dtype="float32")
    ds.e.extend(ones(3, 2))
    ds.e.append(ones(7)[0])
    assert lengths(ds) == [3, 2, 7]
