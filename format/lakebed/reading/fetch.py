"""Read chunks from storage, whole or in ranges; verify existing checksums; cache up to a number of bytes in memory.

Files on this machine are mapped, or read under one lock. Over a network, requests of several threads run at the same
time, data that several wait for is requested once, and `lakebed.reading.remote.prefetch` requests data before it is
needed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed import config
from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.chunks.image_chunk import ChunkCodec
from lakebed.chunks.probe import ChunkHeader, SamplePlace, probe, read_header
from lakebed.documents.layouts import Layout
from lakebed.documents.manifest import BLOCK, LARGE
from lakebed.errors import FormatError, LimitError
from lakebed.reading.buffers import BufferPool
from lakebed.reading.chunk_cache import ChunkCache
from lakebed.reading.chunk_files import ChunkFiles
from lakebed.reading.local_ranges import LocalRanges
from lakebed.reading.open_chunk import Bytes, OpenChunk, described
from lakebed.runtime import process_hooks
from lakebed.storage.base import Storage
from lakebed.storage.stores.traffic import Traffic
from lakebed.versions.chunk_table import ChunkTable

# Single samples of chunks above this size are read by range; smaller chunks are read as a whole.
RANGES_ABOVE = LARGE

_sources: weakref.WeakSet[ChunkSource] = weakref.WeakSet()


class ChunkSource:
    """Reads the chunks of one dataset.

    Parameters
    ----------
    storage
        Storage of the published chunks.
    cache_bytes
        Maximum number of bytes of chunks in memory; mapped files do not count.
    unpublished
        Chunk files that exist only in this process so far, by storage key.

    Attributes
    ----------
    heads
        Ids of the versions whose folders a Deep Lake 3.x writer may rewrite in place. Chunks elsewhere never change,
        so they are mapped instead of read where the storage can.
    remote
        Reader over a network; None if the chunks are on this machine.
    """

    def __init__(self, storage: Storage, cache_bytes: int, unpublished: Mapping[str, bytes]) -> None:
        self.heads: frozenset[str] = frozenset()
        self.pool = BufferPool()
        self._storage = storage
        self._limit = cache_bytes
        self._unpublished = unpublished
        self._begin()
        _sources.add(self)

    def _begin(self) -> None:
        """Set up the state that belongs to one process."""
        self._mutex = threading.RLock()
        self._hits = 0
        self.cache = ChunkCache(self._limit)
        self._files = ChunkFiles(self._storage, self.pool)
        self._local = LocalRanges(self._files, self.cache)
        self.remote: RemoteRanges | None = None
        if self._files.mappable is None:
            from lakebed.reading.remote.ranges import RemoteRanges

            self.remote = RemoteRanges(self._files, self.cache, self._mutex)

    def after_fork(self) -> None:
        """Reset the state in a forked child: it lacks the parent's threads, which may hold locks and make requests."""
        self.pool.begin_in_child()
        self.cache.clear()
        self._begin()

    @property
    def url(self) -> str:
        """Address of the dataset."""
        return self._files.url

    @property
    def traffic(self) -> Traffic | None:
        """Requests to the storage over a network."""
        return None if self.remote is None else self._files.traffic

    @property
    def hits(self) -> int:
        """Number of remote reads answered from memory or from a cache on this machine."""
        return 0 if self.remote is None else self._hits + self.remote.hits + self._files.hits

    def clear(self) -> None:
        """Forget all cached data and all requests under way."""
        with self._mutex:
            self.cache.clear()
            self._local.clear()
        if self.remote is not None:
            self.remote.clear()

    def is_here(self, key: str) -> bool:
        """Return whether a whole chunk is in memory."""
        return key in self.cache or key in self._unpublished

    def place_on_disk(self, table: ChunkTable, row: int, inside: int) -> SamplePlace | None:
        """Look up the place of a sample in its chunk file, for messages; None for remote chunks.

        Raises
        ------
        GetChunkError, FormatError
            If the chunk is missing, or its header is damaged.
        """
        key = table.key(row)
        if self.remote is not None or key in self._unpublished:
            return None
        return probe(partial(self._files.range, key), self._files.size(key), table.samples(row), inside)

    # -- single samples --------------------------------------------------------------------------------------

    def by_range(self, table: ChunkTable, row: int, key: str | None = None) -> OpenChunk | None:
        """Return the chunk of a row for reading single samples, or None if it is better read as a whole.

        Parameters
        ----------
        key
            Storage key of the chunk, if the caller knows it.
        """
        key = key or table.key(row)
        with self._mutex:
            remote = self.remote
            if remote is not None and (key in self.cache or remote.is_coming(key)):
                return None
            found = self.cache.opened(key)
            if found is not None:
                return found
            size = table.size(row)
            if 0 < size <= RANGES_ABOVE or self.is_here(key):
                return None
        size = size or self._files.size(key)
        return None if size <= RANGES_ABOVE else self._opened(table, row, size, key)

    def sample(self, table: ChunkTable, row: int, inside: int, chunk: OpenChunk) -> tuple[Bytes, SamplePlace]:
        """Read only the stored bytes of one sample, and the header if it is not known yet.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError
            If the data is damaged, missing, or not a chunk.
        """
        header, remote = chunk.header, self.remote
        place = self.place(table, row, inside, chunk) if header is None else header.place(inside)
        if remote is not None and chunk.layout is not None and chunk.has_sample_sums and place.nbytes:
            return remote.samples(chunk, chunk.layout, inside, inside + 1), place
        return (self.piece(chunk, place.start, place.nbytes) if place.nbytes else b""), place

    def told(self, chunk: OpenChunk, layout: Layout, inside: int) -> Bytes:
        """Read the stored bytes of one sample whose position the layout has; errors as in :meth:`sample`."""
        start, stop = layout.starts[inside], layout.starts[inside + 1]
        if start == stop:
            return b""
        if layout.sums is None:
            return self.piece(chunk, start, stop - start)
        if self.remote is not None:
            return self.remote.samples(chunk, layout, inside, inside + 1)
        if chunk.mapped is not None:  # no lock is needed: see `piece`
            return self._local.sample(chunk, layout, inside)
        with self._mutex:
            return self._local.sample(chunk, layout, inside)

    def place(self, table: ChunkTable, row: int, inside: int, chunk: OpenChunk) -> SamplePlace:
        """Find a sample in a chunk file without reading it; errors as in :meth:`sample`."""
        if self.remote is None:
            with self._mutex:
                return self._place(chunk, table.samples(row), inside)
        return chunk.known_place(inside) or self._place(chunk, table.samples(row), inside)

    def piece(self, chunk: OpenChunk, start: int, length: int) -> Bytes:
        """Read a range of a chunk file, verified; errors as in :meth:`sample`."""
        if self.remote is not None:
            return self.remote.range(chunk, start, length)
        if chunk.mapped is not None:  # no lock, so that several threads can verify blocks at the same time
            return self._local.mapped(chunk, chunk.mapped, start, length)
        with self._mutex:
            return self._local.range(chunk, start, length)

    def even_samples(self, table: ChunkTable, row: int, item: int) -> EvenSamples | None:
        """Return the samples of a large uncompressed chunk for copying.

        Returns None if the file cannot be mapped, or if the samples do not all have ``item`` bytes.

        Parameters
        ----------
        item
            Required number of bytes of each sample.

        Raises
        ------
        ChecksumError, GetChunkError
            If what is read is damaged or missing.
        """
        # Mapped pages belong to the cache of the system, so keeping them costs no memory.
        chunk = self.by_range(table, row) if self.remote is None and config.OS_CACHE else None
        return None if chunk is None else self._even(chunk, table.samples(row), item)

    def settled_samples(self, table: ChunkTable, row: int, item: int) -> EvenSamples | None:
        """Return the same as :meth:`even_samples`, for an uncompressed chunk of any size whose file :meth:`is_settled`.

        Raises
        ------
        ChecksumError, GetChunkError
            If what is read is damaged or missing.
        """
        chunk = self._opened(table, row, table.size(row), table.key(row))
        return self._even(chunk, table.samples(row), item)

    def is_settled(self, table: ChunkTable, row: int) -> bool:
        """Return whether the file of a chunk can be mapped because it never changes."""
        is_known = self._files.mappable is not None and table.size(row) > 0
        return is_known and table.folder(row)[0] not in self.heads and table.key(row) not in self._unpublished

    def _even(self, chunk: OpenChunk, count: int, item: int) -> EvenSamples | None:
        if chunk.mapped is None:
            return None
        header = self._local.mapped(chunk, chunk.mapped, 0, min(BLOCK, chunk.size))
        try:
            parsed = parse_chunk(chunk.mapped, count)
        except (FormatError, LimitError):
            return None  # reading the whole chunk then raises the error
        start = chunk.size - len(parsed.data)
        if parsed.uniform is None or parsed.uniform[1] != item or start > len(header):
            return None
        return EvenSamples(self._local, chunk, chunk.mapped, start, item)

    def _place(self, chunk: OpenChunk, count: int, inside: int) -> SamplePlace:
        """Find a sample in a chunk whose header was not read yet, or is too large to keep."""

        def read(start: int, length: int) -> Bytes:
            return self.piece(chunk, start, length)

        try:
            if not chunk.header_read:
                chunk.header = read_header(read, chunk.size, count)
                chunk.header_read = True
            if chunk.header is None:
                return probe(read, chunk.size, count, inside)
            return chunk.header.place(inside)
        except FormatError as error:
            raise self._files.located(error, chunk.key) from error

    def stretch(
        self, table: ChunkTable, row: int, first: int, stop: int, *, shapes: bool = True, is_scan: bool = True
    ) -> tuple[Bytes, list[int], list[tuple[int, ...] | None] | None] | None:
        """Read neighbouring samples of a large chunk at once; only data that was read ahead is kept in memory.

        Parameters
        ----------
        shapes
            Whether to look up the shapes, which takes time.
        is_scan
            Whether the next read will continue in the next chunk.

        Returns
        -------
        tuple or None
            The bytes of the samples; the start of each, and the end of the last; and the list of shapes, or None
            if shapes were not requested or are not known without the bytes.
            None if the chunk is better read as a whole.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError
            If the data is damaged, missing, or not a chunk.
        """
        chunk = self.by_range(table, row)
        if chunk is None:
            return None
        starts = None if self.remote is None else chunk.starts()
        header = chunk.header
        if starts is None:
            header = self._header(chunk, table.samples(row))
            if header is None or header.is_unwritten:
                return None
            starts = header.offsets
        at = starts[first]
        bounds = [offset - at for offset in starts[first : stop + 1]]
        told: list[tuple[int, ...] | None] = []
        if not shapes:
            pass
        elif header is not None:
            told = [header.place(inside).shape for inside in range(first, stop)]
        else:
            found = [chunk.known_place(inside) for inside in range(first, stop)]
            told = [place.shape for place in found if place is not None]
        if self.remote is not None and chunk.layout is not None and chunk.has_sample_sums:
            data: Bytes = self.remote.samples(chunk, chunk.layout, first, stop) if bounds[-1] else b""
        else:
            data = self._stretch(chunk, at, bounds[-1], is_scan=is_scan) if bounds[-1] else b""
        return data, bounds, told if len(told) == stop - first else None

    def _stretch(self, chunk: OpenChunk, at: int, length: int, *, is_scan: bool) -> Bytes:
        if self.remote is not None or chunk.mapped is not None or not len(chunk.sums):
            return self.piece(chunk, at, length)
        with self._mutex:
            return self._local.read_ahead(chunk, at, at + length, is_scan=is_scan)

    def header(self, table: ChunkTable, row: int) -> ChunkHeader | None:
        """Read the header of a large chunk; None if the chunk must be read as a whole."""
        chunk = self.by_range(table, row)
        return None if chunk is None else self._header(chunk, table.samples(row))

    def _header(self, chunk: OpenChunk, count: int) -> ChunkHeader | None:
        if chunk.header is not None:
            return chunk.header
        if self.remote is not None:
            self._place(chunk, count, 0)
            return chunk.header
        with self._mutex:
            self._place(chunk, count, 0)
        return chunk.header

    def _opened(self, table: ChunkTable, row: int, size: int, key: str) -> OpenChunk:
        chunk = described(table, row, self.heads, key)
        with self._mutex:
            found = self.cache.opened(chunk.key)
            if found is not None:
                return found
            chunk.size = size
            if self.remote is None and chunk.is_settled:
                chunk.mapped = self._files.map(chunk)
            return self.cache.open(chunk)

    # -- whole chunks ----------------------------------------------------------------------------------------

    def chunk(
        self,
        table: ChunkTable,
        row: int,
        codec: ChunkCodec | None,
        *,
        keep: bool = True,
        count: int | None = None,
        key: str | None = None,
    ) -> Chunk:
        """Read, verify and parse the whole chunk of a row.

        Parameters
        ----------
        keep
            Put the chunk into the cache.
        count
            Number of samples in the chunk, if the table does not contain it; a tile counts as one.
        key
            Storage key of the chunk, if the caller knows it.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError, LimitError
            If the file is damaged, missing or not a chunk, or exceeds the limits of this process.
        """
        key = key or table.key(row)
        with self._mutex:
            cached = self.cache.chunk(key)
            if cached is not None:
                self._hits += 1
                return cached
            samples = table.samples(row) if count is None else count

            def parse(data: Bytes) -> Chunk:
                try:
                    return parse_chunk(data, samples, codec, None if keep else self.pool.take)
                except (FormatError, LimitError) as error:
                    raise self._files.located(error, key) from error

            mine = self._unpublished.get(key)
            if keep and (self.remote is None or mine is not None):
                return self._local_chunk(table, row, codec, parse, mine, key)
        if self.remote is None or mine is not None:
            # The data is not kept but belongs to the caller, so no lock is needed, and several threads can decompress
            # at the same time.
            return parse(mine or self._local_file(table, row, key, fresh=codec is None, pooled=True))
        chunk = self.remote.whole(described(table, row, self.heads, key), parse, is_last=not keep)
        if keep:
            size = table.size(row)
            with self._mutex:
                self.cache.keep(key, chunk, max(size, len(chunk.data)) + _decoded(chunk, codec))
        return chunk

    def _local_chunk(
        self,
        table: ChunkTable,
        row: int,
        codec: ChunkCodec | None,
        parse: Callable[[Bytes], Chunk],
        mine: bytes | None,
        key: str,
    ) -> Chunk:
        """Read a chunk on this machine, or take an unpublished one, and keep it."""
        size = table.size(row)
        is_large = codec is None and self._files.mappable is not None and size > RANGES_ABOVE
        data = mine or self._local_file(table, row, key, fresh=False, pooled=is_large)
        chunk = parse(data)
        opened = self.cache.opened(key)
        is_mapped = opened is not None and opened.mapped is not None
        self.cache.keep(key, chunk, (0 if is_mapped else len(data)) + _decoded(chunk, codec))
        if is_large:
            self.cache.keep_briefly(key)
        return chunk

    def file(self, table: ChunkTable, row: int, *, pooled: bool = False) -> Bytes:
        """Read and verify the whole chunk file of a row, unparsed.

        Parameters
        ----------
        pooled
            Read the file into a pooled buffer instead of mapping it, for callers that read many files once.
        """
        key = table.key(row)
        with self._mutex:
            mine = self._unpublished.get(key)
            if mine is not None:
                return mine
            if self.remote is None:
                if pooled:
                    return self._files.whole(described(table, row, self.heads, key), pooled=True)
                return self._local_file(table, row, key, fresh=False, pooled=False)
        return self.remote.file(described(table, row, self.heads, key))

    def _local_file(self, table: ChunkTable, row: int, key: str, *, fresh: bool, pooled: bool) -> Bytes:
        """Read and verify a chunk file: ``fresh`` makes a private copy, ``pooled`` uses a buffer of the pool."""
        size = table.size(row)
        # Mapped pages belong to the cache of the system, so keeping them costs no memory.
        wanted = (size and config.OS_CACHE) if pooled else size > RANGES_ABOVE
        if wanted and self._files.mappable is not None and table.folder(row)[0] not in self.heads:
            with self._mutex:
                chunk = self.cache.opened(key) or self._opened(table, row, size, key)
            if chunk.mapped is not None:
                return self._mapped_whole(chunk, shared=not fresh)
        return self._files.whole(described(table, row, self.heads, key), pooled=pooled)

    def _mapped_whole(self, chunk: OpenChunk, *, shared: bool) -> memoryview:
        """Return the whole verified file; with ``shared=False`` as a private copy that the caller may write to."""
        data = chunk.mapped if shared and chunk.mapped is not None else self._files.map(chunk)
        self._local.mapped(chunk, data, 0, len(data))
        return data


class EvenSamples(NamedTuple):
    """Samples of one size in a mapped chunk file; several threads may copy from it at the same time."""

    ranges: LocalRanges
    chunk: OpenChunk
    mapped: memoryview
    start: int
    item: int

    def copy(self, first: int, room: NDArray[np.uint8]) -> None:
        """Fill memory with the bytes of samples from number ``first`` on.

        Raises
        ------
        ChecksumError
            If the samples are damaged.
        """
        self.ranges.copy(self.chunk, self.mapped, self.start + first * self.item, room)

    def verify(self, number: int) -> None:
        """Verify the blocks of a sample by their checksums.

        Raises
        ------
        ChecksumError
            If a block is damaged.
        """
        self.ranges.mapped(self.chunk, self.mapped, self.start + number * self.item, self.item)


def _decoded(chunk: Chunk, codec: ChunkCodec | None) -> int:
    """Return the number of bytes of memory that a parsed chunk takes in addition to its file."""
    return 0 if codec is None else len(chunk.data)


def _after_fork() -> None:
    for source in list(_sources):
        source.after_fork()


process_hooks.after_fork(_after_fork)
