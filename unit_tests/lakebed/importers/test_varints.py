"""Numbers of seven bits a byte, and fields of messages, are told from what is damaged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakebed.errors import IngestionError
from lakebed.importers.tfrecord.varints import fields, unsnapped, varint


def test_numbers() -> None:
    assert varint(b"\x05", 0) == (5, 1)
    assert varint(b"x\xac\x02", 1) == (300, 3)
    assert varint(b"\xff" * 9 + b"\x01", 0) == ((1 << 64) - 1, 10)
    for data in (b"", b"\x80", b"\xff" * 11):
        with pytest.raises(IngestionError):
            varint(data, 0)
    with pytest.raises(IngestionError, match="cut short"):
        varint(b"\xac\x02", 0, 1)


def test_fields() -> None:
    """A number of each kind; what goes beyond the end is refused before it is read."""
    message = b"\x08\x96\x01\x12\x02ab\x1d1234\x2112345678"
    assert list(fields(message, 0, len(message))) == [
        (1, 0, 150, 3),
        (2, 2, 5, 7),
        (3, 5, 8, 12),
        (4, 1, 13, 21),
    ]
    for data in (b"\x12\x03ab", b"\x12\xff\xff\xff\xff\x0f", b"\x1d123", b"\x00\x01", b"\x0b", b"\x08"):
        with pytest.raises(IngestionError):
            list(fields(data, 0, len(data)))


def test_what_snappy_unpacks_to_is_known_before() -> None:
    packed = pa.compress(b"a" * 1000, codec="snappy", asbytes=True)
    assert unsnapped(packed, 1000) == b"a" * 1000
    with pytest.raises(IngestionError, match="more than the 999 bytes"):
        unsnapped(packed, 999)
    for data in (packed[:-1], b"", packed[:1] + b"\x7f" + packed[2:]):
        with pytest.raises(IngestionError):
            unsnapped(data, 1 << 20)
