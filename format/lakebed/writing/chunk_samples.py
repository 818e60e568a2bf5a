"""What a tensor's metadata says of the samples in its chunks, of those on their way into another chunk, too."""

from __future__ import annotations

import numpy as np

from lakebed.chunks.chunk import Chunk
from lakebed.codecs.block import Block
from lakebed.codecs.registry import normalize
from lakebed.codecs.traits import TRAITS
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named


def tells_shape(meta: TensorMeta) -> bool:
    """Whether a reader needs no more than the stored bytes of a sample to know its shape: pictures and text."""
    if htype_named(meta.htype).storing in (Storing.TEXT, Storing.JSON):
        return not meta.is_link
    compression = None if meta.is_link else normalize(meta.sample_compression)
    return compression is not None and TRAITS[compression].shape_from_file


def samples_of(chunk: Chunk, meta: TensorMeta) -> Block:
    """Return the samples of a chunk of a tensor; the block's bytes are those of the chunk."""
    shapes = None if chunk.ndim is None else chunk.shapes()
    if chunk.is_unwritten and not htype_named(meta.htype).is_text_like and meta.dtype:
        return _zeros(chunk, np.dtype(meta.dtype).itemsize)
    if chunk.uniform is not None:
        return Block(chunk.data, chunk.count, chunk.uniform[1], chunk.uniform[0])
    return Block(chunk.data, chunk.count, np.diff(chunk.offsets()).astype(np.uint32), shapes)


def _zeros(chunk: Chunk, itemsize: int) -> Block:
    """Return the samples of a chunk whose data was never written (FORMAT.md 5.5)."""
    shapes = chunk.shapes()
    sizes = (shapes.astype(np.int64).prod(axis=1) * itemsize).astype(np.uint32)
    return Block(memoryview(bytes(int(sizes.sum()))), chunk.count, sizes, shapes)
