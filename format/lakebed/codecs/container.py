"""Containers of video and sound, opened with FFmpeg through PyAV in a way that makes hostile files harmless.

The demuxer is chosen here by the first bytes, never guessed by FFmpeg: some of its demuxers open other files. A
container cannot open files at all and reads a bounded number of bytes; errors inside become SampleDecompressionError.
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
    from collections.abc import Iterator, Sequence

    from av.container import InputContainer
    from av.packet import Packet

    from lakebed.codecs.base import Buffer

# Maximum number of bytes read, as a multiple of the file size: demuxing reads the file about once, and opening it
# reads the header and the end of the file again.
_READS = 8
_READS_FREE = 1 << 26
_LIST_SLACK = 1 << 20


def demuxer_of(data: Buffer | Elsewhere) -> str | None:
    """Return FFmpeg's demuxer for a file, by its first bytes; None if the file is no supported video or sound."""
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
        # ID3 tags are common in MP3 files, and rare in FLAC files: look behind the tag.
        bits = zip(head[6:10], (21, 14, 7, 0), strict=False)
        size = 10 + sum((byte & 0x7F) << shift for byte, shift in bits)
        return "flac" if bytes(data[size : size + 4]) == b"fLaC" else "mp3"
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return "mp3"
    return None


def _check_lists(data: Buffer) -> None:
    """Refuse RIFF files with lists of texts far beyond the end of the file: FFmpeg walks through all of them.

    Raises
    ------
    FormatError
        If a list is too long.
    """
    view, at = memoryview(data).cast("B"), 12
    while at + 12 <= len(view):
        size = int.from_bytes(view[at + 4 : at + 8], "little")
        if bytes(view[at : at + 4]) == b"LIST" and at + size > len(view) + _LIST_SLACK:
            raise FormatError(f"damaged file of {len(view)} bytes: the list at byte {at} claims {size} bytes")
        at += 8 + size + size % 2


class Source(io.RawIOBase):
    """A file, in memory or remote, that FFmpeg may read a limited number of times."""

    def __init__(self, data: Buffer | Elsewhere) -> None:
        super().__init__()
        self._data = data if isinstance(data, Elsewhere) else memoryview(data)
        self._at = 0
        self._left = _READS * len(self._data) + _READS_FREE

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes."""
        stop = len(self._data) if size < 0 else min(self._at + size, len(self._data))
        if isinstance(self._data, memoryview):
            part = bytes(self._data[self._at : stop])
        else:
            # The part may be shorter than requested: FFmpeg then asks again.
            part = self._data.some(self._at, stop - self._at)
        self._at += len(part)
        self._spend(len(part))
        return part

    def _spend(self, nbytes: int) -> None:
        self._left -= nbytes + 64
        if self._left < 0:
            raise LimitError("the container makes its reader loop without end")

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        self._spend(0)
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at


def _refuse(url: str, flags: int, options: dict[str, str]) -> Any:
    raise PermissionError(
        f"a container must not open other files ({url[:80]!r}, {flags}, {len(options)} options)"
    )


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Turn all errors of a decoder into SampleDecompressionError, except those of lakebed.

    Raises
    ------
    SampleDecompressionError
        In place of any other error.
    """
    try:
        yield
    except (FormatError, LimitError):
        raise
    except MemoryError as error:
        raise LimitError(f"{what} needs more memory than is available") from error
    except Exception as error:  # libraries raise many kinds of errors on damaged bytes
        raise SampleDecompressionError(
            f"{what} is damaged or of a kind that is not supported: {error}"
        ) from error


# Before release 19, PyAV raises an error for texts that are not UTF-8, unless this option is given.
_METADATA: dict[str, Any] = (
    {"metadata_errors": "ignore"} if int(av.__version__.partition(".")[0]) < 19 else {}
)


def open_container(data: Buffer | Elsewhere, name: str) -> InputContainer:
    """Open a container, which the caller closes.

    Raises
    ------
    FormatError, LimitError
        If the data is no container, is damaged, or opening it takes too long.
    """
    demuxer = demuxer_of(data)
    if demuxer is None:
        raise FormatError(
            f"{len(data)} bytes are not in the format {name}: they begin with {bytes(data[:12]).hex()}"
        )
    if demuxer == "wav" and not isinstance(data, Elsewhere):
        _check_lists(data)
    with decoding(f"a {name} file of {len(data)} bytes"):
        found: InputContainer = av.open(Source(data), "r", format=demuxer, io_open=_refuse, **_METADATA)
        return found


@dataclass(frozen=True, slots=True)
class Packets:
    """The packets of one stream in decoding order, including those that only prepare the decoder."""

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
            If the stream has more packets than a video may have frames.
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


def frames(stream: Any, packets: Sequence[Packet[Any]], what: str) -> Iterator[Any]:
    """Decode consecutive packets of a stream; yield their frames."""
    if stream.codec_context.is_open:
        stream.codec_context.flush_buffers()
    for packet in [*packets, None]:
        with decoding(what):
            found = stream.decode(packet)
        yield from found


def duration_of(container: InputContainer, stream: Any) -> tuple[int | None, float]:
    """Return the duration of a stream in units of its time base, and that unit in seconds."""
    if stream.duration is None or stream.time_base is None:
        return container.duration, 1e-6
    return stream.duration, float(stream.time_base)
