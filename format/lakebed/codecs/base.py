"""Contracts of codecs: named pairs of functions between raw and compressed bytes of one sample or one chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import TRAITS, CodecTraits
from lakebed.errors import SampleCompressionError

Buffer = bytes | bytearray | memoryview
Allocate = Callable[[int], NDArray[np.uint8]]
"""Function that returns a buffer of a given number of bytes."""

D_contra = TypeVar("D_contra", contravariant=True)


@runtime_checkable
class Elsewhere(Protocol):
    """A file that is not in memory: slices of it are fetched on request."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice) -> bytes: ...

    def some(self, start: int, length: int) -> bytes:
        """Return at least one and at most ``length`` bytes from ``start`` on; none at the end."""
        ...

    def prefetch(self, start: int, stop: int) -> None:
        """Fetch the bytes between two offsets at once."""
        ...

    def whole(self) -> bytes:
        """Return the content."""
        ...


class Parted(Protocol[D_contra]):
    """A decoder that can decode a part of the first axis alone."""

    def decode(self, data: D_contra) -> NDArray[Any]:
        """Decode all data."""
        ...

    def part(self, data: D_contra, selection: int | slice) -> NDArray[Any]:
        """Decode a selection of the first axis."""
        ...


class Codec:
    """Common base of all codecs."""

    __slots__ = ()
    name: Any
    """Name of the compression in the format."""

    @property
    def traits(self) -> CodecTraits:
        """Capabilities of this compression."""
        return TRAITS[self.name]


class ByteCodec(Codec):
    """Compression of bytes, regardless of their meaning."""

    __slots__ = ()

    def encode(self, raw: Buffer) -> bytes:
        """Compress; empty input gives empty output."""
        raise NotImplementedError

    def decode(self, data: Buffer, limit: int, allocate: Allocate | None = None) -> Buffer:
        """Decompress, into a buffer from ``allocate`` if possible.

        Raises
        ------
        FormatError
            If the data is damaged.
        LimitError
            If the data promises more than ``limit`` bytes.
        """
        raise NotImplementedError

    def decode_into(self, data: Buffer, out: NDArray[Any]) -> None:
        """Decompress into a C-contiguous array of :meth:`size` bytes, whose content is undefined after an error.

        Raises
        ------
        FormatError
            If the data is damaged.
        """
        raise NotImplementedError

    def size(self, data: Buffer, limit: int) -> int | None:
        """Return the decompressed size that the data declares; None if it declares none.

        Errors are those of :meth:`decode`.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Shape and dtype of the content of a file, known without decoding it.

    Parameters
    ----------
    shape
        Shape of the decoded array as the format registers it (format.md 5.3).
    dtype
        NumPy dtype name of the decoded array.
    """

    shape: tuple[int, ...]
    dtype: str


class FileCodec(Codec):
    """One sample <-> one file of a known kind: image, video, sound, scan, mesh (format.md 5.3, 7)."""

    __slots__ = ()

    @property
    def can_encode(self) -> bool:
        """Whether arrays can be encoded; otherwise only files can be stored."""
        return self.traits.encodes

    def facts(self, data: Buffer) -> FileFacts:
        """Read shape and dtype from the header.

        Raises
        ------
        FormatError, LimitError
            If the data is not such a file, or promises more than this process allows.
        """
        raise NotImplementedError

    def encode(self, array: NDArray[Any]) -> bytes:
        """Encode an array.

        Raises
        ------
        SampleCompressionError
            If arrays of this shape or dtype, or arrays at all, cannot be encoded.
        """
        raise SampleCompressionError(
            f"arrays of shape {array.shape} cannot be encoded as {self.name}: append a file with lakebed.read(path)"
        )

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode to an array of the shape and dtype that :meth:`facts` gives.

        If ``out`` has that shape and dtype, and the codec can decode in place, ``out`` is filled and returned;
        callers must check whether the result is ``out``.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        raise NotImplementedError

    def part(self, data: Buffer, selection: int | slice) -> NDArray[Any]:
        """Decode a selection of the first axis, and no more than this kind of file requires."""
        part: NDArray[Any] = self.decode(data)[selection]
        return part

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return the fields that a hidden ``_info`` tensor records, without ``shape`` and ``filename``."""
        raise NotImplementedError


class PictureCodec(FileCodec):
    """One picture <-> one file."""

    __slots__ = ()

    @property
    def takes_colours(self) -> bool:
        """Whether pictures of three channels can be encoded."""
        return True

    def check(self, array: NDArray[Any]) -> None:
        """Refuse an array that :meth:`encode` would refuse, without encoding it.

        Raises
        ------
        SampleCompressionError
            If this kind of image cannot hold the shape, dtype or values of the array.
        """
        raise NotImplementedError

    def shown(self, data: Buffer) -> NDArray[Any]:
        """Decode the visible picture: colours, even if the file holds indices of a palette, inks, or another space.

        Returns
        -------
        Shape (H, W) or (H, W, 2 to 4): grey, RGB, and their transparency.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        raise NotImplementedError

    def has_palette(self, data: Buffer) -> bool:  # noqa: ARG002 - for kinds that can have a palette
        """Tell whether pixels are indices of a palette."""
        return False

    def of_quality(self, quality: int) -> PictureCodec:
        """Return the codec that encodes with a quality from 1 to 100, if this kind of image has qualities."""
        raise NotImplementedError


def into(array: NDArray[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """Write decoded values to ``out`` if they fit, and return it; otherwise return the values.

    They fit if ``out`` has their shape, or that shape and a last axis of one, and a dtype that holds all their values.
    """
    if out is None or (out.shape != array.shape and out.shape != (*array.shape, 1)):
        return array
    if not np.can_cast(array.dtype, out.dtype):
        return array
    out[...] = array.reshape(out.shape).astype(out.dtype, copy=False)
    return out
