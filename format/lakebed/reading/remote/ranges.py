"""Ranges and whole chunks over a network: asked for once however many wait, at the same time for all who ask.

What is on its way is a `Flight`. It stays known until those who wait have it; what was read ahead, until the reader
has passed it. Locks are held to look things up, never during a request.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakebed import config
from lakebed.documents.layouts import sample_sum
from lakebed.documents.manifest import BLOCK
from lakebed.reading.open_chunk import Span
from lakebed.reading.remote.tasks import Errand, submit

if TYPE_CHECKING:
    from lakebed.chunks.chunk import Chunk
    from lakebed.documents.layouts import Layout
    from lakebed.reading.chunk_cache import ChunkCache
    from lakebed.reading.chunk_files import ChunkFiles
    from lakebed.reading.open_chunk import OpenChunk

T = TypeVar("T")
Parse = Callable[[memoryview], "Chunk"]

# Files of unknown size are taken to have so many bytes.
_LIKELY = 8 << 20
# Larger ranges are read in parts, at the same time.
_PARTS_ABOVE = 32 << 20
# Tensors that are read ahead because their rows are read one after the other: the one that began first gives way.
_MOST_STREAMS = 16
# Blocks of larger ranges are kept as copies, or the last one would keep all of them in memory.
_COPIED_ABOVE = 4 * BLOCK


class Owner(Protocol):
    """Whoever had something read ahead."""

    def taken(self, flight: Flight, *, waited: bool, is_last: bool) -> None:
        """Hear that somebody has it; ``is_last`` if nobody else will want it."""

    def close(self) -> None:
        """Have nothing read ahead any more."""


class Flight:
    """A range of a chunk file, or all of it, on its way.

    Parameters
    ----------
    errands
        The requests: one, or one for each part of a large range.
    room
        Where the parts go; None where there is one request.

    Attributes
    ----------
    owner, lane, window
        Who had it read ahead (who does not live by it), for which tensor, and where in its order.
    """

    __slots__ = ("_chunk", "_mutex", "_room", "errands", "is_whole", "key", "lane", "owner", "span", "window")

    def __init__(
        self,
        key: str,
        span: Span,
        errands: list[Errand[memoryview]],
        room: bytearray | None,
        *,
        is_whole: bool,
    ) -> None:
        self.key = key
        self.span = span
        self.errands = errands
        self.is_whole = is_whole
        self.owner: weakref.ref[Owner] | None = None
        self.lane = self.window = 0
        self._room = room
        self._chunk: Chunk | None = None
        self._mutex = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes that it brings; a guess where the size of the file is not known."""
        return self.span.size or _LIKELY

    @property
    def is_done(self) -> bool:
        """Whether nobody would have to wait for it."""
        return all(errand.is_done for errand in self.errands)

    def data(self) -> memoryview:
        """Return the verified bytes, waiting for them; errors as in :meth:`ChunkFiles.fetched`."""
        if self._room is None:
            return self.errands[0].result()
        for errand in self.errands:
            errand.run()
        for errand in self.errands:
            errand.result()
        return memoryview(self._room).toreadonly()

    def chunk(self, parse: Parse) -> Chunk:
        """Return the whole chunk, parsed once for all who wait."""
        data = self.data()
        with self._mutex:
            if self._chunk is None:
                self._chunk = parse(data)
            return self._chunk


