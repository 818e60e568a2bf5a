"""Bounds that protect a process from hostile or damaged input.

Bytes of a dataset promise counts, shapes and lengths; every decoder compares them with these limits, and with the bytes
that are there, before it allocates. They are far above what honest data needs. A program that trusts its data sets them
for its whole process::

    lakebed.limits.MAX_IMAGE_PIXELS = 2_000_000_000

Readers must therefore look a limit up when they need it (``limits.MAX_TILES``), not import its value.
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
"""Bytes of one chunk's data, decompressed: position rows are 32-bit, so no honest chunk holds more (FORMAT.md 5.1)."""

MAX_HEADER_BYTES = 1 << 28
"""Bytes before the data of one chunk or media file: version, shape and position tables; header of an image or scan."""

MAX_CHUNK_SAMPLES = 1 << 26
"""Samples in one chunk. A run of samples takes one table row however long it is, so few bytes can promise billions."""

MAX_EMPTY_SAMPLES = 1 << 21
"""Samples of one chunk beyond one per byte of its data: those that have no bytes and cost the writer nothing.

It bounds the tables that are made of a chunk whose samples differ; a run of equal ones needs none.
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
"""Decoded bytes that a compressed sample may have whatever its ratio: blank images compress without bound."""

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
"""Polygons of one sample, and points of one polygon: their counts are 16-bit (FORMAT.md 5.3)."""

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
"""Entries that a run-length table of a few bytes is written out to in memory, such as the lengths of all sequences."""

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
        What the data promises, or has.
    what
        What has that many, for the message: "a PNG image of 70000 x 70000 pixels".

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
    """Return how deep the lists and objects of a valid JSON text are nested, without going down into it.

    Where it cannot be deeper than `MAX_JSON_DEPTH`, any number up to that may be returned. Memory does not grow with
    the text.
    """
    if len(text) <= _PIECE:
        text = bytes(text)
        opening = text.count(b"[") + text.count(b"{")
        if opening <= MAX_JSON_DEPTH:
            return opening
    depth, deepest, quoted, rest = 0, 0, 0, b""
    for start in range(0, len(text), _PIECE):
        piece = rest + bytes(text[start : start + _PIECE])
        # What a backslash at the end escapes comes with the next piece.
        cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2
        rest, piece = piece[len(piece) - cut :], piece[: len(piece) - cut]
        # Brackets inside of strings do not nest: without escapes, every second piece between quotes is a string.
        parts = piece.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        outside = b"".join(parts[quoted::2]).translate(_STEP, _NO_BRACKET)
        quoted ^= (len(parts) - 1) % 2
        levels = depth + np.cumsum(np.frombuffer(outside, np.int8), dtype=np.int64)
        if len(levels):
            depth, deepest = int(levels[-1]), max(deepest, int(levels.max()))
    return deepest


def check_sample(shape: tuple[int, ...], itemsize: int, what: str, stored: int | None = None) -> int:
    """Refuse a decoded sample of more axes or bytes than allowed; return its bytes.

    Parameters
    ----------
    stored
        Length of the compressed data it comes from, where decompression can expand: bounds the ratio, too.

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
