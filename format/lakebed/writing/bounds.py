"""Smallest and largest shapes of a tensor's samples, as its metadata keeps them (FORMAT.md 3). Pure."""

from __future__ import annotations

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.writing.encode.encoded import Encoded

Bounds = tuple[tuple[int, ...], tuple[int, ...]]


def linked_bounds(part: Encoded) -> Bounds | None:
    """Smallest and largest extents of what links point to; None where no link was followed, or all lead to nothing."""
    shapes = [shape for shape in part.shapes or () if shape]
    if not shapes or len(set(map(len, shapes))) > 1:
        return None
    axes = list(zip(*shapes, strict=True))
    return tuple(map(min, axes)), tuple(map(max, axes))


def widened(meta: TensorMeta, bounds: Bounds | None) -> Bounds:
    """Return min_shape and max_shape of a tensor with samples of such bounds taken in (FORMAT.md 3)."""
    if bounds is None:
        return tuple(meta.min_shape), tuple(meta.max_shape)
    low, high = bounds
    if not meta.max_shape:
        # Earlier samples without a rank are empty ones: they count as all zeros.
        return (low if meta.length == 0 else (0,) * len(low)), high
    return (
        tuple(min(a, b) for a, b in zip(meta.min_shape, low, strict=True)),
        tuple(max(a, b) for a, b in zip(meta.max_shape, high, strict=True)),
    )
