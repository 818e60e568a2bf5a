"""Capabilities of each compression of the format (format.md 7), as one table.

A new codec adds its row; the rest of the library reads the table and knows no names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lakebed.native import headers as native

Kind = Literal["bytes", "image", "dicom", "video", "audio", "nifti", "point_cloud", "mesh"]

HeaderScan: TypeAlias = Callable[
    [NDArray[np.uint8], NDArray[np.int64]], tuple[NDArray[np.uint32], NDArray[np.uint8]]
]
"""(files back to back, offsets of shape (n + 1,)) -> (shapes of shape (n, 3), flags of shape (n,))."""


@dataclass(frozen=True, slots=True)
class CodecTraits:
    """Capabilities of a compression.

    Parameters
    ----------
    kind
        Content: plain bytes, or one kind of file.
    encodes
        Arrays can be encoded; otherwise only files can be stored.
    chunks
        Whole chunks can be compressed with it, not only samples.
    lossless
        Data encoded by any writer decodes to the same values; False also if this is unknown for some writers.
    shape_from_file
        The header of a file contains the recorded shape, so that no decoding is needed.
    decodes_as_recorded
        A file decodes to an array of the recorded shape. Otherwise the recorded shape counts all fields of a point, but
        reading returns only its coordinates.
    value_columns
        Number of decoded columns that are the value of a sample; None for all.
    exact_length
        A file decodes to exactly as many elements as it promises; otherwise to a few more or less.
    limits_itself
        The codec itself limits pixels and frames, since the size of a file gives no limit: a video of a still picture
        compresses without bound.
    parts
        A part of the first axis can be decoded at less cost than the whole.
    ranges
        A part can be decoded from ranges of a file that is not in memory (:mod:`lakebed.codecs.remote_video`).
    decodes_into
        Files can be decoded into an existing array of the recorded shape.
    decodes_directly
        The codec has ``decode_as``, which parses the header of a file only once.
    early_header
        The first bytes of a file hold the fields that a hidden ``_info`` tensor records.
    header_scan
        Parses the headers of many files by one call; None if unavailable.
    """

    kind: Kind
    encodes: bool = False
    chunks: bool = False
    lossless: bool = False
    shape_from_file: bool = False
    decodes_as_recorded: bool = True
    value_columns: int | None = None
    exact_length: bool = True
    limits_itself: bool = False
    parts: bool = False
    ranges: bool = False
    decodes_into: bool = False
    decodes_directly: bool = False
    early_header: bool = False
    header_scan: HeaderScan | None = None


_BYTES = CodecTraits("bytes", encodes=True, chunks=True, lossless=True)
_IMAGE = CodecTraits("image", encodes=True, chunks=True, shape_from_file=True, limits_itself=True)
_LOSSLESS = replace(_IMAGE, lossless=True)
_IMAGE_FILE = replace(_IMAGE, encodes=False)
_VIDEO = CodecTraits("video", limits_itself=True, parts=True, ranges=True)
_AUDIO = CodecTraits("audio", parts=True)
_NIFTI = CodecTraits("nifti", parts=True)
_JPEG = replace(_IMAGE, decodes_directly=True)

UNCOMPRESSED = _BYTES
"""Traits of values that are stored uncompressed."""

TRAITS: Mapping[str, CodecTraits] = {
    "lz4": _BYTES,
    "bmp": _LOSSLESS,
    "dib": _IMAGE,
    "eps": _IMAGE,
    "fli": _IMAGE_FILE,
    "gif": _IMAGE,
    "ico": _IMAGE,
    "im": _IMAGE,
    "jpeg": replace(_JPEG, decodes_into=True, early_header=True, header_scan=native.packed_jpeg_headers),
    "jpeg2000": _IMAGE,
    "mpo": replace(_JPEG, decodes_into=True),
    "msp": _IMAGE,
    "pcx": _IMAGE,
    "png": replace(_LOSSLESS, decodes_into=True, early_header=True, header_scan=native.packed_png_headers),
    "ppm": _LOSSLESS,
    "sgi": _IMAGE,
    "tga": _LOSSLESS,
    "tiff": _LOSSLESS,
    "webp": _IMAGE,
    "wmf": _IMAGE_FILE,
    "xbm": _IMAGE,
    "dcm": CodecTraits("dicom", shape_from_file=True, limits_itself=True),
    "mp4": _VIDEO,
    "mkv": _VIDEO,
    "avi": _VIDEO,
    "mp3": replace(_AUDIO, parts=False, exact_length=False),  # the exact length is known only after decoding
    "flac": _AUDIO,
    "wav": _AUDIO,
    "nii": _NIFTI,
    "nii.gz": _NIFTI,
    "las": CodecTraits("point_cloud", decodes_as_recorded=False, value_columns=3),
    "ply": CodecTraits("mesh", decodes_as_recorded=False),
    "stl": CodecTraits("mesh"),
}


def names_of(*kinds: Kind) -> frozenset[str]:
    """Return the compressions of some kinds."""
    return frozenset(name for name, traits in TRAITS.items() if traits.kind in kinds)


def keeps_values(name: str | None) -> bool:
    """Tell whether values are read as they were stored; None means uncompressed, which keeps values."""
    return name is None or (name in TRAITS and TRAITS[name].lossless)


def is_plain(name: str | None) -> bool:
    """Tell whether the stored bytes are those of a value, compressed as bytes or not at all, rather than a file."""
    return name is None or (name in TRAITS and TRAITS[name].kind == "bytes")
