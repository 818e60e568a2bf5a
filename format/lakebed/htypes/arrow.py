"""Arrow arrays -> encoded samples: bytes go from Arrow's buffers into blocks without a Python object per row."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.errors import InvalidInputError, TensorDtypeMismatchError, TensorInvalidSampleShapeError
from lakebed.htypes.arrays import block_of_array
from lakebed.htypes.base import Storing
from lakebed.htypes.documents import encode_json, encode_list, plain_value
from lakebed.htypes.dtypes import cast
from lakebed.htypes.text import encode_text
from lakebed.native import chunks as native


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """Encoded samples of an Arrow array.

    Parameters
    ----------
    nulls
        Mask of the nulls that need a record of their own because their bytes look like a value; None if there are none.
    dtype
        Dtype of array samples.
    logical
        Meaning of the numbers (``str`` of the Arrow type), if they are more than numbers.
    """

    block: Block
    nulls: NDArray[np.bool_] | None
    dtype: np.dtype[Any] | None = None
    logical: str | None = None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type without views: `large_binary` for `binary_view` and so on, also inside other types.

    Some programs keep texts, bytes and lists in memory as views (polars, DuckDB); their meaning is the same.
    """
    if kind == pa.string_view():
        return pa.large_string()
    if kind == pa.binary_view():
        return pa.large_binary()
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field), kind.keys_sorted)
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    return kind


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def without_views(array: pa.Array) -> pa.Array:
    """Return an array whose type has no views; the same array if it has none."""
    kind = plain_type(array.type)
    if kind == array.type:
        return array
    if "list_view" not in str(array.type):
        return array.cast(kind)
    # Arrow's own cast of views of lists writes a wrong last offset (PyArrow 26), which loses the last list.
    if not (pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)):
        return pa.array(array.to_pylist(), kind)
    import pyarrow.compute as pc

    counted, nulls = pc.list_value_length(array), null_rows(array)
    lengths = _plain_values(counted).astype(np.int64)
    if nulls is not None:
        lengths[nulls] = 0
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
    mask = None if nulls is None else pa.array(nulls)
    return pa.LargeListArray.from_arrays(ends, without_views(array.flatten()), type=kind, mask=mask)


