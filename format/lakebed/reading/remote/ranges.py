"""Ranges and whole chunks over a network: each is requested once, even if several threads wait for it.

A request under way is a `PendingRead`. It stays registered until all waiting callers have the data; a prefetched
request stays until the reader has passed its rows. Locks are held during look-ups, never during a request.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from lakebed import config
from lakebed.documents.layouts import sample_sum
from lakebed.documents.manifest import BLOCK
from lakebed.reading.open_chunk import ByteRange
from lakebed.reading.remote.tasks import LazyFuture, submit
from lakebed.runtime.failures import OnFailure

if TYPE_CHECKING:
    from lakebed.chunks.chunk import Chunk
    from lakebed.documents.layouts import Layout
    from lakebed.reading.chunk_cache import ChunkCache
    from lakebed.reading.chunk_files import ChunkFiles
    from lakebed.reading.open_chunk import OpenChunk

T = TypeVar("T")
Parse = Callable[[memoryview], "Chunk"]

# Assumed size of files whose size is unknown.
_LIKELY = 8 << 20
# Ranges of more bytes are split into parts that are read at the same time.
_PARTS_ABOVE = 32 << 20
# Maximum number of tensors that are read ahead because their rows are read in sequence; beyond it, the oldest
# read-ahead ends.
_MOST_PREFETCHES = 16
# Blocks from larger ranges are copied before they are kept, because a kept block would hold its whole range in
# memory.
_COPIED_ABOVE = 4 * BLOCK

# Number of recent requests whose durations are kept, and minimum number of them for computing a usual duration.
_REMEMBERED = 256
_ENOUGH = 32
_USUAL = 0.95
_TIMES = 2.0
# Only requests that take more seconds can count as slow; shorter delays may come from the local machine.
_LEAST = 0.1
_MOST_PART = 1 / 30


class Owner(Protocol):
    """A prefetch that made requests."""

    def taken(self, read: PendingRead, *, waited: bool, is_last: bool) -> None:
        """Record that a reader has taken the data; ``is_last`` if no other reader will need it."""

    def close(self) -> None:
        """Stop reading ahead."""


class PendingRead:
    """A request under way for a range of a chunk file, or all of it.

    Parameters
    ----------
    tasks
        The requests: one, or one for each part of a large range.
    room
        Buffer for the parts; None for a single request.

    Attributes
    ----------
    owner, stream, window
        The prefetch that made the request (a weak reference), the number of the tensor, and the number of the window.
    """

    __slots__ = ("_chunk", "_mutex", "_room", "is_whole", "key", "owner", "span", "stream", "tasks", "window")

    def __init__(
        self,
        key: str,
        span: ByteRange,
        tasks: list[LazyFuture[memoryview]],
        room: bytearray | None,
        *,
        is_whole: bool,
    ) -> None:
        self.key = key
        self.span = span
        self.tasks = tasks
        self.is_whole = is_whole
        self.owner: weakref.ref[Owner] | None = None
        self.stream = self.window = 0
        self._room = room
        self._chunk: Chunk | None = None
        self._mutex = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Number of bytes this request will fetch; a guess if the size of the file is unknown."""
        return self.span.size or _LIKELY

    @property
    def is_done(self) -> bool:
        """Return whether the data is available without waiting."""
        return all(task.is_done for task in self.tasks)

    def data(self) -> memoryview:
        """Return the verified bytes, waiting for them; errors as in :meth:`ChunkFiles.fetched`."""
        if self._room is None:
            return self.tasks[0].result()
        for task in self.tasks:
            task.run()
        for task in self.tasks:
            task.result()
        return memoryview(self._room).toreadonly()

    def chunk(self, parse: Parse) -> Chunk:
        """Return the whole chunk, parsed once for all threads that wait."""
        data = self.data()
        with self._mutex:
            if self._chunk is None:
                self._chunk = parse(data)
            return self._chunk


