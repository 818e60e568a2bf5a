"""One sample as users pass it: an array, or a file that is opened only when its content is needed (API.md 4)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lakebed.codecs.base import Buffer, FileCodec, FileFacts, PictureCodec
from lakebed.codecs.registry import byte_codec, file_codec, normalize, picture_codec, sniff
from lakebed.errors import CorruptedSampleError, FormatError, InvalidInputError, SampleDecompressionError
from lakebed.runtime.printable import printable

if TYPE_CHECKING:
    from PIL.Image import Image

QUALITY = 95
"""Quality of pictures that are converted to a kind that has a quality."""

LOSSY = frozenset({"jpeg", "webp"})
"""Kinds of pictures that have a quality."""


def became(kind: str) -> str:
    """Return, for messages, how a tensor of one kind converts pictures of other kinds."""
    return f"encoded anew as {kind.upper()}{f' at quality {QUALITY}' if kind in LOSSY else ''}"


class Sample:
    """An array, or a file (path, URL or bytes) with a compression, before it goes into a tensor.

    A file is lazy: it is fetched only when its shape, dtype or content is needed, and its pixels are not decoded if a
    tensor stores it verbatim.

    Parameters
    ----------
    array
        The values themselves.
    buffer
        Content of a file; with ``shape`` and without ``compression``, raw values.
    path
        Location of the file, for messages and for ``meta["filename"]``.
    compression
        Kind of the file; None detects it from the content.
    shape, dtype
        Shape and dtype of raw values in ``buffer``.
    fetch
        Returns the content of the file; called once.
    local
        Local path of a file that ``fetch`` only reads, so that callers may read many such files at once.
    facts
        Known shape and dtype of the file, so that its header need not be read.

    Attributes
    ----------
    is_text_like
        Whether the values are text, JSON or a list; set by callers that know.
    may_lose
        Whether, if a tensor stores another kind of image, data that this kind cannot hold is dropped: transparency, or
        the low 8 of 16 bits. Otherwise such a picture is refused.
    is_told
        Whether the user was already informed that the picture is converted.

    Raises
    ------
    InvalidInputError
        If no array, buffer or fetch function is given.
    UnsupportedCompressionError
        If the format knows no such compression.
    """

    __hash__ = None  # type: ignore[assignment]
    __slots__ = (
        "_array",
        "_buffer",
        "_facts",
        "_fetch",
        "_is_file",
        "_kind",
        "_local",
        "is_text_like",
        "is_told",
        "may_lose",
        "path",
    )

    def __init__(
        self,
        *,
        array: NDArray[Any] | None = None,
        buffer: Buffer | None = None,
        path: str | None = None,
        compression: str | None = None,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
        fetch: Callable[[], Buffer] | None = None,
        local: str | None = None,
        facts: FileFacts | None = None,
    ) -> None:
        if array is None and buffer is None and fetch is None:
            raise InvalidInputError("a sample needs an array, the content of a file, or a file to read")
        self.path = path
        self._array = None if array is None else np.asarray(array)
        self._buffer = buffer
        self._fetch = fetch
        self._local = local
        self._kind = None if compression is None else normalize(compression)
        self._is_file = array is None and (compression is not None or shape is None)
        self._facts = facts if shape is None else FileFacts(tuple(shape), str(dtype or "uint8"))
        self.is_text_like = self.may_lose = self.is_told = False

    @property
    def held_bytes(self) -> int:
        """Number of bytes in memory; 0 for a file that is not read yet."""
        held = 0 if self._array is None else self._array.nbytes
        return held + (0 if self._buffer is None else len(self._buffer))

    @property
    def compression(self) -> str | None:
        """Kind of the file; None for arrays and raw values.

        Raises
        ------
        CorruptedSampleError
            If the content is not a known kind of file.
        """
        if self._is_file and self._kind is None:
            data = self.buffer
            self._kind = sniff(data, self.path)
            if self._kind is None:
                if not len(data):
                    raise CorruptedSampleError(f"{self._place()}: an empty file, of 0 bytes")
                raise CorruptedSampleError(
                    f"{self._place()}: {len(data)} bytes are not a known kind of file; "
                    "if you know the compression, name it when you read the file"
                )
        return self._kind

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values; for a file, the shape in its header.

        Raises
        ------
        FormatError, LimitError
            If the file is damaged, or promises more than this process allows.
        """
        if self._facts is None and self._array is not None:
            return tuple(self._array.shape)
        return self._header().shape

    @property
    def dtype(self) -> str:
        """Name of the dtype of the values; for a file, the dtype in its header."""
        if self._facts is None and self._array is not None:
            return self._array.dtype.name
        return self._header().dtype

    @property
    def is_lazy(self) -> bool:
        """Whether the values are not decoded yet."""
        return self._array is None

    @property
    def is_empty(self) -> bool:
        """Whether the sample has no values."""
        return 0 in self.shape

    @property
    def meta(self) -> dict[str, Any]:
        """Fields of a file for a hidden ``_info`` tensor: those of its header, ``shape``, ``format``, ``filename``."""
        codec = self._codec()
        found = {} if codec is None else dict(codec.metadata(self.buffer))
        found.pop("format", None)
        meta = {**found, "shape": self.shape, "format": self.compression}
        if self.path is not None:
            meta["filename"] = str(self.path)
        return meta

    @property
    def buffer(self) -> Buffer:
        """Content of the file as it is; raw bytes of an array.

        Raises
        ------
        SampleReadError, UnableToReadFromUrlError
            If the file cannot be read.
        """
        if self._buffer is None:
            if self._fetch is None:
                return self.array.tobytes()
            self._buffer = self._fetch()
        return self._buffer

    @property
    def unread_path(self) -> str | None:
        """Path of a local file that was not read yet; None for every other sample."""
        return self._local if self._buffer is None and self._array is None else None

    @property
    def array(self) -> NDArray[Any]:
        """The values, decoded on first use.

        Raises
        ------
        FormatError, LimitError
            If the file is damaged, or decodes to more than this process allows.
        """
        if self._array is None:
            codec = self._codec()
            self._array = self._raw() if codec is None else self._decoded(codec.decode)
        return self._array

    @property
    def has_palette(self) -> bool:
        """Whether the sample is a picture file whose pixels are indices of a palette."""
        codec = picture_codec(self.compression) if self._is_file else None
        return codec is not None and codec.has_palette(self.buffer)

    @property
    def shown(self) -> NDArray[Any]:
        """The visible picture: the values, with colours in place of indices of a palette or of inks.

        Raises
        ------
        FormatError, LimitError
            If the file is damaged, or decodes to more than this process allows.
        """
        codec = picture_codec(self.compression) if self._is_file else None
        return self.array if codec is None else self._decoded(codec.shown)

    def recast(self, pixels: NDArray[Any], codec: PictureCodec) -> tuple[NDArray[Any], PictureCodec]:
        """Return pixels of this file as another kind of picture accepts them, and the codec with the least loss."""
        from lakebed.codecs.images import narrowed

        codec = codec.of_quality(QUALITY)
        return (narrowed(pixels, codec) if self.may_lose else pixels), codec

    @property
    def pil(self) -> Image:
        """The values as a Pillow image.

        Raises
        ------
        InvalidInputError
            If the values are not an image.
        """
        import PIL.Image

        try:
            return PIL.Image.fromarray(self.array)
        except (TypeError, ValueError, LookupError) as error:
            raise InvalidInputError(
                f"{self._place()}: values of shape {self.shape} and dtype {self.dtype} are not an image"
            ) from error

    def compressed_bytes(self, compression: str | None) -> Buffer:
        """Return the sample as a file of a kind: verbatim if it is of that kind, else converted.

        A picture file of another kind is converted with the least loss (see ``may_lose``).

        Raises
        ------
        SampleCompressionError
            If values of this shape and dtype, or arrays at all, cannot be stored in this kind of file.
        FormatError, LimitError
            If the file is damaged, or decodes to more than this process allows.
        """
        name = normalize(compression)
        if name is None:
            return self.uncompressed_bytes()
        if self._is_file and name == self.compression:
            return self.buffer
        codec, picture = file_codec(name), picture_codec(name)
        if picture is not None and self._is_file and picture_codec(self.compression) is not None:
            pixels, codec = self.recast(self.shown, picture)
            return codec.encode(pixels)
        if codec is not None:
            return codec.encode(self.array)
        plain = byte_codec(name)
        return self.buffer if plain is None else plain.encode(self.uncompressed_bytes())

    def uncompressed_bytes(self) -> bytes:
        """Return the values as bytes in C order."""
        return self.array.tobytes()

    def copy(self) -> Sample:
        """Return a new sample that shares the content."""
        return copy.copy(self)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.array, dtype=dtype) if copy else np.asarray(self.array, dtype=dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sample):
            return NotImplemented
        if self.path is not None and other.path is not None:
            return self.path == other.path
        return self._is_file == other._is_file and bytes(self.buffer) == bytes(other.buffer)

    def __repr__(self) -> str:
        shown = printable(str(self.path))
        if self.is_lazy:
            return f"Sample(is_lazy=True, path={shown})"
        return (
            f"Sample(is_lazy=False, shape={self.shape}, compression='{self._kind}', "
            f"dtype='{self.dtype}', path={shown})"
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _codec(self) -> FileCodec | None:
        return file_codec(self.compression) if self._is_file else None

    def _header(self) -> FileFacts:
        if self._facts is None:
            codec = self._codec()
            if codec is None:
                raise InvalidInputError(
                    f"{self._place()}: values compressed by {self._kind} have no header; give their shape and dtype"
                )
            try:
                self._facts = codec.facts(self.buffer)
            except SampleDecompressionError as error:
                raise CorruptedSampleError(f"{self._place()}: {error}") from error
        return self._facts

    def _decoded(self, decode: Callable[[Buffer], NDArray[Any]]) -> NDArray[Any]:
        try:
            return decode(self.buffer)
        except SampleDecompressionError as error:
            raise type(error)(f"{self._place()}: {error}") from error

    def _raw(self) -> NDArray[Any]:
        """Return raw values, decompressed if necessary."""
        facts = self._header()
        try:
            wanted = int(np.prod(facts.shape, dtype=object)) * np.dtype(facts.dtype).itemsize
            plain = byte_codec(self._kind)
            data = self.buffer if plain is None else plain.decode(self.buffer, wanted)
            if len(data) != wanted:
                raise FormatError(f"{self._place()}: {len(data)} bytes, but {wanted} were expected")
            return np.frombuffer(data, dtype=facts.dtype).reshape(facts.shape)
        except TypeError as error:
            raise InvalidInputError(f"{self._place()}: {facts.dtype!r} is not a dtype") from error

    def _place(self) -> str:
        return "sample" if self.path is None else f"sample {self.path}"
