"""Pictures of images, frames, slices and tiles, decoded at reduced size if displayed small; masks as maps of labels."""

from __future__ import annotations

import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import lakebed
from lakebed.codecs import regions
from lakebed.errors import FormatError, InvalidInputError, LimitError, NotFoundError
from lakebed.viewer import scans
from lakebed.viewer.asked import LARGEST, Asked
from lakebed.viewer.cells import kind_of
from lakebed.viewer.lake import Found, Opened, item, shape_of
from lakebed.viewer.schema import layers

_MOST_PIXELS = 1 << 27
_MOST_NUMBERS = 1 << 24
_ENOUGH = 2048  # longest side of the reduced image whose smallest and largest values set the contrast
_QUALITY = 85
_CORES = max(1, min(8, os.cpu_count() or 1))

Picture = tuple[bytes, str]
"""A file, and its media type."""


def picture(found: Found, asked: Asked) -> Picture:
    """Return a picture of one sample, or of a value that a query computed.

    Raises
    ------
    NotFoundError
        If the row or frame does not exist, or is empty.
    InvalidInputError
        If the tensor holds no pictures.
    LimitError
        If the picture has too many pixels.
    """
    if isinstance(found, np.ndarray):
        if found.ndim < 2 or not found.size:
            raise NotFoundError(f"an array of shape {found.shape} is not a picture")
        values = found[min(asked.frame, len(found) - 1)] if found.ndim == 4 else found
        return _encoded(values[_part(list(values.shape), asked)], asked)
    opened, name, row = found
    tensor, sample = opened.tensor(name), opened.sample(name, row, asked.frame)
    kind, shape = kind_of(tensor), shape_of(sample)
    if kind not in ("image", "video", "mask", "array"):
        raise InvalidInputError(f"tensor {name!r} has no pictures")
    if len(shape) < 2 or 0 in shape:
        raise NotFoundError(f"the sample of tensor {name!r} in row {row} is empty")
    if tensor.base_htype in scans.HTYPES:
        return _slice(opened, name, row, asked)
    if kind == "image":
        if asked.w:
            tensor, asked = _layer(opened, tensor, row, asked, shape)
            sample = item(tensor, row, asked.frame)
        if tensor.meta.sample_compression == "jpeg" and not tensor.is_link:
            made = _of_jpeg(opened, tensor, row, asked)
            if made is not None:
                return made
    pixels = _pixels(sample, kind, asked)
    return _mask(pixels, tensor.base_htype, asked) if kind == "mask" else _encoded(pixels, asked)


def window(found: Found, asked: Asked) -> dict[str, float]:
    """Return the default values for black and white, and the limits of both, as `Window` of types.ts.

    Raises
    ------
    NotFoundError
        If the row or frame does not exist, or is empty.
    InvalidInputError
        If the tensor holds no images.
    """
    usual: scans.Window | None = None
    if isinstance(found, np.ndarray):
        pixels = found
    elif kind_of(found[0].tensor(found[1])) != "image":
        raise InvalidInputError(f"tensor {found[1]!r} has no images")
    elif found[0].tensor(found[1]).base_htype in scans.HTYPES:
        pixels, usual = scans.read(*found, asked.frame)
    else:
        sample = found[0].sample(*found[1:], asked.frame)
        pixels = _pixels(sample, "image", replace(asked, w=_ENOUGH, box=None))
    if not pixels.size:
        raise NotFoundError("the sample is empty")
    limits = _limits(pixels)
    low, high = usual or limits
    return {"low": low, "high": high, "least": min(*limits, low, high), "most": max(*limits, low, high)}


def numbers(found: Found, asked: Asked) -> NDArray[Any]:
    """Return the numbers of one sample, or of a part of it, as little-endian bytes for the page.

    Raises
    ------
    InvalidInputError
        If the tensor holds no numbers.
    LimitError
        If the sample has too many numbers.
    """
    values = found if isinstance(found, np.ndarray) else _numbers(*found, asked)
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(f"numbers of dtype {values.dtype} are not shown")
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<"))


def _numbers(opened: Opened, name: str, row: int, asked: Asked) -> NDArray[Any]:
    sample = opened.sample(name, row, asked.frame)
    if kind_of(opened.tensor(name)) in ("text", "json", "polygon", "unknown"):
        raise InvalidInputError(f"tensor {name!r} holds no numbers")
    shape = shape_of(sample)
    if asked.box is not None:
        if len(shape) < 2:
            raise InvalidInputError(f"the sample of tensor {name!r} in row {row} has no parts")
        sample = sample[_part(shape, asked)]
        shape[:2] = shape_of(sample)[:2]
    if math.prod(shape) > _MOST_NUMBERS:
        told = f"the sample of tensor {name!r} in row {row} has {math.prod(shape):,} numbers: ask for a part"
        raise LimitError(told)
    return np.asarray(sample.numpy())


