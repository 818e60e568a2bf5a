"""Image files other than JPEG, through Pillow (format.md 5.3, 7).

A compression name stands for one Pillow plugin, which is called directly: Pillow never guesses, so a font or an EPS
program under the name of a PNG file is an error. Extents are read from the header and checked before pixels are
decoded.
"""

from __future__ import annotations

import io
import re
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.base import Buffer, FileFacts, PictureCodec, into
from lakebed.codecs.exif import exif_of
from lakebed.errors import (
    CorruptedSampleError,
    FormatError,
    LimitError,
    SampleCompressionError,
    SampleDecompressionError,
)
from lakebed.native import headers as native

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

# Errors of Pillow's plugins on damaged files. Warnings are included because a process may turn them into errors.
DAMAGE: Final = (
    OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, ArithmeticError, AttributeError, AssertionError,
    NotImplementedError, RuntimeError, MemoryError, Warning, struct.error, zlib.error,
)  # fmt: skip

# name -> (plugin module, class that reads, format name for writing, modes that are unchanged when they are read
# back).
_PLUGINS: Mapping[str, tuple[str, str, str, str]] = {
    "bmp": ("BmpImagePlugin", "BmpImageFile", "BMP", "1 L RGB"),
    "dib": ("BmpImagePlugin", "DibImageFile", "DIB", "1 L RGB"),
    "eps": ("EpsImagePlugin", "EpsImageFile", "EPS", "L RGB"),
    "fli": ("FliImagePlugin", "FliImageFile", "", ""),
    "gif": ("GifImagePlugin", "GifImageFile", "GIF", "1 L"),
    "ico": ("IcoImagePlugin", "IcoImageFile", "ICO", "1 L LA RGB RGBA I;16"),
    "im": ("ImImagePlugin", "ImImageFile", "IM", "1 L LA RGB RGBA I I;16 F"),
    "jpeg": ("JpegImagePlugin", "JpegImageFile", "JPEG", "1 L RGB"),
    "jpeg2000": ("Jpeg2KImagePlugin", "Jpeg2KImageFile", "JPEG2000", "L LA RGB RGBA I;16"),
    "mpo": ("JpegImagePlugin", "JpegImageFile", "JPEG", "1 L RGB"),
    "msp": ("MspImagePlugin", "MspImageFile", "MSP", "1"),
    "pcx": ("PcxImagePlugin", "PcxImageFile", "PCX", "1 L RGB"),
    "png": ("PngImagePlugin", "PngImageFile", "PNG", "1 L LA RGB RGBA I;16"),
    "ppm": ("PpmImagePlugin", "PpmImageFile", "PPM", "1 L RGB I F"),
    "sgi": ("SgiImagePlugin", "SgiImageFile", "SGI", "L RGB RGBA"),
    "tga": ("TgaImagePlugin", "TgaImageFile", "TGA", "1 L LA RGB RGBA"),
    "tiff": ("TiffImagePlugin", "TiffImageFile", "TIFF", "1 L LA RGB RGBA I I;16 F"),
    "webp": ("WebPImagePlugin", "WebPImageFile", "WEBP", "RGB RGBA"),
    "wmf": ("WmfImagePlugin", "WmfStubImageFile", "", ""),
    "xbm": ("XbmImagePlugin", "XbmImageFile", "XBM", "1"),
}

# Pillow's mode -> (channels, dtype of the array).
_MODES: Mapping[str, tuple[int, str]] = {
    "1": (1, "bool"), "L": (1, "uint8"), "P": (1, "uint8"), "I": (1, "int32"), "F": (1, "float32"),
    "I;16": (1, "uint16"), "I;16L": (1, "uint16"), "I;16B": (1, "uint16"), "I;16N": (1, "uint16"),
    "LA": (2, "uint8"), "La": (2, "uint8"), "PA": (2, "uint8"), "RGB": (3, "uint8"), "YCbCr": (3, "uint8"),
    "LAB": (3, "uint8"), "HSV": (3, "uint8"), "RGBA": (4, "uint8"), "RGBa": (4, "uint8"), "RGBX": (4, "uint8"),
    "CMYK": (4, "uint8"),
}  # fmt: skip

# Modes of three or four channels that are not red, green, blue and transparency.
_OTHER_SPACES = frozenset({"CMYK", "YCbCr", "LAB", "HSV"})

# Pillow's GIF writer renumbers grey values unless an option turns off the optimization of the palette.
_OPTIONS: Mapping[str, dict[str, Any]] = {"gif": {"optimize": False}}

