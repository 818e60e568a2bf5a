"""Videos: mp4, mkv, avi (format.md 5.3, 7). A sample is (frames, height, width, 3) uint8, RGB.

A part is decoded from the last key frame at or before it. The packets are demuxed without decoding, which gives the
presentation time of each frame; only the packets on which the requested frames depend are decoded.

If its decoder delays frames, Deep Lake 3.9.52 loses the first ones and adds black ones at the end; this codec does not.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed import limits
from lakebed.codecs.base import FileCodec, FileFacts
from lakebed.codecs.container import Packets, decoding, duration_of, frames, open_container
from lakebed.errors import FormatError, SampleDecompressionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
    from numpy.typing import NDArray

    from lakebed.codecs.base import Buffer

# FFmpeg may use several threads for frames of at least this many pixels.
_THREADED_PIXELS = 1 << 25


@dataclass(frozen=True, slots=True)
class Video(FileCodec):
    """Video files of one container format; only files can be stored, arrays cannot be encoded."""

    name: str

    def facts(self, data: Buffer) -> FileFacts:
        """Count the frames without decoding them.

        Raises
        ------
        FormatError, LimitError
            If the data is not a video, or a larger one than this process allows.
        """
        with _opened_video(data, self.name) as reader:
            return FileFacts(reader.shape, "uint8")

    def decode(self, data: Buffer, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode all frames: uint8, shape (frames, height, width, 3).

        Raises
        ------
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        with _opened_video(data, self.name) as reader:
            limits.check_sample(reader.shape, 1, reader.what)
            if out is None or out.shape != reader.shape or out.dtype != np.uint8:
                out = np.empty(reader.shape, dtype=np.uint8)
            reader.fill(range(reader.count), out)
            return out

    def part(self, data: Buffer, selection: int | slice) -> NDArray[Any]:
        """Decode one frame, (height, width, 3), or the frames of a slice in its order.

        Raises
        ------
        IndexError
            If the frame does not exist.
        FormatError, LimitError
            As :meth:`decode`.
        """
        with _opened_video(data, self.name) as reader:
            wanted = chosen(selection, reader.count, "frame")
            shape = (len(wanted), *reader.shape[1:])
            limits.check_sample(shape, 1, reader.what)
            out = np.empty(shape, dtype=np.uint8)
            reader.fill(wanted, out)
            return out[0] if isinstance(selection, int) else out

    def timestamps(self, data: Buffer, selection: int | slice = slice(None)) -> NDArray[np.float32]:
        """Return the presentation times of frames in seconds: float32, shape (frames,), or () for one frame.

        Raises
        ------
        IndexError
            If the frame does not exist.
        FormatError, LimitError
            As :meth:`decode`.
        """
        with _opened_video(data, self.name) as reader:
            wanted = chosen(selection, reader.count, "frame")
            seconds = reader.seconds()[np.fromiter(wanted, dtype=np.int64, count=len(wanted))]
            return seconds.reshape(()) if isinstance(selection, int) else seconds

    def metadata(self, data: Buffer) -> dict[str, Any]:
        """Return duration (in units of timebase), fps and timebase (seconds)."""
        with open_container(data, self.name) as container:
            return header(container, self.name)


def header(container: InputContainer, name: str) -> dict[str, Any]:
    """Return the fields of :meth:`Video.metadata` from an open container."""
    with decoding(f"a {name} video"):
        stream = video_stream(container, name)
        duration, unit = duration_of(container, stream)
        rate = stream.guessed_rate or stream.average_rate
        return {"duration": duration, "fps": float(rate) if rate else None, "timebase": unit}


def chosen(selection: int | slice, count: int, what: str) -> range:
    """Return the numbers that an index or slice selects from ``count``.

    Raises
    ------
    IndexError
        If the index is out of range.
    """
    if isinstance(selection, slice):
        return range(*selection.indices(count))
    index = selection + count if selection < 0 else selection
    if not 0 <= index < count:
        raise IndexError(f"{what} {selection} is out of range: the file has {count}")
    return range(index, index + 1)


def video_stream(container: Any, name: str) -> VideoStream:
    """Return the video stream of a container; the first if it has several.

    Raises
    ------
    FormatError
        If the container has no video stream.
    """
    if not container.streams.video:
        raise FormatError(f"a {name} file holds no video stream")
    stream: VideoStream = container.streams.video[0]
    return stream


@contextmanager
def _opened_video(data: Buffer, name: str) -> Iterator[FrameReader]:
    with open_container(data, name) as container:
        yield FrameReader(container, name, len(data))


class FrameReader:
    """A demuxed video, or a part of one: its packets and the presentation times of their frames.

    Parameters
    ----------
    size
        Bytes of the file.
    packets
        The packets to decode, the first of them a key frame; None demuxes all.
    """

    def __init__(
        self, container: InputContainer, name: str, size: int, packets: Packets | None = None
    ) -> None:
        from av.video.reformatter import VideoReformatter

        self._stream = video_stream(container, name)
        self._size = size
        # PyAV 19 keeps that of `frame.to_ndarray` for each thread; a forked child waits for its threads in vain.
        self._reformatter = VideoReformatter()
        with decoding(f"a {name} video"):
            width, height = self._stream.codec_context.width, self._stream.codec_context.height
        self.what = f"a {name} video of {width} x {height} pixels"
        self._check_frame(width, height)
        self._packets = packets or Packets.of(container, self._stream, self.what)
        self.count = self._packets.shown
        self.shape = (self.count, height, width, 3)

    def _check_frame(self, width: int, height: int) -> None:
        if width <= 0 or height <= 0:
            raise FormatError(f"{self.what} has no pixels")
        limits.check("MAX_IMAGE_PIXELS", width * height, self.what)
        # The limit holds for each frame: a static scene may have any compression ratio, a single frame may not.
        limits.check_sample((height, width, 3), 1, self.what, stored=self._size)

    def _times(self) -> NDArray[np.int64] | None:
        """Return presentation times of the shown packets in decoding order; None if the container lacks them."""
        times = [packet.pts for packet in self._packets.items if not packet.is_discard]
        if any(time is None for time in times) or len(set(times)) != len(times):
            return None
        return np.array(times, dtype=np.int64)

    def seconds(self) -> NDArray[np.float32]:
        """Return presentation times in seconds, in order."""
        times = self._times()
        if times is None:
            found = [frame.pts for frame in self._frames(0)]
            times = np.array([0 if pts is None else pts for pts in found], dtype=np.int64)[: self.count]
            times = np.concatenate([times, np.zeros(self.count - len(times), dtype=np.int64)])
        unit = self._stream.time_base
        return (np.sort(times) * (float(unit) if unit is not None else 0.0)).astype(np.float32)

    def fill(self, wanted: Sequence[int], out: NDArray[np.uint8]) -> None:
        """Decode frames, numbered in the order of presentation, into ``out[0], out[1], ...``."""
        if self.fill_by_time(wanted, out):
            return
        # Seeking by time is not possible: decode from the first frame and count.
        places = {number: place for place, number in enumerate(wanted)}
        for number, frame in enumerate(self._frames(0)):
            if number in places:
                self._put(frame, out[places.pop(number)])
            if not places:
                return
        raise SampleDecompressionError(
            f"{self.what} should have {self.count} frames; {len(places)} of {len(wanted)} frames do not decode"
        )

    def fill_by_time(self, wanted: Sequence[int], out: NDArray[np.uint8]) -> bool:
        """Decode frames as :meth:`fill` does, finding them by their times; return False if some are not found."""
        if len(wanted) == 0:
            return True
        if len(wanted) * out.shape[1] * out.shape[2] >= _THREADED_PIXELS:
            self._stream.thread_type = "AUTO"
        times = self._times()
        if times is None:
            return False
        order = np.sort(times)
        places = {int(order[number]): place for place, number in enumerate(wanted)}
        for start, goal in self._runs(sorted(places)):
            for frame in self._frames(start):
                if frame.pts in places:
                    self._put(frame, out[places.pop(frame.pts)])
                if frame.pts is not None and frame.pts >= goal:
                    break
        return not places

    def _runs(self, times: list[int]) -> list[tuple[int, int]]:
        """Return the runs (first packet, last time) to decode for frames with the given ascending times."""
        items = self._packets.items
        index = {packet.pts: at for at, packet in enumerate(items)}
        keys = sorted((p.pts, at) for at, p in enumerate(items) if p.is_keyframe and p.pts is not None)
        runs: list[tuple[int, int]] = []
        reached = -1
        for time in times:
            before = bisect_right(keys, (time, len(items)))
            start = keys[before - 1][1] if before else 0
            if runs and start <= reached + 1:
                runs[-1] = (runs[-1][0], time)
            else:
                runs.append((start, time))
            reached = max(reached, index[time])
        return runs

    def _frames(self, start: int) -> Iterator[VideoFrame]:
        """Decode from a packet on; unless it is the first packet, it must be a key frame."""
        return frames(self._stream, self._packets.items[start:], self.what)

    def _put(self, frame: VideoFrame, out: NDArray[np.uint8]) -> None:
        height, width = out.shape[:2]
        if (frame.width, frame.height) != (width, height):
            self._check_frame(frame.width, frame.height)
        with decoding(self.what):
            out[...] = self._reformatter.reformat(frame, width, height, "rgb24").to_ndarray()
