"""Numbers of seven bits a byte, as Protocol Buffers, LevelDB and snappy store them, and fields of Protocol Buffers.

number           7 bits a byte, the lowest first; all bytes but the last have the highest bit set; 64 bits at most
field            number: 8 * number of the field + wire type; then
  type 0         a number
  type 1, 5      8 bytes, 4 bytes
  type 2         number: how many bytes, and these
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.errors import IngestionError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

_MOST_BITS = 70
_MASK = (1 << 64) - 1


def varint(data: bytes, at: int, stop: int | None = None) -> tuple[int, int]:
    """Return a number and where it ends.

    Raises
    ------
    IngestionError
        If it is cut short, or has more than 64 bits.
    """
    stop = len(data) if stop is None else stop
    value = bits = 0
    while at < stop:
        byte = data[at]
        value |= (byte & 0x7F) << bits
        at += 1
        if byte < 0x80:
            return value & _MASK, at
        bits += 7
        if bits >= _MOST_BITS:
            raise IngestionError("a number has more than 64 bits")
    raise IngestionError("a number is cut short")


def fields(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield number and wire type of fields, and where they lie; of a number itself its value.

    Raises
    ------
    IngestionError
        If they are no fields, or go beyond the end.
    """
    while at < stop:
        key, at = varint(data, at, stop)
        wire, number = key & 7, key >> 3
        if number == 0:
            raise IngestionError("a field has no number")
        if wire == VARINT:
            value, at = varint(data, at, stop)
            yield number, wire, value, at
            continue
        if wire == BYTES:
            length, at = varint(data, at, stop)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise IngestionError(f"a field is of the unknown type {wire}")
        if length > stop - at:
            raise IngestionError(f"a field of {length:,} bytes is cut short")
        yield number, wire, at, at + length
        at += length


def unsnapped(packed: bytes, limit: int) -> bytes:
    """Return what a block of snappy, which begins with its length, unpacks to.

    Raises
    ------
    IngestionError
        If it is damaged, or longer than the limit.
    """
    import pyarrow as pa

    size, _ = varint(packed[:10], 0)
    if size > limit:
        raise IngestionError(f"it unpacks to more than the {limit:,} bytes that it may: to {size:,}")
    try:
        found: bytes = pa.decompress(packed, decompressed_size=size, codec="snappy", asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise IngestionError(f"it cannot be unpacked: {error}") from error
    return found
