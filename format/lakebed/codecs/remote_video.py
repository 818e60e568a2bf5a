"""Videos that are not in memory: only the container's index and the requested segments are fetched.

A segment is a key frame and its followers up to the next key frame. The index of an mp4 or avi file lists the place,
the decoding time and the kind of each packet; frames decoded before a key frame are shown before the key frame and all
frames decoded after it. So the number of the first frame of a segment is known without reading earlier ones.
Presentation times in a segment are in its packets, which are read from its key frame on as far as necessary.

mkv files, fragmented mp4 files, and others whose index does not list each frame, are fetched as a whole.
"""

from __future__ import annotations

from bisect import insort
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed import limits
from lakebed.codecs.base import FileFacts
from lakebed.codecs.container import Packets, decoding, open_container
from lakebed.codecs.video import FrameReader, Video, chosen, header, video_stream
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from av.container import InputContainer
    from av.packet import Packet
    from numpy.typing import NDArray

    from lakebed.codecs.base import Elsewhere

# Maximum number of frames that a decoder holds back to deliver frames in the order of presentation.
_REORDERED = 17


@dataclass(frozen=True, slots=True)
class RemoteVideo:
    """Codec of video files of one container format that are not in memory.

    Parameters
    ----------
    name
        Name of the compression.
    """

    name: str

    def described(self, file: Elsewhere) -> tuple[FileFacts, dict[str, Any]]:
        """Return shape and dtype, and the fields of :meth:`Video.metadata`.

        Raises
        ------
        FormatError, LimitError
            If the data is not a video, or a larger one than this process allows.
        """
        with open_container(file, self.name) as container:
            segments = _Segments.of(container, self.name, file)
            if segments is not None:
                return FileFacts(segments.shape, "uint8"), header(container, self.name)
        video, data = Video(self.name), file.whole()
        return video.facts(data), video.metadata(data)

    def decode(self, file: Elsewhere) -> NDArray[Any]:
        """Decode all frames: uint8, shape (frames, height, width, 3)."""
        return Video(self.name).decode(file.whole())

    def part(self, file: Elsewhere, selection: int | slice) -> NDArray[Any]:
        """Decode one frame, (height, width, 3), or the frames of a slice in its order.

        Raises
        ------
        IndexError
            If the frame does not exist.
        FormatError, LimitError
            If the data is damaged, or decodes to more than this process allows.
        """
        found = self.segment(file, selection)
        return Video(self.name).part(file.whole(), selection) if found is None else found

    def segment(
        self, file: Elsewhere, selection: int | slice, shape: tuple[int, ...] | None = None
    ) -> NDArray[Any] | None:
        """Decode as :meth:`part` does; None if that takes the whole file.

        Parameters
        ----------
        shape
            Recorded shape of the file; None if there is no record.

        Raises
        ------
        FormatError
            If the file has another shape.
        """
        with self._segments(file) as segments:
            if segments is None:
                return None
            if shape is not None and segments.shape != shape:
                raise FormatError(
                    f"a {self.name} file holds an array of shape {segments.shape}, but its chunk says {shape}"
                )
            return segments.frames(selection)

    def timestamps(self, file: Elsewhere, selection: int | slice) -> NDArray[np.float32]:
        """Return presentation times in seconds: float32, shape (frames,), or () for one frame; see :meth:`part`."""
        with self._segments(file) as segments:
            found = None if segments is None else segments.seconds(selection)
        return Video(self.name).timestamps(file.whole(), selection) if found is None else found

    @contextmanager
    def _segments(self, file: Elsewhere) -> Iterator[_Segments | None]:
        with open_container(file, self.name) as container:
            yield _Segments.of(container, self.name, file)


