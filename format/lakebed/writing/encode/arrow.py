"""Arrow arrays -> encoded samples of one tensor, without a Python object per row where the layout allows.

Bytes and addresses go into tensors of files, of plain bytes and of links (format.md 5.3):

    Arrow column                                   tensor
    binary, large_binary                           compressed by sample (images, sound, video, ...): a file in each row
    binary, large_binary                           uint8, not compressed by sample: its bytes, shape (size,)
    string, large_string                           link: an address in each row
    struct<path: string, creds_key: string>        link: with the name of its credentials

A null becomes an empty sample of shape (0, 0, ...). So does an empty list, but later axes that the Arrow type or the
htype fixes keep their extents: an empty list of boxes has shape (0, 4), like other lists of boxes. The result
for a row does not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.sample import Sample
from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidInputError, TensorDtypeMismatchError
from lakebed.htypes.base import Htype, Storing
from lakebed.htypes.class_label import STRICT
from lakebed.htypes.documents import plain_value
from lakebed.htypes.dtypes import array_dtype
from lakebed.htypes.registry import BOXES, htype_named
from lakebed.links.link import LinkedSample, link
from lakebed.writing.encode.arrays import compressed
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.encode.missing_values import missing_rows, plain_rows, with_nulls
from lakebed.writing.encode.rows import encode_rows
from lakebed.writing.encode.spec import as_htype, with_dtype

if TYPE_CHECKING:
    import pyarrow as pa


def is_arrow(values: Any) -> bool:
    """Return whether values export Arrow data (arrays of pyarrow, polars, arro3, nanoarrow)."""
    return hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")


def chunks_of(values: Any) -> list[pa.Array]:
    """Convert an object that exports Arrow data to arrays of pyarrow, without view types."""
    # Imported here, because importing pyarrow takes a tenth of a second, and only Arrow data needs it.
    import pyarrow as pa

    from lakebed.htypes.arrow import without_views

    if isinstance(values, pa.Array):
        found = [values]
    elif isinstance(values, pa.ChunkedArray):
        found = values.chunks
    elif hasattr(values, "__arrow_c_array__"):
        found = [pa.array(values)]
    else:
        found = pa.chunked_array(values).chunks
    return [without_views(array) for array in found]


def encode_arrow_rows(values: Any, meta: TensorMeta, info: Mapping[str, Any]) -> Iterator[Encoded]:
    """Encode an Arrow array or stream; columns that do not match the tensor's layout become Python values.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError, InvalidInputError
        If the array's type or a value does not fit the tensor.
    """
    # Imported here, because importing pyarrow takes a tenth of a second, and only Arrow data needs it.
    import pyarrow as pa

    from lakebed.htypes.arrow import is_binary, storing_of

    for array in chunks_of(values):
        if meta.htype is None and not pa.types.is_null(array.type):
            storing = storing_of(array)
            name = {Storing.TEXT: "text", Storing.JSON: "json"}.get(storing)
            meta = meta.with_(htype="generic") if name is None else as_htype(meta, name)
        htype = htype_named(meta.htype)
        if not is_plain(meta.sample_compression):
            array = _contents(array)
        if is_binary(array):
            parts = (
                with_nulls(encode_rows(files(array), meta, info), _nulls(array), info.get("logical_type"))
                if not is_plain(meta.sample_compression)
                else [_encode_bytes(array, meta, info)]
            )
        elif info.get(STRICT) or not _is_plain(meta, htype, storing_of(array)):
            rows = array.to_pylist()
            if htype.storing in (Storing.JSON, Storing.LIST):
                rows = plain_value(rows)
            parts = with_nulls(
                encode_rows(rows, meta, info), missing_rows(*plain_rows(rows)), info.get("logical_type")
            )
        else:
            parts = [_encode_array(_in_known_units(array, meta, info), meta, info, htype)]
        for part in parts:
            # Encode the next array with the metadata of this array. An empty array does not change the tensor's info.
            meta, info = part.meta, {**info, **part.info} if part.block.count else info
            yield part


def _contents(array: Any) -> Any:
    """Return the bytes of a column of files in Hugging Face's form, ``struct<bytes, path>``; other columns unchanged.

    Raises
    ------
    InvalidInputError
        If a row has a path in place of bytes.
    """
    import pyarrow as pa

    if not pa.types.is_struct(array.type) or {field.name for field in array.type} != {"bytes", "path"}:
        return array
    fields = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
    for data, path in zip(fields["bytes"].is_null().to_pylist(), fields["path"].to_pylist(), strict=True):
        if data and path:
            raise InvalidInputError(f"the row of {path!r} has no bytes: give it as lakebed.read(path)")
    return fields["bytes"]


def _nulls(array: Any) -> NDArray[np.bool_] | None:
    from lakebed.htypes.arrow import null_rows

    return null_rows(array)


def _is_plain(meta: TensorMeta, htype: Htype, storing: Storing) -> bool:
    """Return whether an Arrow column becomes samples without conversion to Python values."""
    if htype.name == "class_label":
        return storing is not Storing.TEXT
    if htype.storing is Storing.POLYGON or htype.name == "tag" or htype.is_image:
        return False
    return is_plain(meta.sample_compression) and is_plain(meta.chunk_compression)


def _encode_array(array: Any, meta: TensorMeta, info: Mapping[str, Any], htype: Htype) -> Encoded:
    from lakebed.htypes.arrow import encode_arrow

    dtype = None if meta.dtype is None or htype.is_text_like else array_dtype(meta.dtype)
    axes = (BOXES[htype.name],) if htype.name in BOXES else ()
    column = encode_arrow(array, htype.storing, dtype, len(meta.max_shape) or None, axes)
    if not htype.is_text_like:
        meta = with_dtype(meta, column.dtype)
    changes = {}
    if column.logical is not None and "logical_type" not in info:
        changes["logical_type"] = column.logical
    return Encoded(compressed(column.block, meta), meta, column.nulls, changes)


def _encode_bytes(array: Any, meta: TensorMeta, info: Mapping[str, Any]) -> Encoded:
    """Encode a binary array as one-dimensional samples of uint8, as lists of uint8 are encoded."""
    if meta.dtype not in (None, "uint8") or len(meta.max_shape) > 1:
        raise TensorDtypeMismatchError(
            f"bytes need a tensor of dtype uint8 and one dimension; this one has dtype {meta.dtype} and "
            f"{len(meta.max_shape)} dimensions"
        )
    from lakebed.htypes.arrow import bytes_block

    block, nulls = bytes_block(array)
    changes = {} if "logical_type" in info else {"logical_type": "list<item: uint8>"}
    meta = with_dtype(meta, np.dtype(np.uint8))
    return Encoded(compressed(block, meta), meta, nulls, changes)


def _in_known_units(array: Any, meta: TensorMeta, info: Mapping[str, Any]) -> Any:
    """Convert dates and times to the unit of the tensor's numbers, or to one of the same width.

    Raises
    ------
    TensorDtypeMismatchError
        If the tensor holds plain numbers or other kinds of dates and times, its unit would lose digits, or its dtype
        cannot hold dates and times.
    """
    import pyarrow as pa

    from lakebed.reading.columns.arrow import logical_type

    if not pa.types.is_temporal(array.type):
        return array
    known = info.get("logical_type")
    if known == str(array.type):
        return array
    if not (known or meta.length):
        if meta.dtype is None or _bits_of_moments(meta.dtype, array.type) == array.type.bit_width:
            return array
        return array.cast(pa.date64() if pa.types.is_date(array.type) else pa.time64("us"))
    kind = logical_type(known)
    zoned = [getattr(k, "tz", None) is not None for k in (kind, array.type)]
    try:
        if kind is None:
            raise pa.ArrowInvalid("they cannot be converted")
        if zoned[0] != zoned[1]:
            raise pa.ArrowInvalid("only one of the two has a time zone")
        found = array.cast(kind)
        is_cut = pa.types.is_timestamp(array.type) and not pa.types.is_timestamp(kind)
        # Arrow would drop the time of day, or the day, without an error.
        if is_cut and not (pa.types.is_date(kind) and found.cast(array.type).equals(array)):
            raise pa.ArrowInvalid("the time of day, or the day, would be lost")
    except pa.ArrowException as error:
        raise TensorDtypeMismatchError(
            f"the tensor holds {known or 'plain numbers'}, the values are {array.type}: {error}"
        ) from error
    return found


def _bits_of_moments(name: str, kind: Any) -> int:
    """Return the width in bits of the tensor's dates or times.

    Raises
    ------
    TensorDtypeMismatchError
        If the tensor holds no integers, or too narrow integers.
    """
    dtype = np.dtype(name)
    bits = dtype.itemsize * 8
    if dtype.kind not in "iu" or bits < kind.bit_width:
        raise TensorDtypeMismatchError(
            f"{kind} is stored as an integer of {kind.bit_width} bits, and the tensor holds {name}: create it with "
            "dtype='int64', or without a dtype"
        )
    return bits


def files(array: pa.Array) -> list[Sample | None]:
    """Return the files of a binary array without copying them; None for nulls and empty values."""
    from lakebed.htypes.arrow import byte_ranges

    data, bounds, nulls = byte_ranges(array)
    filled = np.diff(bounds) > 0
    if nulls is not None:
        filled &= ~nulls
    ends = bounds.tolist()
    return [
        Sample(buffer=data[ends[i] : ends[i + 1]]) if is_filled else None
        for i, is_filled in enumerate(filled.tolist())
    ]


def arrow_links(values: Any) -> list[LinkedSample | None]:
    """Return the links of Arrow columns of addresses."""
    import pyarrow as pa

    found: list[LinkedSample | None] = []
    for array in chunks_of(values):
        if pa.types.is_struct(array.type):
            # `flatten` makes the fields of a null struct null, too.
            fields = dict(zip([field.name for field in array.type], array.flatten(), strict=True))
            paths = fields["path"].to_pylist()
            keys = fields["creds_key"].to_pylist() if "creds_key" in fields else [None] * len(paths)
        else:
            paths, keys = array.to_pylist(), [None] * len(array)
        found += [None if path is None else link(path, key) for path, key in zip(paths, keys, strict=True)]
    return found


def arrow_lists(values: Any, meta: TensorMeta) -> list[Any]:
    """Return Arrow lists as the rows of a tensor of sequences: Python lists, of arrays if they hold numbers.

    If the tensor has no dtype yet, items become arrays of their own dtype. Otherwise empty items become arrays, because
    the rank is known from the Arrow type but not from an empty list.
    """
    import pyarrow as pa

    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.chunked_array(values)
    rows: list[Any] = array.to_pylist()
    kind, levels = array.type, -1
    while hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        kind, levels = kind.value_type, levels + 1
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return rows
    shape = (0,) * levels
    if meta.dtype is None:
        from lakebed.htypes.arrow import numpy_dtype

        dtype = numpy_dtype(kind)
        return [None if row is None else [_as_array(item, dtype, shape) for item in row] for row in rows]
    name = htype_named(meta.htype).name
    if name not in ("generic", *BOXES) or len(meta.max_shape) not in (0, levels):
        return rows
    if name in BOXES and levels == 2:
        shape = (0, BOXES[name])
    empty = np.empty(shape, array_dtype(meta.dtype))
    return [None if row is None else [empty if item == [] else item for item in row] for row in rows]


def _as_array(item: Any, dtype: np.dtype[Any], empty: tuple[int, ...]) -> Any:
    """Return numbers as an array, of a given shape if empty; lists with nulls or of several lengths stay lists."""
    try:
        return item if _has_gaps(item) else np.empty(empty, dtype) if item == [] else np.array(item, dtype)
    except ValueError:
        return item


def _has_gaps(item: Any) -> bool:
    return any(map(_has_gaps, item)) if isinstance(item, list) else item is None
