"""Chunk bytes from storage: whole or in blocks, verified against checksums where they exist, cached by bytes."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.chunks.chunk import Chunk, parse_chunk
from lakebed.codecs.base import ByteCodec
from lakebed.documents.manifest import BLOCK
from lakebed.errors import (
    ChecksumError,
    CorruptError,
    FormatError,
    GetChunkError,
    InvalidInputError,
    KeyNotFound,
    TruncatedReadError,
)
from lakebed.storage.base import MappableStorage, Storage
from lakebed.versions.state import ChunkTable

# A chunk above this size is read in blocks for the first few single samples, then as a whole.
_PROBE_ABOVE = 2 * BLOCK
_PROBES_BEFORE_WHOLE = 8


def _references(buffers: list[NDArray[np.uint8]], i: int) -> int:
    return sys.getrefcount(buffers[i])


# What _references says of a buffer that nobody but the list holds; it differs between Python releases.
_UNUSED = _references([np.empty(1, dtype=np.uint8)], 0)


class BufferPool:
    """Writable buffers that are used again once nobody holds a view of them.

    First touch of fresh memory costs more than reading into it, so a scan that drops its batches runs in a few
    buffers. A buffer is free when the pool has the only reference; views and memoryviews keep one.
    """

    def __init__(self, keep: int = 24) -> None:
        self._buffers: list[NDArray[np.uint8]] = []
        self._keep = keep

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return ``size`` bytes with undefined content: uint8, shape (size,)."""
        # By index: a loop variable, or enumerate() itself, would hold a reference to the buffer that is looked at.
        for i in range(len(self._buffers)):
            fits = size <= len(self._buffers[i]) <= 4 * size + (1 << 16)
            if fits and _references(self._buffers, i) == _UNUSED:
                return self._buffers[i][:size]
        if len(self._buffers) >= self._keep:
            del self._buffers[0]
        self._buffers.append(np.empty(max(1 << 16, -(-size // (1 << 16)) * (1 << 16)), dtype=np.uint8))
        return self._buffers[-1][:size]


class ChunkSource:
    """Reads the chunks of one dataset for one user of it; not shared between threads.

    Parameters
    ----------
    storage
        Where published chunks lie.
    cache_bytes
        Bound of the cache of whole chunks.
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
        self._used = 0
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._probes: dict[str, int] = {}
        # Mapped chunks that this dataset has verified since it was opened: once is enough for what never changes.
        self._verified: set[str] = set()
        self.pool = BufferPool()

    def clear(self) -> None:
        """Forget everything that is cached."""
        self._chunks.clear()
        self._blocks.clear()
        self._probes.clear()
        self._verified.clear()
        self._used = 0

    def wants_probe(self, table: ChunkTable, row: int) -> bool:
        """Whether one sample of this chunk is better read in blocks than with the whole chunk."""
        key = table.key(row)
        size = int(table.places.sizes[row])
        if size <= _PROBE_ABOVE or key in self._chunks or key in self._unpublished:
            return False
        self._probes[key] = self._probes.get(key, 0) + 1
        return self._probes[key] <= _PROBES_BEFORE_WHOLE

    def read(self, table: ChunkTable, row: int, start: int, length: int) -> bytes:
        """Read a range of a chunk file of known size, through verified blocks.

        Raises
        ------
        ChecksumError
            If a block differs from what was written.
        """
        key, size = table.key(row), int(table.places.sizes[row])
        first, last = start // BLOCK, (start + max(length, 1) - 1) // BLOCK
        missing = [b for b in range(first, last + 1) if (key, b) not in self._blocks]
        if missing:
            spans = [(b * BLOCK, min(BLOCK, size - b * BLOCK)) for b in missing]
            sums = table.sums(row)
            for block, data in zip(missing, self._get_ranges(key, spans), strict=True):
                if len(sums) and xxhash.xxh3_64_intdigest(data) != int(sums[block]):
                    raise self._damaged(key, block)
                self._blocks[(key, block)] = data
        parts = [self._blocks[(key, b)] for b in range(first, last + 1)]
        while len(self._blocks) > 256:
            self._blocks.popitem(last=False)
        joined = parts[0] if len(parts) == 1 else b"".join(parts)
        return joined[start - first * BLOCK : start - first * BLOCK + length]

    def chunk(self, table: ChunkTable, row: int, codec: ByteCodec | None, *, keep: bool = True) -> Chunk:
        """Read, verify and parse the whole chunk of a row; ``keep`` puts it into the cache.

        Raises
        ------
        ChecksumError, GetChunkError, CorruptError
            If the chunk is damaged, missing, or no chunk.
        """
        key = table.key(row)
        cached = self._chunks.get(key)
        if cached is not None:
            self._chunks.move_to_end(key)
            return cached[0]
        data = self._whole(table, row, key, pooled=not keep)
        try:
            chunk = parse_chunk(data, table.samples(row), codec, None if keep else self.pool.take)
        except FormatError as error:
            raise CorruptError(
                f"{error} (chunk {key} of {self._storage.url})", dataset=self._storage.url
            ) from error
        if keep:
            size = len(data) + (len(chunk.data) if codec is not None else 0)
            self._chunks[key] = (chunk, size)
            self._used += size
            while self._used > self._limit and len(self._chunks) > 1:
                _, (_, dropped) = self._chunks.popitem(last=False)
                self._used -= dropped
        return chunk

    def file(self, table: ChunkTable, row: int) -> bytes | memoryview:
        """Read and verify the whole chunk file of a row, unparsed."""
        return self._whole(table, row, table.key(row), pooled=False)

    def _whole(self, table: ChunkTable, row: int, key: str, *, pooled: bool) -> bytes | memoryview:
        mine = self._unpublished.get(key)
        if mine is not None:
            return mine
        mapped = pooled and self._mappable is not None and table.folder(row)[0] not in self.heads
        data = self._fetched(table, row, key, pooled=pooled, mapped=mapped)
        if not (mapped and key in self._verified):
            self._verify(table, row, key, memoryview(data))
            if mapped:
                self._verified.add(key)
        return data

    def _fetched(
        self, table: ChunkTable, row: int, key: str, *, pooled: bool, mapped: bool
    ) -> bytes | memoryview:
        size = int(table.places.sizes[row])
        try:
            if mapped and self._mappable is not None:
                return self._mappable.map(key)
            if size and pooled:
                view = self.pool.take(size).data
                return view[: self._storage.get_into(key, view)]
            return self._storage.get(key)
        except KeyNotFound as error:
            raise self._missing(key) from error
        except InvalidInputError as error:
            raise ChecksumError(
                f"chunk {key} of {self._storage.url} is longer than it was written: {error}",
                dataset=self._storage.url,
            ) from error

    def _verify(self, table: ChunkTable, row: int, key: str, data: memoryview) -> None:
        size, sums = int(table.places.sizes[row]), table.sums(row)
        if size and len(data) != size:
            raise ChecksumError(
                f"chunk {key} of {self._storage.url} has {len(data)} bytes, {size} were written",
                dataset=self._storage.url,
            )
        for block in range(len(sums)):
            if xxhash.xxh3_64_intdigest(data[block * BLOCK : (block + 1) * BLOCK]) != int(sums[block]):
                raise self._damaged(key, block)

    def _get_ranges(self, key: str, spans: list[tuple[int, int]]) -> list[bytes]:
        try:
            return self._storage.get_ranges(key, spans)
        except KeyNotFound as error:
            raise self._missing(key) from error
        except TruncatedReadError as error:
            raise ChecksumError(
                f"chunk {key} of {self._storage.url} is shorter than it was written: {error}",
                dataset=self._storage.url,
            ) from error

    def _missing(self, key: str) -> GetChunkError:
        url = self._storage.url
        message = f"chunk {key} is missing from {url}; restore the file or check out another version"
        return GetChunkError(message, dataset=url)

    def _damaged(self, key: str, block: int) -> ChecksumError:
        return ChecksumError(
            f"chunk {key} is damaged between bytes {block * BLOCK} and {(block + 1) * BLOCK}: its checksum is wrong; "
            "restore the file from a copy or read another version",
            dataset=self._storage.url,
        )
