"""Chunk bytes from storage: whole or in ranges, verified against checksums where they exist, cached by bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.chunks.canvas import ChunkCodec
from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.chunks.probe import ChunkHeader, SamplePlace, probe, read_header
from lakebed.documents.manifest import BLOCK
from lakebed.errors import (
    ChecksumError,
    CorruptError,
    FormatError,
    GetChunkError,
    InvalidInputError,
    KeyNotFound,
    LimitError,
    TruncatedReadError,
)
from lakebed.reading.buffers import BufferPool
from lakebed.storage.base import MappableStorage, Storage
from lakebed.versions.state import ChunkTable

# Single samples of chunks above this size are read by range, those of smaller ones with the whole chunk.
RANGES_ABOVE = 2 * BLOCK
# Large chunks on this machine that are kept in memory: the system has them at hand, so more would only cost memory.
_MOST_NEAR = 4
# Chunks whose header, and mapping or verified blocks, are remembered.
_MOST_OPEN = 1024
# Bytes that are read at once where neighbouring samples are read one after the other.
_READ_AHEAD = 8 * BLOCK
# Blocks are kept for samples of fewer bytes: many lie in one. To read a larger one again costs less than new memory.
_KEPT_BELOW = BLOCK // 8
_NO_WINDOW = ("", 0, memoryview(b""), -1)

Bytes = bytes | memoryview


class OpenChunk:
    """A chunk file that is read by range: its mapping or its verified blocks, and its header once it was read.

    Parameters
    ----------
    sums
        Checksum of each block; empty when none are known.
    mapped
        The whole file, mapped; None where it can not be.
    """

    __slots__ = ("blocks", "header", "header_read", "is_open", "key", "mapped", "seen", "size", "sums")

    def __init__(self, key: str, size: int, sums: NDArray[np.uint64], mapped: memoryview | None) -> None:
        self.key = key
        self.size = size
        self.sums = sums
        self.mapped = mapped
        self.seen = bytearray(len(sums))
        self.blocks: dict[int, memoryview] = {}
        self.header: ChunkHeader | None = None
        self.header_read = False
        # Whether the source still knows it; one that was dropped must be asked for again.
        self.is_open = True


class ChunkSource:
    """Reads the chunks of one dataset.

    Parameters
    ----------
    storage
        Where published chunks lie.
    cache_bytes
        Bound of what is kept of chunks in memory; mapped files do not count.
    unpublished
        Chunk files that exist only in this process so far, by storage key.

    Attributes
    ----------
    heads
        Ids of the versions whose folders a Deep Lake 3.x writer may rewrite in place. Chunks elsewhere never change,
        so they are mapped instead of read where the storage can.
    """

    def __init__(self, storage: Storage, cache_bytes: int, unpublished: Mapping[str, bytes]) -> None:
        self.heads: frozenset[str] = frozenset()
        self._storage = storage
        self._mappable = storage if isinstance(storage, MappableStorage) else None
        self._limit = cache_bytes
        self._unpublished = unpublished
        self._chunks: OrderedDict[str, tuple[Chunk, int]] = OrderedDict()
        self._open: OrderedDict[str, OpenChunk] = OrderedDict()
        self._blocks: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._near: deque[str] = deque()
        self._used = 0
        self._mutex = threading.RLock()
        # What was read ahead: key, offset, bytes, and where the last range in it ended.
        self._window: tuple[str, int, memoryview, int] = _NO_WINDOW
        self.pool = BufferPool()

    @property
    def url(self) -> str:
        """Address of the dataset."""
        return self._storage.url

    def clear(self) -> None:
        """Forget everything that is cached."""
        with self._mutex:
            self._chunks.clear()
            for chunk in self._open.values():
                chunk.is_open = False
            self._open.clear()
            self._blocks.clear()
            self._near.clear()
            self._used = 0
            self._window = _NO_WINDOW

    # -- single samples --------------------------------------------------------------------------------------

    def by_range(self, table: ChunkTable, row: int) -> OpenChunk | None:
        """Return the chunk of a row for reading single samples, or None if it is better read as a whole."""
        key = table.key(row)
        with self._mutex:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
            if key in self._chunks or key in self._unpublished:
                return None
            size = int(table.places.sizes[row]) or self._size(key)
            return None if size <= RANGES_ABOVE else self._opened(table, row, key, size)

    def sample(self, table: ChunkTable, row: int, inside: int, chunk: OpenChunk) -> tuple[Bytes, SamplePlace]:
        """Read the stored bytes of one sample, and nothing else but the header where it is not known yet.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError
            If what is read is damaged, missing, or no chunk.
        """
        with self._mutex:
            header = chunk.header
            place = self._place(chunk, table.samples(row), inside) if header is None else header.place(inside)
            return (self._range(chunk, place.start, place.nbytes) if place.nbytes else b""), place

    def place(self, table: ChunkTable, row: int, inside: int, chunk: OpenChunk) -> SamplePlace:
        """Find a sample in a chunk file without reading it; errors as in :meth:`sample`."""
        with self._mutex:
            return self._place(chunk, table.samples(row), inside)

    def piece(self, chunk: OpenChunk, start: int, length: int) -> Bytes:
        """Read a range of a chunk file, verified; errors as in :meth:`sample`."""
        with self._mutex:
            return self._range(chunk, start, length)

    def _place(self, chunk: OpenChunk, count: int, inside: int) -> SamplePlace:
        """Find a sample in a chunk whose header was not read yet, or is too large to be kept."""

        def read(start: int, length: int) -> Bytes:
            return self._range(chunk, start, length)

        try:
            if not chunk.header_read:
                chunk.header = read_header(read, chunk.size, count)
                chunk.header_read = True
            if chunk.header is None:
                return probe(read, chunk.size, count, inside)
            return chunk.header.place(inside)
        except FormatError as error:
            raise self._located(error, chunk.key) from error

    def stretch(
        self, table: ChunkTable, row: int, first: int, stop: int
    ) -> tuple[Bytes, list[int], list[tuple[int, ...] | None]] | None:
        """Read neighbouring samples of a large chunk at once, and keep no more than what lies ahead.

        Returns
        -------
        tuple or None
            Their bytes, the start of each in them and the end of the last, and their shapes; None if the chunk is
            better read as a whole.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError
            If what is read is damaged, missing, or no chunk.
        """
        header = self.header(table, row)
        if header is None or header.is_unwritten:
            return None
        chunk = self._open[table.key(row)]
        at = header.offsets[first]
        bounds = [offset - at for offset in header.offsets[first : stop + 1]]
        shapes = [header.place(inside).shape for inside in range(first, stop)]
        if chunk.mapped is not None or not len(chunk.sums):
            with self._mutex:
                return self._range(chunk, at, bounds[-1]) if bounds[-1] else b"", bounds, shapes
        return self._ahead(chunk, at, at + bounds[-1]), bounds, shapes

    def _ahead(self, chunk: OpenChunk, start: int, stop: int) -> memoryview:
        """Read a range of a chunk, and what follows it if this one follows the last one: small steps need few reads."""
        key, low, data, follows = self._window
        if key != chunk.key or start < low or stop > low + len(data):
            is_next = (key != chunk.key and start < BLOCK) or (key == chunk.key and start == follows)
            low = start // BLOCK * BLOCK
            high = max(stop, low + _READ_AHEAD) if is_next else stop
            high = min(-(-high // BLOCK) * BLOCK, chunk.size)
            data = memoryview(self._get_range(chunk.key, low, high - low))
            for at in range(0, len(data), BLOCK):
                self._verify_block(chunk, (low + at) // BLOCK, data[at : at + BLOCK])
        self._window = chunk.key, low, data, stop
        return data[start - low :]

    def header(self, table: ChunkTable, row: int) -> ChunkHeader | None:
        """Read the header of a large chunk; None if it must be read as a whole."""
        chunk = self.by_range(table, row)
        if chunk is None:
            return None
        with self._mutex:
            self._place(chunk, table.samples(row), 0)
        return chunk.header

    def _range(self, chunk: OpenChunk, start: int, length: int) -> Bytes:
        first, last = start // BLOCK, (start + length - 1) // BLOCK
        if chunk.mapped is not None:
            for block in range(first, last + 1) if chunk.seen else ():
                if not chunk.seen[block]:
                    self._verify_block(chunk, block, chunk.mapped[block * BLOCK : (block + 1) * BLOCK])
            return chunk.mapped[start : start + length]
        held = chunk.blocks
        if first == last and first in held:
            return held[first][start - first * BLOCK : start - first * BLOCK + length]
        if not len(chunk.sums):
            return self._get_range(chunk.key, start, length)
        if length >= _KEPT_BELOW:
            return self._ahead(chunk, start, start + length)[:length]
        missing = [block for block in range(first, last + 1) if block not in held]
        if missing:
            self._load(chunk, missing[0], missing[-1])
        offset = start - first * BLOCK
        if first == last:
            return held[first][offset : offset + length]
        return b"".join(held[block] for block in range(first, last + 1))[offset : offset + length]

    def _load(self, chunk: OpenChunk, first: int, last: int) -> None:
        """Read and verify blocks with one request, and keep them."""
        start, stop = first * BLOCK, min((last + 1) * BLOCK, chunk.size)
        data = memoryview(self._get_range(chunk.key, start, stop - start))
        for block in range(first, last + 1):
            part = data[(block - first) * BLOCK : (block - first + 1) * BLOCK]
            self._verify_block(chunk, block, part)
            if block not in chunk.blocks:
                chunk.blocks[block] = part
                self._blocks[chunk.key, block] = len(part)
                self._used += len(part)
        self._make_room(chunk)

    def _verify_block(self, chunk: OpenChunk, block: int, data: memoryview) -> None:
        if xxhash.xxh3_64_intdigest(data) != int(chunk.sums[block]):
            raise self._damaged(chunk.key, block)
        chunk.seen[block] = 1

    def _opened(self, table: ChunkTable, row: int, key: str, size: int) -> OpenChunk:
        mapped = None
        if self._mappable is not None and table.folder(row)[0] not in self.heads:
            mapped = self._map(key)
            self._check_size(key, len(mapped), size)
        chunk = OpenChunk(key, size, table.sums(row), mapped)
        self._open[key] = chunk
        while len(self._open) > _MOST_OPEN:
            self._close(next(iter(self._open)))
        return chunk

    def _close(self, key: str) -> None:
        closed = self._open.pop(key)
        closed.is_open = False
        for block in closed.blocks:
            self._used -= self._blocks.pop((key, block))

    def _make_room(self, busy: OpenChunk | None = None) -> None:
        while self._used > self._limit and len(self._blocks) > 2:
            (key, block), size = self._blocks.popitem(last=False)
            self._open[key].blocks.pop(block)
            self._used -= size
        while self._used > self._limit and len(self._chunks) > (busy is None):
            _, (_, dropped) = self._chunks.popitem(last=False)
            self._used -= dropped

    # -- whole chunks ----------------------------------------------------------------------------------------

    def chunk(
        self,
        table: ChunkTable,
        row: int,
        codec: ChunkCodec | None,
        *,
        keep: bool = True,
        count: int | None = None,
    ) -> Chunk:
        """Read, verify and parse the whole chunk of a row.

        Parameters
        ----------
        keep
            Put it into the cache.
        count
            Samples in it, where the table does not say: one in each tile of a sample.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError, LimitError
            If the chunk is damaged, missing, or no chunk, or promises too much.
        """
        key = table.key(row)
        with self._mutex:
            cached = self._chunks.get(key)
            if cached is not None:
                self._chunks.move_to_end(key)
                return cached[0]
            size = int(table.places.sizes[row])
            near = keep and codec is None and self._mappable is not None and size > RANGES_ABOVE
            data = self._whole(table, row, key, fresh=not keep, pooled=near or not keep)
            try:
                samples = table.samples(row) if count is None else count
                chunk = parse_chunk(data, samples, codec, None if keep else self.pool.take)
            except (FormatError, LimitError) as error:
                raise self._located(error, key) from error
            if keep:
                is_mapped = key in self._open and self._open[key].mapped is not None
                decoded = len(chunk.data) if codec is not None else 0
                self._keep(key, chunk, decoded if is_mapped else len(data) + decoded)
                if near:
                    self._keep_near(key)
            return chunk

    def _keep_near(self, key: str) -> None:
        self._near.append(key)
        while len(self._near) > _MOST_NEAR:
            dropped = self._chunks.pop(self._near.popleft(), None)
            self._used -= 0 if dropped is None else dropped[1]

    def _keep(self, key: str, chunk: Chunk, size: int) -> None:
        self._chunks[key] = (chunk, size)
        self._used += size
        self._make_room()

    def file(self, table: ChunkTable, row: int) -> Bytes:
        """Read and verify the whole chunk file of a row, unparsed."""
        with self._mutex:
            return self._whole(table, row, table.key(row), fresh=False, pooled=False)

    def _whole(self, table: ChunkTable, row: int, key: str, *, fresh: bool, pooled: bool) -> Bytes:
        """Read and verify a chunk file: ``fresh`` for memory that nobody else sees, ``pooled`` for used one."""
        mine = self._unpublished.get(key)
        if mine is not None:
            return mine
        size = int(table.places.sizes[row])
        wanted = size and (pooled or size > RANGES_ABOVE)
        if wanted and self._mappable is not None and table.folder(row)[0] not in self.heads:
            chunk = self._open.get(key) or self._opened(table, row, key, size)
            if chunk.mapped is not None:
                return self._mapped_whole(chunk, shared=not fresh)
        data = self._fetched(key, size, pooled=pooled)
        self._check_size(key, len(data), size)
        self._verify(key, table.sums(row), memoryview(data))
        return data

    def _mapped_whole(self, chunk: OpenChunk, *, shared: bool) -> memoryview:
        """Return the whole verified file; not shared, what the caller writes into it is seen by nobody else."""
        data = chunk.mapped if shared and chunk.mapped is not None else self._map(chunk.key)
        self._check_size(chunk.key, len(data), chunk.size)
        for block in range(len(chunk.sums)):
            if not chunk.seen[block]:
                self._verify_block(chunk, block, data[block * BLOCK : (block + 1) * BLOCK])
        return data

    def _fetched(self, key: str, size: int, *, pooled: bool) -> Bytes:
        try:
            if size and pooled:
                view = self.pool.take(size).data
                return view[: self._storage.get_into(key, view)]
            return self._storage.get(key)
        except KeyNotFound as error:
            raise self._missing(key) from error
        except InvalidInputError as error:
            message = f"chunk {key} of {self.url} is longer than it was written: {error}"
            raise ChecksumError(message, dataset=self.url) from error

    def _verify(self, key: str, sums: NDArray[np.uint64], data: memoryview) -> None:
        for block in range(len(sums)):
            if xxhash.xxh3_64_intdigest(data[block * BLOCK : (block + 1) * BLOCK]) != int(sums[block]):
                raise self._damaged(key, block)

    # -- storage ---------------------------------------------------------------------------------------------

    def _size(self, key: str) -> int:
        stat = self._storage.stat(key)
        return 0 if stat is None else stat.size

    def _map(self, key: str) -> memoryview:
        try:
            return self._mappable.map(key) if self._mappable is not None else memoryview(b"")
        except KeyNotFound as error:
            raise self._missing(key) from error

    def _get_range(self, key: str, start: int, length: int) -> bytes:
        try:
            return self._storage.get_range(key, start, length)
        except KeyNotFound as error:
            raise self._missing(key) from error
        except TruncatedReadError as error:
            message = f"chunk {key} of {self.url} is shorter than it was written: {error}"
            raise ChecksumError(message, dataset=self.url) from error

    # -- errors ----------------------------------------------------------------------------------------------

    def _check_size(self, key: str, found: int, size: int) -> None:
        if size and found != size:
            message = f"chunk {key} of {self.url} has {found} bytes, {size} were written"
            raise ChecksumError(message, dataset=self.url)

    def _located(self, error: FormatError | LimitError, key: str) -> FormatError | LimitError:
        """Return the error with the chunk's key and the dataset."""
        if isinstance(error, CorruptError):
            return error
        message = f"{error} (chunk {key} of {self.url})"
        if isinstance(error, LimitError):
            return LimitError(message, limit=error.limit, dataset=self.url)
        return CorruptError(message, dataset=self.url)

    def _missing(self, key: str) -> GetChunkError:
        message = f"chunk {key} is missing from {self.url}; restore the file or check out another version"
        return GetChunkError(message, dataset=self.url)

    def _damaged(self, key: str, block: int) -> ChecksumError:
        return ChecksumError(
            f"chunk {key} is damaged between bytes {block * BLOCK} and {(block + 1) * BLOCK}: its checksum is wrong; "
            "restore the file from a copy or read another version",
            dataset=self.url,
        )