def _layer(
    opened: Opened, tensor: lakebed.Tensor, row: int, asked: Asked, whole: list[int]
) -> tuple[lakebed.Tensor, Asked]:
    """Return the tensor of the smallest stored copies that are fine enough, and the request in their coordinates."""
    part = _part(whole, asked)
    for name in reversed(layers(opened, tensor.key)):
        layer: lakebed.Tensor = opened.ds[name]
        shape = shape_of(item(layer, row, asked.frame)) if row < len(layer) else []
        if len(shape) < 2 or 0 in shape:
            continue
        there = shape[1] * (part[1].stop - part[1].start) / whole[1]
        if asked.w > 1.01 * there + 1:  # a scale of 1/2 rounds odd sides down, hence the tolerance
            continue
        (top, bottom), (left, right) = (
            (round(one.start * now / before), round(one.stop * now / before))
            for one, now, before in zip(part, shape, whole, strict=False)
        )
        box = (left, top, max(1, right - left), max(1, bottom - top))
        return layer, replace(asked, box=None if asked.box is None else box)
    return tensor, asked


# -- JPEG files ------------------------------------------------------------------------------------------------------


def _of_jpeg(opened: Opened, tensor: lakebed.Tensor, row: int, asked: Asked) -> Picture | None:
    """Decode a JPEG file, or tiles, at the displayed size; return None for files that must be decoded as a whole."""
    sample = item(tensor, row, asked.frame)
    shape = shape_of(sample)
    rows, columns = part = _part(shape, asked)
    height, width = rows.stop - rows.start, columns.stop - columns.start
    size = _fitted(height, width, asked.w)
    if size == (height, width) or tensor.is_sequence:
        try:
            data = sample.tobytes()
        except NotImplementedError:  # the sample is stored in tiles
            return None
        if size == (height, width):
            is_file = (asked.box, asked.low, asked.high) == (None, None, None)
            return (data, "image/jpeg") if is_file and _shows_as_stored(data, height, width) else None
        files: Any = [((slice(0, shape[0]), slice(0, shape[1]), slice(0, 3))[: len(shape)], data)]
    else:
        files = opened.session.reader(tensor.key, tensor.key).files(row, part)
    # Edges of tiles do not fall on reduced pixels, so make a picture of twice the size first.
    finer = _fitted(height, width, 2 * asked.w) if sample.is_tiled else size
    down, across = finer[0] / height, finer[1] / width
    made = np.empty((*finer, 3) if shape[2:] == [3] else finer, np.uint8)

    def is_done(file: tuple[tuple[slice, ...], Any]) -> bool:
        place, content = file
        top, bottom = max(place[0].start, rows.start), min(place[0].stop, rows.stop)
        left, right = max(place[1].start, columns.start), min(place[1].stop, columns.stop)
        y = slice(round((top - rows.start) * down), round((bottom - rows.start) * down))
        x = slice(round((left - columns.start) * across), round((right - columns.start) * across))
        room = np.empty(made[y, x].shape, np.uint8)
        box = np.array([[top - place[0].start, left - place[1].start, bottom - top, right - left]], np.int32)
        tile = np.array([[*(of.stop - of.start for of in place), 1][:3]], np.uint32)
        if room.size and regions.decode_regions([content], tile, box, [room])[0]:
            return False  # the file is damaged, or its colour space must be converted
        made[y, x] = room
        return True

    rest = iter(files)
    with ThreadPoolExecutor(_CORES) as pool:  # several tiles are decoded by several threads
        while some := list(islice(rest, 2 * _CORES)):
            if not all(map(is_done, some) if len(some) == 1 else pool.map(is_done, some)):
                return None
    return _encoded(made, asked, size)


def _shows_as_stored(data: bytes, height: int, width: int) -> bool:
    """Tell whether a browser displays the same pixels as the library reads: no rotation, no colour conversion."""
    try:
        file = Image.open(io.BytesIO(data), formats=["JPEG"])
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False
    is_plain = not {"exif", "icc_profile", "adobe"} & {*file.info}
    return (
        is_plain and file.mode in ("L", "RGB") and file.size == (width, height) and max(file.size) < LARGEST
    )


# -- pixels ----------------------------------------------------------------------------------------------------------


def _slice(opened: Opened, name: str, row: int, asked: Asked) -> Picture:
    """Return a slice of a scan, by default in the scan's own window."""
    tensor = opened.tensor(name)
    scan, usual = scans.read(opened, name, row, asked.frame)
    at = 0 if tensor.is_sequence else asked.frame
    count = scans.slices(scan.shape, tensor.base_htype, scan.dtype)
    if at >= count:
        raise NotFoundError(f"there is no slice {at}: the sample has {count} slices")
    if usual and (asked.low is None or asked.high is None):
        asked = replace(asked, low=usual[0], high=usual[1])
    pixels = scans.one(scan, tensor.base_htype, at)
    return _encoded(pixels[_part(list(pixels.shape), asked)], asked)


