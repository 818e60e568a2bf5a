"""A portion of one tensor: the stored bytes of a span's samples, fetched and verified, but not decoded."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.chunk import Chunk
from lakebed.codecs.base import Buffer
from lakebed.errors import FormatError
from lakebed.loaders.spans import runs
from lakebed.reading.locate import Locating
from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Rows

Shape = tuple[int, ...]


@dataclass(slots=True)
class Portion:
    """The stored samples of one span.

    Parameters
    ----------
    buffers
        Stored bytes of each sample; for arrays of one shape, stored bytes of each run of neighbouring samples.
    shapes
        Shape of each sample, None if its bytes contain the shape; empty for arrays of one shape.
    ends
        For arrays of one shape: the number of the first sample after each run.
    places
        For each sample of the span, its position among the samples that were read; None if both are the same.
    nbytes
        Bytes of memory.
    requests
        Number of requests to the storage, or to the cache of chunks.
    """

    buffers: list[Buffer] = field(default_factory=list)
    shapes: list[Shape | None] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    places: NDArray[np.int64] | None = None
    nbytes: int = 0
    requests: int = 0

    def at(self, inside: int) -> tuple[Buffer, Shape | None]:
        """Return stored bytes and shape of a sample of the span."""
        at = inside if self.places is None else int(self.places[inside])
        return self.buffers[at], self.shapes[at]

    def place(self, inside: int) -> tuple[Buffer, int]:
        """Return the buffer of a sample, for arrays of one shape, and the number of the sample in the buffer."""
        at = inside if self.places is None else int(self.places[inside])
        run = bisect_right(self.ends, at)
        return self.buffers[run], at - (self.ends[run - 1] if run else 0)


def read_portion(reader: SampleReader, rows: Rows, shape: Shape | None = None) -> Portion:
    """Read the stored samples of some rows, in as few requests as their positions allow.

    Parameters
    ----------
    shape
        Shape of all samples, if they are arrays of one shape that are stored uncompressed; otherwise None.

    Raises
    ------
    CorruptError, StorageError, LimitError
        If a chunk is damaged or missing, or claims a size above the limit; the error names tensor and row.
    """
    portion = Portion()
    wanted: Sequence[tuple[int, int]]
    if isinstance(rows, range) and rows.step == 1:
        wanted = [(rows.start, rows.stop)]
    else:
        numbers = np.asarray(rows, dtype=np.int64)
        low, high = int(numbers.min()), int(numbers.max()) + 1
        if high - low <= 2 * len(numbers):  # reading the rows in between costs less than more requests
            wanted, portion.places = [(low, high)], numbers - low
        else:
            distinct, portion.places = np.unique(numbers, return_inverse=True)
            wanted = runs(distinct)
    for first, stop in wanted:
        for ordinal, row, inside, end in reader.runs(first, stop):
            with Locating(reader, row):
                _read(reader, ordinal, inside, end, portion, shape)
    return portion


def _read(
    reader: SampleReader, ordinal: int, first: int, stop: int, portion: Portion, shape: Shape | None
) -> None:
    """Read neighbouring samples of one chunk."""
    table, codec, source = reader.state.table, reader.chunk_codec(), reader.source
    portion.requests += 1
    found = None
    if codec is None:
        found = source.stretch(table, ordinal, first, stop, shapes=shape is None, is_scan=False)
    if found is None:
        # If only a part of a chunk is read, keep the chunk in the cache for later reads of its other parts.
        chunk = source.chunk(table, ordinal, codec, keep=stop - first < table.samples(ordinal))
        portion.nbytes += len(chunk.data) * (stop - first) // max(1, chunk.count)
        if shape is None:
            for i in range(first, stop):
                data, told = reader.stored(chunk, i)
                portion.buffers.append(data)
                portion.shapes.append(told)
            return
        _append_even(reader, portion, _even(reader, chunk, first, stop, shape), stop - first, shape)
        return
    stretch, bounds, known = found
    view = memoryview(stretch)[: bounds[-1]]  # cut off bytes that were read beyond the last sample
    portion.nbytes += len(view)
    if shape is not None:
        _append_even(reader, portion, view, stop - first, shape)
        return
    portion.buffers.extend(view[a:b] for a, b in pairwise(bounds))
    portion.shapes.extend(known if known is not None else [None] * (stop - first))


def _even(reader: SampleReader, chunk: Chunk, first: int, stop: int, shape: Shape) -> Buffer:
    item = reader.known_dtype().itemsize * math.prod(shape)
    if chunk.is_unwritten:
        limits.check_sample((stop - first, item), 1, "chunk without data")
        return bytes((stop - first) * item)
    if chunk.uniform is None or chunk.uniform[1] != item:
        raise FormatError("the shapes of the chunk's samples differ from the shape in the tensor's metadata")
    return chunk.data[first * item : stop * item]


def _append_even(reader: SampleReader, portion: Portion, data: Buffer, count: int, shape: Shape) -> None:
    wanted = count * reader.known_dtype().itemsize * math.prod(shape)
    if len(data) != wanted:
        raise FormatError(f"{count} samples have {len(data)} bytes, their shape and dtype need {wanted}")
    portion.buffers.append(data)
    portion.ends.append((portion.ends[-1] if portion.ends else 0) + count)


def shape_in(reader: SampleReader, data: Buffer, shape: Shape | None, row: int) -> Shape:
    """Return the shape of a stored array sample; if it is recorded nowhere else, read it from the file's header.

    Raises
    ------
    CorruptError, EmptyTensorError
        If the file is damaged, or no sample of the tensor has a shape yet.
    """
    if shape is None and len(data):
        with Locating(reader, row):
            shape = reader.decoder.told_shape(data)
        if shape is None:
            shape = reader.raw(row, decompress=False)[1]
    return reader.decoder.shape_of(shape)
