"""Blocks of snappy, which begin with their unpacked length: a number with seven bits per byte."""

from __future__ import annotations

from lakebed.errors import IngestionError

_MOST_BITS = 70
_MASK = (1 << 64) - 1


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position of its end.

    Each byte has seven bits of the number, lowest bits first; the highest bit is set in all bytes but the last.

    Raises
    ------
    IngestionError
        If the number is truncated, or has more than 64 bits.
    """
    value = bits = 0
    while at < len(data) and bits < _MOST_BITS:
        byte = data[at]
        value |= (byte & 0x7F) << bits
        at += 1
        if byte < 0x80:
            return value & _MASK, at
        bits += 7
    raise IngestionError("a number is cut short, or has more than 64 bits")


def unsnapped(packed: bytes, limit: int) -> bytes:
    """Unpack a block.

    Raises
    ------
    IngestionError
        If the block is damaged, or longer than the limit when decompressed.
    """
    import pyarrow as pa

    size, _ = varint(packed[:10], 0)
    if size > limit:
        raise IngestionError(f"it unpacks to {size:,} bytes, more than the {limit:,} that are allowed")
    try:
        found: bytes = pa.decompress(packed, decompressed_size=size, codec="snappy", asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IngestionError(f"it cannot be unpacked: {error}") from error
    return found
