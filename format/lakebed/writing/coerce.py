"""Values of any accepted kind -> encoded samples of one tensor, plus what the tensor learns from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block, empty_block, join_samples
from lakebed.codecs.registry import byte_codec
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    InvalidInputError,
    InvalidOperationError,
    LakebedError,
    SampleAppendError,
    TensorDtypeMismatchError,
)
from lakebed.htypes.arrays import array_dtype, encode_samples
from lakebed.htypes.base import Htype, Storing
from lakebed.htypes.class_label import to_indices
from lakebed.htypes.documents import encode_json, encode_list
from lakebed.htypes.registry import htype_named, writable_htype
from lakebed.htypes.text import encode_text
from lakebed.writing.encoded import Column, Encoded


def encode_column(values: Any, meta: TensorMeta, info: Mapping[str, Any], name: str) -> Column:
    """Encode a column of samples: an ndarray, an Arrow array, or any iterable of samples.

    Raises
    ------
    SampleAppendError
        If a value does not fit the tensor; the cause says why.
    """
    try:
        check_writable(meta)
        if is_arrow(values):
            return Column(list(_encode_arrow(values, meta, info)))
        if isinstance(values, str | bytes | Mapping):
            raise InvalidInputError(
                f"a column of samples must be an array or a list, not one {type(values).__name__}"
            )
        rows: Sequence[Any] | NDArray[Any]
        rows = values if isinstance(values, np.ndarray | list | tuple) else list(values)
        if isinstance(rows, np.ndarray) and rows.ndim == 0:
            raise InvalidInputError("a column of samples needs a first axis that runs over the samples")
        return Column([_encode_rows(rows, _settled(meta, rows), info)])
    except SampleAppendError:
        raise
    except (LakebedError, TypeError, ValueError, OverflowError) as error:
        raise SampleAppendError(f"Failed to append to the tensor {name!r}: {error}") from error


def check_writable(meta: TensorMeta) -> None:
    """Refuse tensors that another writer made and that this release can only read.

    Raises
    ------
    TensorMetaInvalidHtype, InvalidOperationError
        If samples of the htype, of sequences or links, or values of a hidden companion can not be made here.
    """
    writable_htype(meta.htype)
    if meta.is_sequence or meta.is_link:
        raise InvalidOperationError("sequences and links are not written by this release yet")
    for key, link in meta.links.items():
        if link.get("extend") not in ("extend_id", "extend_shape", "extend_len"):
            raise InvalidOperationError(
                f"it feeds {key!r} by {link.get('extend')!r}, which this release does not write yet"
            )


def is_arrow(values: Any) -> bool:
    """Whether values speak the Arrow interface (pyarrow, polars, arro3, nanoarrow arrays)."""
    return hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")


def _settled(meta: TensorMeta, rows: Iterable[Any]) -> TensorMeta:
    """Give a tensor without an htype the one that its first non-empty sample asks for (FORMAT.md 3)."""
    if meta.htype is not None:
        return meta
    whole = isinstance(rows, np.ndarray) and rows.dtype != object
    first = rows if whole else next((r for r in rows if r is not None), None)
    if first is None:
        return meta
    if isinstance(first, str) or (isinstance(first, np.ndarray) and first.dtype.kind == "U"):
        return _as_htype(meta, "text")
    if isinstance(first, dict):
        return _as_htype(meta, "json")
    return meta.with_(htype="generic")


def _as_htype(meta: TensorMeta, name: str) -> TensorMeta:
    htype = writable_htype(name)
    return meta.with_(htype=name, dtype=htype.dtype, extra={**htype.meta_extra, **meta.extra})


def _encode_rows(rows: Sequence[Any] | NDArray[Any], meta: TensorMeta, info: Mapping[str, Any]) -> Encoded:
    htype = htype_named(meta.htype)
    changes: dict[str, Any] = {}
    owned = True
    if htype.storing is Storing.TEXT:
        block = encode_text(rows)
    elif htype.storing is Storing.JSON:
        block = encode_json(rows)
    elif htype.storing is Storing.LIST:
        block = encode_list(rows)
    else:
        if htype.name == "class_label" and not _is_numeric(rows):
            known = list(info.get("class_names", []))
            rows, names = to_indices(rows, known)
            if names != known:
                changes["class_names"] = names
        owned = not isinstance(rows, np.ndarray)
        known_dtype = None if meta.dtype is None else array_dtype(meta.dtype)
        block, dtype = encode_samples(rows, known_dtype, len(meta.max_shape) or None)
        meta = _with_dtype(meta, dtype)
    return Encoded(_compressed(block, meta), meta, None, changes, owned)


def _is_numeric(rows: Sequence[Any] | NDArray[Any]) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf"


def _with_dtype(meta: TensorMeta, dtype: np.dtype[Any] | None) -> TensorMeta:
    if meta.dtype is not None or dtype is None:
        return meta
    return meta.with_(htype=meta.htype or "generic", dtype=dtype.name, typestr=dtype.str)


def _compressed(block: Block, meta: TensorMeta) -> Block:
    codec = byte_codec(meta.sample_compression)
    if codec is None:
        return block
    at = block.offsets().tolist()
    parts = [codec.encode(block.data[a:b]) for a, b in pairwise(at)]
    return join_samples(parts, block.shapes)


def _encode_arrow(values: Any, meta: TensorMeta, info: Mapping[str, Any]) -> Iterator[Encoded]:
    # pyarrow takes a tenth of a second to import, so only those who bring Arrow data pay for it.
    import pyarrow as pa

    from lakebed.htypes.arrow import storing_of

    if isinstance(values, pa.Array):
        arrays = [values]
    elif isinstance(values, pa.ChunkedArray):
        arrays = values.chunks
    elif hasattr(values, "__arrow_c_array__"):
        arrays = [pa.array(values)]
    else:
        arrays = pa.chunked_array(values).chunks
    for array in arrays:
        if meta.htype is None and not pa.types.is_null(array.type):
            storing = storing_of(array)
            name = {Storing.TEXT: "text", Storing.JSON: "json"}.get(storing)
            meta = meta.with_(htype="generic") if name is None else _as_htype(meta, name)
        htype = htype_named(meta.htype)
        if htype.name == "class_label" and storing_of(array) is Storing.TEXT:
            encoded = _encode_rows(array.to_pylist(), meta, info)
        else:
            encoded = _encode_array(_in_known_units(array, meta, info), meta, info, htype)
        # The next array builds on what this one settled.
        meta, info = encoded.meta, {**info, **encoded.info}
        yield encoded


def _encode_array(array: Any, meta: TensorMeta, info: Mapping[str, Any], htype: Htype) -> Encoded:
    from lakebed.htypes.arrow import encode_arrow

    dtype = None if meta.dtype is None or htype.is_text_like else array_dtype(meta.dtype)
    column = encode_arrow(array, htype.storing, dtype, len(meta.max_shape) or None)
    if not htype.is_text_like:
        meta = _with_dtype(meta, column.dtype)
    changes = {}
    if column.logical is not None and "logical_type" not in info:
        changes["logical_type"] = column.logical
    return Encoded(_compressed(column.block, meta), meta, column.nulls, changes)


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


def encode_one(value: Any, meta: TensorMeta, info: Mapping[str, Any], name: str) -> Column:
    """Encode one sample.

    Raises
    ------
    SampleAppendError
        If it does not fit the tensor; the cause says why.
    """
    htype = htype_named(meta.htype)
    if value is None and meta.htype is None:
        return Column([Encoded(empty_block(1, len(meta.max_shape) or None), meta)])
    if isinstance(value, np.ndarray) and value.size > 1 and not htype.is_text_like:
        return encode_column(value[np.newaxis], meta, info, name)
    return encode_column([value], meta, info, name)