class Hedging:
    """Policy for repeating slow requests, without threads, clocks or requests of its own.

    A few of many requests take many times as long as the others, and repeating them is faster than waiting. A request
    is repeated once it takes twice as long as nearly all recent ones, but at most one request in thirty: a store that
    is slow as a whole, such as an overloaded one, must not get more requests.

    Attributes
    ----------
    hedged
        Number of repeated requests.
    """

    def __init__(self) -> None:
        self.hedged = 0
        self._answered = 0
        self._recent: deque[float] = deque(maxlen=_REMEMBERED)
        self._limit = float("inf")

    def answered(self, seconds: float) -> None:
        """Record how long a request took, repeated or not."""
        self._answered += 1
        self._recent.append(seconds)
        if self._answered >= _ENOUGH and self._answered % (_ENOUGH // 2) == 0:
            usual = sorted(self._recent)[int(_USUAL * (len(self._recent) - 1))]
            self._limit = max(_LEAST, _TIMES * usual)

    def hedge(self, seconds: float) -> bool:
        """Decide whether to repeat a request that has taken ``seconds`` so far, and count it if so."""
        if seconds <= self._limit or self.hedged >= _MOST_PART * self._answered:
            return False
        self.hedged += 1
        return True


class RemoteRanges:
    """Reads chunk files of one dataset over a network.

    Parameters
    ----------
    mutex
        The source's lock, which also guards the cache.

    Attributes
    ----------
    prefetched_bytes
        Prefetched bytes that were not used yet.
    hedging
        Decides which requests of loaders are repeated.
    hits
        Reads of single samples that found their data in memory.
    """

    def __init__(self, files: ChunkFiles, cache: ChunkCache, mutex: threading.RLock) -> None:
        self._files = files
        self._cache = cache
        self.mutex = mutex
        self._reads: dict[str, list[PendingRead]] = {}
        self._prefetches: deque[weakref.ref[Owner]] = deque()
        self.prefetched_bytes = 0
        self.hedging = Hedging()
        self.hits = 0
        self._local = threading.local()

    def clear(self) -> None:
        """Forget requests under way: later calls do not get their data."""
        with self.mutex:
            prefetches, self._prefetches = list(self._prefetches), deque()
            self._reads.clear()
            self.prefetched_bytes = 0
        _close(prefetches)

    def follow(self, prefetch: Owner) -> None:
        """Register a prefetch; the oldest prefetch is closed if there are too many."""
        with self.mutex:
            self._prefetches.append(weakref.ref(prefetch))
            too_many = [self._prefetches.popleft() for _ in range(len(self._prefetches) - _MOST_PREFETCHES)]
        _close(too_many)

    @contextlib.contextmanager
    def anew(self) -> Iterator[None]:
        """Let this thread send new requests inside the block, even for data that is already under way."""
        self._local.is_anew = True
        try:
            yield
        finally:
            self._local.is_anew = False

    def _known(self, key: str) -> Sequence[PendingRead]:
        return () if getattr(self._local, "is_anew", False) else self._reads.get(key, ())

    # -- reading ---------------------------------------------------------------------------------------------------

    def range(self, chunk: OpenChunk, start: int, length: int) -> memoryview:
        """Return a range of a file; read its blocks with one request unless they are in memory or under way."""
        stop = start + length
        wanted = range(start // BLOCK, (stop - 1) // BLOCK + 1)
        with self.mutex:
            here = {block: chunk.blocks[block] for block in wanted if block in chunk.blocks}
            missing = [block for block in wanted if block not in here]
            if not missing:
                return _cut(here, start, stop)
            span = chunk.blocks_of(missing[0] * BLOCK, (missing[-1] + 1) * BLOCK)
            read = self._covering(chunk, span, of_blocks=True) or self._begin(chunk, span, is_whole=False)
        data = self._taken(read, PendingRead.data)
        first = read.span.start
        if first <= start and stop <= read.span.stop:
            return data[start - first : stop - first]
        here |= {block: data[block * BLOCK - first : (block + 1) * BLOCK - first] for block in missing}
        return _cut(here, start, stop)

    def samples(self, chunk: OpenChunk, layout: Layout, first: int, stop: int) -> memoryview:
        """Return the bytes of neighbouring samples with one request for exactly these bytes; verify each sample."""
        span = ByteRange(*layout.span(first, stop))
        with self.mutex:
            kept = chunk.blocks.get(~first) if stop - first == 1 else None
            if kept is not None:
                self.hits += 1
                return kept
            read = self._covering(chunk, span) or self._begin(chunk, span, is_whole=False)
        data = self._taken(read, PendingRead.data)[span.start - read.span.start :][: span.size]
        bad = _first_bad(layout, first, stop, data)
        if bad is not None:
            self.drop(read)  # the next reader sends a new request
        if bad is not None and self._files.has_cache:
            data = self._files.again(chunk, span.start, span.stop)
            bad = _first_bad(layout, first, stop, data)
        if bad is not None:
            raise self._files.damaged(chunk.key, ByteRange(*layout.span(bad, bad + 1)))
        if stop - first == 1:
            with self.mutex:
                self._cache.keep_block(chunk, ~first, data if read.span == span else memoryview(bytes(data)))
                self._cache.evict()
        return data

    def whole(self, chunk: OpenChunk, parse: Parse, *, is_last: bool) -> Chunk:
        """Return a whole parsed chunk; ``is_last`` if it was prefetched and no other reader will need it."""
        return self._taken(self._whole(chunk), lambda read: read.chunk(parse), is_last=is_last)

    def file(self, chunk: OpenChunk) -> memoryview:
        """Return a whole chunk file."""
        return self._taken(self._whole(chunk), PendingRead.data)

    def is_coming(self, key: str) -> bool:
        """Return whether a whole chunk is under way, or was read ahead."""
        return any(read.is_whole for read in self._reads.get(key, ()))

    def is_ranged(self, key: str) -> bool:
        """Return whether ranges of a chunk were prefetched because the ranges cost less than the whole chunk."""
        return any(read.owner is not None and not read.is_whole for read in self._reads.get(key, ()))

    def _whole(self, chunk: OpenChunk) -> PendingRead:
        with self.mutex:
            for read in self._known(chunk.key):
                if read.is_whole:
                    return read
            return self._begin(chunk, ByteRange(0, chunk.size), is_whole=True)

    def _covering(self, chunk: OpenChunk, span: ByteRange, *, of_blocks: bool = False) -> PendingRead | None:
        """Return a request under way that covers a range; ``of_blocks`` requires one that is verified by blocks."""
        for read in self._known(chunk.key):
            holds = read.span.start <= span.start and span.stop <= read.span.stop
            if holds and (not of_blocks or chunk.is_blocks(read.span)):
                return read
        return None

    def _taken(self, read: PendingRead, use: Callable[[PendingRead], T], *, is_last: bool = False) -> T:
        """Return a read's result: wait for it, or run it now. Then forget the read, unless a prefetch owns it."""
        owner = None if read.owner is None else read.owner()
        waited = not read.is_done
        for task in read.tasks[1:] if owner is None else ():
            submit(task)
        with OnFailure(self.drop, read):  # the next reader sends a new request
            found = use(read)
        if owner is None:
            self.drop(read)
        else:
            owner.taken(read, waited=waited, is_last=is_last)
        return found

    # -- requests --------------------------------------------------------------------------------------------------

    def launch(
        self, chunk: OpenChunk, span: ByteRange, owner: Owner, stream: int, window: int
    ) -> PendingRead | None:
        """Return a new request of a prefetch; None if the data is here or under way."""
        with self.mutex:
            if chunk.key in self._cache or self.is_coming(chunk.key):
                return None
            is_whole = span.size == chunk.size
            if not is_whole:
                blocks = range(span.start // BLOCK, -(-span.stop // BLOCK))
                if all(n in chunk.blocks for n in blocks) or self._covering(chunk, span) is not None:
                    return None
            read = self._begin(chunk, span, is_whole=is_whole)
            read.owner, read.stream, read.window = weakref.ref(owner), stream, window
            self.prefetched_bytes += read.nbytes
            return read

    def drop(self, read: PendingRead) -> None:
        """Forget a request; if it has not begun, it is never sent."""
        with self.mutex:
            known = self._reads.get(read.key, [])
            if read in known:
                known.remove(read)
                if not known:
                    del self._reads[read.key]
                if read.owner is not None:
                    self.prefetched_bytes -= read.nbytes
        for task in read.tasks:
            task.is_dropped = True

    def _begin(self, chunk: OpenChunk, span: ByteRange, *, is_whole: bool) -> PendingRead:
        """Register a request; the first caller that needs the data sends it."""
        room = None
        if span.size > _PARTS_ABOVE:
            room = bytearray(span.size)
            size = -(-config.PART_BYTES // BLOCK) * BLOCK
            parts = [ByteRange(at, min(at + size, span.stop)) for at in range(span.start, span.stop, size)]
            tasks = [
                LazyFuture(partial(self._fill, chunk, part, memoryview(room)[part.start - span.start :]))
                for part in parts
            ]
        elif is_whole:
            tasks = [LazyFuture(partial(self._files.fetched, chunk, 0, 0))]
        else:
            tasks = [LazyFuture(partial(self._fetch, chunk, span))]
        read = PendingRead(chunk.key, span, tasks, room, is_whole=is_whole)
        self._reads.setdefault(chunk.key, []).append(read)
        return read

    def _fetch(self, chunk: OpenChunk, span: ByteRange) -> memoryview:
        if not chunk.is_blocks(span):
            return self._files.raw(chunk, span.start, span.stop)
        data = self._files.fetched(chunk, span.start, span.stop)
        with self.mutex:
            for at in range(0, span.size, BLOCK):
                block = data[at : at + BLOCK]
                kept = memoryview(bytes(block)) if span.size > _COPIED_ABOVE else block
                self._cache.keep_block(chunk, (span.start + at) // BLOCK, kept)
            self._cache.evict()
        return data

    def _fill(self, chunk: OpenChunk, part: ByteRange, room: memoryview) -> memoryview:
        read = self._files.fetched if chunk.is_blocks(part) else self._files.raw
        room[: part.size] = read(chunk, part.start, part.stop)
        return room


def _close(prefetches: Iterable[weakref.ref[Owner]]) -> None:
    for prefetch in prefetches:
        owner = prefetch()
        if owner is not None:
            owner.close()


def _first_bad(layout: Layout, first: int, stop: int, data: memoryview) -> int | None:
    """Return the number of the first sample with a wrong checksum."""
    begin = layout.starts[first]
    for sample in range(first, stop):
        start, end = layout.span(sample, sample + 1)
        if layout.sums is None or sample_sum(data[start - begin : end - begin]) != int(layout.sums[sample]):
            return sample
    return None


def _cut(blocks: dict[int, memoryview], start: int, stop: int) -> memoryview:
    """Cut a range of a file out of neighbouring blocks in memory."""
    first = min(blocks)
    offset = start - first * BLOCK
    whole = blocks[first] if len(blocks) == 1 else memoryview(b"".join(blocks[n] for n in sorted(blocks)))
    return whole[offset : offset + stop - start]
