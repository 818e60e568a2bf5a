"""Flat samples, as Python values or NumPy arrays -> encoded samples, by how the tensor's htype stores them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import TensorMetaInvalidHtypeOverwriteValue, UnusualSampleWarning
from lakebed.htypes.arrays import is_numeric
from lakebed.htypes.base import Storing
from lakebed.htypes.class_label import STRICT, check_known, to_indices
from lakebed.htypes.documents import encode_json, encode_list, encode_tags
from lakebed.htypes.dtypes import array_dtype
from lakebed.htypes.polygon import encode_polygons
from lakebed.htypes.registry import htype_named
from lakebed.htypes.text import encode_text
from lakebed.writing.encode.arrays import compressed, encode_arrays
from lakebed.writing.encode.encoded import Encoded, Samples
from lakebed.writing.encode.files import encode_files
from lakebed.writing.encode.spec import as_htype

_LABELS = ("class_label",)


def encode_rows(
    rows: Samples, meta: TensorMeta, info: Mapping[str, Any], kinds: set[type] | None = None
) -> list[Encoded]:
    """Encode flat samples; ``kinds`` are the types of the values, if known."""
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
    if htype.name in _LABELS:
        named = changes.get("class_names") or info.get("class_names")
        if info.get(STRICT):
            check_known(named or (), len(info.get("class_names") or ()), _largest(rows), meta.name)
        else:
            _warn_of_unnamed(rows, named, meta)
    elif htype.name == "bbox":
        _warn_of_other_lengths(rows, meta)
    files = not is_plain(meta.sample_compression)
    parts = encode_files(rows, meta) if files else encode_arrays(rows, meta, kinds)
    if changes and parts:
        parts = [replace(parts[0], info=changes), *parts[1:]]
    return parts


def _largest(rows: Samples) -> int:
    """Return the largest label of samples; -1 if they have no labels."""
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        return int(rows.max()) if rows.size and rows.dtype.kind in "iu" else -1
    plain = [row for row in rows if type(row) is int]
    others = [np.asarray(row) for row in rows if row is not None and type(row) is not int]
    plain += [int(one.max()) for one in others if one.size and one.dtype.kind in "iu"]
    return max(plain, default=-1)


def _warn_of_unnamed(rows: Samples, names: Any, meta: TensorMeta) -> None:
    """Warn of a label without a class name; like 3.x, accept it nevertheless."""
    if not isinstance(names, list | tuple) or not names:
        return
    largest = _largest(rows)
    if largest >= len(names):
        warnings.warn(
            f"tensor {meta.name!r} has names for {len(names):,} classes, and the label {largest} has none; "
            "names are in info.class_names",
            UnusualSampleWarning,
            stacklevel=2,
        )


def row_length(meta: TensorMeta) -> int:
    """Return the length of a box, or of a vector of an embedding; 0 if it is unknown or may vary."""
    if meta.htype == "bbox":
        return 4
    if meta.htype != "embedding" or not meta.max_shape or meta.min_shape[-1] not in (0, meta.max_shape[-1]):
        return 0
    return meta.max_shape[-1]


def _warn_of_other_lengths(rows: Samples, meta: TensorMeta) -> None:
    shapes = (
        {rows.shape[1:]}
        if isinstance(rows, np.ndarray) and rows.dtype != object
        else set(map(np.shape, _first(rows)))
    )
    length = row_length(meta)
    odd = [shape for shape in shapes if shape and shape[-1] not in (0, length)]
    if odd:
        warnings.warn(
            f"a box of tensor {meta.name!r} has {length} numbers, and a sample has the shape {odd[0]}",
            UnusualSampleWarning,
            stacklevel=2,
        )


def _first(rows: Samples) -> list[Any]:
    """Return the arrays among the first samples; checking these is enough, since wrong boxes are usually all wrong."""
    return [row for row in rows[:100] if isinstance(row, np.ndarray)]


def infer_htype(meta: TensorMeta, rows: Iterable[Any]) -> TensorMeta:
    """Give a tensor without an htype the htype of its first non-empty sample (format.md 3)."""
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
    """Return whether a value cannot be an array of numbers: integers beyond 64 bits, or None or dicts in a list."""
    if isinstance(value, int):
        return not -(2**63) <= value < 2**64
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    try:
        return np.asarray(value).dtype == object
    except ValueError:
        return False


def _has_text(rows: Samples) -> bool:
    """Return whether labels may include names."""
    kinds = set(map(type, rows))
    if kinds <= {int, bool, float, type(None)}:
        return False
    if not kinds <= {np.ndarray, type(None)}:
        return True
    arrays = [r for r in rows if r is not None] if type(None) in kinds else rows
    return any(dtype.kind in "UO" for dtype in set(map(attrgetter("dtype"), arrays)))
