"""Samples as files: stored bytes, images made of arrays, JSON."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.documents.json_style import encode_custom
from lakebed.errors import ExportError, InvalidInputError

if TYPE_CHECKING:
    from lakebed.dataset.described import Described
    from lakebed.dataset.tensor import Tensor

MEDIA = ("image", "image.rgb", "image.gray", "audio", "video", "dicom", "nifti", "point_cloud", "mesh")
"""Htypes whose samples are files."""

_PNG_CHANNELS = (1, 3, 4)
_SUFFIXES = {"jpeg": ".jpg", "jpeg2000": ".jp2", "tiff": ".tif"}


def suffix_of(tensor: Tensor) -> str:
    """Return the suffix, with its dot, of the files that :func:`file_of` makes of a tensor's samples."""
    kind = tensor.meta.sample_compression
    return _SUFFIXES.get(kind, f".{kind}") if kind not in (None, "lz4") else ".png"


def file_of(sample: Tensor) -> bytes:
    """Return one sample as a file: as it is stored; arrays and tiled files as PNG.

    Parameters
    ----------
    sample
        A tensor of images or other media, at one row.

    Raises
    ------
    ExportError
        If an array is not an image.
    """
    if sample.meta.sample_compression not in (None, "lz4") or str(sample.htype).startswith("link["):
        try:
            found: bytes = sample.tobytes()
        except (NotImplementedError, InvalidInputError):  # the sample is stored as tiles, in separate files
            return png_of(sample.numpy())
        return found
    return png_of(sample.numpy())


def files_of(sequence: Tensor) -> list[bytes]:
    """Return the items of one sample of a sequence as files."""
    count = int(sequence.shape[0] or 0) if sequence.shape else 0
    return [bytes(file_of(sequence[at])) for at in range(count)]


def is_empty(sample: Tensor) -> bool:
    """Return whether one sample has no values; nulls have none."""
    return not sample.shape or 0 in sample.shape


def is_null(sample: Tensor) -> bool:
    """Return whether one sample is null."""
    mask = sample.null_mask()
    return mask is not None and bool(np.asarray(mask).any())


def links_followed(name: str, hint: str = "") -> tuple[str, str]:
    """Return the report that an export writes the linked files of a tensor."""
    return name, f"the files that its links lead to are written, not the links{hint}"


def is_drawn(tensor: Tensor, described: Described) -> bool:
    """Return whether the arrays of a tensor are images that PNG stores unchanged."""
    if not described.base.startswith("image") or described.is_sequence or tensor.is_link:
        return False
    low, high = tensor.meta.min_shape, tensor.meta.max_shape
    is_gray = len(high) == 2 or (len(high) == 3 and high[2] == 1)
    if described.dtype == "uint16":
        return is_gray
    is_even = len(high) == 3 and high[2] in _PNG_CHANNELS and low[2] in (0, high[2])
    return described.dtype == "uint8" and (is_gray or is_even)


def extents(tensor: Tensor) -> list[int | None]:
    """Return the shape that samples share, with None for extents that vary; ignore nulls and empty samples."""
    pairs = zip(tensor.meta.min_shape, tensor.meta.max_shape, strict=True)
    return [int(high) if low == high or (at and not low) else None for at, (low, high) in enumerate(pairs)]


def png_of(array: Any) -> bytes:
    """Return pixels as PNG: (height, width) or (height, width, 1, 3 or 4), uint8, uint16 or bool.

    Raises
    ------
    ExportError
        If the array is not an image.
    """
    from PIL import Image

    pixels = np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype not in (np.uint8, np.uint16) or pixels.ndim not in (2, 3):
        raise ExportError(f"an array of {pixels.dtype} and shape {pixels.shape} is not an image")
    out = io.BytesIO()
    try:
        Image.fromarray(pixels).save(out, "PNG", compress_level=3)
    except (TypeError, OSError) as error:
        raise ExportError(
            f"an array of {pixels.dtype} and shape {pixels.shape} cannot be stored as PNG: {error}"
        ) from error
    return out.getvalue()


def as_json(value: Any) -> Any:
    """Return a value as JSON: arrays as lists, arrays inside of documents as the dataset format encodes them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [as_json(one) for one in value] if isinstance(value, list) else encode_custom(value)
