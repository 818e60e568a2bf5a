"""Smaller copies of images and masks for hidden ``_x_downsampled_<factor>`` tensors (FORMAT.md 8)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Images of no more than this many pixels, times the square of the factor, get no smaller copy.
_SMALL = 100

_MASKS = ("binary_mask", "segment_mask")


def downsample(array: NDArray[Any], htype: str, factor: int) -> NDArray[Any]:
    """Reduce an image of shape (H, W) or (H, W, C) to (H // factor, W // factor[, C]).

    Images are averaged bilinearly, masks take the nearest pixel; truth values, and what Pillow cannot take, are
    sampled with a stride. An image that would become too small gives an empty array of the same rank.
    """
    if array.ndim not in (2, 3) or array.size == 0:
        return _empty(array)
    height, width = array.shape[:2]
    low, narrow = height // factor, width // factor
    if width * height <= _SMALL * factor**2 or not low or not narrow:
        return _empty(array)
    if array.dtype == np.bool_:
        return array[::factor, ::factor]
    if htype in _MASKS:
        return array[_nearest(height, low)[:, np.newaxis], _nearest(width, narrow)]
    from PIL import Image

    squeezed = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    try:
        image = Image.fromarray(np.ascontiguousarray(squeezed))
        smaller = np.asarray(image.resize((narrow, low), Image.Resampling.BILINEAR), dtype=array.dtype)
    except (TypeError, ValueError):
        return array[::factor, ::factor][:low, :narrow]
    return smaller.reshape(*smaller.shape[:2], 1) if squeezed is not array else smaller


def _nearest(extent: int, smaller: int) -> NDArray[np.int64]:
    """Return the place of the pixel nearest to the middle of each pixel of a smaller axis."""
    middles = (np.arange(smaller) + 0.5) * (extent / smaller)
    return np.minimum(middles.astype(np.int64), extent - 1)


def _empty(array: NDArray[Any]) -> NDArray[Any]:
    return np.empty((0,) * array.ndim, dtype=array.dtype)
