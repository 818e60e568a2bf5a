"""Open containers of video and sound with FFmpeg, through PyAV, so that hostile ones do no harm.

The demuxer is chosen here by the first bytes, never guessed by FFmpeg: some of its demuxers open other files. A
container cannot open files at all, reads a bounded number of bytes, and what goes wrong inside is a
SampleDecompressionError.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import av

from lakebed import limits
from lakebed.codecs.base import Elsewhere
from lakebed.errors import FormatError, LimitError, SampleDecompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.container import InputContainer
    from av.packet import Packet

    from lakebed.codecs.base import Buffer

# Demuxing reads a file about once; opening reads headers and tails again. More than this is a loop.
_READS = 8
_READS_FREE = 1 << 26
_LIST_SLACK = 1 << 20


def demuxer_of(data: Buffer | Elsewhere) -> str | None:
    """Name FFmpeg's demuxer for a file that begins with these bytes; None for what is no video or sound here."""
    head = bytes(data[:64])
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot"):
        return "mp4"
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "matroska"
    if head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE":
        return "wav"
    if head[:4] == b"RIFF" and head[8:11] == b"AVI":
        return "avi"
    if head[:4] == b"fLaC":
        return "flac"
    if head[:3] == b"ID3":
        # A tag stands before MP3 frames, rarely before FLAC.
        size = 10 + sum(
            (byte & 0x7F) << shift for byte, shift in zip(head[6:10], (21, 14, 7, 0), strict=False)
        )
        return "flac" if bytes(data[size : size + 4]) == b"fLaC" else "mp3"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return "mp3"
    return None


def _check_lists(data: Buffer) -> None:
    """Refuse RIFF files whose lists of texts would go on far behind the end: FFmpeg walks all that is promised there.

    Raises
    ------
    FormatError
        If one would.
    """
    view, at = memoryview(data).cast("B"), 12
    while at + 12 <= len(view):
        size = int.from_bytes(view[at + 4 : at + 8], "little")
        if bytes(view[at : at + 4]) == b"LIST" and at + size > len(view) + _LIST_SLACK:
            raise FormatError(f"damaged file of {len(view)} bytes: a list at byte {at} has {size} bytes")
        at += 8 + size + size % 2


class Source(io.RawIOBase):
    """A file, in memory or elsewhere, that FFmpeg may read a bounded number of times."""

    def __init__(self, data: Buffer | Elsewhere) -> None:
        super().__init__()
        self._data = data if isinstance(data, Elsewhere) else memoryview(data)
        self._at = 0
        self._left = _READS * len(self._data) + _READS_FREE

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be positioned."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes."""
        stop = len(self._data) if size < 0 else min(self._at + size, len(self._data))
        if isinstance(self._data, memoryview):
            part = bytes(self._data[self._at : stop])
        else:
            # What is at hand is enough: FFmpeg asks again if it wants more.
            part = self._data.some(self._at, stop - self._at)
        self._at += len(part)
        self._left -= len(part) + 64
        if self._left < 0:
            raise LimitError("the container makes its reader go round in circles")
        return part

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        self._left -= 64
        if self._left < 0:
            raise LimitError("the container makes its reader go round in circles")
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Tell the position."""
        return self._at


def _refuse(url: str, flags: int, options: dict[str, str]) -> Any:
    raise PermissionError(
        f"a container must not open other files ({url[:80]!r}, {flags}, {len(options)} options)"
    )


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn whatever a decoder raises on bad data into SampleDecompressionError.

    Raises
    ------
    SampleDecompressionError
        In place of any other error than lakebed's own.
    """
    try:
        yield
    except (FormatError, LimitError):
        raise
    except MemoryError as error:
        raise LimitError(f"{what} needs more memory than there is") from error
    except Exception as error:  # libraries raise what they like when bytes are not as they should be
        raise SampleDecompressionError(
            f"{what} is damaged or of a kind that is not supported: {error}"
        ) from error


# Until release 19, texts of a file that are no UTF-8 were an error unless this was said.
_METADATA: dict[str, Any] = (
    {"metadata_errors": "ignore"} if int(av.__version__.partition(".")[0]) < 19 else {}
)


def open_container(data: Buffer | Elsewhere, name: str) -> InputContainer:
    """Open a container; the caller closes it.

    Raises
    ------
    FormatError, LimitError
        If it is none, is damaged, or opening it takes too long.
    """
    demuxer = demuxer_of(data)
    if demuxer is None:
        raise FormatError(f"{len(data)} bytes are no {name} file: they begin with {bytes(data[:12]).hex()}")
    if demuxer == "wav" and not isinstance(data, Elsewhere):
        _check_lists(data)
    with decoding(f"a {name} file of {len(data)} bytes"):
        found: InputContainer = av.open(Source(data), "r", format=demuxer, io_open=_refuse, **_METADATA)
        return found


@dataclass(frozen=True, slots=True)
class Packets:
    """The packets of one stream in decoding order, those that only prepare the decoder included."""

    items: list[Packet[Any]]
    shown: int

    @classmethod
    def of(cls, container: InputContainer, stream: Any, what: str) -> Packets:
        """Demux a stream, decoding nothing.

        Raises
        ------
        SampleDecompressionError
            If the container is damaged.
        LimitError
            If it has more packets than a video may have frames.
        """
        items: list[Packet[Any]] = []
        shown = 0
        with decoding(what):
            for packet in container.demux(stream):
                if packet.size == 0:
                    continue
                items.append(packet)
                shown += not packet.is_discard
                if len(items) > limits.MAX_MEDIA_FRAMES:
                    limits.check("MAX_MEDIA_FRAMES", len(items), what)
        return cls(items, shown)
