"""Arrays cut from one buffer, against slicing and reshaping."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.native import views

DTYPES = ["u1", "<i2", "<u4", "<f8", "<c8", "?"]


def u32(shapes: Any, axes: int = 1) -> Any:
    return np.array(shapes, dtype=np.uint32).reshape(len(shapes), axes)


@given(
    st.sampled_from(DTYPES),
    st.integers(0, 3).flatmap(
        lambda axes: st.lists(st.lists(st.integers(0, 4), min_size=axes, max_size=axes), max_size=20).map(
            lambda shapes: (axes, shapes)
        )
    ),
)
def test_views_equal_slices(name: str, case: tuple[int, list[list[int]]]) -> None:
    """Values, shapes, dtypes and flags are those of slicing the buffer; writing reaches the buffer."""
    axes, shapes = case
    dtype = np.dtype(name)
    sizes = [int(np.prod(shape)) * dtype.itemsize for shape in shapes]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    base = (np.arange(int(offsets[-1])) % 2).astype(np.uint8)
    found = views.cut(base, dtype, offsets, u32(shapes, axes))
    assert len(found) == len(shapes)
    for view, shape, start, stop in zip(found, shapes, offsets, offsets[1:], strict=False):
        expected = base[start:stop].view(dtype).reshape(shape)
        assert (view.dtype, view.shape) == (expected.dtype, expected.shape)
        assert view.strides == expected.strides or not view.size
        assert np.array_equal(view, expected)
        assert view.flags.writeable
        assert view.flags.c_contiguous
        assert view.flags.aligned
        view[...] = 1
        assert np.array_equal(base[start:stop].view(dtype).reshape(shape), view)


def test_views_hold_their_buffer() -> None:
    """The buffer lives as long as a view, and no longer; nothing else is leaked or freed too often."""
    dtype = np.dtype("<f4")
    base = np.arange(400_000, dtype="<f4").view(np.uint8)
    offsets = np.arange(0, base.nbytes + 1, 16, dtype=np.int64)
    shapes = u32([[2, 2]] * (len(offsets) - 1), 2)
    held = sys.getrefcount(dtype)
    buffer = base.copy()
    before = sys.getrefcount(buffer)
    found = views.cut(buffer, dtype, offsets, shapes)
    assert sys.getrefcount(buffer) == before + len(found)
    last = found[-1]
    del found
    gc.collect()
    assert sys.getrefcount(buffer) == before + 1
    del buffer
    assert last.tolist() == [[399_996, 399_997], [399_998, 399_999]]
    del last
    assert sys.getrefcount(dtype) <= held + 1


@pytest.mark.parametrize(
    ("offsets", "shapes"),
    [
        ([0, 8, 4], [1, 1]),
        ([0, 4, 20], [1, 4]),
        ([-4, 0], [1]),
        ([0, 4], [2]),
        ([0, 6], [1]),
        ([2, 6], [1]),
        ([0, 4], [1, 1]),
        ([0, 0], [0xFFFFFFFF]),
        ([0, 4], [0]),
        ([], []),
    ],
)
def test_bounds_are_checked(offsets: list[int], shapes: list[int]) -> None:
    """Offsets outside the buffer, out of order, unaligned, or that do not fill the shapes raise ValueError."""
    with pytest.raises(ValueError, match=r"."):
        views.cut(np.zeros(16, np.uint8), np.dtype("<f4"), np.array(offsets, np.int64), u32(shapes))


def test_products_of_extents_do_not_wrap() -> None:
    """Extents whose product wraps around 64 bits to the right number are refused; one zero makes them fine."""
    shape = u32([[0x80000000, 0x80000000, 4]], 3)
    with pytest.raises(ValueError, match="do not fill"):
        views.cut(np.zeros(0, np.uint8), np.dtype("u1"), np.zeros(2, np.int64), shape)
    (empty,) = views.cut(np.zeros(0, np.uint8), np.dtype("u1"), np.zeros(2, np.int64), u32([[7, 0, 3]], 3))
    assert empty.shape == (7, 0, 3)


@pytest.mark.parametrize("base", [b"1234", np.zeros(4, np.uint16), np.zeros((2, 2), np.uint8)])
def test_the_buffer_is_bytes(base: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        views.cut(base, np.dtype("u1"), np.array([0, 1], np.int64), u32([1]))
    with pytest.raises(TypeError):
        views.cut(np.zeros(8, np.uint8), np.dtype("O"), np.array([0, 8], np.int64), u32([1]))
    read_only = np.frombuffer(b"12345678", np.uint8)
    with pytest.raises(ValueError, match=r"."):
        views.cut(read_only, np.dtype("u1"), np.array([0, 1], np.int64), u32([1]))
