"""Read shapes of samples without their data: from chunk headers, or from the hidden shape tensor for links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Rows

Shape = tuple[int, ...]

# Maximum number of rows whose shapes are read one by one; for more rows, use the extents in the metadata.
_LOOKED_AT = 10_000


class Extents:
    """Shapes of the flat samples of a tensor.

    Parameters
    ----------
    shapes
        Reader of the hidden shape tensor, or None.
    """

    def __init__(self, reader: SampleReader, shapes: SampleReader | None) -> None:
        self._reader = reader
        self._shapes = shapes

    def recorded(self) -> tuple[Shape, Shape]:
        """Smallest and largest shape that the metadata recorded; () before any sample had a shape."""
        meta = self._reader.state.meta
        return tuple(meta.min_shape), tuple(meta.max_shape)

    def is_settled(self, count: int) -> bool:
        """Return whether to use the recorded extents: they are exact, or checking all samples would take too long."""
        low, high = self.recorded()
        return low == high or count > _LOOKED_AT

    def table(self, rows: Rows) -> NDArray[np.int64]:
        """Return the shapes of flat samples, shape (len(rows), rank); all zeros beyond the end."""
        reader = self._reader
        count = reader.state.meta.length
        wanted = np.asarray(rows, dtype=np.int64)
        if len(wanted) and int(wanted.max()) >= count:
            known = wanted < count
            found = self.table(wanted[known])
            padded = np.zeros((len(wanted), found.shape[1]), dtype=np.int64)
            padded[known] = found
            return padded
        shapes = self._shapes
        if reader.is_link and shapes is not None and len(self.recorded()[1]):
            return self._from_record(shapes, rows)
        return reader.shapes(rows)

    def _from_record(self, shapes: SampleReader, rows: Rows) -> NDArray[np.int64]:
        """Return the shapes in the hidden tensor; for a row that is None, it has a single zero whatever the rank."""
        table = np.zeros((len(rows), len(self.recorded()[1])), dtype=np.int64)
        for i, shape in enumerate(shapes.listed(rows)):
            if len(shape) == table.shape[1]:
                table[i] = shape
        return table

    def parts(self, rows: Rows, inside: tuple[tuple[Any, ...], ...]) -> list[Shape]:
        """Return the distinct shapes that parts of flat samples have."""
        table = self.table(rows)
        if not len(table):
            return []
        distinct = [tuple(int(v) for v in row) for row in np.unique(table, axis=0)]
        return sorted({part_shape(shape, inside) for shape in distinct})


def part_shape(shape: Shape, inside: Sequence[tuple[Any, ...]]) -> Shape:
    """Return the shape of a part of a sample.

    Raises
    ------
    IndexError
        If a subscript is out of range.
    """
    # Broadcast a single byte: the array takes no memory, whatever its shape.
    part: NDArray[Any] = np.broadcast_to(np.zeros((), dtype=np.uint8), shape)
    for subscript in inside:
        part = np.asarray(part[subscript])
    return part.shape


def bounds(shapes: Sequence[Shape], otherwise: Shape) -> tuple[Shape, Shape]:
    """Return the smallest and the largest extent per axis; ``otherwise`` if no shapes are passed."""
    if not shapes:
        return otherwise, otherwise
    axes = list(zip(*shapes, strict=False))
    return tuple(map(min, axes)), tuple(map(max, axes))
