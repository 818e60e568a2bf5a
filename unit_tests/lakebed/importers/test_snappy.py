"""Blocks of snappy, and the numbers that they begin with, are told from damage."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakebed.errors import IngestionError
from lakebed.importers.shards.snappy import unsnapped, varint


def test_numbers() -> None:
    assert varint(b"\x05", 0) == (5, 1)
    assert varint(b"x\xac\x02", 1) == (300, 3)
    assert varint(b"\xff" * 9 + b"\x01", 0) == ((1 << 64) - 1, 10)
    for data in (b"", b"\x80", b"\xff" * 11):
        with pytest.raises(IngestionError):
            varint(data, 0)


def test_what_snappy_unpacks_to_is_known_before() -> None:
    packed = pa.compress(b"a" * 1000, codec="snappy", asbytes=True)
    assert unsnapped(packed, 1000) == b"a" * 1000
    with pytest.raises(IngestionError, match="more than the 999"):
        unsnapped(packed, 999)
    for data in (packed[:-1], b"", packed[:1] + b"\x7f" + packed[2:]):
        with pytest.raises(IngestionError):
            unsnapped(data, 1 << 20)
