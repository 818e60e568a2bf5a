"""Large samples -> tiles (format.md 6.2, 6.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.tiling import boxes, choose_tile_shape, grid
from lakebed.codecs.base import FileCodec
from lakebed.codecs.block import Block
from lakebed.codecs.registry import byte_codec
from lakebed.errors import InvalidInputError
from lakebed.htypes.images import padded_shape
from lakebed.htypes.partial import PartialSample
from lakebed.writing.encode.encoded import Encoded, Tiled
from lakebed.writing.encode.spec import TensorSpec, with_dtype

Tiles = Iterator[tuple[tuple[int, ...], bytes | memoryview]]


def tile_shape_of(spec: TensorSpec, shape: tuple[int, ...], nbytes: int) -> tuple[int, ...] | None:
    """Return the shape of the tiles of a sample, or None if it is stored whole.

    Parameters
    ----------
    nbytes
        Size of the decoded sample.
    """
    limit = spec.threshold
    if limit < 0 or nbytes <= limit:
        return None
    compressed = spec.meta.sample_compression is not None or spec.image_chunks is not None
    if nbytes * (0.5 if compressed else 1.0) <= limit:
        return None
    if spec.files is not None and not spec.files.can_encode:
        return None
    try:
        tile = _chosen(spec, shape, nbytes, limit)
    except InvalidInputError:
        # A long vector has one axis, which is never cut: 3.9.52 refuses such a vector, this library stores it as a
        # whole.
        return None
    return None if math.prod(grid(shape, tile)) == 1 else tile


def _chosen(spec: TensorSpec, shape: tuple[int, ...], nbytes: int, limit: int) -> tuple[int, ...]:
    meta = spec.meta
    plain = spec.files is None and spec.image_chunks is None
    uncompressed = meta.sample_compression is None and meta.chunk_compression is None
    return choose_tile_shape(
        shape,
        nbytes,
        max(limit, 1),
        factor=1.0 if uncompressed else 0.5,
        exclude_last=not (plain and spec.htype.name == "generic"),
    )


def encode_tiled(
    array: NDArray[Any],
    tile: tuple[int, ...],
    spec: TensorSpec,
    info: dict[str, Any] | None,
    codec: FileCodec | None = None,
) -> Encoded:
    """Encode one sample as tiles, with the given codec if any; each tile is compressed when it is iterated over."""
    shape = tuple(int(n) for n in array.shape)
    compress = _compressor(spec) if codec is None else codec.encode

    def tiles() -> Tiles:
        for box in boxes(shape, tile):
            part = np.ascontiguousarray(array[box])
            yield part.shape, compress(part)

    meta = with_dtype(spec.meta, array.dtype.newbyteorder("<"))
    block = Block(memoryview(b""), 1, 0, shape)
    infos = None if info is None else [info]
    return Encoded(block, meta, infos=infos, tiled=Tiled(shape, tile, tiles), pixels=lambda _: array)


def _compressor(spec: TensorSpec) -> Callable[[NDArray[Any]], bytes]:
    codec = spec.files or spec.image_chunks
    if codec is not None:
        return codec.encode
    plain = byte_codec(spec.meta.sample_compression or spec.meta.chunk_compression)
    if plain is not None:
        return lambda part: plain.encode(part.tobytes())
    return lambda part: part.tobytes()


def encode_partial(value: PartialSample, spec: TensorSpec) -> Encoded:
    """Encode a sample whose data follows later: tiles without data.

    Raises
    ------
    InvalidInputError
        If no tile shape was given and none can be chosen.
    """
    dtype = spec.dtype or value.dtype
    shape, tile = value.sample_shape, value.tile_shape
    if spec.pads:
        shape = padded_shape(shape)
        tile = None if tile is None else padded_shape(tile)
    if tile is None:
        limit = spec.threshold if spec.threshold > 0 else spec.meta.chunk_size // 2
        tile = _chosen(spec, shape, math.prod(shape) * dtype.itemsize, limit)
    spec.check_rank(shape, spec.ndim)
    chosen = tile

    def tiles() -> Tiles:
        for box in boxes(shape, chosen):
            yield tuple(s.stop - s.start for s in box), b""

    block = Block(memoryview(b""), 1, 0, shape)
    return Encoded(block, with_dtype(spec.meta, dtype.newbyteorder("<")), tiled=Tiled(shape, tile, tiles))
