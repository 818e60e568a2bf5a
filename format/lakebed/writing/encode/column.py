"""Values of any accepted kind -> encoded samples of one tensor, plus what the tensor learns from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    InvalidInputError,
    InvalidKeyTypeError,
    LakebedError,
    SampleAppendError,
    TensorMetaInvalidHtypeOverwriteValue,
)
from lakebed.htypes.arrays import array_dtype, is_numeric
from lakebed.htypes.base import Storing
from lakebed.htypes.class_label import to_indices
from lakebed.htypes.documents import encode_json, encode_list, encode_tags
from lakebed.htypes.images import pads_rank
from lakebed.htypes.polygon import encode_polygons
from lakebed.htypes.registry import htype_named
from lakebed.htypes.text import encode_text
from lakebed.writing.encode.arrays import compressed, encode_arrays
from lakebed.writing.encode.arrow import as_htype, encode_arrow_rows, is_arrow
from lakebed.writing.encode.arrow_files import links
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.encode.files import encode_files
from lakebed.writing.encode.links import Linking, encode_links
from lakebed.writing.encode.missing_values import (
    missing_rows,
    plain_column,
    plain_rows,
    plain_sample,
    with_nulls,
)
from lakebed.writing.encode.sequences import flattened

Rows = Sequence[Any] | NDArray[Any]

_LABELS = ("class_label",)


def encode_column(
    values: Any, meta: TensorMeta, info: Mapping[str, Any], name: str, linking: Linking | None = None
) -> Column:
    """Encode a column of samples: an ndarray, an Arrow array, or any iterable of samples.

    Parameters
    ----------
    meta, info
        Those of the tensor.
    name
        The tensor's name, for messages.
    linking
        What it takes to append links: the dataset's credentials.

    Raises
    ------
    SampleAppendError
        If a value does not fit the tensor; the cause says why.
    """
    try:
        return _column(values, meta, info, linking)
    except SampleAppendError:
        raise
    except (LakebedError, TypeError, ValueError, OverflowError, ArithmeticError, OSError) as error:
        raise SampleAppendError(f"Failed to append to the tensor {name!r}: {error}") from error


def encode_one(
    value: Any, meta: TensorMeta, info: Mapping[str, Any], name: str, linking: Linking | None = None
) -> Column:
    """Encode one sample.

    Raises
    ------
    SampleAppendError
        If it does not fit the tensor; the cause says why.
    """
    htype = htype_named(meta.htype)
    value = plain_sample(value)
    if (
        isinstance(value, np.ndarray)
        and value.size > 1
        and htype.storing is Storing.ARRAY
        and not meta.is_link
    ):
        rows = value[np.newaxis]
        return encode_column(rows if meta.is_sequence else ranked(rows, meta), meta, info, name, linking)
    return encode_column([value], meta, info, name, linking)


def ranked(samples: NDArray[Any], meta: TensorMeta) -> NDArray[Any]:
    """Return an array of samples with the axes that they would get one by one: (rows, H, W) becomes (rows, H, W, 1)."""
    return samples[..., np.newaxis] if samples.ndim == 3 and pads_rank(meta) else samples


def _column(values: Any, meta: TensorMeta, info: Mapping[str, Any], linking: Linking | None) -> Column:
    values = plain_column(values)
    if is_arrow(values) and not meta.is_link:
        if meta.is_sequence:
            values = _listed(values, typed=meta.dtype is None)
        else:
            return Column(list(encode_arrow_rows(values, meta, info, _encoded)))
    elif is_arrow(values) and not meta.is_sequence:
        values = links(values)
    if isinstance(values, str | bytes | Mapping):
        raise InvalidKeyTypeError(
            f"a column of samples must be an array or a list, not one {type(values).__name__}"
        )
    rows: Rows = values if isinstance(values, np.ndarray | list | tuple) else list(values)
    if isinstance(rows, np.ndarray) and rows.ndim == 0:
        raise InvalidInputError("a column of samples needs a first axis that runs over the samples")
    rows, kinds = plain_rows(rows)
    items = None
    if meta.is_sequence:
        rows, items = flattened(rows)
        kinds = None
    nulls, logical = missing_rows(rows, kinds), info.get("logical_type")
    if meta.is_link:
        return Column(with_nulls(encode_links(rows, meta, linking), nulls, logical), items)
    return Column(with_nulls(_encoded(rows, _settled(meta, rows), info, kinds), nulls, logical), items)


def _listed(values: Any, *, typed: bool) -> list[Any]:
    """Return Arrow lists as Python lists; where `typed`, items of numbers as arrays of their dtype."""
    import pyarrow as pa

    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.chunked_array(values)
    rows: list[Any] = array.to_pylist()
    kind = array.type
    while hasattr(kind, "value_type") and not pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not typed or not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    ):
        return rows
    dtype = np.dtype(kind.to_pandas_dtype())
    return [None if row is None else [_as_array(item, dtype) for item in row] for row in rows]


def _as_array(item: Any, dtype: np.dtype[Any]) -> Any:
    """Return numbers as an array; those with gaps, or lists of several lengths, stay a list."""
    try:
        return item if _has_gaps(item) else np.array(item, dtype)
    except ValueError:
        return item


def _has_gaps(item: Any) -> bool:
    return any(map(_has_gaps, item)) if isinstance(item, list) else item is None


def _settled(meta: TensorMeta, rows: Iterable[Any]) -> TensorMeta:
    """Give a tensor without an htype the one that its first non-empty sample asks for (FORMAT.md 3)."""
    if meta.htype is not None:
        return meta
    whole = isinstance(rows, np.ndarray) and rows.dtype != object
    first = (
        rows
        if whole
        else next((r for r in rows if r is not None and not (isinstance(r, list) and not r)), None)
    )
    if first is None:
        return meta
    text = isinstance(first, str) or (isinstance(first, np.ndarray) and first.dtype.kind == "U")
    if not text and not isinstance(first, dict) and (meta.dtype is not None or not _holds_objects(first)):
        return meta.with_(htype="generic")
    if meta.dtype is not None:
        raise TensorMetaInvalidHtypeOverwriteValue(
            f"the tensor was created with dtype {meta.dtype!r}, so it takes numbers, not {'text' if text else 'dicts'}"
        )
    return as_htype(meta, "text" if text else "json")


def _holds_objects(value: Any) -> bool:
    """Whether a value is more than numbers: integers beyond 64 bits, or None and dicts in a list."""
    if isinstance(value, int):
        return not -(2**63) <= value < 2**64
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    try:
        return np.asarray(value).dtype == object
    except ValueError:
        return False


def _has_text(rows: Rows) -> bool:
    """Whether there may be names among labels."""
    kinds = set(map(type, rows))
    if kinds <= {int, bool, float, type(None)}:
        return False
    if not kinds <= {np.ndarray, type(None)}:
        return True
    arrays = [r for r in rows if r is not None] if type(None) in kinds else rows
    return any(dtype.kind in "UO" for dtype in set(map(attrgetter("dtype"), arrays)))


def _encoded(
    rows: Rows, meta: TensorMeta, info: Mapping[str, Any], kinds: set[type] | None = None
) -> list[Encoded]:
    """Encode flat samples, whose types may be known."""
    htype = htype_named(meta.htype)
    if htype.storing is Storing.TEXT:
        return [Encoded(compressed(encode_text(rows, kinds), meta), meta)]
    if htype.storing is Storing.JSON:
        return [Encoded(compressed(encode_json(rows, meta.dtype), meta), meta)]
    if htype.storing is Storing.LIST:
        block = encode_tags(rows) if htype.name == "tag" else encode_list(rows, meta.dtype)
        return [Encoded(compressed(block, meta), meta)]
    if htype.storing is Storing.POLYGON:
        block = encode_polygons(rows, array_dtype(meta.dtype or "float32"))
        return [Encoded(compressed(block, meta), meta)]
    changes: dict[str, Any] = {}
    if htype.name in _LABELS and not is_numeric(rows) and _has_text(rows):
        known = list(info.get("class_names") or [])
        rows, names = to_indices(rows, known)
        kinds = None
        if names != known:
            changes["class_names"] = names
    files = not is_plain(meta.sample_compression)
    parts = encode_files(rows, meta) if files else encode_arrays(rows, meta, kinds)
    if changes and parts:
        parts = [replace(parts[0], info=changes), *parts[1:]]
    return parts


__all__ = ["encode_column", "encode_one", "is_arrow", "ranked"]
