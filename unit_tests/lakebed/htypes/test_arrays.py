"""Arrays into samples: dtypes, shapes and what is refused (format.md 5.3; facts tested on 3.9.52)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from lakebed.errors import (
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
    TensorMetaInvalidHtypeOverwriteValue,
)
from lakebed.htypes.arrays import encode_samples
from lakebed.htypes.dtypes import array_dtype, cast
from unit_tests.effort import examples

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
Given = tuple[list[int] | tuple[int, ...], bytes]


def encode(
    values: Any, dtype: str | None = None, ndim: int | None = None
) -> list[tuple[tuple[int, ...], bytes]]:
    """Shape and bytes of each sample."""
    block, _ = encode_samples(values, None if dtype is None else np.dtype(dtype), ndim)
    assert block.ndim is not None
    at, shapes = block.offsets().tolist(), block.shape_array(block.ndim).tolist()
    return [(tuple(s), bytes(block.data[a:b])) for s, a, b in zip(shapes, at, at[1:], strict=False)]


def as_little(array: NDArray[Any]) -> bytes:
    """The bytes that the format stores."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


@settings(max_examples=examples(60))
@given(
    hnp.arrays(
        st.builds(
            np.dtype.newbyteorder, st.sampled_from(DTYPES + FLOATS).map(np.dtype), st.sampled_from("<>")
        ),
        hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
    ),
    st.booleans(),
)
def test_stacked_and_single_samples_are_stored_alike(values: NDArray[Any], fortran: bool) -> None:
    """C-order little-endian bytes of any dtype and byte order; scalars become shape (1,)."""
    if fortran:
        values = np.asfortranarray(values)
    expected = [(v.shape or (1,), as_little(v)) for v in values]
    assert encode(values) == expected
    if len(values):
        assert encode(list(values)) == expected


def test_ragged_samples_and_none() -> None:
    """Samples differ in shape; None has no bytes and extents of zero; zero-size arrays keep their shape."""
    values = [np.ones((2, 3), "i2"), None, np.zeros((0, 4), "i2"), np.ones((1, 1), "i2")]
    assert encode(values) == [((2, 3), b"\1\0" * 6), ((0, 0), b""), ((0, 4), b""), ((1, 1), b"\1\0")]


def test_none_before_any_rank_has_no_shape() -> None:
    """Nothing but None leaves the rank and the dtype open."""
    block, dtype = encode_samples([None, None], None, None)
    assert (block.count, block.nbytes, block.shapes, dtype) == (2, 0, None, None)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([1, 2, 3], None, "int64"),
        ([True, False], None, "int64"),
        ([np.array([True, False])], None, "bool"),
        ([1.5, 2], None, "float64"),
        ([[1, 2], [3, 4]], None, "int64"),
        ([np.float16(1), np.float16(2)], None, "float16"),
        ([None, np.int8(1)], None, "int8"),
    ],
)
def test_the_first_sample_decides_an_open_dtype(values: list[Any], dtype: None, expected: str) -> None:
    """Python numbers are what NumPy makes of them, arrays keep their dtype."""
    assert encode_samples(values, dtype, None)[1] == np.dtype(expected)


ACCEPTED = [
    ("uint8", [5]),
    ("uint8", np.array([5, 255], "int64")),
    ("int8", np.array([-128, 127], "int64")),
    ("int64", np.array([0, 2**63 - 1], "uint64")),
    ("float32", [0.1, 2.5]),
    ("float16", [1.5]),
    ("float32", np.array([0.1, np.nan, -np.inf])),
    ("float16", np.array([0.1, -65504], "float32")),
    ("float32", [1, 2]),
    ("float32", np.array([1, 2], "int64")),
    ("float64", np.array([0.5], "float32")),
    ("int32", [True, False]),
    ("int32", np.array([True])),
    ("float64", np.array([True])),
    ("uint8", np.array([300, 4], "int64")[1:]),
    ("uint8", np.array([], "int64")),
    ("float32", [2**24, -(2**24)]),
    ("float64", np.array([2**53 + 1])),
    ("float32", [float("inf"), -1e30]),
    ("bool", np.array([True, False])),
]


@pytest.mark.parametrize(("dtype", "values"), ACCEPTED)
def test_values_that_fit_are_cast(dtype: str, values: Any) -> None:
    """Integers fit if each value does, floats are rounded to any float, bools are numbers."""
    block, found = encode_samples(values, np.dtype(dtype), None)
    assert found == np.dtype(dtype)
    assert bytes(block.data) == np.asarray(values).astype(dtype).tobytes()


@pytest.mark.parametrize(
    "one", [0.1, np.float64(0.1), np.array(0.1), np.array([0.1]), np.array([[0.1]]), [0.1]]
)
def test_one_number_is_as_good_as_many(one: Any) -> None:
    """A float64 goes into a float32 tensor, alone, as in 3.9.52, or among others; what becomes infinite does not."""
    block, _ = encode_samples([one], np.dtype("float32"), None)
    assert bytes(block.data) == np.float32(0.1).tobytes()
    block, _ = encode_samples([np.array([0.1, 0.2])], np.dtype("float32"), None)
    assert bytes(block.data) == np.float32([0.1, 0.2]).tobytes()
    with pytest.raises(TensorDtypeMismatchError, match=r"1e\+300 does not fit float32"):
        encode_samples([np.array([0.1, 1e300])], np.dtype("float32"), None)


