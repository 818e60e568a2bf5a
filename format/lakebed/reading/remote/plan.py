"""Plan the reads of rows: whole chunks, or ranges of them if these cost less. Pure except for reading headers.

The cost of a request is the number of bytes that the network could transfer in the same time. Neighbouring samples are
read together if the gap between them has fewer bytes than half of that cost. A chunk is read as a whole if reading
ranges of it would not cost less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed import config
from lakebed.documents.manifest import BLOCK
from lakebed.reading.open_chunk import ByteRange, OpenChunk, described
from lakebed.reading.parallel import for_each

if TYPE_CHECKING:
    from lakebed.reading.locate import StoredSamples
    from lakebed.reading.subscripts import Rows

# Cost of one more request, in bytes: 20 ms at 50 MB/s. Requests that run at the same time cost less each, up to a
# point.
_REQUEST = 4 * BLOCK
_LEAST = BLOCK // 8
# Maximum number of rows in arbitrary order that are planned at a time.
_ROWS = 256

Piece = tuple[OpenChunk, ByteRange]


class ReadWindow(NamedTuple):
    """Ranges to read for some consecutive rows: ``row`` is the first row, ``stream`` the number of the tensor."""

    row: int
    stream: int
    pieces: list[Piece]


def read_windows(
    reader: StoredSamples, rows: Rows, most: int, stream: int, *, whole: bool = False
) -> Iterator[ReadWindow]:
    """Plan the reading of rows, in their order.

    Parameters
    ----------
    most
        Maximum number of bytes of a window with more than one row.
    whole
        Plan for whole chunks only.
    """
    if isinstance(rows, range) and rows.step == 1:
        stop = min(rows.stop, reader.state.table.count)
        for ordinal, row, inside, end in reader.runs(rows.start, stop):
            if whole or reader.has_tiles:
                yield from (ReadWindow(row, stream, _all(reader, n)) for n in reader.tiles_from(ordinal))
            else:
                yield ReadWindow(row, stream, pieces(reader, ordinal, range(inside, end)))
        return
    at, step = 0, _ROWS
    while at < len(rows):
        some = rows[at : at + step]
        found = _of_rows(reader, some, whole=whole or reader.has_tiles)
        if sum(span.size for _, span in found) > most and len(some) > 1:
            step = len(some) // 2
            continue
        yield ReadWindow(at, stream, found)
        at += len(some)


def headers(reader: StoredSamples, ordinals: NDArray[np.int64]) -> Iterator[ReadWindow]:
    """Plan the reading of the headers of chunks, in their order; small chunks are read as a whole."""
    for number, ordinal in enumerate(ordinals[np.flatnonzero(np.diff(ordinals, prepend=-1))].tolist()):
        chunk = reader.by_range(ordinal, 1)
        found = _all(reader, ordinal) if chunk is None else [(chunk, chunk.blocks_of(0, BLOCK))]
        yield ReadWindow(number, 0, found)


def tiles(reader: StoredSamples, ordinals: Iterable[int]) -> Iterator[ReadWindow]:
    """Plan the reading of chunks that hold one tile each."""
    for number, ordinal in enumerate(ordinals):
        yield ReadWindow(number, 0, _all(reader, ordinal))


def _all(reader: StoredSamples, ordinal: int) -> list[Piece]:
    """Plan a whole chunk, unless it is in memory."""
    table = reader.state.table
    if reader.source.is_here(table.key(ordinal)):
        return []
    chunk = described(table, ordinal, reader.source.heads)
    return [(chunk, ByteRange(0, chunk.size))]


def _of_rows(reader: StoredSamples, rows: Rows, *, whole: bool) -> list[Piece]:
    ordinals, insides = reader.locate(rows)
    distinct, first = np.unique(ordinals, return_index=True)
    in_order = distinct[np.argsort(first)].tolist()
    if whole:
        return [piece for n in in_order for tile in reader.tiles_from(n) for piece in _all(reader, tile)]
    _look(reader, in_order)
    return [
        piece for n in in_order for piece in pieces(reader, n, np.unique(insides[ordinals == n]), len(rows))
    ]


def _look(reader: StoredSamples, ordinals: list[int]) -> None:
    """Read the headers of chunks at the same time, if the positions of samples are in the headers only."""
    unknown = []
    for ordinal in ordinals:
        chunk = reader.by_range(ordinal, 1)
        if chunk is not None and chunk.layout is None and not chunk.header_read:
            unknown.append(ordinal)
    if len(unknown) > 1:
        for_each(
            len(unknown),
            lambda n: reader.source.header(reader.state.table, unknown[n]),
            threads=min(len(unknown), config.REQUESTS),
        )


def pieces(
    reader: StoredSamples, ordinal: int, insides: range | NDArray[np.int64], rows: int = 1
) -> list[Piece]:
    """Return the ranges of one chunk to read for some of its samples.

    Parameters
    ----------
    insides
        Positions of the samples in the chunk, ascending; a range if the samples are consecutive.
    rows
        Number of requested samples of all chunks; if it is large, many requests run concurrently, so each costs less.
    """
    chunk = None if len(insides) == reader.state.table.samples(ordinal) else reader.by_range(ordinal, 1)
    if chunk is None:
        return _all(reader, ordinal)
    whole = [(chunk, ByteRange(0, chunk.size))]
    starts = chunk.starts()
    if starts is None:
        # Read the first block for the header; it may already contain a few samples.
        return [(chunk, chunk.blocks_of(0, BLOCK))] if len(insides) == 1 else whole
    cost = max(_REQUEST // rows, _LEAST)
    runs = [(insides[0], insides[-1])] if isinstance(insides, range) else [(n, n) for n in insides.tolist()]
    spans: list[ByteRange] = []
    for first, last in runs:
        span = ByteRange(starts[first], starts[last + 1])
        if not span.size or (first == last and ~first in chunk.blocks):
            continue
        if not chunk.has_sample_sums:
            span = chunk.blocks_of(*span)
        if spans and span.start - spans[-1].stop <= cost // 2:
            spans[-1] = ByteRange(spans[-1].start, max(span.stop, spans[-1].stop))
        else:
            spans.append(span)
    if sum(span.size + cost for span in spans) >= chunk.size + cost:
        return whole
    return [(chunk, span) for span in spans]
