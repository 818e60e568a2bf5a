"""EXIF of an image as hidden ``_info`` tensors record it (format.md 8)."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

# Tags that 3.9.52 truncates to whole numbers.
_RESOLUTIONS = frozenset({282, 283})
# Byte strings of more bytes are recorded as "<bytes>".
_LONGEST_BYTES = 15


def exif_of(image: Image) -> dict[str, Any]:
    """Return the tags of the main directory by name, in the forms of 3.9.52: numbers as floats, bytes as text.

    Tags that Pillow cannot read are omitted: damaged EXIF is no reason to refuse an image.
    """
    from PIL import ExifTags

    result: dict[str, Any] = {}
    try:
        tags = dict(image.getexif())
    except (OSError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError,
            MemoryError, Warning, struct.error):  # fmt: skip
        return result
    for tag, value in tags.items():
        result[ExifTags.TAGS.get(tag, str(tag))] = _plain(tag, value)
    return result


def _plain(tag: int, value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return str(value) if len(value) <= _LONGEST_BYTES else "<bytes>"
    if isinstance(value, tuple | list):
        return tuple(_plain(tag, item) for item in value)
    try:
        number = float(value)
    except (TypeError, ValueError, ArithmeticError):
        return str(value)
    if not math.isfinite(number):
        return 0
    if tag in _RESOLUTIONS:
        return int(number)
    return str(value) if isinstance(value, float) else number
