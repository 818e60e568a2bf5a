"""A parsed chunk file: bytes and shape of each sample (format.md 5.1, 5.2).

bytes      content
1 + n      version prefix
4, 4       i32 R, i32 C = ndim + 1
4 R C      u32 rows [dim0 .. dim(ndim-1), last]
4          i32 B
12 B       u32 rows [nbytes, start, last]
rest       data
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.image_chunk import ChunkCodec, ImageChunkCodec
from lakebed.errors import FormatError, LimitError
from lakebed.native import chunks as native

if TYPE_CHECKING:
    from lakebed.codecs.base import Allocate


@dataclass(slots=True)
class Chunk:
    """The ``count`` samples of a chunk: their decompressed data, shapes and positions.

    ``uniform`` is (shape, size) if all samples have the same shape and size: sample i is then bytes i * size to
    (i + 1) * size of ``data``. Otherwise it is None.
    """

    count: int
    data: memoryview
    uniform: tuple[tuple[int, ...], int] | None
    _shape_rows: NDArray[np.uint32]
    _positions: NDArray[np.uint32]
    _allocate: Allocate | None = field(default=None)
    _offsets: NDArray[np.int64] | None = field(default=None)
    _shapes: NDArray[np.uint32] | None = field(default=None)

    @property
    def ndim(self) -> int | None:
        """Rank of the samples; None when the chunk holds only empty samples of unknown rank."""
        return None if len(self._shape_rows) == 0 else self._shape_rows.shape[1] - 1

    @property
    def is_unwritten(self) -> bool:
        """Return whether the samples have items but were never written: they read as zeros (format.md 5.5)."""
        rows = self._shape_rows
        return len(self.data) == 0 and len(rows) > 0 and bool(np.all(rows[0, :-1] > 0))

    def offsets(self) -> NDArray[np.int64]:
        """Return the start of each sample in ``data`` and the end of the last: int64, shape (count + 1,)."""
        if self._offsets is None:
            _check_empty(self.count, len(self.data), 1)
            if self.uniform is not None:
                self._offsets = np.arange(self.count + 1, dtype=np.int64) * self.uniform[1]
            else:
                room = 8 * (self.count + 1)
                offsets = (np.empty(room, np.uint8) if self._allocate is None else self._allocate(room)).view(
                    np.int64
                )
                self._expand(offsets)
                self._offsets = offsets
        return self._offsets

    def _expand(self, out: NDArray[np.int64]) -> None:
        table = self._positions
        raw = table.view(np.uint8).reshape(-1)
        try:
            native.expand_positions(raw, 0, len(table), self.count, len(self.data), out)
        except ValueError as error:
            raise FormatError(f"damaged chunk: {error}") from error

    def shapes(self) -> NDArray[np.uint32]:
        """Return the shape of each sample: uint32, shape (count, ndim); samples beyond the table have zero extents."""
        if self._shapes is None:
            self._shapes = _expanded(self._shape_rows, self.count, len(self.data))
        return self._shapes

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of sample ``i`` of the chunk."""
        if self.uniform is not None:
            return self.uniform[0]
        return tuple(int(v) for v in self.shapes()[i])

    def sample(self, i: int) -> memoryview:
        """Return the stored bytes of sample ``i`` of the chunk."""
        if self.uniform is not None:
            size = self.uniform[1]
            return self.data[i * size : (i + 1) * size]
        at = self.offsets()
        return self.data[int(at[i]) : int(at[i + 1])]