class _Segments:
    """A container whose index lists every frame.

    Parameters
    ----------
    index
        For each packet in decoding order: decoding time, offset and size in the file, whether it is a key frame,
        whether its frame is not shown.
    """

    def __init__(
        self, container: InputContainer, name: str, file: Elsewhere, index: tuple[NDArray[np.int64], ...]
    ) -> None:
        self._container, self._name, self._file = container, name, file
        self._times, self._starts, sizes, keys, discards = index
        self._ends = self._starts + sizes
        self._keys = np.flatnonzero(keys)
        self._shown = np.concatenate([[0], np.cumsum(discards == 0)])
        self._stream = video_stream(container, name)
        self.count = int(self._shown[-1])
        reader = FrameReader(container, name, len(file), Packets([], self.count))
        self.shape, self._what = reader.shape, reader.what

    @classmethod
    def of(cls, container: InputContainer, name: str, file: Elsewhere) -> _Segments | None:
        """Read the index; None if it does not list every frame."""
        stream = video_stream(container, name)
        with decoding(f"a {name} video"):
            entries = getattr(stream, "index_entries", ())  # missing in older releases of PyAV
            if not len(entries) or len(entries) != stream.frames:
                return None
            limits.check("MAX_MEDIA_FRAMES", len(entries), f"a {name} video")
            table = np.array(
                [(e.timestamp, e.pos, e.size, e.is_keyframe, e.is_discard) for e in entries], dtype=np.int64
            )
        times, _, sizes, keys, _ = table.T
        if not keys[0] or not sizes.all() or (np.diff(times) <= 0).any():
            return None
        from av.stream import Discard

        for other in container.streams:
            if other.index != stream.index:
                other.discard = Discard.all
        return cls(container, name, file, tuple(table.T))

    def frames(self, selection: int | slice) -> NDArray[np.uint8] | None:
        """Decode frames; None if the index proves wrong."""
        wanted = chosen(selection, self.count, "frame")
        shape = (len(wanted), *self.shape[1:])
        limits.check_sample(shape, 1, self._what)
        out = np.empty(shape, dtype=np.uint8)
        for first, stop, reader, numbers in self._readers(wanted):
            if reader is None or not reader.fill_by_time(numbers, out[first:stop]):
                return None
        return out[0] if isinstance(selection, int) else out

    def seconds(self, selection: int | slice) -> NDArray[np.float32] | None:
        """Return presentation times; None if the index proves wrong."""
        wanted = chosen(selection, self.count, "frame")
        out = np.empty(len(wanted), dtype=np.float32)
        for first, stop, reader, numbers in self._readers(wanted):
            if reader is None:
                return None
            out[first:stop] = reader.seconds()[numbers]
        return out.reshape(()) if isinstance(selection, int) else out

    def _readers(self, wanted: range) -> Iterator[tuple[int, int, FrameReader | None, list[int]]]:
        """Yield runs of wanted frames: first and end of a run, its reader, and the numbers of its frames in the reader.

        The reader is None if the index proves wrong.
        """
        for first, stop in self._runs(wanted):
            packets, before = self._gathered(wanted[first:stop])
            reader = None
            if packets is not None:
                reader = FrameReader(self._container, self._name, len(self._file), packets)
            yield first, stop, reader, [number - before for number in wanted[first:stop]]

    def _runs(self, wanted: range) -> list[tuple[int, int]]:
        """Cut wanted frames into runs (first, stop) that lie in the same or in neighbouring segments."""
        if not wanted:
            return []
        segments = np.searchsorted(self._shown[self._keys], np.asarray(wanted), side="right")
        cuts = (np.flatnonzero(np.abs(np.diff(segments)) > 1) + 1).tolist()
        return list(zip([0, *cuts], [*cuts, len(wanted)], strict=True))

    def _gathered(self, wanted: range) -> tuple[Packets | None, int]:
        """Return the packets that some frames need, and the number of frames before these packets.

        The packets are None if the index proves wrong.
        """
        low, high = min(wanted), max(wanted)
        segment = int(np.searchsorted(self._shown[self._keys], low, side="right")) - 1
        for start in range(segment, -1, -1):
            entry = int(self._keys[start])
            before = int(self._shown[entry])
            items = self._demuxed(entry, high - before)
            if items is None:
                return None, 0
            # Frames that are shown before the key frame of their segment depend on the previous segment.
            times = [packet.pts or 0 for packet in items]
            early = sum(time < times[0] and not p.is_discard for p, time in zip(items, times, strict=True))
            if low - before >= early or start == 0:
                return Packets(items, sum(not p.is_discard for p in items)), before
        return None, 0

    def _end(self, entry: int) -> int:
        """Return the last decoding time of the segment that begins with a packet."""
        following = int(np.searchsorted(self._keys, entry, side="right"))
        return int(self._times[self._keys[following]] - 1 if following < len(self._keys) else self._times[-1])

    def _demuxed(self, entry: int, rank: int) -> list[Packet[Any]] | None:
        """Read packets from a key frame on, until the first ``rank`` + 1 frames in presentation order are certain."""
        last = min(
            len(self._times), int(np.searchsorted(self._shown, self._shown[entry] + rank)) + _REORDERED
        )
        span = slice(entry, max(last, entry + 1))
        self._file.prefetch(int(self._starts[span].min()), int(self._ends[span].max()))
        items: list[Packet[Any]] = []
        shown: list[int] = []
        with decoding(self._what):
            # FFmpeg compares the target of a seek with times of presentation, which are later than times of decoding.
            # Seek to the end of the segment to be sure to reach its beginning.
            self._container.seek(self._end(entry), stream=self._stream)
            for packet in self._container.demux(self._stream):
                if packet.size == 0 or (not items and (packet.dts or 0) < self._times[entry]):
                    continue
                at, decoded = entry + len(items), packet.dts
                if (
                    at == len(self._times)
                    or decoded is None
                    or packet.pts is None
                    or decoded != self._times[at]
                ):
                    return None
                if len(shown) > rank and shown[rank] < decoded:
                    break
                items.append(packet)
                if not packet.is_discard:
                    insort(shown, packet.pts)
        return items if len(shown) > rank and len(set(shown)) == len(shown) else None