REFUSED = [
    ("uint8", [300]),
    ("uint8", [-1]),
    ("uint8", np.array([300], "int64")),
    ("uint8", np.array([-1], "int8")),
    ("int64", np.array([2**63], "uint64")),
    ("float32", [1e300]),
    ("float32", np.array([1e300])),
    ("float16", [7e4, float("inf")]),
    ("float16", [70000]),
    ("float32", np.array([2**24 + 1])),
    ("float32", np.array([-(2**63)])),
    ("int32", [1.5]),
    ("int32", [1.0]),
    ("int64", np.array([1.0])),
    ("bool", [1]),
    ("bool", np.array([1], "uint8")),
    ("bool", [0.0]),
    ("uint8", ["a"]),
    ("uint8", np.array(["a"])),
    ("int64", [2**63]),
    ("int64", [2**64]),
    ("float64", [1j]),
    ("float64", np.array([1j])),
    ("int64", np.array(["2020-01-01"], "datetime64[s]")),
    ("int64", [{}]),
    ("int64", [b"x"]),
]


@pytest.mark.parametrize(("dtype", "values"), REFUSED)
def test_values_that_do_not_fit_are_refused(dtype: str, values: Any) -> None:
    """No value is stored that would read back as another one."""
    with pytest.raises(TensorDtypeMismatchError):
        encode_samples(values, np.dtype(dtype), None)


@settings(max_examples=examples(60))
@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=5), st.sampled_from(DTYPES[1:]))
def test_integers_are_stored_exactly_or_not_at_all(values: list[int], dtype: str) -> None:
    """Python integers of any size come back as they are, or are refused."""
    bounds = np.iinfo(dtype)
    fit = all(bounds.min <= v <= bounds.max for v in values)
    try:
        block, _ = encode_samples(values, np.dtype(dtype), None)
    except TensorDtypeMismatchError:
        assert not fit
    else:
        assert fit
        assert np.frombuffer(block.data, dtype).tolist() == values


@pytest.mark.parametrize("dtype", [None, "uint64"])
@pytest.mark.parametrize("values", [[1, 2**63 + 1], [[1, 2**63 + 1]]], ids=str)
def test_small_and_huge_integers_together_are_not_rounded(values: list[Any], dtype: str | None) -> None:
    """NumPy makes floats of such lists; here they stay the integers that they are."""
    block, found = encode_samples(values, None if dtype is None else np.dtype(dtype), None)
    assert found == np.dtype("uint64")
    assert np.frombuffer(block.data, "<u8").tolist() == [1, 2**63 + 1]


@pytest.mark.parametrize("values", [[-1, 2**63], [[-1, 2**63]], [1, 2**64]], ids=str)
def test_integers_without_a_common_dtype_are_refused(values: list[Any]) -> None:
    """Nothing is rounded to make them fit."""
    with pytest.raises(TensorDtypeMismatchError):
        encode_samples(values, None, None)


@pytest.mark.parametrize(
    ("values", "ndim"),
    [
        ([np.zeros((2, 2)), np.zeros(2)], None),
        (np.zeros((3, 2)), 2),
        ([np.zeros((2, 2))], 1),
        ([1, [2, 3]], 2),
        ([[[1, 2], [3]]], None),
    ],
)
def test_one_tensor_has_one_rank(values: Any, ndim: int | None) -> None:
    """Samples of another number of axes, and nested lists that are no array, are refused."""
    with pytest.raises(TensorInvalidSampleShapeError):
        encode_samples(values, np.dtype("float64"), ndim)


def test_lists_of_numbers_and_of_lists() -> None:
    """A number is one sample of shape (1,), an inner list one sample of its length."""
    assert encode([1, 2], "int16") == [((1,), b"\1\0"), ((1,), b"\2\0")]
    assert encode([[1, 2], [3]], "int16") == [((2,), b"\1\0\2\0"), ((1,), b"\3\0")]
    assert encode([[], [3]], "int16") == [((0,), b""), ((1,), b"\3\0")]


def test_dtypes_that_can_be_stored() -> None:
    """Numbers, dates and spans of time of any byte order; nothing else."""
    assert [array_dtype(d).str for d in ("bool", ">i4", float, np.uint8)] == ["|b1", "<i4", "<f8", "|u1"]
    assert [array_dtype(d).str for d in (">c8", "M8[s]", ">m8[ns]")] == ["<c8", "<M8[s]", "<m8[ns]"]
    for wrong in ("S3", "U3", "V8", "O", "no such", object, str):
        with pytest.raises(TensorMetaInvalidHtypeOverwriteValue):
            array_dtype(wrong)


def test_cast_does_not_copy_what_fits() -> None:
    """Large columns of the right dtype are passed on as they are."""
    values = np.arange(5, dtype="<i4")
    assert cast(values, np.dtype("<i4"), literal=False) is values
    assert cast(values, None, literal=False) is values
