"""Ranges of chunk files on this machine: cut from mappings, or read in verified blocks, a little ahead."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.layouts import Layout
from lakebed.documents.manifest import BLOCK
from lakebed.reading.chunk_cache import ChunkCache
from lakebed.reading.chunk_files import ChunkFiles
from lakebed.reading.open_chunk import Bytes, OpenChunk

# Number of bytes that are read at once when neighbouring samples are read one after the other.
_READ_AHEAD = 8 * BLOCK
# Blocks are kept if samples have fewer bytes than this, because a block then holds several samples. For larger
# samples, reading a block again costs less than keeping it in memory.
_KEPT_BELOW = BLOCK // 8
_NO_WINDOW = ("", 0, memoryview(b""), -1)


class LocalRanges:
    """Read ranges of local files; callers hold the source's lock unless a method says otherwise."""

    def __init__(self, files: ChunkFiles, cache: ChunkCache) -> None:
        self._files = files
        self._cache = cache
        self.clear()

    def clear(self) -> None:
        """Forget the data that was read ahead."""
        # The data that was read ahead: key of its file, its offset, its bytes, and the end of the last range taken
        # from it.
        self._window: tuple[str, int, memoryview, int] = _NO_WINDOW

    def mapped(self, chunk: OpenChunk, data: memoryview, start: int, length: int) -> Bytes:
        """Return a verified range of a mapped file; the lock is not needed."""
        for block in range(start // BLOCK, (start + length - 1) // BLOCK + 1) if chunk.seen else ():
            if not chunk.seen[block]:
                self._files.verify_block(chunk, block, data[block * BLOCK : (block + 1) * BLOCK])
        return data[start : start + length]

    def copy(self, chunk: OpenChunk, data: memoryview, start: int, room: NDArray[np.uint8]) -> None:
        """Copy a range of a mapped file and verify it; the lock is not needed.

        Each block is verified in the copy, which is still in the processor's cache. Copying also touches the pages of
        the file without blocking other threads.
        """
        stop = start + len(room)
        whole = np.frombuffer(data, np.uint8)
        if not chunk.seen:
            room[:] = whole[start:stop]
            return
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            low, high = block * BLOCK, min((block + 1) * BLOCK, chunk.size)
            part = room[max(low, start) - start : min(high, stop) - start]
            part[:] = whole[max(low, start) : min(high, stop)]
            if not chunk.seen[block]:
                self._files.verify_block(
                    chunk, block, part.data if len(part) == high - low else data[low:high]
                )

    def sample(self, chunk: OpenChunk, layout: Layout, inside: int) -> Bytes:
        """Return a sample that has a checksum of its own; read only the sample from the file.

        For a mapped file the lock is not needed.
        """
        start, stop = layout.starts[inside], layout.starts[inside + 1]
        mapped = chunk.mapped
        if mapped is not None:
            seen = chunk.seen
            data: Bytes = mapped[start:stop]
            if not all(seen[start // BLOCK : (stop - 1) // BLOCK + 1]):
                self._files.verify_sample(chunk, layout, inside, data)
            return data
        key, low, window, follows = self._window
        is_here = low <= start and stop <= low + len(window)
        if stop - start < _KEPT_BELOW or (key == chunk.key and (is_here or start == follows)):
            return self.range(chunk, start, stop - start)
        data = memoryview(self._files.range(chunk.key, start, stop - start))
        self._files.verify_sample(chunk, layout, inside, data)
        self._window = chunk.key, start, data, stop
        return data

    def range(self, chunk: OpenChunk, start: int, length: int) -> Bytes:
        """Return a verified range of a file."""
        if chunk.mapped is not None:
            return self.mapped(chunk, chunk.mapped, start, length)
        first, last = start // BLOCK, (start + length - 1) // BLOCK
        held = chunk.blocks
        if first == last and first in held:
            return held[first][start - first * BLOCK : start - first * BLOCK + length]
        if not len(chunk.sums):
            return self._files.range(chunk.key, start, length)
        if length >= _KEPT_BELOW:
            return self.read_ahead(chunk, start, start + length)[:length]
        missing = [block for block in range(first, last + 1) if block not in held]
        if missing:
            self._load(chunk, missing[0], missing[-1])
        offset = start - first * BLOCK
        if first == last:
            return held[first][offset : offset + length]
        return b"".join(held[block] for block in range(first, last + 1))[offset : offset + length]

    def read_ahead(self, chunk: OpenChunk, start: int, stop: int, *, is_scan: bool = True) -> memoryview:
        """Read a range of a chunk; if it follows the last range, read ahead, so that small steps need few reads.

        Parameters
        ----------
        is_scan
            Whether a range at the start of another chunk also counts as following the last range.
        """
        key, low, data, follows = self._window
        if key != chunk.key or start < low or stop > low + len(data):
            is_next = start == follows if key == chunk.key else is_scan and start < BLOCK
            low = start // BLOCK * BLOCK
            high = max(stop, low + _READ_AHEAD) if is_next else stop
            high = min(-(-high // BLOCK) * BLOCK, chunk.size)
            data = memoryview(self._files.range(chunk.key, low, high - low))
            self._files.verify(chunk, low // BLOCK, data)
        self._window = chunk.key, low, data, stop
        return data[start - low :]

    def _load(self, chunk: OpenChunk, first: int, last: int) -> None:
        """Read blocks at once, verify and keep them."""
        start, stop = first * BLOCK, min((last + 1) * BLOCK, chunk.size)
        data = memoryview(self._files.range(chunk.key, start, stop - start))
        self._files.verify(chunk, first, data)
        for block in range(first, last + 1):
            self._cache.keep_block(chunk, block, data[(block - first) * BLOCK : (block - first + 1) * BLOCK])
        self._cache.evict()
