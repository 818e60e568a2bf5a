"""Masks as run lengths: alternating counts of zeros and ones, along the rows in CVAT, along the columns in COCO.

COCO writes the counts as a list of numbers, or packs them into text, which pycocotools reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.importers.core.packages import module

_MOST_PIXELS = 1 << 29
_PACKED = re.compile(rb"(?:[P-o]{0,5}[0-O])*")
"""Texts of complete numbers with up to six characters each; for other texts, pycocotools reads beyond the end."""


def mask_of(counts: Iterable[Any], height: int, width: int) -> NDArray[np.bool_]:
    """Return the mask whose rows have these counts.

    Raises
    ------
    FormatError
        If the counts are not numbers, or do not cover the mask.
    """
    try:
        runs = np.array([int(count) for count in counts], np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"its run lengths are not numbers: {error}") from error
    pixels = height * width
    is_within = not len(runs) or (runs.min() >= 0 and runs.max() <= pixels)
    if not is_within or int(runs.sum()) != pixels or len(runs) > pixels + 1:
        raise FormatError(
            f"its run lengths must be 0 or more, at most {pixels + 1}, and add up to {pixels} pixels; these "
            f"{len(runs)} add up to {runs.sum()}"
        )
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(height, width)


def decoded(rle: Mapping[str, Any], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return a mask of COCO, shape (height, width).

    Parameters
    ----------
    rle
        ``size`` and ``counts``.
    size
        Height and width of the picture; 0 for unknown ones.

    Raises
    ------
    FormatError
        If the mask has another size than its picture, or its counts are damaged.
    ModuleNotInstalledException
        If the counts are text and pycocotools is missing.
    """
    try:
        height, width = (int(side) for side in rle["size"])
        counts = rle["counts"]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"the size or the counts of a mask are damaged: {error}") from error
    if min(height, width) < 1 or height * width > _MOST_PIXELS:
        raise FormatError(f"a mask of {height} x {width} pixels is empty or too large")
    if all(size) and size != (height, width):
        raise FormatError(f"a mask has {height} x {width} pixels, but its picture has {size[0]} x {size[1]}")
    if isinstance(counts, str):
        return _unpacked(counts.encode(errors="replace"), height, width)
    return np.ascontiguousarray(mask_of(counts, width, height).T)


def _unpacked(counts: bytes, height: int, width: int) -> NDArray[np.bool_]:
    """Return the mask of counts that are packed into text."""
    found = _at_most(counts, height, width) if _PACKED.fullmatch(counts) else None
    # If the counts end early, pycocotools leaves the rest of the mask uninitialised: refuse counts that would also fit
    # a mask of one pixel less.
    if found is None or _at_most(counts, height * width - 1, 1) is not None:
        raise FormatError(f"its run lengths do not cover {height} x {width} pixels")
    return np.ascontiguousarray(found, np.bool_)


def _at_most(counts: bytes, height: int, width: int) -> NDArray[np.uint8] | None:
    """Return the mask of counts that cover the whole mask or only its first pixels; None if they cover more."""
    try:
        found: NDArray[np.uint8] = pycocotools().decode({"size": [height, width], "counts": counts})
    except ValueError:
        return None
    return found


def pycocotools() -> Any:
    """Return the module of pycocotools that reads masks.

    Raises
    ------
    ModuleNotInstalledException
        If pycocotools is missing.
    """
    return module(
        "pycocotools.mask", "masks whose run lengths are text need the package 'pycocotools'", "coco"
    )
