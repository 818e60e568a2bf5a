"""The first rows of a tensor hold nothing: None, empty lists, or they are left out. Values may follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.versions.state import contradiction
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

PICTURE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)

TENSORS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "sequence": ({"htype": "sequence"}, [[1, 2], [3]]),
    "sequence of int16": ({"htype": "sequence", "dtype": "int16"}, [[1, 2], [3]]),
    "sequence[generic]": ({"htype": "sequence[generic]", "dtype": "int16"}, [[1, 2], [3]]),
    "sequence[image]": (
        {"htype": "sequence[image]", "sample_compression": "png"},
        [[PICTURE] * 2, [PICTURE]],
    ),
    "sequence[text]": ({"htype": "sequence[text]"}, [["a", "b"], ["c"]]),
    "sequence[class_label]": ({"htype": "sequence[class_label]", "class_names": ["a"]}, [["a", "b"], ["a"]]),
    "sequence[list]": ({"htype": "sequence[list]"}, [[[1], ["x"]], [[2]]]),
    "sequence[json]": ({"htype": "sequence[json]"}, [[{"a": 1}, {}], [{"b": 2}]]),
    "sequence[link[image]]": ({"htype": "sequence[link[image]]", "sample_compression": "png"}, []),
    "no htype": ({}, [1, 2]),
    "int16": ({"dtype": "int16"}, [1, 2]),
    "no htype, lz4": ({"sample_compression": "lz4"}, [[1, 2], [3]]),
    "text": ({"htype": "text"}, ["a", "b"]),
    "image": ({"htype": "image", "sample_compression": "png"}, [PICTURE, PICTURE]),
}

FIRST: dict[str, Callable[[lakebed.Dataset], object]] = {
    "append(None)": lambda ds: [ds.t.append(None), ds.x.append(1)],
    "append([])": lambda ds: [ds.t.append("" if ds.t.htype == "text" else []), ds.x.append(1)],
    "extend of None": lambda ds: [ds.t.extend([None, None]), ds.x.extend([1, 2])],
    "extend of None in a tuple": lambda ds: [ds.t.extend((None, None)), ds.x.extend([1, 2])],
    "extend of None in an array": lambda ds: [ds.t.extend(np.array([None, None])), ds.x.extend([1, 2])],
    "extend, leaving out errors": lambda ds: [ds.t.extend([None], ignore_errors=True), ds.x.append(1)],
    "row of None": lambda ds: ds.append({"x": 1, "t": None}),
    "row without": lambda ds: ds.append({"x": 1}, append_empty=True),
    "rows of None": lambda ds: ds.extend({"x": [1, 2], "t": [None, None]}),
    "rows of None in a tuple": lambda ds: ds.extend({"x": [1, 2], "t": (None, None)}),
    "rows without": lambda ds: ds.extend({"x": [1, 2]}, append_empty=True),
    "rows of None, leaving out errors": lambda ds: ds.extend(
        {"x": [1, 2], "t": [None] * 2}, ignore_errors=True
    ),
    "rows without, leaving out errors": lambda ds: ds.extend(
        {"x": [1]}, append_empty=True, ignore_errors=True
    ),
    "rows of one tensor": lambda ds: [ds.extend({"t": [None, None]}, skip_ok=True), ds.x.extend([1, 2])],
    "a gap": lambda ds: [ds.t.__setitem__(1, None), ds.x.extend([1, 2])],
}


def items(tensor: lakebed.Tensor, row: int) -> list[Any]:
    """What a row holds, as lists."""
    found = tensor[row].numpy(aslist=True)
    return (
        [np.asarray(item).tolist() for item in found] if isinstance(found, list) else found.ravel().tolist()
    )


def expected(value: Any, *, in_sequence: bool) -> list[Any]:
    """What a row of that value holds."""
    if not in_sequence:
        return np.ravel(value).tolist()
    return [
        np.atleast_1d(np.array(item, object) if isinstance(item, dict) else item).tolist() for item in value
    ]


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("kind", TENSORS)
def test_rows_that_hold_nothing_come_first(kind: str, first: str) -> None:
    """All tensors stay in step, the rows read as empty, and rows with values may follow, at once or after a flush."""
    settings, values = TENSORS[kind]
    in_sequence = kind.startswith("sequence")
    number = list(FIRST).index(first) + list(TENSORS).index(kind)
    for reopened in (number % 2 == 0,) if kind != "no htype" else (False, True):
        ds = create_on(new_memory())
        ds.create_tensor("x", dtype="int8")
        ds.create_tensor("t", **settings)
        FIRST[first](ds)
        count = len(ds.x)
        assert len(ds.t) == count > 0
        if reopened:
            ds.flush()
            ds = open_on(ds._session.storage)
        if in_sequence:
            assert [items(ds.t, row) for row in range(count)] == [[]] * count
        ds.extend({"x": [7] * len(values), "t": values})
        ds.flush()
        again = open_on(ds._session.storage)
        assert contradiction(again._session.snapshot) is None
        assert len(again.t) == len(again.x) == len(again) == count + len(values)
        if kind not in ("sequence[class_label]", "sequence[link[image]]"):
            found = [items(again.t, count + i) for i in range(len(values))]
            assert found == [expected(value, in_sequence=in_sequence) for value in values]
