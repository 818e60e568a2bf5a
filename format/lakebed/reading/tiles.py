"""Read tiled samples: a whole sample from all its chunks, a part from the chunks that it touches (format.md 6.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.chunk import Chunk
from lakebed.chunks.tiling import Box, box, choose_tile_shape, grid, layouts, touched
from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TILING_THRESHOLD
from lakebed.errors import FormatError, InvalidInputError
from lakebed.reading.locate import StoredSamples
from lakebed.reading.parts import shifted
from lakebed.reading.remote.prefetch import prefetch_tiles

Shape = tuple[int, ...]


class TiledSample:
    """One tiled sample; each tile is a chunk, in C order of the grid.

    Parameters
    ----------
    ordinals
        Rows of the chunk table that hold the tiles.
    entry
        Shapes of the sample and of a tile in the tile index. 3.9.52 may leave outdated entries, so the chunks' headers
        decide (format.md 15.6).
    """

    def __init__(self, reader: StoredSamples, ordinals: range, entry: tuple[Shape, Shape] | None) -> None:
        self._reader = reader
        self._ordinals = ordinals
        limits.check("MAX_TILES", len(ordinals), f"tiles of a sample of tensor {reader.name!r}")
        self.shape, self.tile_shape = self._layout(entry)

    def _layout(self, entry: tuple[Shape, Shape] | None) -> tuple[Shape, Shape]:
        if entry is not None and self._is_possible(*entry):
            return entry
        found = layouts([self._tile_shape(number) for number in range(len(self._ordinals))])
        if not found:
            raise FormatError(f"the {len(self._ordinals)} tiles of a sample do not fit together")
        chosen = [layout for layout in found if self._was_chosen(*layout)]
        return (chosen or found)[0]

    def _is_possible(self, shape: Shape, tile: Shape) -> bool:
        """Compare an entry with the number of tiles, and with the header of the last tile if 3.9.52 wrote it."""
        if math.prod(grid(shape, tile)) != len(self._ordinals):
            return False
        last = len(self._ordinals) - 1
        if len(self._reader.state.table.sums(self._ordinals[last])):
            return True  # lakebed keeps its tile entries up to date, and each tile is checked when it is read
        return self._tile_shape(last) == _extent(box(shape, tile, last))

    def _was_chosen(self, shape: Shape, tile: Shape) -> bool:
        """Return whether 3.9.52 would cut a sample of this shape into such tiles."""
        decoder = self._reader.decoder
        meta = decoder.meta
        compression = decoder.compression or meta.chunk_compression
        nbytes = math.prod(shape) * decoder.known_dtype().itemsize
        whole_last = not ((meta.htype or "generic") == "generic" and is_plain(compression))
        try:
            rule = choose_tile_shape(
                shape,
                nbytes,
                max(meta.tiling_threshold or TILING_THRESHOLD, 1),
                factor=0.5 if compression else 1.0,
                exclude_last=whole_last,
            )
        except InvalidInputError:
            return False
        return rule == tile

    def _chunk(self, number: int) -> Chunk:
        reader = self._reader
        return reader.source.chunk(reader.state.table, self._ordinals[number], reader.chunk_codec(), count=1)

    def _tile_shape(self, number: int) -> Shape:
        chunk = self._chunk(number)
        if chunk.ndim is None:
            raise FormatError(f"tile {number} of a sample has no shape")
        return chunk.shape(0)

    def _tile(self, number: int) -> NDArray[Any]:
        chunk, decoder = self._chunk(number), self._reader.decoder
        shape = chunk.shape(0)
        if chunk.is_unwritten:
            return decoder.zeros(shape)
        return decoder.array(chunk.data, shape)

    def content(self, number: int) -> bytes | memoryview:
        """Return the bytes of a tile without compression by chunk; empty if it was never written."""
        chunk = self._chunk(number)
        return b"" if chunk.is_unwritten else chunk.data

    def contents(self, subscript: Any) -> Iterator[tuple[Box, bytes | memoryview]]:
        """Yield (box in the sample, bytes) of each tile that ``sample[subscript]`` touches."""
        numbers = touched(self.shape, self.tile_shape, subscript)
        with prefetch_tiles(self._reader, [self._ordinals[number] for number in numbers]):
            for number in numbers:
                yield box(self.shape, self.tile_shape, number), self.content(number)

    def array(self) -> NDArray[Any]:
        """Return the whole sample."""
        return self._assembled(range(len(self._ordinals)), _whole(self.shape))

    def part(self, subscript: Any) -> NDArray[Any]:
        """Return ``sample[subscript]``; read only the tiles that it touches.

        Raises
        ------
        IndexError
            If the subscript is outside of the sample.
        """
        numbers = touched(self.shape, self.tile_shape, subscript)
        if len(numbers) == len(self._ordinals):
            found: NDArray[Any] = self.array()[subscript]
            return found
        if not numbers:
            empty: NDArray[Any] = self._blank()[subscript].copy()
            return empty
        places = [box(self.shape, self.tile_shape, number) for number in numbers]
        window = tuple(
            slice(min(p[axis].start for p in places), max(p[axis].stop for p in places))
            for axis in range(len(self.shape))
        )
        inner = self._assembled(numbers, window)
        # The subscript counts from the origin of the sample, so apply it to a view of the whole shape that only has
        # the data of the window.
        return shifted(inner, subscript, window, self.shape)

    def _blank(self) -> NDArray[Any]:
        """Return an array of the sample's shape without memory for its values."""
        return np.broadcast_to(np.zeros((), dtype=self._reader.decoder.known_dtype()), self.shape)

    def _assembled(self, numbers: Sequence[int], window: tuple[slice, ...]) -> NDArray[Any]:
        if not numbers:
            return self._blank()[window].copy()
        with prefetch_tiles(self._reader, [self._ordinals[number] for number in numbers]):
            return self._joined(numbers, window)

    def _joined(self, numbers: Sequence[int], window: tuple[slice, ...]) -> NDArray[Any]:
        decoder, shape = self._reader.decoder, _extent(window)
        first = self._tile(numbers[0])  # fails before memory for the whole sample is allocated
        limits.check_sample(shape, first.itemsize, f"tiled sample of tensor {self._reader.name!r}")
        out = np.empty(shape, dtype=decoder.known_dtype())
        for number in numbers:
            place = box(self.shape, self.tile_shape, number)
            tile = first if number == numbers[0] else self._tile(number)
            if tile.shape != _extent(place):
                raise FormatError(
                    f"tile {number} of a sample has the shape {tile.shape} instead of {_extent(place)}"
                )
            out[
                tuple(slice(p.start - w.start, p.stop - w.start) for p, w in zip(place, window, strict=True))
            ] = tile
        return out


def _whole(shape: Shape) -> tuple[slice, ...]:
    return tuple(slice(0, extent) for extent in shape)


def _extent(place: tuple[slice, ...]) -> Shape:
    return tuple(part.stop - part.start for part in place)
