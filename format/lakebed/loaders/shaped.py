"""Images that are cropped, resized or mirrored while they are decoded: only the output is made (docs/design/025)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.regions import decode_regions, resize_region
from lakebed.errors import InvalidInputError
from lakebed.loaders.columns import Arena, Files, Picked, Room
from lakebed.loaders.draws import draws
from lakebed.loaders.ops import Compose, Geometry
from lakebed.loaders.portions import Shape, shape_in
from lakebed.reading.buffers import BufferPool
from lakebed.reading.locate import Locating
from lakebed.reading.samples import SampleReader

_UINT8 = np.dtype(np.uint8)


class Shaped(Files):
    """A tensor of images that declared operations change.

    Parameters
    ----------
    operations
        Operations that are applied to each image.
    seed
        Determines random operations, together with the epoch and the row.
    """

    def __init__(
        self, name: str, reader: SampleReader, pool: BufferPool, operations: Compose, *, seed: int
    ) -> None:
        super().__init__(name, reader, pool)
        rank = len(reader.state.meta.max_shape)
        if reader.dtype != _UINT8 or rank not in (0, 2, 3) or reader.state.sequence is not None:
            raise InvalidInputError(
                f"operations are for images of 8 bits a channel; tensor {name!r} has samples of "
                f"{rank} axes and dtype {reader.dtype}. Change them in a transform"
            )
        self.operations = operations
        self.seed = seed
        # Links and tiles can only be read sample by sample.
        self.is_spanned = not reader.is_link and not reader.has_tiles

    def room(self, picked: Picked) -> Room:
        if not self.is_spanned:
            shapes = [self.reader.shape(row) for row in picked.rows.tolist()]
            return _ShapedRoom(self, picked, [None] * len(picked), shapes)
        if self.reader.decoder.files is not None:
            return _ShapedRoom(self, picked, *self.shapes(picked))
        stored = [portion.at(at) for portion, at in zip(picked.portions, picked.insides, strict=True)]
        rows = picked.rows.tolist()
        shapes = [shape_in(self.reader, *one, row) for one, row in zip(stored, rows, strict=True)]
        return _ShapedRoom(self, picked, [data for data, _ in stored], shapes)

    def pixels(self, row: int, data: Any, shape: Shape) -> NDArray[Any]:
        """Return a whole decoded image; raise the errors of reading the sample."""
        reader = self.reader
        if data is None:
            value: NDArray[Any] = reader.value(row)
            return value
        with Locating(reader, row):
            return reader.decoder.array(data, shape)


class _ShapedRoom(Arena):
    """The images of one batch."""

    def __init__(self, column: Shaped, picked: Picked, files: list[Any], shapes: list[Shape]) -> None:
        self._column = column
        self._rows = picked.rows
        self._files = files
        self._stored_shapes = shapes
        self._table = np.array(
            [(*shape[:2], shape[2] if len(shape) > 2 else 1) for shape in shapes], np.uint32
        )
        # Replace empty samples by images of zeros, of about the same size as the other images.
        self._is_empty = (self._table == 0).any(axis=1)
        if self._is_empty.any():
            self._table[self._is_empty] = (1, 1, max(1, int(self._table[:, 2].max())))
        operations = column.operations
        chances = draws(column.seed, picked.epoch, picked.rows, operations.draws)
        self._stages = operations.geometries(self._table, chances)
        last = self._stages[-1] if self._stages else Geometry.whole(self._table)
        self._stages = self._stages or [last]
        dtype = np.dtype(np.float32 if operations.is_float else np.uint8)
        super().__init__(column.pool, self._out_shapes(last), dtype)

    def _out_shapes(self, last: Geometry) -> list[Shape]:
        channels = self._table[:, 2].astype(np.int64)
        if set(channels.tolist()) == {1, 3}:
            channels[:] = 3  # grey images in a batch with colour images get three channels
        planar = self._column.operations.planar
        is_flat = len(self._stored_shapes[0]) == 2 and not planar
        return [
            (height, width) if is_flat else (count, height, width) if planar else (height, width, count)
            for (height, width), count in zip(last.rooms.tolist(), channels.tolist(), strict=True)
        ]

    def fill(self, start: int, stop: int) -> None:
        """Apply all stages to some samples; each stage but the last writes to temporary memory."""
        images: list[NDArray[np.uint8]] | None = None
        for geometry in self._stages[:-1]:
            sides, channels = geometry.rooms[start:stop].tolist(), self._table[start:stop, 2].tolist()
            rooms = [np.empty((*side, count), np.uint8) for side, count in zip(sides, channels, strict=True)]
            self._stage(geometry, start, stop, images, rooms)
            images = rooms
        out = self.values[start:stop] if self.whole is None else self.whole[start:stop]
        self._stage(self._stages[-1], start, stop, images, out, is_last=True)

    def _factors(self, i: int) -> NDArray[np.float32] | None:
        operations, shape = self._column.operations, self.shapes[i]
        if not operations.is_float:
            return None
        return operations.factors(1 if len(shape) == 2 else shape[0 if operations.planar else 2])

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
        """Apply one stage to some samples: the first stage to the files, each later stage to the previous output."""
        column, files = self._column, self._files[start:stop]
        operations, planar = column.operations, column.operations.planar and is_last
        given: list[NDArray[Any]] = [geometry.boxes, geometry.resized, geometry.offsets, geometry.flips]
        boxes, resized, offsets, flips = (np.ascontiguousarray(values[start:stop]) for values in given)
        left: Iterable[int] = range(stop - start)
        is_jpeg = column.reader.decoder.direct is not None and column.is_spanned and images is None
        if is_jpeg and all(map(len, files)) and (self.is_even or not operations.is_float):
            statuses = decode_regions(
                files,
                np.ascontiguousarray(self._table[start:stop]),
                boxes,
                rooms,
                resized,
                offsets,
                flips,
                factors=self._factors(start) if is_last else None,
                planar=planar,
                scaled=bool(operations.scaled),
            )
            left = np.flatnonzero(statuses).tolist()
        for i in left:
            at = start + i
            if self._is_empty[at]:
                rooms[i][...] = 0
                continue
            with Locating(column.reader, int(self._rows[at])):
                pixels = (
                    images[i]
                    if images is not None
                    else column.pixels(int(self._rows[at]), files[i], self._stored_shapes[at])
                )
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
