"""Samples for a tensor that are encoded and checked, but not yet packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.documents.tensor_meta import Bounds, TensorMeta

Samples = Sequence[Any] | NDArray[Any]
"""Flat samples as callers pass them: an array with the samples along its first axis, or a sequence of samples."""


@dataclass(frozen=True, slots=True)
class Tiled:
    """A sample that is cut into tiles, each in a separate chunk (format.md 6.3).

    Parameters
    ----------
    sample_shape, tile_shape
        Extents of the sample and of an uncropped tile.
    tiles
        Makes the tiles in C order of the grid: (shape of the tile, its stored bytes). Empty bytes are a tile that was
        never written and reads as zeros.
    """

    sample_shape: tuple[int, ...]
    tile_shape: tuple[int, ...]
    tiles: Callable[[], Iterator[tuple[tuple[int, ...], bytes | memoryview]]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Flat samples ready for a tensor.

    Parameters
    ----------
    meta
        The tensor's metadata with an htype and dtype that the values set; extents and length are not yet updated.
    nulls
        True for rows whose null needs a separate record; None if no row needs one.
    info
        Changes of the tensor's info (new class names, logical type).
    owned
        Whether the block owns its bytes; borrowed bytes may change after the call.
    infos
        Entries for a hidden ``_info`` tensor, one mapping per sample; None stands for ``{}`` each.
    shapes
        Entries for a hidden ``_shape`` tensor if they differ from the block's shapes, one tuple per sample; for links
        the shapes of the files.
    creds
        Codes of the credentials of links: uint32, shape (count,); None means no credentials.
    tiled
        Set if this is one sample in tiles; the block then has its shape but no data.
    pixels
        Returns the decoded array of sample i for downsampled companions, or None.
    """

    block: Block
    meta: TensorMeta
    nulls: NDArray[np.bool_] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    owned: bool = True
    infos: Sequence[Mapping[str, Any]] | None = None
    shapes: Sequence[tuple[int, ...]] | None = None
    creds: NDArray[np.uint32] | None = None
    tiled: Tiled | None = None
    pixels: Callable[[int], NDArray[Any]] | None = None

    def bounds(self) -> Bounds | None:
        """Return the smallest and largest shape of the samples; for links, of the linked files.

        None if no sample exists, if no link was followed, or if all samples are empty.
        """
        if not self.meta.is_link:
            return self.block.shape_bounds()
        shapes = [shape for shape in self.shapes or () if shape and any(shape)]
        if not shapes or len(set(map(len, shapes))) > 1:
            return None
        axes = list(zip(*shapes, strict=True))
        return tuple(map(min, axes)), tuple(map(max, axes))

    def singles(self) -> Iterator[Encoded]:
        """Yield the samples one by one."""
        if self.block.count == 1:
            yield self
            return
        offsets = None if isinstance(self.block.sizes, int) else self.block.offsets()
        for i in range(self.block.count):
            yield replace(
                self,
                block=self.block.cut(i, i + 1, offsets),
                nulls=None if self.nulls is None else self.nulls[i : i + 1],
                infos=None if self.infos is None else self.infos[i : i + 1],
                shapes=None if self.shapes is None else self.shapes[i : i + 1],
                creds=None if self.creds is None else self.creds[i : i + 1],
                pixels=None if self.pixels is None else _Shifted(self.pixels, i),
            )


@dataclass(frozen=True, slots=True)
class _Shifted:
    """Callable that returns the pixels of one of several samples."""

    pixels: Callable[[int], NDArray[Any]]
    start: int

    def __call__(self, i: int) -> NDArray[Any]:
        return self.pixels(self.start + i)


@dataclass(frozen=True, slots=True)
class Column:
    """Rows of one tensor.

    Parameters
    ----------
    parts
        Flat samples in order; each part begins with the metadata that the part before it ended with.
    items
        Sequences: number of flat samples of each row, int64, shape (rows,); None for other tensors.
    """

    parts: Sequence[Encoded]
    items: NDArray[np.int64] | None = None

    @property
    def flat_count(self) -> int:
        """Number of flat samples."""
        return sum([part.block.count for part in self.parts])

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.flat_count if self.items is None else len(self.items)
