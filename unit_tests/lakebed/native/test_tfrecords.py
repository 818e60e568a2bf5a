"""Checksums of TFRecord files against CRC-32C bit by bit, and where records start."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.native.tfrecords import masked_crc32c, record_starts


def bit_by_bit(data: bytes) -> int:
    """Return the masked checksum, as its definition says."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    length = len(data).to_bytes(8, "little")
    return b"".join(
        (length, masked_crc32c(length).to_bytes(4, "little"), data, masked_crc32c(data).to_bytes(4, "little"))
    )


def test_known_checksums() -> None:
    """Of RFC 3720, and of the digits that catalogues of checksums use."""
    for data, crc in ((b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)):
        assert masked_crc32c(data) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    long = np.arange(100_000, dtype=np.uint8)
    assert masked_crc32c(long) == masked_crc32c(long.tobytes()) == bit_by_bit(long.tobytes())


@given(st.binary(max_size=70), st.integers(0, 7))
def test_checksums(data: bytes, at: int) -> None:
    """Of any length, wherever the bytes lie in memory."""
    assert masked_crc32c(memoryview(data)[at:]) == bit_by_bit(data[at:])


def test_starts() -> None:
    """The first record, and the next ones after so many bytes; up to what is damaged."""
    file = b"".join(record(bytes(size)) for size in (0, 5, 100, 3, 3))
    assert [found.tolist() if hasattr(found, "tolist") else found for found in record_starts(file, 40)] == [
        [0, 153],
        5,
        len(file),
    ]
    starts, count, end = record_starts(file, 1)
    assert starts.tolist() == [0, 16, 37, 153, 172]
    assert (count, end) == (5, len(file))
    assert record_starts(file[:-1], 1 << 40)[1:] == (4, 172)
    assert record_starts(b"", 1)[1:] == (0, 0)
    assert record_starts(file[:40] + b"\1" + file[41:], 1)[1:] == (2, 37)
    with pytest.raises(ValueError, match="1 byte or more"):
        record_starts(file, 0)