_INTEGERS: Mapping[str, np.dtype[np.integer[Any]]] = {
    "I;16": np.dtype(np.uint16), "I": np.dtype(np.int32), "L": np.dtype(np.uint8)
}  # fmt: skip
# Kind of image -> mode in which 3.9.52 stores integers that are wider than the mode. 3.9.52 clips values that do not
# fit; this library refuses them.
_NARROW = {"png": "I;16", "ico": "I;16", "gif": "L"}

_LARGEST_SIDES: Mapping[str, int] = {
    "gif": 65535, "ico": 256, "jpeg": 65500, "mpo": 65500, "pcx": 65535, "sgi": 65535, "tga": 65535, "webp": 16383,
}  # fmt: skip

# Pillow turns TIFF images upright, but 3.9.52 records the shape of the stored pixels. Undo quarter turns, so that the
# pixels have the recorded shape.
_ORIENTATION, _WIDTH, _HEIGHT = 274, 256, 257
_TURNS: Mapping[int, Callable[[NDArray[Any]], NDArray[Any]]] = {
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a, -1),
}

_EXIF_NAMES = frozenset("jpeg mpo png webp tiff".split())
_EPS_HEAD = re.compile(
    rb"%ImageData: (\d{1,9}) (\d{1,9}) 8 ([13]) [^\n]*\n(?:[^\n]{0,200}\n){1,10}?"
    rb"[^\n]*readhexstring[^\n]*\n(?:false 3 color)?image\n"
)


