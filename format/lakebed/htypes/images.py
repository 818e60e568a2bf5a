"""Images as arrays: the rank in which they are stored, and conversions for image.rgb and image.gray (format.md 5.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import IMAGE_NAMES
from lakebed.codecs.sample import Sample
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import SampleHtypeMismatchError

CHANNELS = {"image.rgb": 3, "image.gray": 1}
"""Htype that converts images -> the number of channels that it stores."""

_GREY = (0.299, 0.587, 0.114)


def pads_rank(meta: TensorMeta) -> bool:
    """Return whether samples of fewer than three axes get axes of extent 1 at the end: (H, W) becomes (H, W, 1)."""
    if meta.chunk_compression in IMAGE_NAMES or len(meta.max_shape) not in (0, 3):
        return False
    return meta.htype == "image" or meta.sample_compression in IMAGE_NAMES


def padded(array: NDArray[Any]) -> NDArray[Any]:
    """Give an array three axes by adding ones of extent 1 at the end."""
    return array.reshape(array.shape + (1,) * (3 - array.ndim)) if array.ndim < 3 else array


def padded_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with at least three axes."""
    return tuple(shape) + (1,) * (3 - len(shape))


def converted(array: NDArray[Any], htype: str) -> NDArray[Any]:
    """Convert an image of shape (H, W) or (H, W, channels) to the channels that the htype stores.

    Returns
    -------
    Shape (H, W, 3) for image.rgb, (H, W) for image.gray.

    Raises
    ------
    SampleHtypeMismatchError
        If the array is not an image of 8 bits per channel.
    """
    wanted = CHANNELS[htype]
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    channels = 1 if array.ndim == 2 else array.shape[2] if array.ndim == 3 else 0
    if array.dtype != np.uint8 or not 1 <= channels <= 4:
        raise SampleHtypeMismatchError(
            f"htype {htype!r} takes images of uint8, shape (H, W) or (H, W, 1 to 4), not {array.dtype} of shape "
            f"{array.shape}"
        )
    if channels == wanted:
        return array
    if array.size == 0:
        return np.empty((*array.shape[:2], *([3] if wanted == 3 else [])), dtype=np.uint8)
    if wanted == 3:
        grey = array if array.ndim == 2 else array[:, :, 0]
        return array[:, :, :3] if channels == 4 else np.repeat(grey[:, :, np.newaxis], 3, axis=2)
    if channels == 2:
        return array[:, :, 0]
    # Truncate each of the three weighted channels separately, as in 3.9.52.
    red, green, blue = (array[:, :, c] * weight for c, weight in enumerate(_GREY))
    parts = [part.astype(np.uint8) for part in (red, green, blue)]
    total: NDArray[Any] = parts[0] + parts[1] + parts[2]
    return total


def converted_file(sample: Sample, htype: str) -> NDArray[Any]:
    """Convert a file as :func:`converted` converts arrays; to gray by Pillow's weights, as 3.9.52 does.

    Raises
    ------
    SampleHtypeMismatchError
        If the file is not an image of 8 bits per channel.
    """
    array = sample.shown
    if htype != "image.gray" or array.ndim != 3 or array.shape[2] not in (3, 4) or array.dtype != np.uint8:
        return converted(array, htype)
    from PIL import Image

    return np.asarray(Image.fromarray(np.ascontiguousarray(array)).convert("L"))


def is_pil(value: Any) -> bool:
    """Return whether a value is a Pillow image."""
    return hasattr(value, "getbands") and hasattr(value, "convert")
