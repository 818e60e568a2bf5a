"""Bounds that protect a process from hostile or damaged input.

A dataset declares counts, shapes and lengths; every decoder compares them with these limits, and with the number of
bytes, before it allocates memory. The limits are far above the needs of honest data. A program that trusts its data can
raise them for its whole process::

    lakebed.limits.MAX_IMAGE_PIXELS = 2_000_000_000

Readers must therefore look a limit up when they need it (``limits.MAX_TILES``), not import its value. The text below
each limit names the quantity of which the limit is the maximum.
"""

from __future__ import annotations

import math

import numpy as np

from lakebed.errors import LimitError

_STEP = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_PIECE = 1 << 20

# -- chunks ------------------------------------------------------------------------------------------------------------

MAX_CHUNK_DATA = (1 << 32) - 1
"""Bytes of one chunk's data, decompressed: position rows are 32-bit, so no honest chunk holds more (format.md 5.1)."""

MAX_HEADER_BYTES = 1 << 28
"""Bytes before the data of one chunk or media file: version, shape and position tables; header of an image or scan."""

MAX_CHUNK_SAMPLES = 1 << 26
"""Samples in one chunk. A run of any length takes one table row, so that few bytes can declare billions of samples."""

MAX_EMPTY_SAMPLES = 1 << 21
"""Empty samples of one chunk, in addition to one per byte of its data: a few bytes can declare any number of them.

This bounds the tables in memory for a chunk whose samples differ in shape; a run of equal shapes needs no table.
"""

MAX_AXES = 64
"""Axes of a sample."""

MAX_TILES = 1 << 20
"""Tiles of one sample."""

# -- samples -----------------------------------------------------------------------------------------------------------

MAX_SAMPLE_BYTES = 1 << 32
"""Bytes of one decoded sample. Only a tiled sample or a video can honestly be larger: read a part of it."""

MAX_RATIO = 4096
"""Decoded bytes per stored byte of a compressed sample, above FREE_BYTES. Deflate reaches 1,032, LZ4 255."""

FREE_BYTES = 1 << 24
"""Decoded bytes that a compressed sample may have at any ratio, since blank images compress without bound."""

MAX_IMAGE_PIXELS = 1 << 28
"""Width times height of an image; also of one frame of a video or scan."""

MAX_IMAGE_FRAMES = 1 << 16
"""Pages or frames of one image file, slices of a scan."""

MAX_MEDIA_FRAMES = 1 << 24
"""Frames of a video."""

MAX_MEDIA_SECONDS = 7 * 86400
"""Length of a video or sound."""

MAX_AUDIO_CHANNELS = 256
"""Channels of a sound."""

MAX_POINTS = 1 << 28
"""Points of a cloud, vertices or faces of a mesh, points of all polygons of a sample."""

MAX_POLYGONS = (1 << 16) - 1
"""Polygons of one sample, and points of one polygon: their counts are 16-bit (format.md 5.3)."""

# -- documents ---------------------------------------------------------------------------------------------------------

MAX_JSON_BYTES = 1 << 28
"""Length of one JSON document or sample."""

MAX_JSON_DEPTH = 512
"""Nesting of lists and objects in a JSON document or sample."""

MAX_TENSORS = 100_000
"""Tensors of a dataset, hidden ones included."""

MAX_GROUPS = 100_000
"""Groups of a dataset."""

MAX_VERSIONS = 1_000_000
"""Nodes of a version tree."""

MAX_ENCODER_BYTES = 1 << 31
"""Length of one index file of a tensor: chunk ids, tiles, sequences, credentials, padding, chunk_set, commit_diff."""

MAX_TABLE_ROWS = 1 << 26
"""Entries in memory of a run-length table of a few bytes, such as the lengths of all sequences."""

MAX_MANIFEST_BYTES = 1 << 32
"""Length of a manifest."""

MAX_FETCH_BYTES = 1 << 32
"""Length of a linked or read file."""


def check(name: str, value: float, what: str) -> None:
    """Refuse a value above a limit.

    Parameters
    ----------
    name
        Name of the limit in this module.
    value
        The declared or actual value of the data.
    what
        Description of the data for the message: "a PNG image of 70000 x 70000 pixels".

    Raises
    ------
    LimitError
        If the value is larger; the message and the error's ``limit`` name the limit.
    """
    allowed = globals()[name]
    if not value <= allowed:
        raise LimitError(
            f"{what}: {value:,} is more than the {allowed:,} of lakebed.limits.{name}; "
            "if you trust the data, set it higher",
            limit=name,
        )


def json_depth(text: bytes | memoryview) -> int:
    """Return the depth of nested lists and objects in a valid JSON text, without recursion.

    If the text has too few brackets to exceed `MAX_JSON_DEPTH`, the result may be any number up to that limit. The
    memory that this function needs does not grow with the text.
    """
    if len(text) <= _PIECE:
        text = bytes(text)
        opening = text.count(b"[") + text.count(b"{")
        if opening <= MAX_JSON_DEPTH:
            return opening
    depth, deepest, quoted, rest = 0, 0, 0, b""
    for start in range(0, len(text), _PIECE):
        piece = rest + bytes(text[start : start + _PIECE])
        # A backslash at the end of this piece escapes the first byte of the next one: move it there.
        cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        rest, piece = piece[len(piece) - cut :], piece[: len(piece) - cut]
        # Ignore brackets inside of strings: once escapes are removed, every second part between quotes is a string.
        parts = piece.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        outside = b"".join(parts[quoted::2]).translate(_STEP, _NO_BRACKET)
        quoted ^= (len(parts) - 1) % 2
        levels = depth + np.cumsum(np.frombuffer(outside, np.int8), dtype=np.int64)
        if len(levels):
            depth, deepest = int(levels[-1]), max(deepest, int(levels.max()))
    return deepest


def check_sample(shape: tuple[int, ...], itemsize: int, what: str, stored: int | None = None) -> int:
    """Refuse a decoded sample with more axes or bytes than the limits; return its number of bytes.

    Parameters
    ----------
    stored
        Length of the compressed data, if decompression can expand it; this also limits the ratio.

    Raises
    ------
    LimitError
        If a limit would be exceeded.
    """
    check("MAX_AXES", len(shape), what)
    nbytes = math.prod(shape) * itemsize
    check("MAX_SAMPLE_BYTES", nbytes, what)
    if stored is not None and nbytes > FREE_BYTES:
        check("MAX_RATIO", nbytes / max(stored, 1), f"{what} ({nbytes} bytes from {stored})")
    return nbytes