@dataclass(frozen=True, slots=True)
class Image(PictureCodec):
    """Codec of one kind of image file.

    Parameters
    ----------
    name
        Name of the compression.
    quality
        Quality of encoding, 1 to 100, if this kind of image has one; None takes Pillow's default.
    """

    name: str
    quality: int | None = None

    @property
    def takes_colours(self) -> bool:
        return "RGB" in _PLUGINS[self.name][3].split()

    def facts(self, data: Buffer) -> FileFacts:
        if self.name == "png":
            return _png_facts(data)
        with self.opened(data) as image:
            return _facts(image, self.name, len(data))

    def encode(self, array: NDArray[Any]) -> bytes:
        if array.size == 0:
            return b""
        pixels = self._encodable(array)
        return _save(_kept_alpha(pixels) if self.name == "webp" else pixels, self.name, self.quality)

    def check(self, array: NDArray[Any]) -> None:
        self._encodable(array)

    def _encodable(self, array: NDArray[Any]) -> NDArray[Any]:
        if not self.can_encode:
            raise SampleCompressionError(
                f"arrays cannot be stored as {self.name}; only files of that kind can"
            )
        return as_pixels(array, self.name, _PLUGINS[self.name][3].split())

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        return into(_eps_pixels(data) if self.name == "eps" else self._pixels(data, np.asarray), out)

    def of_quality(self, quality: int) -> Image:
        return replace(self, quality=quality)

    def has_palette(self, data: Buffer) -> bool:
        if self.name == "png":
            return _png_header(data)[4] == 3
        if self.name == "eps":
            return False
        with self.opened(data) as image:
            return image.mode in ("P", "PA")

    def shown(self, data: Buffer) -> NDArray[Any]:
        return _eps_pixels(data) if self.name == "eps" else self._pixels(data, _shown)

    def _pixels(self, data: Buffer, pixels_of: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        promised = self._check_promise(data)
        with self._image(data) as image:
            facts = _facts(image, self.name, len(data))
            if promised is not None and promised.shape != facts.shape:
                raise SampleDecompressionError(
                    f"damaged png file of {len(data)} bytes: it has headers of two images"
                )
            return self.loaded(image, data, facts, pixels_of)

    def loaded(
        self,
        image: ImageFile,
        data: Buffer,
        facts: FileFacts,
        pixels_of: Callable[[Any], NDArray[Any]] = np.asarray,
    ) -> NDArray[Any]:
        """Return the pixels of the current page of an open file.

        Raises
        ------
        SampleDecompressionError
            If the pixels cannot be decoded, or contradict the header.
        """
        with damage(self.name, data):
            turn = _TURNS.get(_tiff_tag(image, _ORIENTATION)) if self.name == "tiff" else None
            image.load()
            array = pixels_of(image)
            if turn is not None and array.shape[:2] == facts.shape[1::-1]:
                array = np.ascontiguousarray(turn(array))
        if array.shape[:2] != facts.shape[:2] or (pixels_of is np.asarray and array.shape != facts.shape):
            raise SampleDecompressionError(
                f"damaged {self.name} file of {len(data)} bytes: its pixels have shape {array.shape}, "
                f"its header says {facts.shape}"
            )
        if array.dtype == np.bool_:
            array = array.view(np.uint8) != 0  # Pillow stores True as 255
        elif not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return array

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return ``exif`` and ``format`` (format.md 8)."""
        return {"exif": self._exif(data), "format": self.name}

    def _exif(self, data: Buffer) -> dict[str, Any]:

        if self.name not in _EXIF_NAMES or (self.name == "png" and not _png_header(data)[5] & native.EXIF):
            return {}
        with self.opened(data) as image:
            # Check the size first: Pillow may decode the image to find its EXIF.
            _facts(image, self.name, len(data))
            return exif_of(image)

    @contextmanager
    def opened(self, data: Buffer) -> Iterator[ImageFile]:
        """Open the file without decoding it.

        Raises
        ------
        CorruptedSampleError
            If the data is not a file of this kind.
        """
        self._check_promise(data)
        with self._image(data) as image:
            yield image

    def _check_promise(self, data: Buffer) -> FileFacts | None:
        """Check extents that Pillow does not read from the header; return the facts of a PNG file, None for others."""
        if self.name == "png":  # this library's parser checks more of a PNG header than Pillow's
            return _png_facts(data)
        if self.name in _PROMISES:
            _PROMISES[self.name](data)
        return None

    def _image(self, data: Buffer) -> ImageFile:
        import PIL.Image

        plugin = _plugin(self.name)
        try:
            with _undisturbed(self.name):
                return plugin(io.BytesIO(data))
            return plugin(io.BytesIO(data))
        except PIL.Image.DecompressionBombError as error:
            raise _too_large(self.name, error) from error
        except DAMAGE as error:
            told = _of_pixels(error)
            reason = told or f"{len(data)} bytes are not in the format {self.name}, or damaged: {error}"
            raise CorruptedSampleError(reason) from error


def is_stack(file: BinaryIO, stored: int) -> bool:
    """Tell whether a TIFF file of `stored` bytes has several pages, all of one size and kind; only headers are read."""
    with damage("tiff", b""), _plugin("tiff")(file) as image:
        kinds = [facts for facts, _ in zip(_pages(image, stored), range(2), strict=False)]
        return len(kinds) == 2 and all(facts == kinds[0] for facts in _pages(image, stored))


def stack(data: Buffer) -> NDArray[Any]:
    """Return the pages of a TIFF file: shape (pages, height, width, channels).

    Raises
    ------
    SampleDecompressionError
        If the file is damaged.
    LimitError
        If the pages together exceed the limits.
    """
    codec = Image("tiff")
    found: list[NDArray[Any]] = []
    with codec.opened(data) as image, damage("tiff", data):
        for facts in _pages(image, len(data)):
            limits.check_sample(
                (len(found) + 1, *facts.shape), np.dtype(facts.dtype).itemsize, "a stack of pages"
            )
            found.append(np.atleast_3d(codec.loaded(image, data, facts)))
        return np.stack(found)


def _pages(image: ImageFile, stored: int) -> Iterator[FileFacts]:
    """Seek to each page of a TIFF file, and yield the facts of the page's header."""
    for at in count():
        try:
            image.seek(at)
        except EOFError:
            return
        yield _facts(image, "tiff", stored)


@cache
def _plugin(name: str) -> Callable[[BinaryIO], ImageFile]:
    """Return Pillow's class for files of a kind of image."""
    module, cls, *_ = _PLUGINS[name]
    found: Callable[[BinaryIO], ImageFile] = getattr(import_module("PIL." + module), cls)
    return found


def _undisturbed(name: str) -> AbstractContextManager[object]:
    """Silence Pillow's warning that the IM format is deprecated: readers of old data can do nothing about it."""
    if name != "im":
        return nullcontext()
    return warnings.catch_warnings(action="ignore", category=DeprecationWarning)


@contextmanager
def damage(name: str, data: Buffer) -> Iterator[None]:
    """Turn errors of a decoder on damaged files into errors of lakebed.

    Raises
    ------
    SampleDecompressionError
        For every error that is not one of this library.
    LimitError
        If Pillow finds the image too large.
    """
    import PIL.Image

    try:
        yield
    except (FormatError, LimitError):
        raise
    except PIL.Image.DecompressionBombError as error:
        raise _too_large(name, error) from error
    except DAMAGE as error:
        reason = _of_pixels(error) or f"damaged {name} file of {len(data)} bytes: {error}"
        raise SampleDecompressionError(reason) from error


def _of_pixels(error: BaseException) -> str | None:
    """Explain why pixels of a TIFF file are not read; None if their layout is not the reason.

    Pillow looks their layout up by (byte order, photometric interpretation, sample formats, fill order, bits, extra).
    """
    key = error if isinstance(error, KeyError) else error.__cause__
    layout = key.args[0] if isinstance(key, KeyError) and key.args else None
    if not (isinstance(layout, tuple) and len(layout) == 6 and isinstance(layout[4], tuple) and layout[4]):
        return None
    kind = {1: "unsigned integers", 2: "integers", 3: "floats"}.get(
        next(iter(layout[2] or (1,))), "other numbers"
    )
    bits = "/".join(str(one) for one in dict.fromkeys(layout[4]))
    return (
        f"a TIFF file whose pixels are {kind} of {bits} bits in {len(layout[4])} channels is not read: save it with 8 "
        "bits, or append its array to a tensor without an htype"
    )


def _too_large(name: str, error: Exception) -> LimitError:
    return LimitError(f"a {name} image is larger than PIL.Image.MAX_IMAGE_PIXELS allows: {error}")


def pil_array(image: Any) -> NDArray[Any]:
    """Return the pixels of a Pillow image; for an image with a palette, the colours."""
    if image.mode in ("P", "PA"):
        image = image.convert("RGBA" if "transparency" in image.info or image.mode == "PA" else "RGB")
    array: NDArray[Any] = np.asarray(image)
    return array


def _shown(image: Any) -> NDArray[Any]:
    return pil_array(image.convert("RGB") if image.mode in _OTHER_SPACES else image)


def _eps_pixels(data: Buffer) -> NDArray[Any]:
    """Decode an EPS file that Pillow wrote; any other EPS file is a program, which is never run.

        %ImageData: width height 8 channels ... "image"
        ... readhexstring ... image
        pixels in hexadecimal, rows from the top
        %%%%EndBinary

    Raises
    ------
    SampleDecompressionError
        If the file is damaged, or a program.
    LimitError
        If the file promises more pixels than allowed.
    """
    raw = bytes(data)
    head = _EPS_HEAD.search(raw, 0, 4096)
    end = raw.find(b"%%%%EndBinary", head.end()) if head else -1
    if head is None or end < 0:
        raise SampleDecompressionError(
            f"an eps file of {len(raw)} bytes is a program, which is not run here; convert it to another format"
        )
    width, height, channels = (int(word) for word in head.groups())
    limits.check("MAX_IMAGE_PIXELS", width * height, f"an eps image of {width} x {height} pixels")
    try:
        pixels = np.frombuffer(bytes.fromhex(raw[head.end() : end].decode("ascii")), dtype=np.uint8)
        return pixels.reshape((height, width) if channels == 1 else (height, width, channels))
    except ValueError as error:
        raise SampleDecompressionError(f"damaged eps file of {len(raw)} bytes: {error}") from error


def check_pixels(name: str, height: int, width: int, channels: int, bits: int, stored: int | None) -> None:
    """Refuse images that are too large, or too large for their file.

    Raises
    ------
    LimitError
        If a limit would be exceeded.
    """
    if width * height <= limits.MAX_IMAGE_PIXELS and limits.MAX_AXES:
        nbytes = width * height * channels * -(-bits // 8)
        if nbytes <= limits.FREE_BYTES and nbytes <= limits.MAX_SAMPLE_BYTES:
            return  # the common case, without formatting a message
    what = f"a {name} image of {width} x {height} pixels"
    limits.check("MAX_IMAGE_PIXELS", width * height, what)
    packed, nbytes = -(-width * height * channels * bits // 8), width * height * channels * -(-bits // 8)
    limits.check_sample((nbytes,), 1, what)
    if stored is not None and nbytes > limits.FREE_BYTES:
        # Compare the size of packed pixels with that of the file: expanding each 1-bit pixel to a byte is not
        # compression.
        limits.check("MAX_RATIO", packed / max(stored, 1), f"{what} ({packed} bytes from {stored})")


def _facts(image: ImageFile, name: str, stored: int) -> FileFacts:
    mode = _MODES.get(image.mode)
    with damage(name, b""):
        width, height = map(int, image.size)
    if name == "tiff":
        with damage(name, b""):
            width, height = _tiff_tag(image, _WIDTH), _tiff_tag(image, _HEIGHT)
    if mode is None or width <= 0 or height <= 0:
        raise CorruptedSampleError(
            f"a {name} image of {width} x {height} pixels in mode {image.mode!r} cannot be read"
        )
    channels, dtype = mode
    check_pixels(
        name, height, width, channels, 1 if dtype == "bool" else 8 * np.dtype(dtype).itemsize, stored
    )
    return FileFacts((height, width) if channels == 1 else (height, width, channels), dtype)


def _tiff_tag(image: Any, tag: int) -> int:
    value = image.tag_v2.get(tag, 0)
    return int(value) if isinstance(value, int) else 0


def _png_header(data: Buffer) -> tuple[int, int, int, int, int, int]:
    try:
        return native.png_header(data)
    except ValueError as error:
        raise CorruptedSampleError(f"{len(data)} bytes are not a valid PNG file: {error}") from error


def _png_facts(data: Buffer) -> FileFacts:
    height, width, channels, depth, kind, _ = _png_header(data)
    check_pixels("png", height, width, channels, depth, len(data))
    shape = (height, width) if channels == 1 else (height, width, channels)
    if kind == 0 and depth in (1, 16):
        # 3.9.52 registers 16-bit grey as int32, though the pixels are uint16.
        return FileFacts(shape, "bool" if depth == 1 else "int32")
    return FileFacts(shape, "uint8")


def _check_icons(data: Buffer) -> None:
    """Check the declared sizes in an icon file's directory: PNG files inside may be larger than the icon says."""
    raw = memoryview(data).cast("B")
    count = int.from_bytes(raw[4:6], "little")
    for entry in range(min(count, len(raw) // 16)):
        start = int.from_bytes(raw[18 + 16 * entry : 22 + 16 * entry], "little")
        inner = raw[start:]
        if bytes(inner[:8]) == b"\x89PNG\r\n\x1a\n":
            _png_facts(inner)
        elif len(inner) >= 12:
            width, height = struct.unpack_from("<ii", inner, 4)
            check_pixels("ico", abs(height), abs(width), 4, 8, len(data))


def _check_palette(data: Buffer) -> None:
    """Check the number of colours of a bitmap, because Pillow spends microseconds on each of up to 65,536 colours."""
    raw = memoryview(data).cast("B")
    raw = raw[14:] if bytes(raw[:2]) == b"BM" else raw
    bits, colors = int.from_bytes(raw[14:16], "little"), int.from_bytes(raw[32:36], "little")
    if int.from_bytes(raw[:4], "little") >= 40 and bits <= 8 and colors > 256:
        raise CorruptedSampleError(f"a bitmap of {len(data)} bytes declares {colors} colours, more than 256")


def _check_tiles(data: Buffer) -> None:
    """Check that a JPEG 2000 file has room for its tiles, 14 bytes each at least (ISO 15444-1, A.4.2, A.5.1)."""
    raw = bytes(data)
    at = raw.find(b"\xff\x4f\xff\x51")
    if at < 0 or len(raw) < at + 40:
        raise CorruptedSampleError(f"{len(raw)} bytes are not a valid jpeg2000 file: no SIZ segment")
    right, bottom, _, _, width, height, left, top = struct.unpack_from(">8I", raw, at + 8)
    if not width or not height or -(-(right - left) // width) * -(-(bottom - top) // height) * 14 > len(raw):
        raise CorruptedSampleError(
            f"a jpeg2000 image of {right} x {bottom} pixels in tiles of {width} x {height} does not fit "
            f"into {len(raw)} bytes"
        )


_PROMISES: Mapping[str, Callable[[Buffer], None]] = {
    "bmp": _check_palette,
    "dib": _check_palette,
    "ico": _check_icons,
    "jpeg2000": _check_tiles,
}
"""Checks, before decoding, of declared sizes other than the extents that Pillow reads."""


def largest_side(name: str) -> int:
    """Return the greatest width and height of images of this kind, in pixels."""
    return _LARGEST_SIDES.get(name, (1 << 31) - 1)


def narrowed(array: NDArray[Any], codec: PictureCodec) -> NDArray[Any]:
    """Remove from a picture what a kind of image cannot hold: transparency, or the low 8 of 16 bits.

    Returns
    -------
    The array itself if nothing is to be removed; the codec refuses arrays that still do not fit.
    """
    if not _takes(codec, array) and array.dtype == np.uint16:
        array = (array >> 8).astype(np.uint8)
    if not _takes(codec, array) and array.dtype == np.bool_:
        array = array.view(np.uint8) * np.uint8(255)
    if not _takes(codec, array) and array.ndim == 2:
        array = np.repeat(array[:, :, np.newaxis], 3, axis=2)
    if not _takes(codec, array) and array.ndim == 3 and array.shape[2] in (2, 4):
        array = array[:, :, 0] if array.shape[2] == 2 else np.ascontiguousarray(array[:, :, :3])
    return array


def _takes(codec: PictureCodec, array: NDArray[Any]) -> bool:
    try:
        codec.check(array)
    except SampleCompressionError:
        return False
    return True


def as_pixels(array: NDArray[Any], name: str, modes: list[str]) -> NDArray[Any]:
    """Bring an array into a form that Pillow accepts: (H, W) or (H, W, C) of a dtype that has a mode.

    Raises
    ------
    SampleCompressionError
        If this kind of image cannot hold the shape, the dtype or the values.
    """
    shape, dtype = array.shape, array.dtype
    if array.ndim <= 1:
        array = array.reshape(-1, 1)
    elif array.ndim == 3 and shape[-1] == 1:
        array = array[..., 0]
    if array.ndim == 3 and dtype == np.uint8:
        mode = {2: "LA", 3: "RGB", 4: "RGBA"}.get(shape[-1])
    elif array.ndim == 2:
        array, mode = _grey(array, name, modes)
    else:
        mode = None
    if mode not in modes:
        raise SampleCompressionError(
            f"an array of shape {shape} and dtype {dtype} cannot be stored as {name}; "
            f"{name} takes {_taken(modes)}"
        )
    if max(array.shape[:2], default=0) > largest_side(name):
        raise SampleCompressionError(
            f"an image of shape {shape} has a side of more than {largest_side(name)} pixels, the limit of {name}"
        )
    return np.ascontiguousarray(array)


def _grey(array: NDArray[Any], name: str, modes: list[str]) -> tuple[NDArray[Any], str | None]:
    """Return an array of one channel in the dtype of a mode, and the mode; None if no mode has such values.

    Integers are converted to a narrower dtype if the kind of image needs it and all values fit.
    """
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "b":
        return array, "1"
    if kind == "u" and size == 1:
        return array, "L"
    if kind == "f" and size >= 4:
        return array.astype(np.float32), "F"
    if kind not in "iu" or size > 4:
        return array, None
    mode = "I;16" if array.dtype == np.uint16 and "I;16" in modes else "I"
    if mode not in modes:
        mode = _NARROW.get(name, "I")
    if mode not in modes:
        return array, mode
    bounds = np.iinfo(_INTEGERS["I;16" if name == "ppm" else mode])
    low, high = int(array.min()), int(array.max())
    if low < bounds.min or high > bounds.max:
        raise SampleCompressionError(
            f"{name} can hold integers from {bounds.min} to {bounds.max}, but the array has {low} to {high}"
        )
    return array.astype(_INTEGERS[mode]), mode


def _taken(modes: list[str]) -> str:
    words = {
        "1": "bool (H, W)", "L": "uint8 (H, W)", "LA": "uint8 (H, W, 2)", "RGB": "uint8 (H, W, 3)",
        "RGBA": "uint8 (H, W, 4)", "I;16": "uint16 (H, W)", "I": "int32 (H, W)", "F": "float32 (H, W)",
    }  # fmt: skip
    return ", ".join(words[mode] for mode in modes)


def _kept_alpha(pixels: NDArray[Any]) -> NDArray[Any]:
    """Set the alpha of one pixel to 254 if all are 255, because WebP stores opaque pictures with three channels."""
    if pixels.shape[2] == 4 and pixels[:, :, 3].min() == 255:
        pixels = pixels.copy()
        pixels[0, 0, 3] = 254
    return pixels


def _save(pixels: NDArray[Any], name: str, quality: int | None) -> bytes:
    import PIL.Image

    module, _, kind, _ = _PLUGINS[name]
    import_module("PIL." + module)  # registers this plugin; without it, saving would load all plugins
    target = io.BytesIO()
    try:
        image = PIL.Image.fromarray(pixels)
        options = _OPTIONS.get(name, {})
        if quality is not None and name == "webp":
            options = {"quality": quality}
        if name == "ico":
            options = {"sizes": [image.size]}
        with _undisturbed(name):
            image.save(target, format=kind, **options)
    except DAMAGE as error:
        raise SampleCompressionError(
            f"an array of shape {pixels.shape} and dtype {pixels.dtype} cannot be stored as {name}: {error}"
        ) from error
    return target.getvalue()