def parse_chunk(
    buffer: bytes | memoryview, count: int, codec: ChunkCodec | None = None, allocate: Allocate | None = None
) -> Chunk:
    """Parse a chunk file, which holds ``count`` samples according to the chunk index.

    Parameters
    ----------
    allocate
        Supplies memory for the decompressed data and the tables of the chunk.

    Raises
    ------
    FormatError
        If a table extends beyond the file, is out of order, or disagrees with ``count``.
    LimitError
        If the decompressed data or the tables would be larger than this process allows.
    """
    view = memoryview(buffer).cast("B") if not isinstance(buffer, bytes) else memoryview(buffer)
    try:
        _, rows, columns, shapes_at, positions, positions_at, data_at = native.parse_header(view)
        last_shape = native.last_column(view, shapes_at, rows, max(columns, 1))
        last_position = native.last_column(view, positions_at, positions, 3)
    except ValueError as error:
        raise FormatError(f"damaged chunk: {error}") from error
    if max(last_shape, last_position) >= count:
        raise FormatError(
            f"damaged chunk: it describes {max(last_shape, last_position) + 1} samples, not {count}"
        )
    covered = last_position if positions else last_shape
    if (positions or rows) and covered != count - 1:
        # The index counts more samples than the chunk has: a writer of 3.x was killed before it wrote the chunk
        # (format.md 15.5).
        raise FormatError(f"damaged chunk: it holds {covered + 1} samples, not {count}")
    limits.check("MAX_HEADER_BYTES", data_at, "header of a chunk")
    limits.check("MAX_AXES", columns - 1, "axes of the samples of a chunk")
    limits.check("MAX_CHUNK_SAMPLES", count, "samples of a chunk")
    data = view[data_at:]
    shape_rows = np.frombuffer(view, np.uint32, rows * columns, shapes_at).reshape(rows, max(columns, 1))
    table = np.frombuffer(view, np.uint32, positions * 3, positions_at).reshape(positions, 3)
    if isinstance(codec, ImageChunkCodec):
        data, table = _cut_canvas(codec, data, _expanded(shape_rows, count, len(data)))
    elif codec is not None:
        data = memoryview(codec.decode(data, limits.MAX_CHUNK_DATA, allocate))
    return Chunk(count, data, _uniform(shape_rows, table, count, len(data)), shape_rows, table, allocate)


def _check_empty(count: int, length: int, columns: int) -> None:
    """Refuse a chunk with too many empty samples, because its expanded tables would take too much memory."""
    limits.check(
        "MAX_EMPTY_SAMPLES",
        max(count - length, 0) * columns,
        f"{count:,} samples in {length:,} bytes of a chunk",
    )


def _expanded(rows: NDArray[np.uint32], count: int, length: int) -> NDArray[np.uint32]:
    """Expand a shape table to one row per sample, with zeros for samples that it does not cover."""
    _check_empty(count, length, -(-rows.shape[1] // 4))
    if len(rows) == 0:
        return np.zeros((count, 0), dtype=np.uint32)
    runs = np.diff(rows[:, -1].astype(np.int64), prepend=np.int64(-1)).astype(np.int64)
    table = np.repeat(rows[:, :-1], runs, axis=0)
    if len(table) == count:
        return table
    return np.vstack([table, np.zeros((count - len(table), table.shape[1]), np.uint32)])


def _cut_canvas(
    codec: ImageChunkCodec, data: memoryview, shapes: NDArray[np.uint32]
) -> tuple[memoryview, NDArray[np.uint32]]:
    """Decode a chunk that is one image; return the raw bytes of its images, and a position table for them."""
    raw, sizes = codec.decode(data, shapes)
    try:
        return raw, native.position_rows(sizes)
    except OverflowError as error:
        raise LimitError(f"images of a chunk: {error}") from error


def _uniform(
    shape_rows: NDArray[np.uint32], table: NDArray[np.uint32], count: int, length: int
) -> tuple[tuple[int, ...], int] | None:
    if len(shape_rows) != 1 or len(table) != 1 or count == 0:
        return None
    if int(shape_rows[0, -1]) != count - 1 or int(table[0, 2]) != count - 1 or table[0, 1] != 0:
        return None
    size = int(table[0, 0])
    if size * count != length:
        raise FormatError(
            f"damaged chunk: {count} samples of {size} bytes do not fill {length} bytes of data"
        )
    return tuple(int(v) for v in shape_rows[0, :-1]), size
