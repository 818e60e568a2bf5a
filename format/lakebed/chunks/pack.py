"""Packing of encoded samples into chunk files; their layout is in :mod:`lakebed.chunks.chunk`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lakebed import limits
from lakebed.chunks.image_chunk import ChunkCodec, ImageChunkCodec
from lakebed.codecs.block import Block, Shapes, shapes_of, sizes_of
from lakebed.documents.indexes.version_prefix import PREFIX
from lakebed.documents.layouts import NO_WORDS, Words, layout_words
from lakebed.documents.manifest import LARGE
from lakebed.errors import LimitError
from lakebed.native import chunks as native

# Size of a row of the position table. It counts as part of a variable-length sample, so that chunks of short texts keep
# small headers.
POSITION_ROW = 12
_NO_POSITIONS = struct.pack("<i", 0)


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk file in pieces, which are written back to back; for a large chunk, ``layout`` locates its samples."""

    pieces: tuple[bytes | memoryview, ...]
    count: int
    nbytes: int
    layout: Words = field(default_factory=lambda: NO_WORDS)


def groups(blocks: Sequence[Block], limit: int, codec: ChunkCodec | None = None) -> list[list[Block]]:
    """Cut samples into as few runs as ``limit`` bytes each allow; a larger sample is a run of its own.

    Parameters
    ----------
    blocks
        Samples in order.
    limit
        Bytes of uncompressed data (and position rows) per chunk; the number of samples without bytes is limited, too
        (limits.MAX_EMPTY_SAMPLES).
    codec
        The chunk compression; an image codec limits the size of the chunk's image, too.
    """
    is_one = len(blocks) == 1 and _is_one_run(blocks[0], limit)
    runs = [[blocks[0]]] if is_one else list(_groups(blocks, limit))
    if not isinstance(codec, ImageChunkCodec):
        return runs
    return [part for run in runs for part in codec.runs(run, limit)]


def _is_one_run(block: Block, limit: int) -> bool:
    """Return whether samples of one size fit into one chunk, by the rules of :func:`_groups`."""
    size, count = block.sizes, block.count
    return (
        isinstance(size, int)
        and 0 < size * count <= limit
        and isinstance(block.shapes, tuple)
        and count * _weight(block) <= limits.MAX_EMPTY_SAMPLES
    )


def _groups(blocks: Sequence[Block], limit: int) -> Iterator[list[Block]]:
    group: list[Block] = []
    used = held = 0
    for block in blocks:
        start = 0
        offsets = block.offsets() if not isinstance(block.sizes, int) else None
        weight = _weight(block)
        while start < block.count:
            room = (limits.MAX_EMPTY_SAMPLES - held) // weight
            stop = min(_fit(block, start, limit - used, offsets), start + room)
            if stop <= start and group:
                yield group
                group, used, held = [], 0, 0
                continue
            stop = max(stop, start + 1)
            piece = block.cut(start, stop, offsets)
            group.append(piece)
            held += weight * piece.count
            used += piece.nbytes + (0 if offsets is None else POSITION_ROW * piece.count)
            start = stop
    if group:
        yield group


