"""Parts of a sample: the positions that a chain of subscripts names, and assignment of values to them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.tiling import box, grid

Shape = tuple[int, ...]


def put(array: NDArray[Any], subscripts: Sequence[Any], value: Any) -> None:
    """Assign ``array[s1][s2]... = value`` for a chain of subscripts, even if NumPy copies at one of them.

    Raises
    ------
    IndexError, ValueError
        If a subscript or the value does not fit.
    """
    first, rest = subscripts[0], subscripts[1:]
    if not rest:
        array[first] = value
        return
    part = np.asarray(array[first])
    put(part, rest, value)
    array[first] = part


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a sample as one list of positions per axis.

    Parameters
    ----------
    positions
        Selected positions, one int64 array per axis of the sample.
    kept
        For each axis of the sample, whether the part has the axis too; an int subscript removes its axis.
    """

    positions: tuple[NDArray[np.int64], ...]
    kept: tuple[bool, ...]

    @property
    def shape(self) -> Shape:
        """Extents of the part along each axis."""
        return tuple(len(p) for p, kept in zip(self.positions, self.kept, strict=True) if kept)

    def tiles(self, shape: Shape, tile: Shape) -> Iterator[int]:
        """Yield the numbers of the tiles that overlap the part, ascending."""
        at = [np.unique(p // extent).tolist() for p, extent in zip(self.positions, tile, strict=True)]
        counts = grid(shape, tile)
        for place in product(*at):
            yield int(np.ravel_multi_index(place, counts))

    def put_into(
        self, data: NDArray[Any], shape: Shape, tile: Shape, number: int, value: NDArray[Any]
    ) -> None:
        """Assign to one tile's data the elements of ``value`` in this tile; ``value`` has the shape of the part."""
        chosen, local, extents = [], [], []
        limits = box(shape, tile, number)
        for p, kept, limit in zip(self.positions, self.kept, limits, strict=True):
            inside = np.flatnonzero((p >= limit.start) & (p < limit.stop))
            local.append(p[inside] - limit.start)
            extents.append(len(inside))
            if kept:
                chosen.append(inside)
        part = value[np.ix_(*chosen)] if chosen else value
        data[np.ix_(*local)] = part.reshape(extents)


def whole(shape: Shape) -> Region:
    """Return the part that covers a whole sample."""
    return Region(tuple(np.arange(extent) for extent in shape), (True,) * len(shape))


def region(shape: Shape, subscripts: Sequence[tuple[Any, ...]]) -> Region | None:
    """Return the part that a chain of subscripts names; None if a subscript is neither an int nor a slice.

    Raises
    ------
    IndexError
        If the sample has fewer axes than subscripts, or an int is out of range.
    """
    positions = [np.arange(extent) for extent in shape]
    kept = [True] * len(shape)
    for subscript in subscripts:
        axes = [axis for axis, stays in enumerate(kept) if stays]
        for axis, item in zip(axes, expanded(subscript, len(axes)), strict=False):
            if isinstance(item, slice):
                positions[axis] = positions[axis][item]
            elif isinstance(item, int) and not isinstance(item, bool):
                positions[axis] = positions[axis][[item]]
                kept[axis] = False
            else:
                return None
    return Region(tuple(positions), tuple(kept))


def expanded(subscript: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Return a subscript with its ellipsis replaced by full slices.

    Raises
    ------
    IndexError
        If the subscript names more axes than the sample has.
    """
    dots = [i for i, item in enumerate(subscript) if item is Ellipsis]
    if len(subscript) - len(dots) > ndim:
        raise IndexError(
            f"too many indices: the sample has {ndim} axes, {len(subscript) - len(dots)} were given"
        )
    if not dots:
        return subscript
    at = dots[0]
    missing = ndim - len(subscript) + 1
    return (*subscript[:at], *(slice(None),) * missing, *subscript[at + 1 :])
