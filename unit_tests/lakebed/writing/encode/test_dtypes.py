"""Arrays of another dtype than their tensor has are converted or refused, whatever their size."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import TensorDtypeMismatchError
from lakebed.writing.encode.arrays import _LARGE
from lakebed.writing.encode.spec import with_dtype

CODES = ["bool", "uint8", "int16", "int32", "int64", "float32", "float64", "uint32"]
EDGE = _LARGE // 8


@pytest.mark.parametrize("size", [1, EDGE - 1, EDGE, 2 * EDGE])
@pytest.mark.parametrize("way", ["transform", "extend", "append"])
def test_values_are_those_that_were_given(way: str, size: int) -> None:
    for of_tensor, of_values in itertools.product(CODES, CODES):
        ds = lakebed.empty("mem://dtypes", overwrite=True)
        ds.create_tensor("x", dtype=of_tensor)
        values: list[np.ndarray[Any, Any]] = [np.full((1, size), i, of_values) for i in range(2)]
        try:
            if way == "transform":
                ds.x.extend(values)
                lakebed.compute(_hand_out)(values=values).eval([0, 1], ds, progressbar=False)
                ds.pop([0, 1])
            elif way == "extend":
                ds.extend({"x": values})
            else:
                for value in values:
                    ds.append({"x": value})
        except (lakebed.errors.LakebedError, TypeError):
            assert not np.can_cast(of_values, of_tensor, "safe")
            continue
        for i in range(2):
            found = ds.x[i].numpy()
            assert found.shape == (1, size)
            assert (found == i).all()


def _hand_out(i: int, out: Any, values: list[np.ndarray[Any, Any]]) -> None:
    out.x.append(values[i])


def test_bytes_of_another_dtype_never_get_a_tensors_metadata() -> None:
    meta = TensorMeta(htype="generic", dtype="float64")
    assert with_dtype(meta, np.dtype("float64")) is meta
    with pytest.raises(TensorDtypeMismatchError, match=r"int64.*float64"):
        with_dtype(meta, np.dtype("int64"))
