"""What a codec is: a named pair of functions between raw and compressed bytes of one sample or one chunk."""

from __future__ import annotations

from typing import Protocol

Buffer = bytes | bytearray | memoryview


class ByteCodec(Protocol):
    """Compress bytes without looking at what they mean."""

    @property
    def name(self) -> str:
        """Name of the compression in the format."""
        ...

    def encode(self, raw: Buffer) -> bytes:
        """Compress; empty input gives empty output."""
        ...

    def decode(self, data: Buffer, limit: int) -> bytes:
        """Decompress.

        Raises
        ------
        FormatError
            If the data is damaged.
        LimitError
            If it promises more than ``limit`` bytes.
        """
        ...
