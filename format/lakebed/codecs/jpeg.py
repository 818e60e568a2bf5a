"""JPEG files, decoded by libjpeg-turbo straight into the target array (format.md 5.3).

The header is parsed in compiled code. Files of the common kinds (8 bits, one or three channels, Huffman coded) go
through simplejpeg with the exact transform and smooth upsampling, which gives the same pixels as Pillow; other files,
and files that simplejpeg rejects, go through Pillow, whose result is final.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from lakebed.codecs.base import Buffer, FileFacts, PictureCodec, into
from lakebed.codecs.exif import exif_of
from lakebed.codecs.images import Image, as_pixels, check_pixels
from lakebed.errors import CorruptedSampleError
from lakebed.native import headers as native

_FINE = 90
_TAKES = ["1", "L", "RGB"]

_PILLOW = Image("jpeg")


@dataclass(frozen=True, slots=True)
class Jpeg(PictureCodec):
    """Codec of JPEG files; ``mpo`` files are JPEG files followed by more images, of which the first is read.

    Parameters
    ----------
    name
        Name of the compression: ``jpeg`` or ``mpo``.
    quality
        Quality of encoding, 1 to 100; from 90 on, colour has the resolution of brightness.
    """

    name: str = "jpeg"
    quality: int = 75  # the default of Pillow, and therefore of 3.9.52

    def of_quality(self, quality: int) -> Jpeg:
        return replace(self, quality=quality)

    def facts(self, data: Buffer) -> FileFacts:
        return FileFacts(_shape(self._header(data)), "uint8")

    def encode(self, array: NDArray[Any]) -> bytes:
        if array.size == 0:
            return b""
        pixels = as_pixels(array, self.name, _TAKES)
        if pixels.dtype == np.bool_:
            pixels = pixels.view(np.uint8) * np.uint8(255)
        is_grey = pixels.ndim == 2
        encoded: bytes = simplejpeg.encode_jpeg(
            pixels[..., np.newaxis] if is_grey else pixels,
            quality=self.quality,
            colorspace="GRAY" if is_grey else "RGB",
            colorsubsampling="Gray" if is_grey else "444" if self.quality >= _FINE else "420",
        )
        return encoded

    def check(self, array: NDArray[Any]) -> None:
        if array.size:
            as_pixels(array, self.name, _TAKES)

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        header = self._header(data)
        if not header[5] & native.PLAIN:
            return _PILLOW.decode(data, out)
        shape = _shape(header)
        target = out if out is not None and _is_canvas(out, shape) else np.empty(shape, dtype=np.uint8)
        try:
            simplejpeg.decode_jpeg(data, colorspace="GRAY" if header[2] == 1 else "RGB", buffer=target)
        except (ValueError, MemoryError):
            return _PILLOW.decode(data, out)
        return target if target is out else into(target, out)

    def shown(self, data: Buffer) -> NDArray[Any]:
        return self.decode(data) if self._header(data)[2] in (1, 3) else _PILLOW.shown(data)

    def decode_as(self, data: Buffer, out: NDArray[np.uint8]) -> bool:
        """Decode a file of a common kind straight into an array of its shape, parsing its header once.

        Returns
        -------
        bool
            False if the file is of another kind or shape, or damaged; use :meth:`decode` for such a file.
        """
        try:
            header = native.jpeg_header(data)
        except ValueError:
            return False
        if not header[5] & native.PLAIN or not _is_canvas(out, _shape(header)):
            return False
        try:
            simplejpeg.decode_jpeg(data, colorspace="GRAY" if header[2] == 1 else "RGB", buffer=out)
        except (ValueError, MemoryError):
            return False
        return True

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return ``exif`` and ``format`` (format.md 8)."""
        exif: dict[str, Any] = {}
        if self._header(data)[5] & native.EXIF:
            # Pillow parses the EXIF while it opens the file; ignore damaged EXIF, because the pixels may be intact.
            with suppress(CorruptedSampleError), _PILLOW.opened(data) as image:
                exif = exif_of(image)
        return {"exif": exif, "format": self.name}

    def _header(self, data: Buffer) -> tuple[int, int, int, int, int, int]:
        try:
            header = native.jpeg_header(data)
        except ValueError as error:
            raise CorruptedSampleError(
                f"{len(data)} bytes are not in the format {self.name}, or damaged: {error}"
            ) from error
        if header[2] not in (1, 3, 4):
            raise CorruptedSampleError(f"a {self.name} file with {header[2]} channels cannot be decoded")
        check_pixels(self.name, header[0], header[1], header[2], 8, len(data))
        return header


def _shape(header: tuple[int, int, int, int, int, int]) -> tuple[int, ...]:
    height, width, channels = header[:3]
    return (height, width) if channels == 1 else (height, width, channels)


def _is_canvas(out: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Tell whether pixels can be decoded straight into ``out``."""
    fits = out.shape == shape or out.shape == (*shape, 1)
    return fits and out.dtype == np.uint8 and out.flags.c_contiguous and out.flags.writeable
