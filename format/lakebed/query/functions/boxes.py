"""Functions of boxes: IOU and NORMALIZE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.functions.function import Function
from lakebed.query.values.columns import Column, by_row
from lakebed.query.values.info import NUMBER, Given, Info


def _corners(boxes: NDArray[Any], mode: str) -> NDArray[np.float64]:
    """Return boxes as left, top, right, bottom: float64, shape (boxes, 4)."""
    found = _numbers(boxes).reshape(-1, 4)
    if mode == "LTWH":
        found[:, 2:] += found[:, :2]
    elif mode == "CCWH":
        found[:, :2] -= found[:, 2:] / 2
        found[:, 2:] += found[:, :2]
    elif len(found) and mode not in ("LTRB", "TLBR"):
        raise QueryError(f"boxes have an unknown mode {mode!r}", kind="unsupported")
    return found


def _numbers(boxes: Any) -> NDArray[np.float64]:
    """Return a copy of boxes as float64, shape (..., 4); shape (0, 4) if the value is missing."""
    found = np.array(() if boxes is None else boxes, np.float64)
    if found.size == 0:
        return np.zeros((0, 4))
    if found.shape[-1] != 4:
        raise QueryError(f"a box is four numbers, not {found.shape[-1]}", kind="shape")
    return found


def _overlaps(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    corner = np.minimum(first[:, None, 2:], second[None, :, 2:])
    origin = np.maximum(first[:, None, :2], second[None, :, :2])
    common = np.clip(corner - origin, 0, None).prod(axis=-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(axis=-1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1] - common
    return np.asarray(np.divide(common, union, out=np.zeros_like(common), where=union > 0))


def _iou(given: Given) -> Column:
    """Return the overlap of each box with each box of the other argument: shape (boxes, other boxes)."""
    one, other = (info.coords for info in given.infos)
    if {info.unit for info in given.infos} == {"pixel", "fractional"}:
        raise QueryError(
            "IOU cannot compare boxes in pixels with boxes in fractions of the image: convert the first with "
            "NORMALIZE(boxes, ARRAY[0, 0, width, height])",
            kind="unsupported",
        )
    return by_row(
        given.count, lambda a, b: _overlaps(_corners(a, one), _corners(b, other)), given.columns, "IOU"
    )


def _iou_key(column: Column) -> Column:
    """Return the sort key for ORDER BY: for each row, the mean of the largest overlaps of the first argument's boxes.

    The key of a row without boxes is missing.
    """

    def key(table: Any) -> Any:
        if table is None or not table.size:
            return None
        return table if table.ndim == 0 else table.reshape(len(table), -1).max(axis=1).mean()

    return by_row(len(column), key, [column], "IOU")


def _normalized(infos: Sequence[Info]) -> Info:
    """Return the properties of boxes relative to a window, which keep their mode."""
    return replace(NUMBER, coords=infos[0].coords, unit="fractional")


def _normalize(given: Given) -> Column:
    """Return boxes relative to a window (left, top, right, bottom): moved to its origin, divided by its size."""
    mode = given.infos[0].coords

    def moved(boxes: Any, window: Any) -> Any:
        window = np.asarray(window, np.float64).reshape(-1)
        if window.shape != (4,):
            raise QueryError("a window is four numbers: left, top, right, bottom", kind="shape")
        size = window[2:] - window[:2]
        if not (size > 0).all():
            raise QueryError(
                "the right of a window must be larger than its left, and its bottom larger than its top",
                kind="runtime",
            )
        found = _numbers(boxes)
        found[..., :2] -= window[:2]
        if mode in ("LTRB", "TLBR"):
            found[..., 2:] -= window[:2]
        return (found / np.tile(size, 2)).astype(np.float32)

    return by_row(given.count, moved, given.columns, "NORMALIZE")


FUNCTIONS: list[Function] = [
    Function("IOU", 2, 2, _iou, NUMBER, 20.0, _iou_key),
    Function("NORMALIZE", 2, 2, _normalize, _normalized, 5.0),
]
