"""Cutting of large samples into tiles, and the tiles that a part of a sample touches (format.md 6.2, 6.3).

Tiles are numbered in C order over the grid; tiles at the far borders are cropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError

Shape = tuple[int, ...]
Box = tuple[slice, ...]


def choose_tile_shape(
    shape: Sequence[int], nbytes: int, threshold: int, *, factor: float, exclude_last: bool
) -> Shape:
    """Return the tile shape that 3.9.52 chooses: the largest axis is halved until a tile fits into ``threshold``.

    Parameters
    ----------
    nbytes
        Size of the decoded sample.
    factor
        Expected compressed size over decoded size: 1.0 uncompressed, 0.5 with any compression.
    exclude_last
        Leave the last axis whole (all but generic tensors without image compression).

    Raises
    ------
    InvalidInputError
        If no axis can be halved any further.

    Examples
    --------
    >>> choose_tile_shape((50, 60), 3000, 800, factor=1.0, exclude_last=False)
    (25, 30)
    """
    extents = [float(extent) for extent in shape]
    free = range(len(extents) - 1 if exclude_last else len(extents))
    ratio = nbytes * factor / threshold
    while ratio > 1:
        axis = max(free, key=extents.__getitem__, default=None)
        if axis is None or extents[axis] < 2:
            raise InvalidInputError(
                f"a sample of shape {tuple(shape)} and {nbytes} bytes can not be cut into tiles of {threshold} bytes; "
                "raise tiling_threshold, or pass -1 to switch tiling off"
            )
        extents[axis] /= 2
        ratio /= 2
    return tuple(math.ceil(extent) for extent in extents)


def grid(shape: Sequence[int], tile: Sequence[int]) -> Shape:
    """Count the tiles along each axis.

    Raises
    ------
    InvalidInputError
        If the ranks differ or a tile has no extent.
    """
    if len(shape) != len(tile) or min(tile, default=1) < 1:
        raise InvalidInputError(
            f"tiles of shape {tuple(tile)} can not cover a sample of shape {tuple(shape)}"
        )
    return tuple(-(-extent // step) for extent, step in zip(shape, tile, strict=True))


def box(shape: Sequence[int], tile: Sequence[int], number: int) -> Box:
    """Return the part of the sample that tile ``number`` holds."""
    at = np.unravel_index(number, grid(shape, tile))
    return tuple(
        slice(int(i) * step, min((int(i) + 1) * step, extent))
        for i, step, extent in zip(at, tile, shape, strict=True)
    )


def boxes(shape: Sequence[int], tile: Sequence[int]) -> list[Box]:
    """Return the parts of the sample that the tiles hold, in C order, cropped at the borders."""
    grid(shape, tile)  # check that the tiles can cover the sample
    axes = [
        [slice(start, min(start + step, extent)) for start in range(0, extent, step)]
        for extent, step in zip(shape, tile, strict=True)
    ]
    return list(product(*axes))


def layouts(tile_shapes: Sequence[Shape]) -> list[tuple[Shape, Shape]]:
    """Return all (sample shape, tile shape) whose tiles, in C order, have these shapes.

    Several pairs are possible if equal tiles can be laid out in more than one way.
    """
    if not tile_shapes:
        return []
    tile = tile_shapes[0]
    found = []
    for counts in _factors(len(tile_shapes), len(tile)):
        strides = [math.prod(counts[axis + 1 :]) for axis in range(len(tile))]
        shape = tuple(
            sum(tile_shapes[i * stride][axis] for i in range(count))
            for axis, (count, stride) in enumerate(zip(counts, strides, strict=True))
        )
        if min(tile, default=1) < 1 or grid(shape, tile) != counts:
            continue
        extents = [tuple(part.stop - part.start for part in place) for place in boxes(shape, tile)]
        if extents == [tuple(t) for t in tile_shapes]:
            found.append((shape, tile))
    return found


def _factors(count: int, axes: int) -> list[Shape]:
    """Return all factorizations of a count into one factor per axis."""
    if axes == 0:
        return [()] if count == 1 else []
    return [
        (first, *rest)
        for first in range(1, count + 1)
        if count % first == 0
        for rest in _factors(count // first, axes - 1)
    ]


def touched(shape: Sequence[int], tile: Sequence[int], subscript: Any) -> list[int]:
    """Return the numbers, ascending, of the tiles that ``sample[subscript]`` reads or writes.

    Ints, slices, ``...`` and one-dimensional lists of ints or booleans are followed axis by axis; for anything else all
    tiles are returned.

    Raises
    ------
    IndexError
        If an int lies outside its axis, or there are too many subscripts.
    """
    counts = grid(shape, tile)
    per_axis = [
        np.unique(_positions(extent, item) // step)
        for extent, step, item in zip(shape, tile, _per_axis(len(shape), subscript), strict=True)
    ]
    if not per_axis:
        return [0]
    numbers: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
    for chosen, count in zip(per_axis, counts, strict=True):
        numbers = (numbers[:, None] * count + chosen[None, :]).reshape(-1)
    return [int(n) for n in numbers]


def _per_axis(ndim: int, subscript: Any) -> list[Any]:
    """Expand a subscript to all axes; axes that it does not name are taken whole."""
    items = list(subscript) if isinstance(subscript, tuple) else [subscript]
    if any(not _is_followed(item) for item in items):
        return [slice(None)] * ndim
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    named = len(items) - len(dots)
    if named > ndim or len(dots) > 1:
        raise IndexError(f"{named} subscripts are too many for a sample with {ndim} axes")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (ndim - named), *items[at + 1 :]]


def _is_followed(item: Any) -> bool:
    if isinstance(item, bool | np.bool_) or item is None:
        return False
    if isinstance(item, int | np.integer | slice | EllipsisType):
        return True
    array = np.asarray(item)
    return array.ndim == 1 and (array.dtype.kind in "iub" or array.size == 0)


def _positions(extent: int, item: Any) -> NDArray[np.int64]:
    """Return the positions along one axis that an item of a subscript selects."""
    if isinstance(item, slice):
        return np.arange(*item.indices(extent), dtype=np.int64)
    chosen = np.asarray(item)
    if chosen.dtype == np.bool_:
        if len(chosen) != extent:
            raise IndexError(f"a mask of {len(chosen)} booleans can not select from an axis of {extent}")
        return np.flatnonzero(chosen).astype(np.int64)
    positions = np.atleast_1d(chosen).astype(np.int64)
    bad = (positions < -extent) | (positions >= extent)
    if bad.any():
        raise IndexError(f"index {int(positions[bad][0])} is out of range for an axis of {extent}")
    return positions % max(extent, 1)
