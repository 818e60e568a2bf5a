"""What a codec is: a named pair of functions between raw and compressed bytes of one sample or one chunk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import CodecTraits

Buffer = bytes | bytearray | memoryview
Allocate = Callable[[int], NDArray[np.uint8]]
"""Supplies a buffer of a number of bytes."""

D_contra = TypeVar("D_contra", contravariant=True)


@runtime_checkable
class Elsewhere(Protocol):
    """A file that is not in memory: slices of it are fetched when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice) -> bytes: ...

    def some(self, start: int, length: int) -> bytes:
        """Return at least one and up to ``length`` bytes from ``start`` on; none at the end."""
        ...

    def prefetch(self, start: int, stop: int) -> None:
        """Fetch the bytes between two offsets at once."""
        ...

    def whole(self) -> bytes:
        """Return the content."""
        ...


class Parted(Protocol[D_contra]):
    """What decodes samples of which a part of the first axis can be had alone."""

    def decode(self, data: D_contra) -> NDArray[Any]:
        """Decode the whole."""
        ...

    def part(self, data: D_contra, selection: int | slice) -> NDArray[Any]:
        """Decode what ``selection`` asks of the first axis."""
        ...


class ByteCodec(Protocol):
    """Compress bytes without looking at what they mean."""

    @property
    def name(self) -> str:
        """Name of the compression in the format."""
        ...

    @property
    def traits(self) -> CodecTraits:
        """What this compression can do."""
        ...

    def encode(self, raw: Buffer) -> bytes:
        """Compress; empty input gives empty output."""
        ...

    def decode(self, data: Buffer, limit: int, allocate: Allocate | None = None) -> Buffer:
        """Decompress, into what ``allocate`` supplies where that is possible.

        Raises
        ------
        FormatError
            If the data is damaged.
        LimitError
            If it promises more than ``limit`` bytes.
        """
        ...

    def decode_into(self, data: Buffer, out: NDArray[Any]) -> None:
        """Decompress into a C-contiguous array of as many bytes as :meth:`size` says; undefined after an error.

        Raises
        ------
        FormatError
            If the data is damaged.
        """
        ...

    def size(self, data: Buffer, limit: int) -> int | None:
        """Return how many bytes the data decodes to by its own word; None if it does not say.

        Errors are those of :meth:`decode`.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a compressed file says of its content without being decoded.

    Parameters
    ----------
    shape
        Shape of the decoded array as the format registers it (FORMAT.md 5.3).
    dtype
        NumPy dtype name of the decoded array.
    """

    shape: tuple[int, ...]
    dtype: str


class FileCodec(Protocol):
    """One sample <-> one file of a known kind: image, video, sound, scan, mesh (FORMAT.md 5.3, 7)."""

    @property
    def name(self) -> str:
        """Name of the compression in the format."""
        ...

    @property
    def traits(self) -> CodecTraits:
        """What this compression can do."""
        ...

    @property
    def can_encode(self) -> bool:
        """Whether arrays can be encoded; otherwise only files can be stored."""
        ...

    def facts(self, data: Buffer) -> FileFacts:
        """Read shape and dtype from the header.

        Raises
        ------
        FormatError, LimitError
            If the data is no such file, or promises more than this process allows.
        """
        ...

    def encode(self, array: NDArray[Any]) -> bytes:
        """Encode an array.

        Raises
        ------
        SampleCompressionError
            If arrays of this shape or dtype, or arrays at all, cannot be encoded.
        """
        ...

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode to an array of the shape and dtype that :meth:`facts` gives.

        ``out`` of that shape and dtype, where given, is filled and returned if the codec can decode in place; look at
        what comes back.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        ...

    def part(self, data: Buffer, selection: int | slice) -> NDArray[Any]:
        """Decode what ``selection`` asks of the first axis, and no more of it than the kind of file needs."""
        ...

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return what a hidden ``_info`` tensor records of such a file, without ``shape`` and ``filename``."""
        ...


class PictureCodec(FileCodec, Protocol):
    """One picture <-> one file."""

    @property
    def takes_colours(self) -> bool:
        """Whether pictures of three channels can be encoded."""
        ...

    def check(self, array: NDArray[Any]) -> None:
        """Refuse an array that :meth:`encode` would refuse, without encoding it.

        Raises
        ------
        SampleCompressionError
            If this kind of image has no place for its shape, dtype or values.
        """
        ...

    def shown(self, data: Buffer) -> NDArray[Any]:
        """Decode what the picture shows: colours, where the file holds numbers of a palette, inks, or another space.

        Returns
        -------
        Shape (H, W) or (H, W, 2 to 4): grey, RGB, and their transparency.

        Raises
        ------
        FormatError, LimitError
            As of :meth:`decode`.
        """
        ...

    def has_palette(self, data: Buffer) -> bool:
        """Tell whether pixels are numbers of a palette."""
        ...

    def of_quality(self, quality: int) -> PictureCodec:
        """Return the codec that encodes with that quality, 1 to 100, where this kind of image has one."""
        ...
