"""Values of rows as JSON for the table of the page (`Rows` of types.ts).

A sample that cannot be read affects only its cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import LakebedError

_LETTERS = 4096
_ITEMS = 4096
# Limit of values of a sequence that is requested alone, such as the boxes in each frame of a long video.
_ALL = 1 << 20
_DEPTH = 32
_FEW = 64
_LINE = 256
_SCALARS: tuple[list[int], ...] = ([], [1], [0])
_KINDS = {
    **dict.fromkeys(("image", "image.rgb", "image.gray", "dicom", "nifti"), "image"),
    **dict.fromkeys(("binary_mask", "segment_mask", "instance_label"), "mask"),
    **dict.fromkeys(("point_cloud", "mesh"), "mesh"),
    **dict.fromkeys(("bbox.3d", "embedding", "intrinsics"), "array"),
    **dict.fromkeys(("text", "tag"), "text"),
    **dict.fromkeys(("json", "list"), "json"),
    **{name: name for name in ("video", "audio", "bbox", "polygon", "point")},
    "keypoints_coco": "keypoints",
    "class_label": "label",
}
_EXACT = 1 << 53
_APART = ("image", "video", "audio", "mask", "mesh", "unknown")
"""Kinds of tensors for whose samples only the shape is returned in cells."""


def kind_of(tensor: lakebed.Tensor) -> str:
    """Return the kind of a tensor, by which the page shows it."""
    htype = tensor.base_htype
    if htype in _KINDS:
        return _KINDS[htype]
    if htype not in (None, "generic"):
        return "unknown"
    return "scalar" if tensor.meta.max_shape in _SCALARS else "array"


def plain(value: Any, items: int = _ITEMS) -> tuple[Any, bool]:
    """Return a value as JSON, and whether it was cut.

    Numbers that JSON lacks, or that JavaScript would round, become text.
    """
    left = [items]
    cut = [False]
    return _plain(value, left, cut, 0), cut[0]


def _plain(value: Any, left: list[int], cut: list[bool], depth: int) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = _numbers(np.asarray(value), left, cut)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value).replace("nan", "NaN").replace("inf", "Infinity")
    if isinstance(value, str):
        cut[0] |= len(value) > _LETTERS
        left[0] -= len(value) // _FEW
        return value[:_LETTERS].encode("utf-8", "replace").decode()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if not isinstance(value, dict | list | tuple):
        return str(value)[:_LETTERS]
    if depth >= _DEPTH:
        cut[0] = True
        return "..."
    found: Any = {} if isinstance(value, dict) else []
    for item in value.items() if isinstance(value, dict) else value:
        left[0] -= 1
        if left[0] < 0:
            cut[0] = True
            break
        if isinstance(value, dict):
            key, one = item
            found[_plain(str(key), left, cut, depth)] = _plain(one, left, cut, depth + 1)
        else:
            found.append(_plain(item, left, cut, depth + 1))
    return found


def _numbers(array: NDArray[Any], left: list[int], cut: list[bool]) -> Any:
    """Return an array as lists, cut along the first axis to `left` numbers; float32 values keep their short digits."""
    row = max(1, math.prod(array.shape[1:]))
    if array.ndim and array.size > left[0]:
        cut[0] = True
        array = array[: max(0, left[0] // row)]
    left[0] -= max(0, array.size - array.shape[0]) if array.ndim else 0
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        array = array.astype("U32").astype(np.float64)
    return array.tolist()


def cells(tensor: lakebed.Tensor, rows: Sequence[int]) -> list[Any]:
    """Return a cell for each row of a tensor; None for rows beyond its end."""
    kind, known = kind_of(tensor), [row for row in rows if 0 <= row < len(tensor)]
    read = _shapes if _is_apart(tensor, kind) else _values
    found = dict(zip(known, each(known, lambda some: read(tensor[some], kind)), strict=True))
    return [found.get(row) for row in rows]


def each(rows: Sequence[int], read: Callable[[Any], list[Any]]) -> list[Any]:
    """Return the cells of some rows; if reading them together fails, read them one by one, with their errors."""
    try:
        return read(rows) if rows else []
    except (LakebedError, OverflowError, MemoryError) as error:
        if len(rows) == 1:
            return [{"error": str(error) or type(error).__name__}]
        return [cell for at in range(len(rows)) for cell in each(rows[at : at + 1], read)]


def _is_apart(tensor: lakebed.Tensor, kind: str) -> bool:
    shape = tensor.meta.max_shape
    is_many = tensor.is_sequence or math.prod(shape) > (_LINE if len(shape) == 1 else _FEW)
    return kind in _APART or (kind == "array" and is_many)


def _shapes(tensor: lakebed.Tensor, kind: str) -> list[Any]:
    nulls = tensor.null_mask()
    found: list[Any] = []
    for at, shape in enumerate(tensor.shapes()):
        if nulls is not None and nulls[at]:
            found.append(None)
        elif tensor.is_sequence:
            items = np.asarray(shape)
            found.append({"s": items.max(axis=0).tolist(), "frames": len(items)} if items.size else None)
        else:
            extents = shape.tolist()
            is_empty = kind != "array" and 0 in extents
            found.append(None if is_empty else {"s": extents})
    return found


def _values(tensor: lakebed.Tensor, kind: str) -> list[Any]:
    if tensor.holds_nothing:
        return [None] * len(tensor)
    if tensor.info.get("logical_type") and kind == "scalar":
        values: Any = tensor.data()["value"]
        nulls = tensor.null_mask()
        values = [None if nulls is not None and nulls[at] else one for at, one in enumerate(values)]
    else:
        values = tensor.values()
    items = _ALL if tensor.is_sequence and len(tensor) == 1 else _ITEMS
    return [cell(value, kind, items) for value in values]


def cell(value: Any, kind: str, items: int = _ITEMS) -> Any:
    """Return a value as JSON for a cell of the table (`Cell` of types.ts)."""
    if value is None:
        return None
    if kind == "scalar" and isinstance(value, np.ndarray):
        if not value.size:
            return None
        value = value.reshape(-1)[0] if value.size == 1 else value
    shown, cut = plain(value, items)
    return {"v": shown, "cut": True} if cut else {"v": shown}
