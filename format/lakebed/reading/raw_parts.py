"""Parts of large uncompressed samples: of the bytes, only those between the first and the last row that is wanted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.tiling import touched
from lakebed.reading.fetch import RANGES_ABOVE
from lakebed.reading.parts import shifted

if TYPE_CHECKING:
    from lakebed.reading.samples import SampleReader


def plain_part(reader: SampleReader, ordinal: int, inside: int, subscript: Any) -> NDArray[Any] | None:
    """Return ``sample[subscript]`` of a sample in a chunk, or None if reading the whole sample is no worse.

    Raises
    ------
    IndexError
        If the subscript leaves the sample.
    """
    chunk, dtype = reader.by_range(ordinal, 1), reader.dtype
    if chunk is None or dtype is None:
        return None
    place = reader.source.place(reader.state.table, ordinal, inside, chunk)
    shape = place.shape
    if place.nbytes < RANGES_ABOVE or not shape or math.prod(shape) * dtype.itemsize != place.nbytes:
        return None
    rows = touched(shape, (1, *shape[1:]), subscript)
    if not rows or rows[-1] - rows[0] + 1 == shape[0]:
        return None
    width = place.nbytes // shape[0]
    first, count = rows[0], rows[-1] + 1 - rows[0]
    data = reader.source.piece(chunk, place.start + first * width, count * width)
    inner = np.frombuffer(data, dtype=dtype).reshape(count, *shape[1:])
    window = (slice(first, first + count), *(slice(0, extent) for extent in shape[1:]))
    return shifted(inner, subscript, window, shape).copy()