def storing_of(array: pa.Array) -> Storing:
    """Return how a tensor without an htype would store this array."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return Storing.JSON if kind.extension_name == "arrow.json" else storing_of(array.storage)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return Storing.TEXT
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_union(kind):
        return Storing.JSON
    return Storing.ARRAY


def encode_arrow(
    array: pa.Array,
    storing: Storing,
    dtype: np.dtype[Any] | None,
    ndim: int | None,
    axes: tuple[int, ...] = (),
) -> ArrowColumn:
    """Encode one Arrow array for a tensor that stores values as ``storing``.

    Parameters
    ----------
    axes
        Axes of an empty list after the first; with (), the sizes of fixed-size lists, and 0 for other lists.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError, InvalidInputError
        If the array's type or a value does not fit the tensor.
    """
    trusted_json = False
    if isinstance(array.type, pa.BaseExtensionType):
        trusted_json = array.type.extension_name == "arrow.json"
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if storing is Storing.TEXT:
        return _text(array)
    if storing is Storing.JSON:
        return _json(array, trusted=trusted_json)
    if storing is Storing.LIST:
        return ArrowColumn(encode_list(plain_value(array.to_pylist())), null_rows(array))
    if _is_list(array.type):
        return _lists(array, dtype, ndim, axes)
    return _numbers(array, dtype, ndim)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are texts, short or long."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def null_rows(array: pa.Array) -> NDArray[np.bool_] | None:
    """Return a mask that is True for null rows; None if no row is null.

    Arrow's own conversions import pandas if it is installed, which takes a second; reading the bitmap does not.
    """
    if array.null_count == 0:
        return None
    validity = array.buffers()[0]
    if validity is None:
        return np.ones(len(array), dtype=np.bool_)
    bits = np.unpackbits(
        np.frombuffer(validity, np.uint8), count=array.offset + len(array), bitorder="little"
    )
    mask: NDArray[np.bool_] = bits[array.offset :] == 0
    return mask


def is_binary(array: pa.Array) -> bool:
    """Return whether an array holds bytes."""
    return bool(pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type))


def byte_ranges(array: pa.Array) -> tuple[memoryview, NDArray[Any], NDArray[np.bool_] | None]:
    """Return the memory of a binary array, the start of each value and the end of the last one, and a mask of nulls."""
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    data_buffer, stop = array.buffers()[2], array.offset + len(array) + 1
    data = memoryview(b"") if data_buffer is None else memoryview(data_buffer).cast("B")
    if not len(array):
        return data, np.zeros(1, width), None
    return data, np.frombuffer(array.buffers()[1], dtype=width)[array.offset : stop], null_rows(array)


def bytes_block(array: pa.Array) -> tuple[Block, NDArray[np.bool_] | None]:
    """Return a binary array as samples of uint8 over the same memory, and the mask of its nulls, None without nulls."""
    count = len(array)
    if not count:
        return Block(memoryview(b""), 0, 0, (0,)), None
    data, bounds, nulls = byte_ranges(array)
    sizes = np.diff(bounds).astype(np.uint32)
    if nulls is None:
        return Block(data[int(bounds[0]) : int(bounds[-1])], count, sizes, sizes.reshape(-1, 1)), None
    ends = bounds.tolist()
    views = [b"" if is_null else data[ends[i] : ends[i + 1]] for i, is_null in enumerate(nulls.tolist())]
    return Block.of_buffers(views, np.where(nulls, np.uint32(0), sizes).reshape(-1, 1)), nulls


def _text(array: pa.Array) -> ArrowColumn:
    nulls = null_rows(array)
    if pa.types.is_null(array.type):
        return ArrowColumn(encode_text([None] * len(array)), nulls)
    if not is_text(array.type):
        if pa.types.is_binary(array.type) or pa.types.is_nested(array.type):
            raise TensorDtypeMismatchError(f"a text tensor takes Arrow strings, not {array.type}")
        array = array.cast(pa.string())
    return ArrowColumn(_string_block(array, nulls, b""), nulls)


def _string_block(array: pa.Array, nulls: NDArray[np.bool_] | None, filler: bytes) -> Block:
    """Return the texts of a string array, ``filler`` for nulls; without a copy if it has no nulls to fill."""
    n = len(array)
    if n == 0:
        return Block(memoryview(b""), 0, 0, (1,))
    _, offset_buffer, data_buffer = array.buffers()
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(offset_buffer, dtype=width)[array.offset : array.offset + n + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = memoryview(b"") if data_buffer is None else memoryview(data_buffer).cast("B")[first:last]
    sizes = np.diff(offsets).astype(np.uint32)
    if nulls is None or (not filler and not sizes[nulls].any()):
        return Block(data, n, sizes, (1,))
    sizes[nulls] = len(filler)
    filled = np.empty(int(sizes.sum(dtype=np.int64)), dtype=np.uint8)
    inside = (offsets - first).astype(np.int64)
    native.fill_variable(data, inside, nulls.view(np.uint8), filler, filled)
    return Block(filled.data, n, sizes, (1,))


def _json(array: pa.Array, *, trusted: bool) -> ArrowColumn:
    nulls = null_rows(array)
    if not is_text(array.type):
        return ArrowColumn(encode_json(plain_value(array.to_pylist())), nulls)
    if not trusted:
        for i, text in enumerate(array.to_pylist()):
            try:
                json.loads("null" if text is None else text)
            except (ValueError, RecursionError) as error:
                raise InvalidInputError(
                    f"value {i} of an Arrow string column is not JSON text: {error}"
                ) from error
    return ArrowColumn(_string_block(array, nulls, b"{}"), nulls)


def numpy_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Return the dtype of the values of an Arrow type of integers, floats or booleans.

    ``to_pandas_dtype`` needs pandas before pyarrow 26, and ``to_numpy`` imports it if it is installed; the name of the
    type does not need pandas.
    """
    name = str(kind)
    return np.dtype({"halffloat": "float16", "float": "float32", "double": "float64"}.get(name, name))