def _pixels(sample: lakebed.Tensor, kind: str, asked: Asked) -> NDArray[Any]:
    """Read the pixels to show: shape (height, width) or (height, width, channels)."""
    shape = shape_of(sample)
    if _is_framed(shape, kind, sample.base_htype):
        if asked.frame >= shape[0]:
            raise NotFoundError(f"there is no frame {asked.frame}: the sample has {shape[0]} frames")
        sample = sample[asked.frame]
        del shape[0]
    rows, columns = _part(shape, asked)
    height, width = rows.stop - rows.start, columns.stop - columns.start
    step = math.ceil(math.sqrt(height * width / _MOST_PIXELS))
    if step > 1 and (not asked.w or step > width // asked.w):
        raise LimitError(f"the picture has {height} x {width} pixels: ask for a part of it, or a smaller one")
    if sample.is_tiled and asked.w:  # read only as many pixels as the display needs
        step = max(step, width // (2 * asked.w))
    if asked.box is not None or step > 1:
        sample = sample[rows.start : rows.stop : step, columns.start : columns.stop : step]
    return np.asarray(sample.numpy())


def _is_framed(shape: list[int], kind: str, htype: str | None) -> bool:
    """Tell whether the first axis counts frames."""
    if kind == "video" or len(shape) == 4:
        return True
    return kind == "array" and len(shape) == 3 and shape[2] > 4 and htype in ("generic", None)


def _part(shape: list[int], asked: Asked) -> tuple[slice, slice]:
    height, width = shape[:2]
    left, top, across, down = asked.box or (0, 0, width, height)
    if not (left < width and top < height and across and down):
        raise InvalidInputError(f"the part {asked.box} is not inside of {height} x {width} pixels")
    return slice(top, min(height, top + down)), slice(left, min(width, left + across))


def _fitted(height: int, width: int, wanted: int) -> tuple[int, int]:
    """Return height and width of a picture, limited by the largest width and a maximum length of sides."""
    scale = min(1.0, (wanted or width) / width, LARGEST / height, LARGEST / width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def _encoded(pixels: NDArray[Any], asked: Asked, size: tuple[int, int] | None = None) -> Picture:
    if pixels.ndim == 3 and pixels.shape[2] not in (3, 4):
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3):
        raise FormatError(f"an array of shape {pixels.shape} is not a picture")
    height, width = pixels.shape[:2]
    is_photo = pixels.dtype == np.uint8 and pixels.shape[2:] in ((), (3,))
    image = Image.fromarray(_windowed(pixels, asked.low, asked.high))
    fitted = size or _fitted(height, width, asked.w)
    if fitted != (height, width):
        image = image.resize(fitted[::-1], Image.Resampling.BILINEAR, reducing_gap=2.0)
    elif size is None:
        return _saved(image, "PNG")
    return _saved(image, "JPEG" if is_photo else "WEBP")


def _windowed(pixels: NDArray[Any], low: float | None, high: float | None) -> NDArray[np.uint8]:
    """Return values as bytes: `low` becomes 0, `high` 255; None stands for the limit that :func:`_limits` returns."""
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype == np.uint8 and low is None and high is None:
        return np.ascontiguousarray(pixels)
    if low is None or high is None:
        least, most = _limits(pixels)
        low, high = least if low is None else low, most if high is None else high
    numbers = np.nan_to_num(pixels.astype(np.float64), posinf=0.0, neginf=0.0)
    scaled = (numbers - low) * (255.0 / ((high - low) or 1.0))
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _limits(pixels: NDArray[Any]) -> tuple[float, float]:
    """Return the smallest and largest finite value; for floats that are all between 0 and 1, return 0 and 1."""
    is_float = pixels.dtype.kind == "f"
    numbers = pixels[np.isfinite(pixels)] if is_float else pixels
    least, most = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
    return (0.0, 1.0) if is_float and least >= 0 and most <= 1 else (least, most)


def _mask(pixels: NDArray[Any], htype: str | None, asked: Asked) -> Picture:
    """Return a map: red, green and blue are the lowest bytes of each pixel's label, 0 for none."""
    if htype == "binary_mask" and pixels.ndim == 3:
        labels = np.zeros(pixels.shape[:2], np.uint32)
        for at in range(pixels.shape[2]):
            labels[pixels[:, :, at] != 0] = at + 1
    else:
        flat = pixels[:, :, 0] if pixels.ndim == 3 else pixels
        labels = flat.astype(np.int64).astype(np.uint32)
    rows, columns = map(int, labels.shape)
    height, width = _fitted(rows, columns, asked.w)
    # Take the nearest label, because a mean of two labels has no meaning.
    if (height, width) != (rows, columns):
        ys = ((np.arange(height) + 0.5) * (rows / height)).astype(np.int64)
        xs = ((np.arange(width) + 0.5) * (columns / width)).astype(np.int64)
        labels = labels[ys[:, np.newaxis], xs]
    parts = np.ascontiguousarray(labels.astype("<u4")).view(np.uint8).reshape(height, width, 4)
    return _saved(Image.fromarray(np.ascontiguousarray(parts[:, :, :3])), "PNG")


def _saved(image: Image.Image, kind: str) -> Picture:
    options = {
        "PNG": {"compress_level": 1},
        "JPEG": {"quality": _QUALITY},
        "WEBP": {"quality": _QUALITY, "method": 0},
    }
    room = io.BytesIO()
    image.save(room, kind, **options[kind])
    return room.getvalue(), f"image/{kind.lower()}"
