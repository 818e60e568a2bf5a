"""The side file ``.lakebed/statistics-<hash of a tensor's key>``: bounds of the values in chunks.

    bytes      content
    8          "lbstat01"
    4 + n      length of the tensor's key, and the key
    4          number of chunks
    24 each    digest of the chunk (16), its pieces (4), its samples (4)
    48 each    pieces, see `PIECE_FIELDS`, those of the first chunk first
    8          xxh3-64 of all before

All numbers are little-endian. The digest identifies the bytes of a chunk and how they are decoded, so statistics are
valid in every version that has the chunk. The file is a cache: chunks without statistics are read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.errors import FormatError

Pieces = NDArray[Any]
"""Rows of `PIECE_FIELDS`."""

PREFIX = ".lakebed/statistics-"

PIECE = 1 << 14
"""Number of samples per piece; the last piece of a chunk may have fewer."""

PIECE_FIELDS = np.dtype(
    [
        ("low", "<u8"),  # smallest value: 64 bits of an int64, uint64 or float64; first 8 bytes of a text
        ("high", "<u8"),  # largest value
        # For integers, bit n is set if a value is n modulo 64; for other types, all bits are set.
        ("bits", "<u8"),
        ("rows", "<u4"),
        ("empty", "<u4"),  # samples without any value
        ("least", "<u4"),  # bytes of the shortest sample
        ("most", "<u4"),  # bytes of the longest sample
        ("flags", "<u4"),
        ("unused", "<u4"),
    ]
)

HAS_NAN = 1
HAS_VALUES = 2
"""Flag of a piece: `low` and `high` are valid, because some value is not NaN."""

_MAGIC = b"lbstat01"
_CHUNK = np.dtype([("digest", "V16"), ("pieces", "<u4"), ("rows", "<u4")])


def statistics_key(tensor: str) -> str:
    """Return the storage key of the statistics of the tensor with this key."""
    return f"{PREFIX}{xxhash.xxh3_64_hexdigest(tensor.encode())}"


def pieces_of(rows: int) -> int:
    """Return the number of pieces of a chunk with ``rows`` samples."""
    return -(-rows // PIECE)


def to_bytes(tensor: str, chunks: Mapping[bytes, Pieces]) -> bytes:
    """Serialise the statistics of a tensor's chunks, by their digests."""
    name = tensor.encode()
    index = np.zeros(len(chunks), _CHUNK)
    for i, (digest, pieces) in enumerate(chunks.items()):
        index[i] = (digest, len(pieces), int(pieces["rows"].sum()))
    body = b"".join(
        [
            _MAGIC,
            struct.pack("<I", len(name)),
            name,
            struct.pack("<I", len(chunks)),
            index.tobytes(),
            *[pieces.tobytes() for pieces in chunks.values()],
        ]
    )
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def from_bytes(data: bytes, tensor: str) -> dict[bytes, Pieces]:
    """Parse the statistics of a tensor's chunks.

    Raises
    ------
    FormatError
        If the file is damaged, belongs to another tensor, or contains no statistics.
    """
    name = tensor.encode()
    begin = len(_MAGIC) + 4 + len(name) + 4
    if len(data) < begin + 8 or not data.startswith(_MAGIC):
        raise FormatError("this is not a file of statistics")
    body = memoryview(data)[:-8]
    if xxhash.xxh3_64_intdigest(body) != struct.unpack("<Q", data[-8:])[0]:
        raise FormatError("the statistics are damaged: their checksum is wrong")
    if data[len(_MAGIC) : begin - 4] != struct.pack("<I", len(name)) + name:
        raise FormatError("the statistics belong to another tensor")
    (count,) = struct.unpack_from("<I", data, begin - 4)
    end = begin + count * _CHUNK.itemsize
    if end > len(body):
        raise FormatError("the statistics are damaged: chunks are missing")
    index = np.frombuffer(body, _CHUNK, count, begin)
    total = int(index["pieces"].sum(dtype=np.uint64))
    if end + total * PIECE_FIELDS.itemsize != len(body):
        raise FormatError("the statistics are damaged: pieces are missing")
    pieces = np.frombuffer(body, PIECE_FIELDS, total, end)
    sizes, rows = index["pieces"].astype(np.int64), index["rows"].astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    is_sound = bool((rows > 0).all() and (sizes == -(-rows // PIECE)).all())
    if is_sound and count:
        is_sound = np.array_equal(np.add.reduceat(pieces["rows"].astype(np.int64), starts), rows)
    if not is_sound:
        raise FormatError("the statistics are damaged: pieces and samples contradict each other")
    digests = index["digest"].tolist()
    return {
        digest: pieces[at : at + size]
        for digest, at, size in zip(digests, starts.tolist(), sizes.tolist(), strict=True)
    }