def _weight(block: Block) -> int:
    """Return how often each empty sample counts in MAX_EMPTY_SAMPLES: once per four columns of its shape row."""
    if block.shapes is None:
        return 1
    axes = len(block.shapes) if isinstance(block.shapes, tuple) else block.shapes.shape[1]
    return max(1, -(-(axes + 1) // 4))


def _fit(block: Block, start: int, room: int, offsets: np.ndarray | None) -> int:
    """Return the end of the longest run of samples from ``start`` that fits into ``room`` bytes."""
    if offsets is None:
        size = block.sizes if isinstance(block.sizes, int) else 0
        return block.count if size == 0 else min(block.count, start + max(room, 0) // size)
    if offsets[-1] - offsets[start] + POSITION_ROW * (block.count - start) <= room:
        return block.count
    costs = offsets + POSITION_ROW * np.arange(block.count + 1, dtype=np.int64)
    return max(start, int(np.searchsorted(costs, costs[start] + room, side="right")) - 1)


def pack(
    group: Sequence[Block],
    codec: ChunkCodec | None = None,
    tells_shape: Callable[[], bool] = lambda: False,
) -> PackedChunk:
    """Pack samples into one chunk.

    Parameters
    ----------
    codec
        The chunk compression.
    tells_shape
        Whether the shapes of samples follow from their bytes, as of text and images.

    Raises
    ------
    LimitError
        If the samples hold more than 4 GiB.
    SampleCompressionError
        If the chunk compression cannot hold samples like these.
    """
    if len(group) == 1:
        (block,) = group
        count = block.count
        sizes = block.sizes if isinstance(block.sizes, int) else np.ascontiguousarray(block.sizes)
        shapes = block.shapes
        data: list[bytes | memoryview] = [piece for piece in block.pieces() if len(piece)]
    else:
        count = sum([b.count for b in group])
        sizes, shapes = sizes_of(group), shapes_of(group)
        data = [piece for block in group for piece in block.pieces() if len(piece)]
    try:
        positions = (_NO_POSITIONS,) if isinstance(codec, ImageChunkCodec) else _position_table(sizes, count)
        header = (PREFIX + _shape_table(shapes, count) + positions[0], *positions[1:])
    except (OverflowError, struct.error) as error:
        raise LimitError(f"{count} samples do not fit into one chunk: {error}") from error
    if isinstance(codec, ImageChunkCodec):
        encoded = codec.encode(group)
        data = [encoded] if encoded else []
    elif codec is not None:
        data = [codec.encode(data[0] if len(data) == 1 else b"".join(data))] if data else []
    pieces = (*header, *data)
    nbytes = sum(map(len, pieces))
    if codec is not None or nbytes <= LARGE:
        return PackedChunk(pieces, count, nbytes)
    layout = layout_words(sizes, None if tells_shape() else shapes, count, lambda: _samples(group))
    return PackedChunk(pieces, count, nbytes, layout)


def _samples(group: Sequence[Block]) -> Iterator[bytes | memoryview]:
    """Yield the bytes of each sample."""
    for block in group:
        if block.buffers is not None:
            yield from block.buffers
            continue
        offsets = block.offsets().tolist()
        yield from (block.data[start:stop] for start, stop in pairwise(offsets))


def pack_tile(shape: tuple[int, ...], data: bytes | memoryview) -> PackedChunk:
    """Pack one tile of a large sample, already compressed, into a chunk (format.md 6.3).

    Empty ``data`` is a tile that was never written and reads as zeros.
    """
    ndim = len(shape)
    header = PREFIX + struct.pack(f"<ii{ndim}IIi", 1, ndim + 1, *shape, 0, 0)
    pieces = (header, data) if len(data) else (header,)
    return PackedChunk(pieces, 1, len(header) + len(data))


def even_header(ndim: int) -> int:
    """Return the length of the header of a chunk of uncompressed samples of one shape with ``ndim`` axes."""
    return len(PREFIX) + 4 * (2 + ndim + 1) + 4 + POSITION_ROW


def header_of(shape: tuple[int, ...], size: int, count: int) -> bytes:
    """Return the header of a chunk of uncompressed samples of one shape and size.

    Raises
    ------
    LimitError
        If the samples have too many bytes for one chunk.
    """
    try:
        return PREFIX + _shape_table(shape, count) + b"".join(_position_table(size, count))
    except (OverflowError, struct.error) as error:
        raise LimitError(f"{count} samples do not fit into one chunk: {error}") from error


def _shape_table(shapes: Shapes, count: int) -> bytes:
    if shapes is None:
        return struct.pack("<ii", 0, 2)
    if isinstance(shapes, tuple):
        return struct.pack(f"<ii{len(shapes)}II", 1, len(shapes) + 1, *shapes, count - 1)
    rows = native.shape_rows(np.ascontiguousarray(shapes))
    return struct.pack("<ii", *rows.shape) + rows.tobytes()


def _position_table(sizes: int | Words, count: int) -> tuple[bytes | memoryview, ...]:
    if isinstance(sizes, int):
        return (struct.pack("<iIII", 1, sizes, 0, count - 1),)
    rows = native.position_rows(sizes)
    if 2 * len(rows) < count:
        rows = rows.copy()  # a slice of an array would keep the whole array in memory
    return struct.pack("<i", len(rows)), rows.view(np.uint8).reshape(-1).data