def _plain_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """Return the dtype in which values of a primitive type are stored: integers for dates and times."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return numpy_dtype(kind)
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        return np.dtype(np.int32 if kind.bit_width == 32 else np.int64)
    raise TensorDtypeMismatchError(
        f"an array tensor takes Arrow numbers, booleans, dates and lists of them, not {kind}"
    )


def _plain_values(array: pa.Array) -> NDArray[Any]:
    """Return the values of a primitive array, undefined for nulls, without a copy except of booleans."""
    dtype, n = _plain_dtype(array.type), len(array)
    if n == 0:
        return np.empty(0, dtype)
    buffer = array.buffers()[1]
    if dtype == np.bool_:
        bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")
        return bits[array.offset : array.offset + n].view(np.bool_)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + n]


def _numbers(array: pa.Array, dtype: np.dtype[Any] | None, ndim: int | None) -> ArrowColumn:
    nulls = null_rows(array)
    if pa.types.is_null(array.type):
        # All values are null. Store no numbers yet, because later rows decide whether the tensor holds numbers or
        # lists.
        return ArrowColumn(Block(memoryview(b""), len(array), 0, (0,) * (ndim or 1)), nulls, dtype)
    if ndim not in (None, 1):
        raise TensorInvalidSampleShapeError(
            f"the samples of this tensor have {ndim} dimensions, numbers have 1"
        )
    logical = str(array.type) if pa.types.is_temporal(array.type) else None
    values = _plain_values(array)
    present = values if nulls is None else values[~nulls]
    present = cast(present, dtype, literal=False)
    if nulls is None:
        return ArrowColumn(block_of_array(present), None, present.dtype, logical)
    sizes = np.where(nulls, 0, present.dtype.itemsize).astype(np.uint32)
    shapes = (~nulls).astype(np.uint32).reshape(-1, 1)
    return ArrowColumn(
        Block(block_of_array(present).data, len(array), sizes, shapes), None, present.dtype, logical
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _lists(
    array: pa.Array, dtype: np.dtype[Any] | None, ndim: int | None, axes: tuple[int, ...]
) -> ArrowColumn:
    logical = str(array.type if pa.types.is_fixed_size_list(array.type) else pa.list_(array.type.value_type))
    shapes, leaves = _unnested(array)
    if ndim not in (None, shapes.shape[1]):
        raise TensorInvalidSampleShapeError(
            f"the samples of this tensor have {ndim} dimensions, these lists have {shapes.shape[1]}"
        )
    values, nulls = cast(_plain_values(leaves), dtype, literal=False), null_rows(array)
    if inner := _inner_axes(array.type, axes):
        empty = shapes[:, 0] == 0 if nulls is None else (shapes[:, 0] == 0) & ~nulls
        shapes[empty, 1:] = inner
    sizes = (np.prod(shapes, axis=1) * values.dtype.itemsize).astype(np.uint32)
    block = Block(block_of_array(values).data, len(array), sizes, shapes.astype(np.uint32))
    return ArrowColumn(block, nulls, values.dtype, logical)


def _inner_axes(kind: pa.DataType, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of an empty list after the first: fixed by the type, else the tensor's axes, else 0."""
    fixed = []
    while _is_list(kind := kind.value_type):
        fixed.append(kind.list_size if pa.types.is_fixed_size_list(kind) else None)
    known = axes if len(axes) == len(fixed) else (0,) * len(fixed)
    return tuple(known[i] if size is None else size for i, size in enumerate(fixed))


def _unnested(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the shape of each row, int64 of shape (rows, levels), and the values of all rows back to back."""
    # Only lists need Arrow's compute functions, whose import takes as long as the import of NumPy.
    import pyarrow.compute as pc

    extents = []
    row_of = np.arange(len(array))
    items = array
    while _is_list(items.type):
        # to_numpy and fill_null would import pandas if it is installed.
        counted = pc.list_value_length(items)
        lengths, nulls = _plain_values(counted).astype(np.int64), null_rows(counted)
        if nulls is not None:
            lengths[nulls] = 0
        extent = np.zeros(len(array), dtype=np.int64)
        extent[row_of] = lengths
        if not np.array_equal(extent[row_of], lengths):
            raise TensorInvalidSampleShapeError("a nested list must be rectangular to be one array; use json")
        extents.append(extent)
        row_of, items = np.repeat(row_of, lengths), items.flatten()
        if items.null_count:
            raise TensorDtypeMismatchError(
                "nulls inside the lists of an array tensor can not be stored; use json"
            )
    return np.stack(extents, axis=1), items
