"""Read chunk files from storage, whole or in ranges, verify their checksums, and name the file in errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import xxhash

from lakebed.documents.layouts import Layout
from lakebed.documents.manifest import BLOCK
from lakebed.errors import (
    ChecksumError,
    CorruptError,
    FormatError,
    GetChunkError,
    InvalidInputError,
    KeyNotFound,
    LakebedError,
    LimitError,
    StorageUnavailableError,
    TruncatedReadError,
)
from lakebed.reading.buffers import BufferPool
from lakebed.reading.open_chunk import ByteRange, Bytes, OpenChunk
from lakebed.storage.base import Storage, is_cache, is_mappable, is_viewed
from lakebed.storage.stores.traffic import Traffic, traffic_of
from lakebed.versions.tree_file import error_if_deleted

T = TypeVar("T")


class ChunkFiles:
    """Reads chunk files of one dataset.

    Parameters
    ----------
    pool
        Buffers for whole files.

    Attributes
    ----------
    mappable
        The storage if its files are on this machine, so that they can be mapped; else None.
    """

    def __init__(self, storage: Storage, pool: BufferPool) -> None:
        self._storage = storage
        self._pool = pool
        self.mappable = storage if is_mappable(storage) else None
        self._cache = storage if is_cache(storage) else None
        self._is_metered = traffic_of(storage) is not None
        self._own_traffic = Traffic()

    @property
    def url(self) -> str:
        """Address of the dataset."""
        return self._storage.url

    @property
    def traffic(self) -> Traffic:
        """Requests to the storage, as counted by the storage itself or else here."""
        return traffic_of(self._storage) or self._own_traffic

    @property
    def hits(self) -> int:
        """Number of requests that a cache on this machine answered."""
        return int(getattr(self._cache, "hits", 0))

    def size(self, key: str) -> int:
        """Request the size of a file; 0 if it does not exist."""
        stat = self._storage.stat(key)
        return 0 if stat is None else stat.size

    # -- over a network ------------------------------------------------------------------------------------------

    def fetched(self, chunk: OpenChunk, start: int, stop: int) -> memoryview:
        """Read whole blocks of a file, or all of it (``stop`` 0), with one request, and verify them.

        If a cache on this machine returns wrong data, the blocks are read again from the storage that it caches.

        Raises
        ------
        ChecksumError, GetChunkError
            If the data is damaged or missing.
        StorageError
            If the storage fails.
        """
        try:
            return self._checked(self._trusted(chunk), chunk, start, stop)
        except (ChecksumError, GetChunkError):
            if self._cache is None:
                raise
            self._cache.forget(chunk.key)
            return self._checked(self._cache.origin, chunk, start, stop)

    def raw(self, chunk: OpenChunk, start: int, stop: int) -> memoryview:
        """Read a range of a file without verifying it; if it turns out to be damaged, call :meth:`again`."""
        try:
            return self._asked(self._trusted(chunk), chunk, start, stop)
        except (ChecksumError, GetChunkError):
            if not self.has_cache:
                raise
            return self.again(chunk, start, stop)

    @property
    def has_cache(self) -> bool:
        """Return whether data may come from a cache on this machine."""
        return self._cache is not None

    def again(self, chunk: OpenChunk, start: int, stop: int) -> memoryview:
        """Read a range from the storage behind the cache, because the cache has wrong data."""
        storage = self._storage
        if self._cache is not None:
            self._cache.forget(chunk.key)
            storage = self._cache.origin
        return self._asked(storage, chunk, start, stop)

    def _trusted(self, chunk: OpenChunk) -> Storage:
        """Return the storage to read a chunk from: the cache if outdated data would be noticed, else the origin."""
        if self._cache is None:
            return self._storage
        if len(chunk.sums):
            return self._cache.trusted
        # A cache may hold outdated content, which would stay unnoticed in chunks without checksums that may still
        # change. Read such chunks from the original storage.
        return self._storage if chunk.is_settled else self._cache.origin

    def _checked(self, storage: Storage, chunk: OpenChunk, start: int, stop: int) -> memoryview:
        data = self._asked(storage, chunk, start, stop)
        if not stop:
            self.check_size(chunk.key, len(data), chunk.size)
        self.verify(chunk, start // BLOCK, data)
        return data

    def _asked(self, storage: Storage, chunk: OpenChunk, start: int, stop: int) -> memoryview:
        def ask() -> Bytes:
            if is_viewed(storage):
                return storage.view_range(chunk.key, start, stop - start) if stop else storage.view(chunk.key)
            return storage.get_range(chunk.key, start, stop - start) if stop else storage.get(chunk.key)

        if self._is_metered:
            return memoryview(self.asked(chunk.key, ask))
        with self._own_traffic.request() as asked:
            try:
                data = memoryview(self.asked(chunk.key, ask))
            except StorageUnavailableError:
                asked.is_refused = True
                raise
            asked.nbytes = len(data)
            return data

    # -- on this machine -----------------------------------------------------------------------------------------

    def whole(self, chunk: OpenChunk, *, pooled: bool) -> Bytes:
        """Read a whole file and verify it; with ``pooled``, read it into a reused buffer."""

        def ask() -> Bytes:
            if chunk.size and pooled:
                view = self._pool.take(chunk.size).data
                return view[: self._storage.get_into(chunk.key, view)]
            return self._storage.get(chunk.key)

        data = self.asked(chunk.key, ask)
        self.check_size(chunk.key, len(data), chunk.size)
        self.verify(chunk, 0, memoryview(data))
        return data

    def range(self, key: str, start: int, length: int) -> bytes:
        """Read a range of a file without verifying it."""
        return self.asked(key, lambda: self._storage.get_range(key, start, length))

    def map(self, chunk: OpenChunk) -> memoryview:
        """Map a whole file privately: only the caller sees its writes to the mapping."""
        mappable = self.mappable
        data = memoryview(b"") if mappable is None else self.asked(chunk.key, lambda: mappable.map(chunk.key))
        self.check_size(chunk.key, len(data), chunk.size)
        return data

    # -- checks --------------------------------------------------------------------------------------------------

    def verify(self, chunk: OpenChunk, first: int, data: memoryview) -> None:
        """Verify blocks, from number ``first`` on, by their checksums."""
        for block in range(first, min(first - (-len(data) // BLOCK), len(chunk.sums))):
            at = (block - first) * BLOCK
            self.verify_block(chunk, block, data[at : at + BLOCK])

    def verify_block(self, chunk: OpenChunk, block: int, data: memoryview) -> None:
        """Verify one block by its checksum."""
        if xxhash.xxh3_64_intdigest(data) != int(chunk.sums[block]):
            raise self.damaged(chunk.key, ByteRange(block * BLOCK, (block + 1) * BLOCK))
        chunk.seen[block] = 1

    def verify_sample(self, chunk: OpenChunk, layout: Layout, inside: int, data: Bytes) -> None:
        """Verify the bytes of a sample by the checksum in the layout of its chunk."""
        if layout.sums is not None and xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF != layout.sums[inside]:
            raise self.damaged(chunk.key, ByteRange(*layout.span(inside, inside + 1)))

    def check_size(self, key: str, found: int, size: int) -> None:
        """Raise an error if a file does not have its recorded size; 0 stands for an unknown size."""
        if size and found != size:
            message = f"chunk {key} of {self.url} has {found} bytes, {size} were written"
            raise ChecksumError(message, dataset=self.url)

    # -- errors --------------------------------------------------------------------------------------------------

    def asked(self, key: str, ask: Callable[[], T]) -> T:
        """Return the result of a request; its errors become errors about the chunk.

        Raises
        ------
        ChecksumError, GetChunkError
            If the chunk is missing or damaged.
        DatasetNotFoundError
            If the whole dataset was deleted.
        """
        try:
            return ask()
        except (KeyNotFound, InvalidInputError, TruncatedReadError) as error:
            raise self._told(error, key) from error

    def _told(self, error: KeyNotFound | InvalidInputError | TruncatedReadError, key: str) -> LakebedError:
        """Return an error about a chunk for an error of the storage; see :meth:`asked`."""
        if isinstance(error, KeyNotFound):
            deleted = error_if_deleted(self._storage)
            if deleted is not None:
                return deleted
            message = f"chunk {key} is missing from {self.url}; restore the file or check out another version"
            return GetChunkError(message, dataset=self.url)
        other = "longer" if isinstance(error, InvalidInputError) else "shorter"
        message = f"chunk {key} of {self.url} is {other} than when it was written: {error}"
        return ChecksumError(message, dataset=self.url)

    def located(self, error: FormatError | LimitError, key: str) -> FormatError | LimitError:
        """Return the error with the chunk's key and the dataset."""
        if isinstance(error, CorruptError):
            return error
        message = f"{error} (chunk {key} of {self.url})"
        if isinstance(error, LimitError):
            return LimitError(message, limit=error.limit, dataset=self.url)
        return CorruptError(message, dataset=self.url)

    def damaged(self, key: str, span: ByteRange) -> ChecksumError:
        """Return the error for a range whose checksum is wrong."""
        return ChecksumError(
            f"chunk {key} is damaged between bytes {span.start} and {span.stop}: its checksum is wrong; "
            "restore the file from a copy or read another version",
            dataset=self.url,
        )
