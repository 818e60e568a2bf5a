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

    Images are averaged bilinearly, masks take the nearest pixel; what Pillow can not take is sampled with a stride.
    An image that would become too small gives an empty array of the same rank.
    """
    if array.ndim < 2 or array.size == 0:
        return _empty(array)
    height, width = array.shape[:2]
    if width * height <= _SMALL * factor**2 or not height // factor or not width // factor:
        return _empty(array)
    from PIL import Image

    squeezed = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    try:
        image = Image.fromarray(squeezed)
    except (TypeError, ValueError):
        return array[::factor, ::factor]
    filter_ = Image.Resampling.NEAREST if htype in _MASKS else Image.Resampling.BILINEAR
    smaller = np.asarray(image.resize((width // factor, height // factor), filter_), dtype=array.dtype)
    return smaller.reshape(*smaller.shape[:2], 1) if squeezed is not array else smaller


def _empty(array: NDArray[Any]) -> NDArray[Any]:
    return np.empty((0,) * array.ndim, dtype=array.dtype)
