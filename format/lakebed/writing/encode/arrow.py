"""Arrow arrays -> encoded samples of one tensor, without a Python object per row where the layout allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import TensorDtypeMismatchError
from lakebed.htypes.arrays import array_dtype
from lakebed.htypes.base import Htype, Storing
from lakebed.htypes.registry import htype_named
from lakebed.writing.encode.arrays import compressed
from lakebed.writing.encode.arrow_files import bytes_block, chunks_of, files, is_binary, takes_files
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.encode.missing_values import missing_rows, plain_rows, with_nulls
from lakebed.writing.encode.spec import learned

Listed = Callable[[list[Any], TensorMeta, Mapping[str, Any]], list[Encoded]]
"""Encodes a list of Python values."""


def is_arrow(values: Any) -> bool:
    """Whether values speak the Arrow interface (pyarrow, polars, arro3, nanoarrow arrays)."""
    return hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")


def as_htype(meta: TensorMeta, name: str) -> TensorMeta:
    """Give a tensor the htype that its first value settled."""
    htype = htype_named(name)
    return meta.with_(htype=name, dtype=htype.dtype, extra={**htype.meta_extra, **meta.extra})


def encode_arrow_rows(
    values: Any, meta: TensorMeta, info: Mapping[str, Any], listed: Listed
) -> Iterator[Encoded]:
    """Encode an Arrow array or stream; what is no plain column of the tensor's kind goes through ``listed``.

    Raises
    ------
    TensorDtypeMismatchError, TensorInvalidSampleShapeError, InvalidInputError
        If the array's type or a value does not fit the tensor.
    """
    # pyarrow takes a tenth of a second to import, so only those who bring Arrow data pay for it.
    import pyarrow as pa

    from lakebed.htypes.arrow import storing_of

    for array in chunks_of(values):
        if meta.htype is None and not pa.types.is_null(array.type):
            storing = storing_of(array)
            name = {Storing.TEXT: "text", Storing.JSON: "json"}.get(storing)
            meta = meta.with_(htype="generic") if name is None else as_htype(meta, name)
        htype = htype_named(meta.htype)
        if is_binary(array):
            parts = (
                with_nulls(listed(files(array), meta, info), _nulls(array), info.get("logical_type"))
                if takes_files(meta)
                else [_encode_bytes(array, meta, info)]
            )
        elif not _is_plain(meta, htype, storing_of(array)):
            rows = array.to_pylist()
            parts = with_nulls(
                listed(rows, meta, info), missing_rows(*plain_rows(rows)), info.get("logical_type")
            )
        else:
            parts = [_encode_array(_in_known_units(array, meta, info), meta, info, htype)]
        for part in parts:
            # The next array builds on what this one settled; no rows settle nothing in the tensor's info.
            meta, info = part.meta, {**info, **part.info} if part.block.count else info
            yield part


def _nulls(array: Any) -> NDArray[np.bool_] | None:
    from lakebed.htypes.arrow import null_rows

    return null_rows(array)


def _is_plain(meta: TensorMeta, htype: Htype, storing: Storing) -> bool:
    """Whether an Arrow column becomes samples as it is."""
    if htype.name == "class_label":
        return storing is not Storing.TEXT
    if htype.storing is Storing.POLYGON or htype.name == "tag" or htype.is_image:
        return False
    return is_plain(meta.sample_compression) and is_plain(meta.chunk_compression)


def _encode_array(array: Any, meta: TensorMeta, info: Mapping[str, Any], htype: Htype) -> Encoded:
    from lakebed.htypes.arrow import encode_arrow

    dtype = None if meta.dtype is None or htype.is_text_like else array_dtype(meta.dtype)
    column = encode_arrow(array, htype.storing, dtype, len(meta.max_shape) or None)
    if not htype.is_text_like:
        meta = learned(meta, column.dtype)
    changes = {}
    if column.logical is not None and "logical_type" not in info:
        changes["logical_type"] = column.logical
    return Encoded(compressed(column.block, meta), meta, column.nulls, changes)


def _encode_bytes(array: Any, meta: TensorMeta, info: Mapping[str, Any]) -> Encoded:
    """Encode a binary array as one-dimensional samples of uint8, as lists of that would be."""
    if meta.dtype not in (None, "uint8") or len(meta.max_shape) > 1:
        raise TensorDtypeMismatchError(
            f"bytes go into a tensor of dtype uint8 and one dimension; this one has {meta.dtype}, {len(meta.max_shape)}"
        )
    block, nulls = bytes_block(array)
    changes = {} if "logical_type" in info else {"logical_type": "list<item: uint8>"}
    meta = learned(meta, np.dtype(np.uint8))
    return Encoded(compressed(block, meta), meta, nulls, changes)


def _in_known_units(array: Any, meta: TensorMeta, info: Mapping[str, Any]) -> Any:
    """Convert dates and times to the unit that the tensor's numbers have.

    Raises
    ------
    TensorDtypeMismatchError
        If the tensor holds plain numbers, other kinds of moments, or a unit that would lose digits.
    """
    import pyarrow as pa

    from lakebed.reading.arrow import logical_type

    known = info.get("logical_type")
    if not pa.types.is_temporal(array.type) or known == str(array.type) or not (known or meta.length):
        return array
    kind = logical_type(known)
    zoned = [getattr(k, "tz", None) is not None for k in (kind, array.type)]
    try:
        if kind is None or zoned[0] != zoned[1]:
            raise pa.ArrowInvalid("they do not mean the same")
        return array.cast(kind)
    except pa.ArrowException as error:
        raise TensorDtypeMismatchError(
            f"the tensor holds {known or 'plain numbers'}, the values are {array.type}: {error}"
        ) from error
