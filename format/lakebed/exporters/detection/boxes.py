"""Boxes of a tensor in the coordinates of a format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

IMAGES = ("image", "image.rgb", "image.gray")
"""Htypes of images."""


def as_ltwh(boxes: Any, coords: Mapping[str, Any], size: tuple[int, int]) -> NDArray[np.float64]:
    """Return boxes as left, top, width and height in pixels, shape (n, 4).

    Parameters
    ----------
    boxes
        Shape (n, 4), or empty.
    coords
        The info of the tensor: ``type`` ``pixel`` or ``fractional``; ``mode`` ``LTWH``, ``LTRB`` or ``CCWH``. Defaults
        are pixels and LTWH, as in 3.x.
    size
        Height and width of the picture.
    """
    found = np.array(boxes, np.float64).reshape(-1, 4)
    mode = str(coords.get("mode") or "LTWH").upper()
    if mode in ("LTRB", "TLBR"):
        if mode == "TLBR":
            found = found[:, [1, 0, 3, 2]]
        found[:, 2:] -= found[:, :2]
    elif mode == "CCWH":
        found[:, :2] -= found[:, 2:] / 2
    if coords.get("type") == "fractional":
        found *= np.array([size[1], size[0], size[1], size[0]], np.float64)
    return found
