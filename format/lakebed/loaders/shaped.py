"""Images that are cropped, resized or mirrored as they are decoded: only what comes out is made (docs/design/025)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.regions import decode_regions, resize_region
from lakebed.errors import InvalidInputError
from lakebed.loaders.columns import Files, Picked, Room, arena
from lakebed.loaders.draws import draws
from lakebed.loaders.ops import Compose, Geometry
from lakebed.loaders.portions import Shape, shape_in
from lakebed.reading.buffers import BufferPool
from lakebed.reading.samples import SampleReader
from lakebed.reading.stored import Locating

_UINT8 = np.dtype(np.uint8)


class Shaped(Files):
    """A tensor of images of which declared operations take a part.

    Parameters
    ----------
    operations
        What is done with each image.
    planar
        Put the channels first.
    seed
        What random operations follow from, beside the epoch and the row.
    """

    def __init__(
        self,
        name: str,
        reader: SampleReader,
        pool: BufferPool,
        operations: Compose,
        *,
        planar: bool,
        seed: int,
    ) -> None:
        super().__init__(name, reader, pool)
        rank = len(reader.state.meta.max_shape)
        if reader.dtype != _UINT8 or rank not in (0, 2, 3) or reader.state.sequence is not None:
            raise InvalidInputError(
                f"operations are for images of 8 bits a channel; tensor {name!r} has samples of "
                f"{rank} axes and dtype {reader.dtype}. Change them in a transform"
            )
        self.operations = operations
        self.planar = planar
        self.seed = seed
        # Of links and tiles only values can be had; of others what is stored.
        self.is_spanned = not reader.is_link and not reader.has_tiles

    def room(self, picked: Picked) -> Room:
        if not self.is_spanned:
            return _ShapedRoom(self, picked, [None] * len(picked), self._found_shapes(picked))
        if self.reader.decoder.files is not None:
            return _ShapedRoom(self, picked, *self.shapes(picked))
        stored = [portion.at(at) for portion, at in zip(picked.portions, picked.insides, strict=True)]
        rows = picked.rows.tolist()
        shapes = [shape_in(self.reader, *one, row) for one, row in zip(stored, rows, strict=True)]
        return _ShapedRoom(self, picked, [data for data, _ in stored], shapes)

    def _found_shapes(self, picked: Picked) -> list[Shape]:
        return [self.reader.shape(row) for row in picked.rows.tolist()]

    def pixels(self, row: int, data: Any, shape: Shape) -> NDArray[Any]:
        """Return a whole image, decoded; errors as those of reading the sample."""
        reader = self.reader
        if data is None:
            value: NDArray[Any] = reader.value(row)
            return value
        with Locating(reader, row):
            return reader.decoder.array(data, shape)


class _ShapedRoom:
    """The images of one batch."""

    def __init__(self, column: Shaped, picked: Picked, files: list[Any], shapes: list[Shape]) -> None:
        self._column = column
        self._rows = picked.rows
        self._files = files
        self._shapes = shapes
        self._table = np.array(
            [(*shape[:2], shape[2] if len(shape) > 2 else 1) for shape in shapes], np.uint32
        )
        # Where nothing is stored, something like the others comes out, of zeros.
        self._is_empty = (self._table == 0).any(axis=1)
        if self._is_empty.any():
            self._table[self._is_empty] = (1, 1, max(1, int(self._table[:, 2].max())))
        operations = column.operations
        chances = draws(column.seed, picked.epoch, picked.rows, operations.draws)
        self._stages = operations.geometries(self._table, chances)
        last = self._stages[-1] if self._stages else Geometry.whole(self._table)
        self._stages = self._stages or [last]
        self._outs = self._out_shapes(last)
        self._is_even = len(set(self._outs)) == 1
        self._dtype = np.dtype(np.float32 if operations.is_float else np.uint8)
        self._sizes = [self._dtype.itemsize * math.prod(shape) for shape in self._outs]
        self.nbytes = sum(self._sizes)
        self.values: list[NDArray[Any]] = []
        self._whole: NDArray[Any] | None = None

    def _out_shapes(self, last: Geometry) -> list[Shape]:
        channels = self._table[:, 2].astype(np.int64)
        if set(channels.tolist()) == {1, 3}:
            channels[:] = 3  # grey photos among others
        planar = self._column.planar
        is_flat = len(self._shapes[0]) == 2 and not planar
        return [
            (height, width) if is_flat else (count, height, width) if planar else (height, width, count)
            for (height, width), count in zip(last.rooms.tolist(), channels.tolist(), strict=True)
        ]

    def open(self) -> None:
        pool = self._column.pool
        if self._is_even:
            self._whole = pool.array((len(self._outs), *self._outs[0]), self._dtype)
            self.values = list(self._whole)
        else:
            self.values = arena(pool, self._outs, self._dtype)

    def largest(self) -> tuple[int, int]:
        size = max(self._sizes)
        return size, self._sizes.index(size)

    def fill(self, start: int, stop: int) -> None:
        """Do all stages of some samples; all but the last into memory of their own."""
        images: list[NDArray[np.uint8]] | None = None
        for geometry in self._stages[:-1]:
            rooms = [
                np.empty((*side, count), np.uint8)
                for side, count in zip(
                    geometry.rooms[start:stop].tolist(), self._table[start:stop, 2].tolist(), strict=True
                )
            ]
            self._stage(geometry, start, stop, images, rooms)
            images = rooms
        out = self.values[start:stop] if self._whole is None else self._whole[start:stop]
        self._stage(self._stages[-1], start, stop, images, out, is_last=True)

    def _factors(self, i: int) -> NDArray[np.float32] | None:
        operations, shape = self._column.operations, self._outs[i]
        if not operations.is_float:
            return None
        return operations.factors(1 if len(shape) == 2 else shape[0 if self._column.planar else 2])

    def _stage(
        self,
        geometry: Geometry,
        start: int,
        stop: int,
        images: list[NDArray[np.uint8]] | None,
        rooms: Any,
        *,
        is_last: bool = False,
    ) -> None:
        """Make a stage of samples from what the one before made, or from the files if there was none."""
        column, files = self._column, self._files[start:stop]
        planar = column.planar and is_last
        boxes, resized, offsets, flips = self._given(geometry, start, stop)
        left: Iterable[int] = range(stop - start)
        is_jpeg = column.reader.decoder.direct is not None and column.is_spanned and images is None
        if is_jpeg and all(len(file) for file in files) and (self._is_even or not column.operations.is_float):
            table = np.ascontiguousarray(self._table[start:stop])
            factors = self._factors(start) if is_last else None
            statuses = decode_regions(
                files,
                table,
                boxes,
                rooms,
                resized,
                offsets,
                flips,
                factors=factors,
                planar=planar,
                scaled=column.operations.scaled,
            )
            left = np.flatnonzero(statuses).tolist()
        for i in left:
            at = start + i
            if self._is_empty[at]:
                rooms[i][...] = 0
                continue
            with Locating(column.reader, int(self._rows[at])):
                if images is not None:
                    pixels = images[i]
                else:
                    pixels = column.pixels(int(self._rows[at]), files[i], self._shapes[at])
                resize_region(
                    pixels,
                    boxes[i],
                    rooms[i],
                    resized[i],
                    offsets[i],
                    flip=bool(flips[i]),
                    factors=self._factors(at) if is_last else None,
                    planar=planar,
                )

    def _given(self, geometry: Geometry, start: int, stop: int) -> tuple[NDArray[Any], ...]:
        return tuple(
            np.ascontiguousarray(values[start:stop])
            for values in (geometry.boxes, geometry.resized, geometry.offsets, geometry.flips)
        )

    def value(self, i: int) -> Any:
        return self.values[i]

    def stacked(self) -> NDArray[Any] | None:
        return self._whole
