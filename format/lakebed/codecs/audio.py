"""Sounds: mp3, flac, wav (format.md 5.3, 7). A sample is (samples, channels) float32.

Values are those of the file, unscaled: a 16-bit sound goes from -32768 to 32767, an mp3 from -1 to 1, as in 3.9.52.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts
from lakebed.codecs.container import Packets, decoding, duration_of, frames, open_container
from lakebed.codecs.video import chosen
from lakebed.errors import FormatError, SampleDecompressionError

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet
    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

# Codecs whose packets decode independently.
_INDEPENDENT = ("pcm_", "flac")
# Maximum difference, in samples, between the decoded length and the container's; a larger difference is an error.
_SLACK = 1 << 14


@dataclass(frozen=True, slots=True)
class Audio(FileCodec):
    """Sound files of one kind; only files can be stored, arrays cannot be encoded."""

    name: str

    def facts(self, data: Buffer) -> FileFacts:
        """Count the samples without decoding them.

        Raises
        ------
        FormatError, LimitError
            If the data is not a sound, or a longer one than this process allows.
        """
        with open_container(data, self.name) as container:
            return FileFacts(_Track(container, self.name).shape, "float32")

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode the whole sound: float32, shape (samples, channels); ``out`` may be of any float dtype.

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        with open_container(data, self.name) as container:
            track = _Track(container, self.name)
            if out is None or out.shape != track.shape or out.dtype.kind != "f":
                out = np.empty(track.shape, dtype=np.float32)
            track.fill(0, track.count, out)
            return out

    def part(self, data: Buffer, selection: int | slice) -> NDArray[np.float32]:
        """Decode one sample, (channels,), or the samples of a slice, from as few packets as possible.

        Raises
        ------
        IndexError
            If the sample does not exist.
        FormatError, LimitError
            As :meth:`decode`.
        """
        with open_container(data, self.name) as container:
            track = _Track(container, self.name)
            wanted = chosen(selection, track.count, "sample")
            if len(wanted) == 0:
                return np.empty((0, track.shape[1]), dtype=np.float32)
            low, high = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1
            out = np.empty((high - low, track.shape[1]), dtype=np.float32)
            track.fill(low, high, out)
            if isinstance(selection, int):
                first: NDArray[np.float32] = out[0]
                return first
            return np.ascontiguousarray(out[:: wanted.step])

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return duration (in units of time_base), time_base (seconds), sample_rate, frame_size, nchannels, format."""
        with open_container(data, self.name) as container, decoding(f"a {self.name} sound"):
            stream = _stream(container, self.name)
            duration, unit = duration_of(container, stream)
            return {
                "duration": duration,
                "time_base": unit,
                "sample_rate": stream.codec_context.sample_rate,
                "frame_size": stream.codec_context.frame_size,
                "nchannels": stream.codec_context.channels,
                "sample_format": stream.codec_context.format.name,
            }


def _stream(container: InputContainer, name: str) -> AudioStream:
    if not container.streams.audio:
        raise FormatError(f"a {name} file holds no sound")
    return container.streams.audio[0]


class _Track:
    """A demuxed sound: its packets, and the number of samples of each."""

    def __init__(self, container: InputContainer, name: str) -> None:
        self._stream = _stream(container, name)
        with decoding(f"a {name} sound"):
            context = self._stream.codec_context
            channels, self._rate, self._codec = context.channels, context.sample_rate, context.name
        self.what = f"a {name} sound of {channels} channels"
        if channels <= 0 or self._rate <= 0:
            raise FormatError(f"{self.what} at {self._rate} samples a second is invalid")
        limits.check("MAX_AUDIO_CHANNELS", channels, self.what)
        self._packets = Packets.of(container, self._stream, self.what).items
        self._lengths = self._measured()
        self.count = sum(self._lengths)
        self.shape = (self.count, channels)
        limits.check("MAX_MEDIA_SECONDS", self.count / self._rate, f"{self.what}, in seconds")
        limits.check_sample(self.shape, 4, self.what)

    def _measured(self) -> list[int]:
        """Return the number of samples of each packet: from the container, or else by decoding."""
        unit = self._stream.time_base
        lengths: list[int] = []
        for packet in self._packets:
            if not packet.duration or unit is None:
                return [sum(frame.samples for frame in frames(self._stream, self._packets, self.what))]
            ticks = packet.duration * unit.numerator * self._rate
            lengths.append((2 * ticks + unit.denominator) // (2 * unit.denominator) - _skipped(packet))
        # A packet may skip more samples than it has: take the rest from the next packets.
        owed = 0
        for at, length in enumerate(lengths):
            lengths[at] = max(0, length + owed)
            owed = min(0, length + owed)
        return lengths

    def fill(self, low: int, high: int, out: NDArray[Any]) -> None:
        """Decode samples ``low`` to ``high`` (exclusive) into ``out``."""
        start, at = 0, 0
        if self._codec.startswith(_INDEPENDENT) and len(self._lengths) == len(self._packets):
            while start < len(self._lengths) - 1 and at + self._lengths[start] <= low:
                at += self._lengths[start]
                start += 1
        for frame in frames(self._stream, self._packets[start:], self.what):
            if at >= high:
                break
            with decoding(self.what):
                block = self._block(frame)
            first, last = max(low, at), min(high, at + len(block))
            if first < last:
                out[first - low : last - low] = block[first - at : last - at]
            at += len(block)
        if at < high:
            if high - at > _SLACK or at == 0:
                raise SampleDecompressionError(
                    f"{self.what} should have {self.count} samples, but {at} decode"
                )
            out[max(at, low) - low :] = 0

    def _block(self, frame: Any) -> NDArray[Any]:
        """Return the samples of a frame, (samples, channels), for decoders with and without separate channels."""
        values = frame.to_ndarray()
        channels = self.shape[1]
        if frame.format.is_planar:
            if values.shape[0] != channels:
                raise FormatError(f"{self.what} changes to {values.shape[0]} channels")
            return np.asarray(values.T)
        if values.size % channels:
            raise FormatError(
                f"{self.what} holds a frame of {values.size} values, which do not fit its channels"
            )
        return np.asarray(values.reshape(-1, channels))


def _skipped(packet: Packet[Any]) -> int:
    """Return the number of padding samples that the container says to cut off a packet."""
    if not packet.has_sidedata("skip_samples"):
        return 0
    for item in packet.iter_sidedata():
        if item.data_type == "skip_samples":
            raw = bytes(item)
            if len(raw) >= 8:
                first, last = struct.unpack_from("<II", raw)
                return int(first) + int(last)
    return 0
