"""Salvaging of samples from a chunk file that is truncated, or has known damage (format.md 5.1).

The header comes first, so a truncated file still has the position of each sample; samples that end before the end of
the file are undamaged. Chunks that are compressed as a whole are salvaged completely or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.image_chunk import ChunkCodec
from lakebed.codecs.block import Block, empty_block
from lakebed.errors import FormatError, LimitError, UnsupportedCompressionError
from lakebed.native import chunks as native

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SalvagedSamples:
    """Samples of a chunk file.

    Parameters
    ----------
    count
        Number of samples according to the file, or according to the index if the file's header is damaged.
    lost
        Damaged or missing samples: bool, shape (count,).
    blocks
        All samples, with lost samples empty, for packing them again; None if the file is undamaged.
    reason
        Damage of the file, or "".
    lost_bytes
        Bytes of the lost samples, as far as they are known.
    """

    count: int
    lost: NDArray[np.bool_]
    blocks: tuple[Block, ...] | None = None
    reason: str = ""
    lost_bytes: int = 0

    @property
    def kept(self) -> int:
        """Number of samples that are not lost."""
        return self.count - int(self.lost.sum())


def nothing_left(count: int, ndim: int | None, reason: str, nbytes: int = 0) -> SalvagedSamples:
    """Return the result for a chunk of which all samples are lost."""
    blocks = (empty_block(count, ndim),) if count else ()
    return SalvagedSamples(count, np.ones(count, np.bool_), blocks, reason, nbytes)


def salvage_samples(
    data: bytes, expected: int, ndim: int | None, codec: ChunkCodec | None = None, bad: Sequence[Span] = ()
) -> SalvagedSamples:
    """Find the undamaged samples of a chunk file.

    Parameters
    ----------
    expected
        Number of samples according to the index.
    ndim
        Rank of the tensor's samples, which lost samples get; None if unknown.
    codec
        Compression of whole chunks.
    bad
        Ranges of the file with known damage.
    """
    try:
        _, rows, columns, shapes_at, positions, positions_at, data_at = native.parse_header(data)
        count = 1 + max(
            native.last_column(data, shapes_at, rows, max(columns, 1)),
            native.last_column(data, positions_at, positions, 3),
        )
    except ValueError as error:
        return nothing_left(expected, ndim, f"its header is damaged: {error}", len(data))
    if any(start < data_at for start, _ in bad):
        return nothing_left(expected, ndim, "the checksum of its header is wrong", len(data))
    count = max(count, 0) or expected
    if count > limits.MAX_CHUNK_SAMPLES:
        return nothing_left(expected, ndim, f"its header claims {count:,} samples, which is too many")
    reason = "its checksum is wrong"
    if not bad:
        try:
            parse_chunk(data, count, codec).offsets()
        except (FormatError, LimitError, UnsupportedCompressionError) as error:
            reason = str(error)
        else:
            return SalvagedSamples(count, np.zeros(count, np.bool_))
    if codec is not None or not positions:
        return nothing_left(count, ndim, reason, len(data))
    table = np.frombuffer(data, np.uint32, positions * 3, positions_at).reshape(positions, 3)
    shape_rows = np.frombuffer(data, np.uint32, rows * columns, shapes_at).reshape(rows, max(columns, 1))
    ends = _ends(table, count)
    lost = ends > len(data) - data_at
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    for start, stop in bad:
        lost |= (starts < stop - data_at) & (ends > start - data_at)
    blocks = _blocks(memoryview(data)[data_at:], starts, ends, _shapes(shape_rows, count, ndim), lost)
    return SalvagedSamples(count, lost, blocks, reason, int((ends - starts)[lost].sum()))


def _ends(table: NDArray[np.uint32], count: int) -> NDArray[np.int64]:
    """Return the end of each sample in the data; samples without a row in the table are empty."""
    last = table[:, 2].astype(np.int64)
    runs = np.diff(last, prepend=np.int64(-1))
    sizes = np.repeat(table[:, 0].astype(np.int64), np.maximum(runs, 0))[:count]
    sizes = np.concatenate([sizes, np.zeros(count - len(sizes), np.int64)])
    ends: NDArray[np.int64] = np.cumsum(sizes)
    return ends


def _shapes(rows: NDArray[np.uint32], count: int, ndim: int | None) -> NDArray[np.uint32]:
    if not len(rows):
        return np.zeros((count, ndim or 1), np.uint32)
    runs = np.maximum(np.diff(rows[:, -1].astype(np.int64), prepend=np.int64(-1)), 0)
    table = np.repeat(rows[:, :-1], runs, axis=0)[:count]
    return np.vstack([table, np.zeros((count - len(table), table.shape[1]), np.uint32)])


def _blocks(
    data: memoryview,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    shapes: NDArray[np.uint32],
    lost: NDArray[np.bool_],
) -> tuple[Block, ...]:
    """Return the samples as blocks, in order: undamaged samples with their bytes, lost samples empty."""
    cuts = [0, *(np.flatnonzero(np.diff(lost)) + 1).tolist(), len(lost)]
    blocks = []
    for first, stop in itertools.pairwise(cuts):
        if first == stop:
            continue
        if lost[first]:
            blocks.append(empty_block(stop - first, shapes.shape[1]))
            continue
        sizes = (ends[first:stop] - starts[first:stop]).astype(np.uint32)
        piece = data[int(starts[first]) : int(ends[stop - 1])]
        blocks.append(Block(piece, stop - first, sizes, shapes[first:stop]))
    return tuple(blocks)
