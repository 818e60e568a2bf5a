"""Polygon samples (format.md 5.3)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lakebed.codecs.block import Block
from lakebed.errors import (
    EmptyPolygonError,
    FormatError,
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
)
from lakebed.htypes.polygon import Polygon, Polygons, decode_polygons, encode_polygons
from unit_tests.effort import examples

F4 = np.dtype("<f4")


def stored(block: Block) -> list[tuple[bytes, tuple[int, ...]]]:
    """Bytes and shape of every sample."""
    at = block.offsets().tolist()
    shapes = block.shape_array(3).tolist()
    return [
        (bytes(block.data[a:b]), tuple(s)) for (a, b), s in zip(itertools.pairwise(at), shapes, strict=True)
    ]


@st.composite
def samples(draw: st.DrawFn) -> tuple[np.dtype[Any], list[list[np.ndarray[Any, Any]]]]:
    """Any number of samples, each with any number of polygons; points of a sample agree in their axes."""
    dtype = np.dtype(draw(st.sampled_from(["<f4", "<f8", "<i4", "<u2"])))

    def sample() -> list[np.ndarray[Any, Any]]:
        axes = draw(st.integers(1, 4))
        count = draw(st.integers(0, 4))
        return [draw(hnp.arrays(dtype, (draw(st.integers(1, 6)), axes))) for _ in range(count)]

    return dtype, [sample() for _ in range(draw(st.integers(0, 4)))]


@settings(max_examples=examples(80))
@given(samples())
def test_polygons_come_back(given_samples: tuple[np.dtype[Any], list[list[np.ndarray[Any, Any]]]]) -> None:
    """Every point comes back, and the shape says how many polygons, points and axes there are."""
    dtype, values = given_samples
    found = stored(encode_polygons(values, dtype))
    assert len(found) == len(values)
    for (data, shape), polygons in zip(found, values, strict=True):
        back = decode_polygons(data, shape, dtype)
        assert len(back) == len(polygons)
        assert all(
            a.tobytes() == b.tobytes() and a.shape == b.shape for a, b in zip(back, polygons, strict=True)
        )
        most = max(map(len, polygons), default=0)
        assert shape == ((len(polygons), most, polygons[0].shape[1]) if polygons else (0, 0, 0))


def test_the_bytes_are_those_of_the_format() -> None:
    """Two polygons of three and four points: counts, then points."""
    value = [np.zeros((3, 2), "f4"), np.ones((4, 2), "f4")]
    ((data, shape),) = stored(encode_polygons([value], F4))
    assert data[:6] == bytes.fromhex("0200 0300 0400")
    assert data[6:] == value[0].tobytes() + value[1].tobytes()
    assert shape == (2, 4, 2)


def test_none_and_no_polygons_are_the_same() -> None:
    """Both are no bytes and no extent."""
    assert stored(encode_polygons([None, [], np.zeros((0, 3, 2))], F4)) == [(b"", (0, 0, 0))] * 3


def test_lists_tuples_and_arrays_mean_the_same() -> None:
    """Points may come in any form; numbers are converted to the tensor's dtype."""
    forms: list[Any] = [
        [[(1, 2), (3, 4)]], (((1.0, 2), (3, 4)),), np.array([[[1, 2], [3, 4]]]), Polygons([[[1, 2], [3, 4]]], "int32"),
    ]  # fmt: skip
    assert len({data for data, _ in stored(encode_polygons(forms, F4))}) == 1


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([[]], EmptyPolygonError),
        ([np.zeros((0, 2))], EmptyPolygonError),
        ([None], EmptyPolygonError),
        ([np.zeros((3, 3)), np.zeros((2, 2))], TensorInvalidSampleShapeError),
        (np.zeros((3, 2)), TensorInvalidSampleShapeError),
        ([np.zeros((70_000, 2), "f4")], TensorInvalidSampleShapeError),
        ([[[1, 2, 3], [4, 5]]], TensorDtypeMismatchError),
        ([[["a", "b"]]], TensorDtypeMismatchError),
        ("a", TensorDtypeMismatchError),
        (5, TensorDtypeMismatchError),
        ({"a": 1}, TensorDtypeMismatchError),
    ],
    ids=str,
)
def test_what_is_no_polygon_is_refused(value: Any, error: type[Exception]) -> None:
    """The error says what was found."""
    with pytest.raises(error):
        encode_polygons([value], F4)


def test_damaged_polygons_are_reported() -> None:
    """No byte beyond the sample is read, and nothing is made up."""
    ((data, shape),) = stored(encode_polygons([[np.ones((3, 2), "f4")]], F4))
    for cut in range(1, len(data)):
        with pytest.raises(FormatError):
            decode_polygons(data[:cut], shape, F4)
    for damaged in (data + b"\0", b"\xff\xff" + data[2:], data[:2] + b"\xff\xff" + data[4:]):
        with pytest.raises(FormatError):
            decode_polygons(damaged, shape, F4)
    with pytest.raises(FormatError):
        decode_polygons(data, (1, 3, 0), F4)
    with pytest.raises(FormatError):
        decode_polygons(data, (1,), F4)


def test_polygons_behave_like_a_sequence() -> None:
    """Length, items, slices, iteration, copies and other dtypes."""
    polygons = Polygons([[[1, 2], [3, 4]], [[5, 6], [7, 8], [9, 10]]])
    assert (len(polygons), polygons.shape, polygons.ndim, polygons.dtype) == (2, (2, 3, 2), 2, F4)
    first = polygons[0]
    assert isinstance(first, Polygon)
    assert (len(first), first.shape, first.ndim) == (2, (2, 2), 2)
    assert np.array(first).tolist() == [[1, 2], [3, 4]]
    assert np.asarray(first, dtype="i8").dtype == np.int64
    assert first.tobytes() == np.array([[1, 2], [3, 4]], "f4").tobytes()
    assert [p.shape for p in polygons] == [(2, 2), (3, 2)]
    assert len(polygons[1:]) == 1
    assert polygons.astype("int32").numpy()[1].tolist() == [[5, 6], [7, 8], [9, 10]]
    assert polygons.copy().tobytes() == polygons.tobytes()
    again = Polygons.frombuffer(bytes(polygons.tobytes()), "float32", 2)
    assert again.tobytes() == polygons.tobytes()
    assert bytes(Polygons([]).tobytes()) == b""
    with pytest.raises(EmptyPolygonError):
        Polygon([])
