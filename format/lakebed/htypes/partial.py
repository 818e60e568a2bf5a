"""A large sample that is appended empty and filled in later, piece by piece (API.md 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lakebed.errors import InvalidInputError


class PartialSample:
    """A sample with a shape and no values yet; each tile reads as zeros until it is assigned.

    Parameters
    ----------
    sample_shape
        Extents of the sample.
    tile_shape
        Extents of a tile; None lets the tensor choose.
    dtype
        NumPy dtype of the values.

    Raises
    ------
    InvalidInputError
        If the shapes differ in rank, or a tile has no extent.
    """

    def __init__(
        self, sample_shape: tuple[int, ...], tile_shape: tuple[int, ...] | None = None, dtype: Any = "uint8"
    ) -> None:
        self.sample_shape = _extents(sample_shape)
        self.tile_shape = None if tile_shape is None else _extents(tile_shape)
        self.dtype = np.dtype(dtype)
        if self.tile_shape is not None and (
            len(self.tile_shape) != len(self.sample_shape) or min(self.tile_shape, default=1) < 1
        ):
            raise InvalidInputError(
                f"tiles of shape {self.tile_shape} can not cover a sample of shape {self.sample_shape}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the sample."""
        return self.sample_shape

    def astype(self, dtype: Any) -> PartialSample:
        """Return the same sample with another dtype."""
        return PartialSample(self.sample_shape, self.tile_shape, dtype)

    def downsample(self, factor: int) -> PartialSample:
        """Return the sample reduced by a factor along its first two axes."""

        def smaller(shape: tuple[int, ...]) -> tuple[int, ...]:
            return (*(extent // factor for extent in shape[:2]), *shape[2:])

        tile = None if self.tile_shape is None else tuple(max(n, 1) for n in smaller(self.tile_shape))
        return PartialSample(smaller(self.sample_shape), tile, self.dtype)

    def __repr__(self) -> str:
        return f"PartialSample(shape={self.sample_shape}, tile_shape={self.tile_shape}, dtype={self.dtype})"


def tiled(
    sample_shape: tuple[int, ...], tile_shape: tuple[int, ...] | None = None, dtype: Any = "uint8"
) -> PartialSample:
    """Return a large sample to append, which is filled in later by assigning to its parts.

    Parameters
    ----------
    sample_shape
        Extents of the sample.
    tile_shape
        Extents of a tile; None lets the tensor choose.
    dtype
        NumPy dtype of the values.

    Returns
    -------
    A sample to append; its parts are assigned afterwards.

    Examples
    --------
    >>> tiled((10_000, 10_000, 3)).shape
    (10000, 10000, 3)
    """
    return PartialSample(sample_shape, tile_shape, dtype)


def _extents(shape: Any) -> tuple[int, ...]:
    extents = tuple(int(extent) for extent in shape)
    if not extents or min(extents) < 0:
        raise InvalidInputError(f"{shape!r} is not the shape of a sample")
    return extents
