"""Chunk compression by an image format: all images of a chunk side by side in one file (format.md 5.4).

    0        x1           x2
    +--------+------------+-----+
    | image 0|  image 1   |  2  |   top-aligned on zeros; height of the highest, width of all together
    |        |            +-----+
    |        +------------+     |
    +--------+------------+-----+

Such chunks have no byte positions: image j is ``canvas[:H_j, x_j:x_j + W_j]`` with x_j the sum of the widths before.
Absent images have the shape (0, 0, 0) and take no space. Input and output of this module are raw samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.base import Buffer, ByteCodec, FileCodec
from lakebed.codecs.block import Block
from lakebed.codecs.registry import IMAGE_NAMES, byte_codec, file_codec
from lakebed.errors import FormatError, SampleCompressionError, UnsupportedCompressionError

# Largest width of a chunk's image, even if the format allows more.
_WIDEST = 65500

# A chunk is closed when the blank part of its image reaches this multiple of the filled part.
_LARGEST_WASTE = 3
_FREE_PIXELS = 1 << 18

Shapes = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class ImageChunkCodec:
    """Packing and cutting of the image chunks of one tensor.

    Parameters
    ----------
    name
        Image format.
    dtype
        Dtype of the samples.
    """

    name: str
    dtype: np.dtype[np.generic]
    _codec: FileCodec = field(repr=False, compare=False)

    def check(self, array: NDArray[np.generic]) -> None:
        """Refuse a sample that could not be encoded when its chunk is packed.

        Raises
        ------
        SampleCompressionError
            If the format cannot hold its rank, channels, dtype, values or extents.
        """
        if array.ndim not in (2, 3):
            raise SampleCompressionError(
                f"a sample of shape {array.shape} is not an image; chunks compressed as {self.name} hold "
                "samples of shape (height, width) or (height, width, channels)"
            )
        probe = getattr(self._codec, "check", None)
        if array.size and probe is not None:
            probe(array)

    def encode(self, blocks: Sequence[Block]) -> bytes:
        """Encode the raw samples of one chunk; return no bytes if none has a pixel.

        Raises
        ------
        SampleCompressionError
            If the samples are not images of one number of channels, or the format cannot hold them.
        """
        ndim = next((block.ndim for block in blocks if block.ndim is not None), None)
        if ndim is None:
            return b""
        shapes = np.concatenate([block.shape_array(ndim) for block in blocks]).astype(np.int64)
        image = self._blank(shapes)
        if image is None:
            return b""
        x = 0
        for block in blocks:
            pixels = np.frombuffer(block.joined(), dtype=self.dtype)
            start = 0
            for shape in block.shape_array(ndim).tolist():
                size = math.prod(shape)
                if size:
                    image[: shape[0], x : x + shape[1]] = pixels[start : start + size].reshape(shape)
                x += shape[1]
                start += size
        return self._codec.encode(image)

    def decode(self, data: Buffer, shapes: Shapes) -> tuple[memoryview, NDArray[np.uint32]]:
        """Cut the image of a chunk into samples; return their raw bytes, back to back, and their sizes.

        Parameters
        ----------
        shapes
            Shape of every sample, shape (count, ndim).

        Raises
        ------
        FormatError
            If the file is damaged, or does not hold the samples.
        LimitError
            If the image decodes to more than this process allows.
        """
        if len(data) == 0:
            return memoryview(b""), np.zeros(len(shapes), dtype=np.uint32)
        if shapes.shape[1] not in (2, 3):
            raise FormatError(f"damaged chunk: a canvas of images holds samples of rank {shapes.shape[1]}")
        wanted = shapes.astype(np.int64)
        # Read the header first, to compare it with the shape table before memory is allocated.
        self._inside(wanted, self._codec.facts(data).shape)
        image = self._codec.decode(data)
        self._inside(wanted, image.shape)
        if shapes.shape[1] == 3 and image.ndim == 2:
            image = image[..., np.newaxis]
        areas = wanted.prod(axis=1)
        sizes = areas * self.dtype.itemsize
        raw = np.empty(int(areas.sum()), dtype=self.dtype)
        x = start = 0
        for shape, area in zip(wanted.tolist(), areas.tolist(), strict=True):
            if area:
                part = image[: shape[0], x : x + shape[1]]
                raw[start : start + area].reshape(shape)[...] = part.astype(self.dtype, copy=False)
            x += shape[1]
            start += area
        return raw.view(np.uint8).data, sizes.astype(np.uint32)

    def runs(self, blocks: Sequence[Block], limit: int) -> list[list[Block]]:
        """Cut samples into runs that make one chunk each.

        A run ends where the number of channels changes, where its image would become wider than the format allows or
        mostly blank, and where its samples would take more than ``limit`` bytes.
        """
        from lakebed.codecs.images import largest_side

        ndim = next((block.ndim for block in blocks if block.ndim is not None), None)
        if ndim is None:
            return [list(blocks)] if blocks else []
        run = _ImageExtent(min(_WIDEST, largest_side(self.name)), limit)
        result: list[list[Block]] = [[]]
        for block, start, stop, is_new in _cuts(blocks, ndim, run):
            if is_new and result[-1]:
                result.append([])
            if stop > start:
                result[-1].append(block.cut(start, stop))
        return [part for part in result if part]

    def _blank(self, shapes: NDArray[np.int64]) -> NDArray[np.generic] | None:
        """Return an image of zeros for these samples; None if none has a pixel."""
        if shapes.shape[1] not in (2, 3):
            raise SampleCompressionError(
                f"samples of rank {shapes.shape[1]} are not images; chunks compressed as {self.name} hold "
                "samples of shape (height, width) or (height, width, channels)"
            )
        full = shapes[shapes.prod(axis=1) > 0]
        if len(full) == 0:
            return None
        channels = set(full[:, 2].tolist()) if shapes.shape[1] == 3 else set()
        if len(channels) > 1:
            raise SampleCompressionError(
                f"images of {' and '.join(map(str, sorted(channels)))} channels do not go into one {self.name} chunk"
            )
        height, width = int(full[:, 0].max()), int(shapes[:, 1].sum())
        return np.zeros((height, width, *channels), dtype=self.dtype)

    def _inside(self, shapes: NDArray[np.int64], extent: tuple[int, ...]) -> None:
        """Check that samples of these shapes lie side by side in an image of that shape."""
        full = shapes[shapes.prod(axis=1) > 0]
        if len(full) == 0:
            return
        needed = int(full[:, 0].max()), int(shapes[:, 1].sum())
        channels = extent[2] if len(extent) == 3 else 1
        fits = needed[0] <= extent[0] and needed[1] <= extent[1]
        if (
            not fits
            or (shapes.shape[1] == 3 and bool(np.any(full[:, 2] != channels)))
            or (shapes.shape[1] == 2 and len(extent) != 2)
        ):
            raise FormatError(
                f"damaged chunk: its images, the first of shape {full[0].tolist()}, need {needed[1]} x {needed[0]} "
                f"pixels; its {self.name} file has shape {extent}"
            )


@dataclass(slots=True)
class _ImageExtent:
    """The extents of the image that a run of samples would make."""

    largest: int
    limit: int
    height: int = 0
    width: int = 0
    area: int = 0
    nbytes: int = 0
    channels: int = -1

    def add(self, height: int, width: int, channels: int, nbytes: int) -> bool:
        """Add one more sample; if it does not fit beside the others, begin a new run with it and return False."""
        area = height * width
        tall, wide = max(self.height, height if area else 0), self.width + width
        blank = tall * wide - self.area - area
        is_first = self.width == 0 and self.nbytes == 0
        fits = is_first or (
            wide <= self.largest
            and self.nbytes + nbytes <= self.limit
            and (not area or self.channels in (-1, channels))
            and (blank <= _FREE_PIXELS or blank <= _LARGEST_WASTE * (self.area + area))
        )
        if not fits:
            self.height = self.width = self.area = self.nbytes = 0
            self.channels = -1
            tall, wide = height if area else 0, width
        self.height, self.width = tall, wide
        self.area += area
        self.nbytes += nbytes
        if area:
            self.channels = channels
        return fits


def _cuts(blocks: Sequence[Block], ndim: int, run: _ImageExtent) -> Iterator[tuple[Block, int, int, bool]]:
    """Yield pieces of blocks: (block, start, stop, whether a new run begins with this piece)."""
    for block in blocks:
        sizes = block.size_array().tolist()
        start, is_new = 0, False
        for i, shape in enumerate(block.shape_array(ndim).tolist()):
            height, width = (shape[0], shape[1]) if ndim > 1 else (1, 0)
            if not run.add(height, width, shape[2] if ndim > 2 else 1, sizes[i]):
                yield block, start, i, is_new
                start, is_new = i, True
        yield block, start, block.count, is_new


ChunkCodec = ByteCodec | ImageChunkCodec
"""The compression of whole chunks: lz4 for raw bytes, or an image codec for images side by side."""


def chunk_codec(name: str | None, dtype: str | np.dtype[np.generic] | None) -> ChunkCodec | None:
    """Return the codec of a tensor's chunks, or None if they are not compressed.

    Parameters
    ----------
    name
        Chunk compression.
    dtype
        Dtype of the tensor; None while no sample has set it.

    Raises
    ------
    UnsupportedCompressionError
        If the compression does not support whole chunks.
    ModuleNotInstalledException
        If a package that the format needs is not installed.
    """
    if name not in IMAGE_NAMES:
        return byte_codec(name)
    codec = file_codec(name)
    if codec is None or not codec.traits.chunks:
        raise UnsupportedCompressionError(f"chunks cannot be compressed as {name}")
    return ImageChunkCodec(name, np.dtype(np.uint8 if dtype is None else dtype), codec)
