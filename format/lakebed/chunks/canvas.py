"""Chunk compression: raw samples of a whole chunk <-> one compressed block (FORMAT.md 5.2, 5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakebed.codecs.base import ByteCodec
from lakebed.codecs.registry import IMAGE_NAMES, byte_codec


@dataclass(frozen=True, slots=True)
class Canvas:
    """All images of a chunk side by side in one image file (FORMAT.md 5.4)."""

    name: str
    dtype: str


ChunkCodec = ByteCodec | Canvas
"""What compresses a whole chunk."""


def chunk_codec(name: str | None, dtype: str | np.dtype[np.generic] | None) -> ChunkCodec | None:
    """Return what compresses the chunks of a tensor, or None for none."""
    if name in IMAGE_NAMES:
        return Canvas(str(name), str(dtype))
    return byte_codec(name)
