"""Finding of one sample in a chunk without reading the whole file (format.md 5.1).

A header of ordinary size is read once and kept. The tables of a larger one are sorted by their last column, so a binary
search touches a few rows; ``read`` should serve them from cached blocks.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.native import chunks as native

Read = Callable[[int, int], bytes | memoryview]


class SamplePlace(NamedTuple):
    """Place of a sample in its chunk file; ``shape`` is None if the shape table has no row for the sample."""

    start: int
    nbytes: int
    shape: tuple[int, ...] | None


def probe(read: Read, size: int, count: int, local: int) -> SamplePlace:
    """Locate sample ``local`` in a chunk file of ``size`` bytes that holds ``count`` samples.

    Raises
    ------
    FormatError
        If a table or the sample would extend beyond the file.
    """
    version = 1 + _exact(read, size, 0, 1)[0]
    rows, columns = struct.unpack("<ii", _exact(read, size, version, 8))
    shapes_at = version + 8
    if rows < 0 or not 0 <= columns <= 256 or (rows and not columns):
        raise FormatError(f"damaged chunk: the shape table has {rows} rows of {columns} columns")
    positions_at = shapes_at + 4 * rows * columns + 4
    (positions,) = struct.unpack("<i", _exact(read, size, positions_at - 4, 4))
    data_at = positions_at + 12 * positions
    if positions < 0 or data_at > size:
        raise FormatError(
            f"damaged chunk: a position table of {positions} rows does not fit into {size} bytes"
        )
    shape_row = _find(read, size, (shapes_at, rows, columns), local, count)
    place = _find(read, size, (positions_at, positions, 3), local, count)
    if place is None and positions:
        raise FormatError(f"damaged chunk: its position table ends before sample {local}")
    if place is None:
        start, nbytes = data_at, 0
    else:
        (nbytes, first, _), before = place
        start = data_at + first + (local - before - 1) * nbytes
    if start + nbytes > size:
        raise FormatError(f"damaged chunk: sample {local} ends at byte {start + nbytes} of {size}")
    return SamplePlace(start, nbytes, None if shape_row is None else shape_row[0][:-1])


def described(read: Read, size: int) -> int:
    """Return the number of samples that the tables in a chunk's header describe.

    The number is 0 if the tables are empty, as for empty samples of unknown rank.

    Raises
    ------
    FormatError
        If a table would extend beyond the file.
    """
    if not size:
        raise FormatError("damaged chunk: the file is empty")
    version = 1 + _exact(read, size, 0, 1)[0]
    rows, columns = struct.unpack("<ii", _exact(read, size, version, 8))
    if rows < 0 or not 0 <= columns <= 256 or (rows and not columns):
        raise FormatError(f"damaged chunk: the shape table has {rows} rows of {columns} columns")
    at = version + 8 + 4 * rows * columns
    (positions,) = struct.unpack("<i", _exact(read, size, at, 4))
    if positions < 0:
        raise FormatError(f"damaged chunk: the position table has {positions} rows")
    end = at + 4 + 12 * positions if positions else at
    if not positions and not rows:
        return 0
    (last,) = struct.unpack("<I", _exact(read, size, end - 4, 4))
    return int(last) + 1


def _exact(read: Read, size: int, at: int, length: int) -> bytes:
    if at + length > size:
        raise FormatError(f"damaged chunk: {size} bytes end inside the header")
    return bytes(read(at, length))


def _find(
    read: Read, size: int, table: tuple[int, int, int], local: int, count: int
) -> tuple[tuple[int, ...], int] | None:
    """Return the first row whose last column is >= ``local`` and the last column of the row before it."""
    at, rows, columns = table
    width = 4 * columns

    def row(r: int) -> tuple[int, ...]:
        return struct.unpack(f"<{columns}I", _exact(read, size, at + r * width, width))

    if rows == 0:
        return None
    low, high = 0, rows - 1
    if rows == count:
        low = high = local
    while low < high:
        middle = (low + high) // 2
        if row(middle)[-1] < local:
            low = middle + 1
        else:
            high = middle
    found = row(low)
    before = row(low - 1)[-1] if low else -1
    if before >= local:
        raise FormatError("damaged chunk: a last-seen-index table is out of order")
    return None if found[-1] < local else (found, before)


# Headers above this size are not parsed but searched in the file: one sample needs only a few of their rows.
_PARSED_AT_MOST = 1 << 18
_FIRST_READ = 4096


@dataclass(slots=True)
class ChunkHeader:
    """The tables of a chunk file whose data is read sample by sample.

    Parameters
    ----------
    offsets
        Start of each sample in the file and the end of the last.
    shapes
        Shape of each run of samples; ``shape_last`` has the last sample of each run.
    """

    data_at: int
    size: int
    offsets: list[int]
    shapes: list[tuple[int, ...]]
    shape_last: list[int]

    @property
    def is_unwritten(self) -> bool:
        """Return whether the samples have items but were never written: they read as zeros (format.md 5.5)."""
        return self.size == self.data_at and bool(self.shapes) and all(self.shapes[0])

    def place(self, local: int) -> SamplePlace:
        """Return the place of sample ``local``."""
        row = bisect_left(self.shape_last, local)
        start = self.offsets[local]
        shape = self.shapes[row] if row < len(self.shapes) else None
        return SamplePlace(start, self.offsets[local + 1] - start, shape)

    def shape_table(self) -> NDArray[np.uint32]:
        """Return the shapes of all samples: uint32, shape (samples, ndim); beyond the table, extents are 0."""
        count = len(self.offsets) - 1
        table = np.zeros((count, len(self.shapes[0]) if self.shapes else 0), dtype=np.uint32)
        if self.shapes:
            runs = np.diff(np.array(self.shape_last), prepend=-1)
            table[: int(runs.sum())] = np.repeat(np.array(self.shapes, dtype=np.uint32), runs, axis=0)
        return table


def read_header(read: Read, size: int, count: int) -> ChunkHeader | None:
    """Read and check the tables of a chunk file; return None if they are so large that :func:`probe` is faster.

    Raises
    ------
    FormatError
        If a table extends beyond the file, is out of order, or disagrees with ``count``.
    """
    head = read(0, min(size, _FIRST_READ))
    end = _header_end(read, head, size)
    if end > _PARSED_AT_MOST or count > _PARSED_AT_MOST // 12:
        return None
    head = bytes(head[:end]) if end <= len(head) else bytes(read(0, end))
    try:
        _, rows, columns, shapes_at, positions, positions_at, data_at = native.parse_header(head)
        last = native.last_column(head, positions_at, positions, 3)
        is_short = positions > 0 and last < count - 1
        last = max(last, native.last_column(head, shapes_at, rows, max(columns, 1)))
        offsets = np.empty(count + 1, dtype=np.int64)
        if last < count:
            native.expand_positions(head, positions_at, positions, count, size - data_at, offsets)
    except ValueError as error:
        raise FormatError(f"damaged chunk: {error}") from error
    if last >= count or is_short:
        raise FormatError(f"damaged chunk: it describes {last + 1} samples, not {count}")
    offsets += data_at
    table = np.frombuffer(head, np.uint32, rows * columns, shapes_at).reshape(rows, max(columns, 1)).tolist()
    shapes = [tuple(row[:-1]) for row in table]
    return ChunkHeader(data_at, size, offsets.tolist(), shapes, [row[-1] for row in table])


def _header_end(read: Read, head: bytes | memoryview, size: int) -> int:
    """Return the start of the data; refuse a header that would be larger than the file."""
    if not size:
        raise FormatError("damaged chunk: the file is empty")
    version = 1 + head[0]
    rows, columns = struct.unpack("<ii", _of(read, head, size, version, 8))
    if rows < 0 or not 0 <= columns <= 256 or (rows and not columns):
        raise FormatError(f"damaged chunk: the shape table has {rows} rows of {columns} columns")
    at = version + 8 + 4 * rows * columns
    (positions,) = struct.unpack("<i", _of(read, head, size, at, 4))
    end: int = at + 4 + 12 * positions
    if positions < 0 or end > size:
        raise FormatError(
            f"damaged chunk: a position table of {positions} rows does not fit into {size} bytes"
        )
    return end


def _of(read: Read, head: bytes | memoryview, size: int, at: int, length: int) -> bytes:
    return bytes(head[at : at + length]) if at + length <= len(head) else _exact(read, size, at, length)
