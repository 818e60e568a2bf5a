"""Many arrays back to back, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lakebed.native import gather
from unit_tests.effort import examples

DTYPES = st.sampled_from(["<f4", "<i8", "|u1", "|b1", "<c8", "<M8[s]"])


@settings(max_examples=examples(80))
@given(st.data())
def test_arrays_are_put_back_to_back(data: st.DataObject) -> None:
    """Bytes, shapes and sizes are those of the arrays; None is an empty sample."""
    dtype = np.dtype(data.draw(DTYPES))
    ndim = data.draw(st.integers(1, 4))
    array = hnp.arrays(dtype, hnp.array_shapes(min_dims=ndim, max_dims=ndim, min_side=0, max_side=4))
    values: list[Any] = data.draw(st.lists(st.none() | array, min_size=1, max_size=8))
    found = gather.gather_arrays(values, dtype, ndim)
    assert found is not None
    joined, shapes, sizes = found
    assert joined.tobytes() == b"".join(b"" if v is None else v.tobytes() for v in values)
    assert shapes.tolist() == [[0] * ndim if v is None else list(v.shape) for v in values]
    assert sizes.tolist() == [0 if v is None else v.nbytes for v in values]


def test_anything_else_is_left_to_the_caller() -> None:
    """Other dtypes, ranks, layouts and kinds: nothing is copied."""
    good = np.zeros((2, 3), "f4")
    for wrong in (good.astype("f8"), good[0], good[:, ::2], good.T, good.astype(">f4"), [1.0], 5, "x", b""):
        assert gather.gather_arrays([good, wrong], good.dtype, 2) is None
    assert gather.gather_arrays([], good.dtype, 2) is None
    assert gather.gather_arrays([good], good.dtype, 0) is None


def test_arrays_stay_usable() -> None:
    """Their buffers are given back, also after a refusal: they can be resized."""
    values: list[Any] = [np.zeros(4), np.zeros(4)]
    gather.gather_arrays(values, values[0].dtype, 1)
    gather.gather_arrays([values[0], 5], values[0].dtype, 1)
    values[0].resize(8, refcheck=False)
    assert len(values[0]) == 8
