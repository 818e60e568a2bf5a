"""Run lengths of masks as COCO stores them: counts of zeros and ones in turn, down the columns.

``{"size": [height, width], "counts": [...]}``, or counts as text: each is a number of 5 bits a character, lowest first,
whose character is 48 above it and has bit 32 set where more follow; bit 16 of the last one is the sign. From the third
on they are differences to the count two before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError

# Pixels of a mask; larger ones are taken for damage.
_MOST_PIXELS = 1 << 30


def decode_rle(rle: Mapping[str, Any], size: tuple[int, int] | None = None) -> NDArray[np.bool_]:
    """Return the mask, shape (height, width).

    Parameters
    ----------
    rle
        ``size`` and ``counts``.
    size
        What its size must be, unless that is unknown (0).

    Raises
    ------
    FormatError
        If the counts do not cover the mask, or its size is another.
    """
    try:
        height, width = (int(side) for side in rle["size"])
        counts = rle["counts"]
        runs = (
            counts_of(counts) if isinstance(counts, str | bytes) else np.array(counts, np.int64).reshape(-1)
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(f"the run lengths of a mask are damaged: {error}") from error
    if not 0 <= height * width <= _MOST_PIXELS or height < 0 or width < 0:
        raise FormatError(f"a mask of {height} x {width} pixels is too large")
    if size is not None and all(size) and size != (height, width):
        raise FormatError(f"a mask is of {height} x {width} pixels, its picture of {size[0]} x {size[1]}")
    if (len(runs) and runs.min() < 0) or int(runs.sum()) != height * width or len(runs) > height * width + 1:
        raise FormatError(f"the run lengths of a mask cover {runs.sum()} pixels of {height} x {width}")
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return np.ascontiguousarray(flat.reshape(width, height).T)


def encode_rle(mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Return ``size`` and ``counts``, as numbers, of a mask of shape (height, width)."""
    flat = np.ascontiguousarray(mask.T).reshape(-1).astype(np.int8)
    edges = np.flatnonzero(np.diff(flat, prepend=np.int8(0))) if len(flat) else np.zeros(0, np.int64)
    counts = np.diff(np.concatenate(([0], edges, [len(flat)])))
    return {"size": [int(mask.shape[0]), int(mask.shape[1])], "counts": [int(count) for count in counts]}


def counts_of(text: str | bytes) -> NDArray[np.int64]:
    """Return the counts that text stands for.

    Raises
    ------
    ValueError
        If a character is none of 48 to 111, or the last number does not end.
    """
    codes: Sequence[int] = text if isinstance(text, bytes) else text.encode("ascii")
    found: list[int] = []
    value = shift = 0
    for code in codes:
        digit = code - 48
        if not 0 <= digit < 64 or shift > 60:
            raise ValueError(f"{chr(code)!r} is no part of run lengths")
        value |= (digit & 31) << shift
        shift += 5
        if digit & 32:
            continue
        if digit & 16:
            value -= 1 << shift
        if len(found) > 2:
            value += found[-2]
        found.append(value)
        value = shift = 0
    if shift:
        raise ValueError("the run lengths end in the middle of a number")
    return np.array(found, np.int64)
