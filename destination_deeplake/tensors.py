"""Types of tensors: storage of a column's values, and its record in the dataset."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa

from destination_deeplake.choices import FORMATS, Compression
from destination_deeplake.columns import Kind
from destination_deeplake.naming import META_COLUMNS

UNSPECIFIED = "unspecified"
"""Dtype of tensors whose htype fixes it."""

LINK = pa.struct([("path", pa.string()), ("creds_key", pa.string())])
"""Type of links as values."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The storage of a column's values.

    Attributes
    ----------
    htype : str
        Deep Lake htype, with `link[...]` for linked files.
    dtype : str
        NumPy dtype; "unspecified" if the htype fixes it.
    logical_type : str or None
        Arrow type that the numbers stand for, kept in the tensor's info.
    arrow : pyarrow.DataType
        Type of the arrays that the tensor stores.
    sample_compression, chunk_compression : str or None
        As in `Dataset.create_tensor`. A tensor of files without a sample compression is created with the first file,
        and takes the compression of that file. If the compression of chunks is None, `compression_of_chunks` decides.
    shape : tuple of int or None
        Shape of every sample, if all have the same; 0 as the first of several sizes stands for any size.
    creds_key : str or None
        Name of the credentials of links.
    nulls_as_nan : bool
        Whether a null is stored as NaN.
    class_names : tuple of str
        Initial class names.
    """

    htype: str
    dtype: str
    logical_type: str | None
    arrow: pa.DataType
    sample_compression: str | None = None
    chunk_compression: str | None = None
    shape: tuple[int, ...] | None = None
    creds_key: str | None = None
    nulls_as_nan: bool = False
    class_names: tuple[str, ...] = ()

    @property
    def is_link(self) -> bool:
        """True if the samples are links."""
        return self.htype.startswith("link[")

    @property
    def takes_files(self) -> bool:
        """True if each sample is a file of the tensor's compression."""
        return self.htype in FORMATS

    @property
    def is_open(self) -> bool:
        """True if the first file decides the compression of the tensor."""
        return self.takes_files and self.sample_compression is None

    def compression_of_chunks(self, wanted: Compression) -> str | None:
        """Return the chunk compression of a new tensor, in a stream whose `wanted` columns are compressed."""
        if self.chunk_compression is not None:
            return None if self.chunk_compression == Compression.NONE else self.chunk_compression
        if self.takes_files or self.is_link or self.sample_compression is not None:
            return None
        is_text = self.htype in ("text", "json")
        return "lz4" if wanted is Compression.LZ4 or (wanted is Compression.AUTO and is_text) else None

    def nulls(self, count: int) -> pa.Array:
        """Return `count` samples for rows without a value."""
        if not self.nulls_as_nan:
            return pa.nulls(count, self.arrow)
        size = int(np.prod(self.shape or (), dtype=np.int64))
        flat = pa.array(np.full(count * size, np.nan, dtype=self.dtype))
        return flat if self.shape is None else nested(flat, self.shape, self.arrow, count)

    def record(self) -> dict[str, Any]:
        """Return the record of the type in the dataset, as JSON; defaults are left out."""
        kept = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("arrow", "class_names")
        }
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in kept.items()
            if value not in (None, False)
        }

    @classmethod
    def recorded(cls, record: Mapping[str, Any], kind: Kind) -> Self:
        """Return the type from its `record`, for a column of a kind; keys of later versions are ignored."""
        known = {field.name for field in fields(cls)}
        found = {name: value for name, value in record.items() if name in known}
        htype, dtype = str(found.pop("htype")), str(found.pop("dtype", UNSPECIFIED))
        logical = found.pop("logical_type", None)
        shape = found.pop("shape", None)
        shape = None if shape is None else tuple(shape)
        return cls(htype, dtype, logical, arrow_type(kind, htype, dtype, shape), shape=shape, **found)


def nested(flat: pa.Array, shape: tuple[int, ...], kind: pa.DataType, count: int) -> pa.Array:
    """Return `count` samples of one shape as nested lists, from their numbers back to back."""
    types = [kind]
    for _ in shape[1:]:
        types.append(types[-1].value_type)
    array, length = flat, count * int(np.prod(shape, dtype=np.int64))
    for size, level in zip(reversed(shape), reversed(types), strict=True):
        length //= size
        if pa.types.is_fixed_size_list(level):
            array = pa.FixedSizeListArray.from_arrays(array, type=level)
            continue
        offsets = pa.py_buffer(np.arange(length + 1, dtype=np.int32) * np.int32(size))
        array = pa.Array.from_buffers(level, length, [None, offsets], children=[array])
    return array


def arrow_type(kind: Kind, htype: str, dtype: str, shape: tuple[int, ...] | None) -> pa.DataType:
    """Return the Arrow type of a tensor's values."""
    if htype.startswith("link["):
        return LINK
    if kind is Kind.BYTES:
        return pa.binary()
    if htype in ("text", "json"):
        return pa.string() if htype == "text" else pa.json_()
    number = pa.from_numpy_dtype(np.dtype("uint32" if htype == "class_label" else dtype))
    if kind is not Kind.FLOATS:
        return number
    # Inner lists get their fixed size, so that an empty sample has the shape (0, 4) of boxes.
    for size in reversed((shape or ())[1:]):
        number = pa.list_(number, size)
    return pa.list_(number)


TENSOR_TYPES: Mapping[Kind, TensorType] = {
    Kind.TEXT: TensorType("text", UNSPECIFIED, None, pa.string()),
    Kind.INT64: TensorType("generic", "int64", None, pa.int64()),
    Kind.FLOAT64: TensorType("generic", "float64", None, pa.float64()),
    Kind.BOOL: TensorType("generic", "bool", None, pa.bool_()),
    Kind.TIMESTAMP_TZ: TensorType("generic", "int64", "timestamp[us, tz=UTC]", pa.int64()),
    Kind.TIMESTAMP: TensorType("generic", "int64", "timestamp[us]", pa.int64()),
    Kind.DATE: TensorType("generic", "int32", "date32[day]", pa.int32()),
    Kind.TIME_TZ: TensorType("generic", "int64", "time64[us]", pa.int64()),
    Kind.TIME: TensorType("generic", "int64", "time64[us]", pa.int64()),
    Kind.JSON: TensorType("json", UNSPECIFIED, None, pa.json_()),
    Kind.EXACT: TensorType("text", UNSPECIFIED, None, pa.string()),
    Kind.BYTES: TensorType("generic", "uint8", None, pa.binary()),
    Kind.FLOATS: TensorType("generic", "float32", None, pa.list_(pa.float32())),
}
"""Default tensor type of each kind."""

META_KINDS: Mapping[str, Kind] = dict(
    zip(META_COLUMNS, (Kind.TEXT, Kind.TIMESTAMP_TZ, Kind.JSON, Kind.INT64), strict=True)
)
