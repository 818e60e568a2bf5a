"""Compression names of the format (FORMAT.md 7) and the codecs that implement them here."""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.codecs.base import ByteCodec
from lakebed.codecs.lz4_block import Lz4
from lakebed.errors import UnsupportedCompressionError

ALIASES = {"jpg": "jpeg", "tif": "tiff", "jp2": "jpeg2000"}

BYTE_NAMES = frozenset({"lz4"})
IMAGE_NAMES = frozenset(
    "bmp dib eps fli gif ico im jpeg jpeg2000 msp mpo pcx png ppm sgi tga tiff webp wmf xbm dcm".split()
)
OTHER_NAMES = frozenset("mp4 mkv avi mp3 flac wav las ply stl nii nii.gz".split())
NAMES = BYTE_NAMES | IMAGE_NAMES | OTHER_NAMES

_BYTE_CODECS: Mapping[str, ByteCodec] = {"lz4": Lz4()}


def normalize(name: str | None) -> str | None:
    """Return the format's own name of a compression.

    Raises
    ------
    UnsupportedCompressionError
        If the format knows no such compression.
    """
    if name is None or name == "null":
        return None
    name = ALIASES.get(name.lower(), name.lower())
    if name not in NAMES:
        raise UnsupportedCompressionError(
            f"{name!r} is no compression; choose one of {', '.join(sorted(NAMES))}"
        )
    return name


def byte_codec(name: str | None) -> ByteCodec | None:
    """Return the byte codec of that name, or None for no compression.

    Raises
    ------
    UnsupportedCompressionError
        If this release has no byte codec of that name.
    """
    if name is None:
        return None
    codec = _BYTE_CODECS.get(name)
    if codec is None:
        raise UnsupportedCompressionError(
            f"compression {name!r} is part of the format but this release does not encode or decode it yet"
        )
    return codec
