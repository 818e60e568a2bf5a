"""The ``lz4`` compression: one LZ4 block after its uncompressed size (format.md 5.3).

    bytes   content
    4       u32 uncompressed size
    rest    LZ4 block

LZ4 frames (magic ``04 22 4d 18``) of ancient writers are read too. Five zero bytes, and no bytes at all, stand for
empty data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import lz4.block
import lz4.frame
import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.base import Allocate, Buffer, ByteCodec
from lakebed.errors import FormatError, LimitError
from lakebed.native import lz4 as native

_FRAME_MAGIC = b"\x04\x22\x4d\x18"
# Decompression multiplies the size by less than this, because a length byte stands for at most 255 bytes; a block
# that claims more is damaged.
_LARGEST_RATIO = 256
_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Lz4(ByteCodec):
    """Size-prefixed LZ4 blocks."""

    name: str = "lz4"

    def encode(self, raw: Buffer) -> bytes:
        if len(raw) == 0:
            return b""
        encoded: bytes = lz4.block.compress(raw, store_size=True)
        return encoded

    def decode(self, data: Buffer, limit: int, allocate: Allocate | None = None) -> Buffer:
        size = self.size(data, limit)
        if size is None:
            return self._decode_frame(data, limit)
        if not size and (not len(data) or not data[4]):
            return b""
        if allocate is not None:
            room = allocate(size)
            self.decode_into(data, room)
            return room.data
        try:
            return native.decompress(memoryview(data)[4:], size)
        except ValueError as error:
            raise _damaged(error) from error

    def decode_into(self, data: Buffer, out: NDArray[Any]) -> None:
        try:
            native.decompress_into(memoryview(data)[4:], out.reshape(-1).view(np.uint8))
        except ValueError as error:
            raise _damaged(error) from error

    def size(self, data: Buffer, limit: int) -> int | None:
        if not len(data):
            return 0
        head = bytes(data[:4])
        if head == _FRAME_MAGIC:
            return None
        if len(data) < 5:
            raise FormatError(f"{len(data)} bytes are not an lz4 block: the size prefix alone takes 4")
        promised = int.from_bytes(head, "little")
        if promised > limit:
            raise LimitError(f"an lz4 block promises {promised} bytes, more than the allowed {limit}")
        if promised > _LARGEST_RATIO * len(data) + 64:
            raise FormatError(
                f"an lz4 block of {len(data)} bytes can not hold the {promised} bytes it promises"
            )
        return promised

    def _decode_frame(self, data: Buffer, limit: int) -> bytes:
        parts: list[bytes] = []
        frame, rest, room = lz4.frame.LZ4FrameDecompressor(), bytes(data), limit
        try:
            # Decompress in steps, because the library allocates memory for the largest allowed result in advance.
            while not frame.eof:
                part = frame.decompress(rest, max_length=_STEP)
                rest, room = b"", room - len(part)
                if room < 0:
                    raise LimitError(f"an lz4 frame holds more than the allowed {limit} bytes")
                if not part and frame.needs_input:
                    raise FormatError("damaged lz4 frame: it ends early")
                parts.append(part)
        except (RuntimeError, EOFError) as error:
            if isinstance(error, LimitError):
                raise
            raise FormatError(f"damaged lz4 frame: {error}") from error
        return b"".join(parts)


def _damaged(error: ValueError) -> FormatError:
    return FormatError(f"damaged lz4 block: {error}")