class FarRanges:
    """Reads chunk files of one dataset over a network.

    Parameters
    ----------
    mutex
        The source's lock, which also guards the cache.

    Attributes
    ----------
    ahead_bytes
        Bytes that were asked for ahead, and not used yet.
    """

    def __init__(self, files: ChunkFiles, cache: ChunkCache, mutex: threading.RLock) -> None:
        self._files = files
        self._cache = cache
        self.mutex = mutex
        self._flights: dict[str, list[Flight]] = {}
        self._streams: deque[weakref.ref[Owner]] = deque()
        self.ahead_bytes = 0

    def clear(self) -> None:
        """Forget what is on its way: nobody who asks from now on gets it."""
        with self.mutex:
            streams, self._streams = list(self._streams), deque()
            self._flights.clear()
            self.ahead_bytes = 0
        _close(streams)

    def follow(self, stream: Owner) -> None:
        """Let somebody read ahead until others have begun to after him."""
        with self.mutex:
            self._streams.append(weakref.ref(stream))
            too_many = [self._streams.popleft() for _ in range(len(self._streams) - _MOST_STREAMS)]
        _close(too_many)

    # -- reading ---------------------------------------------------------------------------------------------------

    def range(self, chunk: OpenChunk, start: int, length: int) -> memoryview:
        """Return a range of a file: its blocks are read with one request unless they are here or on their way."""
        stop = start + length
        wanted = range(start // BLOCK, (stop - 1) // BLOCK + 1)
        with self.mutex:
            here = {block: chunk.blocks[block] for block in wanted if block in chunk.blocks}
            missing = [block for block in wanted if block not in here]
            if not missing:
                return _cut(here, start, stop)
            span = chunk.blocks_of(missing[0] * BLOCK, (missing[-1] + 1) * BLOCK)
            flight = self._covering(chunk, span, of_blocks=True) or self._begin(chunk, span, is_whole=False)
        data = self._taken(flight, Flight.data)
        first = flight.span.start
        if first <= start and stop <= flight.span.stop:
            return data[start - first : stop - first]
        here |= {block: data[block * BLOCK - first : (block + 1) * BLOCK - first] for block in missing}
        return _cut(here, start, stop)

    def samples(self, chunk: OpenChunk, layout: Layout, first: int, stop: int) -> memoryview:
        """Return the bytes of neighbouring samples, each held against its checksum, with one request for just them."""
        span = Span(*layout.span(first, stop))
        with self.mutex:
            kept = chunk.blocks.get(~first) if stop - first == 1 else None
            if kept is not None:
                return kept
            flight = self._covering(chunk, span) or self._begin(chunk, span, is_whole=False)
        data = self._taken(flight, Flight.data)[span.start - flight.span.start :][: span.size]
        bad = _first_bad(layout, first, stop, data)
        if bad is not None:
            self.drop(flight)  # who reads it again asks again
        if bad is not None and self._files.has_cache:
            data = self._files.again(chunk, span.start, span.stop)
            bad = _first_bad(layout, first, stop, data)
        if bad is not None:
            raise self._files.damaged(chunk.key, Span(*layout.span(bad, bad + 1)))
        if stop - first == 1:
            with self.mutex:
                self._cache.keep_block(
                    chunk, ~first, data if flight.span == span else memoryview(bytes(data))
                )
                self._cache.settle()
        return data

    def whole(self, chunk: OpenChunk, parse: Parse, *, is_last: bool) -> Chunk:
        """Return a whole chunk, parsed; ``is_last`` if nobody else will want it who has it read ahead."""
        return self._taken(self._whole(chunk), lambda flight: flight.chunk(parse), is_last=is_last)

    def file(self, chunk: OpenChunk) -> memoryview:
        """Return a whole chunk file."""
        return self._taken(self._whole(chunk), Flight.data)

    def is_coming(self, key: str) -> bool:
        """Whether a whole chunk is on its way, or was read ahead and is here."""
        return any(flight.is_whole for flight in self._flights.get(key, ()))

    def is_ranged(self, key: str) -> bool:
        """Whether ranges of a chunk were asked for ahead: whoever knew which samples are wanted found them cheaper."""
        return any(flight.owner is not None and not flight.is_whole for flight in self._flights.get(key, ()))

    def _whole(self, chunk: OpenChunk) -> Flight:
        with self.mutex:
            for flight in self._flights.get(chunk.key, ()):
                if flight.is_whole:
                    return flight
            return self._begin(chunk, Span(0, chunk.size), is_whole=True)

    def _covering(self, chunk: OpenChunk, span: Span, *, of_blocks: bool = False) -> Flight | None:
        """Return a request that brings a range; ``of_blocks`` if it must have been verified by blocks."""
        for flight in self._flights.get(chunk.key, ()):
            holds = flight.span.start <= span.start and span.stop <= flight.span.stop
            if holds and (not of_blocks or chunk.is_blocks(flight.span)):
                return flight
        return None

    def _taken(self, flight: Flight, use: Callable[[Flight], T], *, is_last: bool = False) -> T:
        """Wait for a request, or make it; what nobody had read ahead is forgotten then."""
        owner = None if flight.owner is None else flight.owner()
        waited = not flight.is_done
        for errand in flight.errands[1:] if owner is None else ():
            submit(errand)
        try:
            found = use(flight)
        except BaseException:
            self.drop(flight)  # who reads it again asks again
            raise
        if owner is None:
            self.drop(flight)
        else:
            owner.taken(flight, waited=waited, is_last=is_last)
        return found

    # -- requests --------------------------------------------------------------------------------------------------

    def launch(self, chunk: OpenChunk, span: Span, owner: Owner, lane: int, window: int) -> Flight | None:
        """Return a new request for what is wanted ahead; None if that is here or on its way."""
        with self.mutex:
            if chunk.key in self._cache or self.is_coming(chunk.key):
                return None
            is_whole = span.size == chunk.size
            if not is_whole:
                blocks = range(span.start // BLOCK, -(-span.stop // BLOCK))
                if all(n in chunk.blocks for n in blocks) or self._covering(chunk, span) is not None:
                    return None
            flight = self._begin(chunk, span, is_whole=is_whole)
            flight.owner, flight.lane, flight.window = weakref.ref(owner), lane, window
            self.ahead_bytes += flight.nbytes
            return flight

    def drop(self, flight: Flight) -> None:
        """Forget a request; if it was not begun, no thread will."""
        with self.mutex:
            known = self._flights.get(flight.key, [])
            if flight in known:
                known.remove(flight)
                if not known:
                    del self._flights[flight.key]
                if flight.owner is not None:
                    self.ahead_bytes -= flight.nbytes
        for errand in flight.errands:
            errand.is_dropped = True

    def _begin(self, chunk: OpenChunk, span: Span, *, is_whole: bool) -> Flight:
        """Note a request, which the first one makes who needs it."""
        room = None
        if span.size > _PARTS_ABOVE:
            room = bytearray(span.size)
            size = -(-config.PART_BYTES // BLOCK) * BLOCK
            parts = [Span(at, min(at + size, span.stop)) for at in range(span.start, span.stop, size)]
            errands = [
                Errand(partial(self._fill, chunk, part, memoryview(room)[part.start - span.start :]))
                for part in parts
            ]
        elif is_whole:
            errands = [Errand(partial(self._files.fetched, chunk, 0, 0))]
        else:
            errands = [Errand(partial(self._fetch, chunk, span))]
        flight = Flight(chunk.key, span, errands, room, is_whole=is_whole)
        self._flights.setdefault(chunk.key, []).append(flight)
        return flight

    def _fetch(self, chunk: OpenChunk, span: Span) -> memoryview:
        if not chunk.is_blocks(span):
            return self._files.raw(chunk, span.start, span.stop)
        data = self._files.fetched(chunk, span.start, span.stop)
        with self.mutex:
            for at in range(0, span.size, BLOCK):
                block = data[at : at + BLOCK]
                kept = memoryview(bytes(block)) if span.size > _COPIED_ABOVE else block
                self._cache.keep_block(chunk, (span.start + at) // BLOCK, kept)
            self._cache.settle()
        return data

    def _fill(self, chunk: OpenChunk, part: Span, room: memoryview) -> memoryview:
        read = self._files.fetched if chunk.is_blocks(part) else self._files.raw
        room[: part.size] = read(chunk, part.start, part.stop)
        return room


def _close(streams: Iterable[weakref.ref[Owner]]) -> None:
    for stream in streams:
        owner = stream()
        if owner is not None:
            owner.close()


def _first_bad(layout: Layout, first: int, stop: int, data: memoryview) -> int | None:
    """Return the first of neighbouring samples whose bytes are not those that were written."""
    begin = layout.starts[first]
    for sample in range(first, stop):
        start, end = layout.span(sample, sample + 1)
        if layout.sums is None or sample_sum(data[start - begin : end - begin]) != int(layout.sums[sample]):
            return sample
    return None


def _cut(blocks: dict[int, memoryview], start: int, stop: int) -> memoryview:
    """Return a range of a file of which neighbouring blocks are here."""
    first = min(blocks)
    offset = start - first * BLOCK
    whole = blocks[first] if len(blocks) == 1 else memoryview(b"".join(blocks[n] for n in sorted(blocks)))
    return whole[offset : offset + stop - start]
