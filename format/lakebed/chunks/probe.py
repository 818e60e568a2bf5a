"""Find one sample in a chunk without reading the whole file (FORMAT.md 5.1).

The header tables are sorted by their last column, so a binary search touches a few rows; ``read`` is expected to
serve them from blocks that it keeps.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from lakebed.errors import FormatError

Read = Callable[[int, int], bytes | memoryview]


@dataclass(frozen=True, slots=True)
class SamplePlace:
    """Where a sample lies in its chunk file; ``shape`` is None when no shape row covers it."""

    start: int
    nbytes: int
    shape: tuple[int, ...] | None


def probe(read: Read, size: int, count: int, local: int) -> SamplePlace:
    """Locate sample ``local`` of a chunk file of ``size`` bytes that holds ``count`` samples.

    Raises
    ------
    FormatError
        If a table or the sample would leave the file.
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
    if place is None:
        start, nbytes = data_at, 0
    else:
        (nbytes, first, _), before = place
        start = data_at + first + (local - before - 1) * nbytes
    if start + nbytes > size:
        raise FormatError(f"damaged chunk: sample {local} ends at byte {start + nbytes} of {size}")
    return SamplePlace(start, nbytes, None if shape_row is None else shape_row[0][:-1])


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
