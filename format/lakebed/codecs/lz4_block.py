"""The ``lz4`` compression: one LZ4 block after its uncompressed size (FORMAT.md 5.3).

    bytes   content
    4       u32 uncompressed size
    rest    LZ4 block

LZ4 frames (magic ``04 22 4d 18``) of ancient writers are read too; ``00 00 00 00 00`` and no bytes are empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import lz4.block
import lz4.frame

from lakebed.codecs.base import Buffer
from lakebed.codecs.traits import Described
from lakebed.errors import FormatError, LimitError

_FRAME_MAGIC = b"\x04\x22\x4d\x18"
# A block cannot shrink by more than this (one length byte stands for 255 bytes), so a larger promise is a lie.
_LARGEST_RATIO = 256
_STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Lz4(Described):
    """Size-prefixed LZ4 blocks."""

    name: str = "lz4"

    def encode(self, raw: Buffer) -> bytes:
        if len(raw) == 0:
            return b""
        encoded: bytes = lz4.block.compress(raw, store_size=True)
        return encoded

    def decode(self, data: Buffer, limit: int) -> bytes:
        if len(data) == 0 or bytes(data[:5]) == b"\0\0\0\0\0":
            return b""
        if bytes(data[:4]) == _FRAME_MAGIC:
            return self._decode_frame(data, limit)
        if len(data) < 5:
            raise FormatError(f"{len(data)} bytes are no lz4 block: the size prefix alone takes 4")
        promised = int.from_bytes(data[:4], "little")
        if promised > limit:
            raise LimitError(
                f"an lz4 block promises {promised} bytes, more than the {limit} that are allowed here"
            )
        if promised > _LARGEST_RATIO * len(data) + 64:
            raise FormatError(
                f"an lz4 block of {len(data)} bytes can not hold the {promised} bytes it promises"
            )
        try:
            raw: bytes = lz4.block.decompress(data)
        except lz4.block.LZ4BlockError as error:
            raise FormatError(f"damaged lz4 block: {error}") from error
        return raw

    def _decode_frame(self, data: Buffer, limit: int) -> bytes:
        parts: list[bytes] = []
        frame, rest, room = lz4.frame.LZ4FrameDecompressor(), bytes(data), limit
        try:
            # In steps: the library allocates what it may return at most.
            while not frame.eof:
                part = frame.decompress(rest, max_length=_STEP)
                rest, room = b"", room - len(part)
                if room < 0:
                    raise LimitError(f"an lz4 frame holds more than the {limit} bytes that are allowed here")
                if not part and frame.needs_input:
                    raise FormatError("damaged lz4 frame: it ends early")
                parts.append(part)
        except (RuntimeError, EOFError) as error:
            if isinstance(error, LimitError):
                raise
            raise FormatError(f"damaged lz4 frame: {error}") from error
        return b"".join(parts)
