"""Pictures: of images, frames, slices and tiles, small ones decoded small; masks as maps of labels."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import lakebed
from lakebed.codecs import regions
from lakebed.errors import FormatError, InvalidInputError, LimitError, NotFoundError
from lakebed.viewer.lake import Opened
from lakebed.viewer.schema import kind_of

_MOST_PIXELS = 1 << 27
_MOST_NUMBERS = 1 << 24
_QUALITY = 85
LARGEST = 16_383  # sides of a picture that all browsers show

Found = tuple[bytes, str]
"""A picture, and its type."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for.

    Attributes
    ----------
    width
        In pixels at most; 0 for all.
    frame
        Item of a sequence, frame of a film, slice of a scan.
    low, high
        Values that become black and white; None finds them.
    box
        Left, top, width and height of the part that is shown; None for all.
    """

    width: int = 0
    frame: int = 0
    low: float | None = None
    high: float | None = None
    box: tuple[int, int, int, int] | None = None


def picture(opened: Opened, name: str, row: int, wanted: Wanted) -> Found:
    """Return a picture of one sample.

    Raises
    ------
    NotFoundError
        If there is no such row or frame, or it is empty.
    InvalidInputError
        If the tensor holds no pictures.
    LimitError
        If it has too many pixels.
    """
    tensor = opened.tensor(name)
    kind = kind_of(tensor)
    if kind not in ("image", "video", "mask", "array"):
        raise InvalidInputError(f"tensor {name!r} has no pictures")
    if not 0 <= row < len(tensor):
        raise NotFoundError(f"there is no row {row} in tensor {name!r}")
    sample = tensor[row, wanted.frame] if tensor.is_sequence else tensor[row]
    shape = _shape(sample, name, row)
    if kind == "image" and wanted.width and wanted.box is None:
        sample = _layer(opened, name, row, wanted, sample, shape[1])
    if (
        tensor.meta.sample_compression == "jpeg"
        and not tensor.is_link
        and wanted.box is None
        and kind == "image"
    ):
        found = _of_jpeg(sample, wanted)
        if found is not None:
            return found
    pixels = _pixels(sample, kind, tensor.base_htype, wanted)
    return _mask(pixels, tensor.base_htype, wanted) if kind == "mask" else _encoded(pixels, wanted)


def computed(values: NDArray[Any], wanted: Wanted) -> Found:
    """Return a picture of what a query computed."""
    if values.ndim < 2 or not values.size:
        raise NotFoundError(f"an array of shape {values.shape} is no picture")
    if values.ndim == 4:
        values = values[min(wanted.frame, len(values) - 1)]
    return _encoded(values[_part(list(values.shape), wanted)], wanted)


def numbers(
    opened: Opened, name: str, row: int, frame: int, box: tuple[int, int, int, int] | None
) -> NDArray[Any]:
    """Return the numbers of one sample, or of a part of it.

    Raises
    ------
    InvalidInputError
        If it holds none.
    LimitError
        If they are too many.
    """
    tensor = opened.tensor(name)
    if not 0 <= row < len(tensor):
        raise NotFoundError(f"there is no row {row} in tensor {name!r}")
    if kind_of(tensor) in ("text", "json", "polygon", "unknown"):
        raise InvalidInputError(f"tensor {name!r} holds no numbers")
    sample = tensor[row, frame] if tensor.is_sequence else tensor[row]
    shape = [int(axis or 0) for axis in sample.shape]
    if box is not None:
        if len(shape) < 2:
            raise InvalidInputError(f"the sample of tensor {name!r} in row {row} has no parts")
        sample = sample[_part(shape, Wanted(box=box))]
        shape[:2] = [int(axis or 0) for axis in sample.shape][:2]
    if math.prod(shape) > _MOST_NUMBERS:
        raise LimitError(
            f"the sample of tensor {name!r} in row {row} has {math.prod(shape):,} numbers: ask for a part"
        )
    return np.asarray(sample.numpy())


def little(values: NDArray[Any]) -> tuple[bytes, str]:
    """Return numbers as bytes that a page can take as they are, and their dtype."""
    if values.dtype.kind not in "biuf":
        raise InvalidInputError(f"numbers of dtype {values.dtype} are not shown")
    if values.dtype.kind == "f" and values.dtype.itemsize not in (4, 8):
        values = values.astype(np.float32 if values.dtype.itemsize < 4 else np.float64)
    found = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return found.tobytes(), found.dtype.str


def _shape(sample: lakebed.Tensor, name: str, row: int) -> list[int]:
    shape = [int(axis or 0) for axis in sample.shape]
    if len(shape) < 2 or 0 in shape:
        raise NotFoundError(f"the sample of tensor {name!r} in row {row} is empty")
    return shape


def _layer(
    opened: Opened, name: str, row: int, wanted: Wanted, sample: lakebed.Tensor, width: int
) -> lakebed.Tensor:
    """Return the smallest stored copy that is as wide as what is asked for."""
    group, slash, base = name.rpartition("/")
    hidden = opened.ds.meta.hidden_tensors
    best, best_width = sample, width
    factor = 2
    while width // factor >= wanted.width and factor <= 1 << 16:
        layer = f"{group}{slash}_{base}_downsampled_{factor}"
        factor += 1
        if layer not in hidden or row >= len(opened.ds[layer]):
            continue
        stored = opened.ds[layer]
        one = stored[row, wanted.frame] if stored.is_sequence else stored[row]
        shape = [int(axis or 0) for axis in one.shape]
        if len(shape) >= 2 and 0 not in shape and wanted.width <= shape[1] < best_width:
            best, best_width = one, shape[1]
    return best


# -- JPEG files ------------------------------------------------------------------------------------------------------


def _of_jpeg(sample: lakebed.Tensor, wanted: Wanted) -> Found | None:
    """Decode a JPEG file no larger than it is shown; return None for one that the library decodes as a whole."""
    try:
        data = sample.tobytes()
    except NotImplementedError:  # in tiles
        return None
    shape = [int(axis or 0) for axis in sample.shape]
    height, width = shape[:2]
    if not wanted.width or width <= wanted.width:
        return (data, "image/jpeg") if _shows_as_stored(data, height, width) else None
    small = _fitted(height, width, wanted.width)
    room = np.empty((*small, 3) if len(shape) == 3 and shape[2] == 3 else small, np.uint8)
    whole = np.array([[0, 0, height, width]], np.int32)
    shapes = np.array([[*shape, 1][:3]], np.uint32)
    if regions.decode_regions([data], shapes, whole, [room])[0]:
        return None
    return _saved(Image.fromarray(room), "JPEG")


def _shows_as_stored(data: bytes, height: int, width: int) -> bool:
    """Whether a browser shows the pixels that the library reads: it turns files by EXIF, and knows their colours."""
    try:
        file = Image.open(io.BytesIO(data), formats=["JPEG"])
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False
    is_plain = not {"exif", "icc_profile", "adobe"} & {*file.info}
    return (
        is_plain and file.mode in ("L", "RGB") and file.size == (width, height) and max(file.size) < LARGEST
    )


# -- pixels ----------------------------------------------------------------------------------------------------------


def _pixels(sample: lakebed.Tensor, kind: str, htype: str | None, wanted: Wanted) -> NDArray[Any]:
    """Read the pixels that are shown: shape (height, width) or (height, width, channels)."""
    shape = [int(axis or 0) for axis in sample.shape]
    axis = _frames_axis(shape, kind, htype)
    if axis is not None:
        if not 0 <= wanted.frame < shape[axis]:
            raise NotFoundError(f"there is no frame {wanted.frame}, there are {shape[axis]}")
        sample = sample[(slice(None),) * axis + (wanted.frame,)]
        del shape[axis]
    rows, columns = _part(shape, wanted)
    height, width = rows.stop - rows.start, columns.stop - columns.start
    step = 1
    if height * width > _MOST_PIXELS:
        step = math.ceil(math.sqrt(height * width / _MOST_PIXELS))
        if not wanted.width or step > width // wanted.width:
            raise LimitError(
                f"the picture has {height} x {width} pixels: ask for a part of it, or a smaller one"
            )
    if sample.is_tiled and wanted.width:  # its tiles are put together no finer than it is shown
        step = max(step, width // (2 * wanted.width))
    is_part = wanted.box is not None or step > 1
    found = (
        sample[rows.start : rows.stop : step, columns.start : columns.stop : step] if is_part else sample
    ).numpy()
    return np.asarray(found)


def _frames_axis(shape: list[int], kind: str, htype: str | None) -> int | None:
    """Return the axis of frames or slices; None where a sample is one picture."""
    if kind == "video" or len(shape) == 4:
        return 0
    if len(shape) != 3 or kind == "mask":
        return None
    if htype == "nifti":
        return 2
    return 0 if shape[2] > 4 and htype in ("dicom", "generic", None) else None


def _part(shape: list[int], wanted: Wanted) -> tuple[slice, slice]:
    height, width = shape[:2]
    if wanted.box is None:
        return slice(0, height), slice(0, width)
    left, top, across, down = wanted.box
    if not (0 <= left < width and 0 <= top < height and across > 0 and down > 0):
        raise InvalidInputError(f"the part {wanted.box} is not inside of {height} x {width} pixels")
    return slice(top, min(height, top + down)), slice(left, min(width, left + across))


def _fitted(height: int, width: int, wanted: int) -> tuple[int, int]:
    """Return height and width of a picture that is so wide at most, and none of whose sides is too long."""
    scale = min(1.0, (wanted or width) / width, LARGEST / height, LARGEST / width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def _encoded(pixels: NDArray[Any], wanted: Wanted) -> Found:
    if pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4):
        pixels = pixels[:, :, 0]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim != 2 and (pixels.ndim != 3 or pixels.shape[2] not in (3, 4)):
        raise FormatError(f"an array of shape {pixels.shape} is no picture")
    height, width = pixels.shape[:2]
    is_photo = pixels.dtype == np.uint8 and (pixels.ndim == 2 or pixels.shape[2] == 3)
    image = Image.fromarray(windowed(pixels, wanted.low, wanted.high))
    size = _fitted(height, width, wanted.width)
    if size != (height, width):
        image = image.resize(size[::-1], Image.Resampling.BILINEAR, reducing_gap=2.0)
        return _saved(image, "JPEG" if is_photo else "WEBP")
    return _saved(image, "PNG")


def windowed(pixels: NDArray[Any], low: float | None, high: float | None) -> NDArray[np.uint8]:
    """Return values as bytes: those between two, or all that there are; floats of 0 to 1 as such."""
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype == np.uint8 and low is None and high is None:
        return np.ascontiguousarray(pixels)
    numbers = np.nan_to_num(pixels.astype(np.float64), posinf=0.0, neginf=0.0)
    if low is None or high is None:
        least, most = (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 1.0)
        if pixels.dtype.kind == "f" and least >= 0 and most <= 1:
            least, most = 0.0, 1.0
        low, high = least if low is None else low, most if high is None else high
    scaled = (numbers - low) * (255.0 / ((high - low) or 1.0))
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _mask(pixels: NDArray[Any], htype: str | None, wanted: Wanted) -> Found:
    """Return a map: red, green and blue are the lowest bytes of each pixel's label, 0 for none."""
    if htype == "binary_mask" and pixels.ndim == 3:
        labels = np.zeros(pixels.shape[:2], np.uint32)
        for at in range(pixels.shape[2]):
            labels[pixels[:, :, at] != 0] = at + 1
    else:
        flat = pixels[:, :, 0] if pixels.ndim == 3 else pixels
        labels = flat.astype(np.int64).astype(np.uint32)
    rows, columns = map(int, labels.shape)
    height, width = _fitted(rows, columns, wanted.width)
    if (height, width) != (rows, columns):  # the nearest: labels have nothing between them
        ys = ((np.arange(height) + 0.5) * (rows / height)).astype(np.int64)
        xs = ((np.arange(width) + 0.5) * (columns / width)).astype(np.int64)
        labels = labels[ys[:, np.newaxis], xs]
    parts = np.ascontiguousarray(labels.astype("<u4")).view(np.uint8).reshape(height, width, 4)
    return _saved(Image.fromarray(np.ascontiguousarray(parts[:, :, :3])), "PNG")


def _saved(image: Image.Image, kind: str) -> Found:
    room = io.BytesIO()
    if kind == "PNG":
        image.save(room, kind, compress_level=1)
    elif kind == "WEBP":
        image.save(room, kind, quality=_QUALITY, method=0)
    else:
        image.save(room, kind, quality=_QUALITY)
    return room.getvalue(), f"image/{kind.lower()}"
