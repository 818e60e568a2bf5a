"""Cache of chunks in memory, bounded by bytes: parsed chunks, and verified blocks of chunks read by range."""

from __future__ import annotations

from collections import OrderedDict, deque

from lakebed.chunks.chunk import Chunk
from lakebed.reading.open_chunk import OpenChunk

# Number of large local chunks to keep in memory; few, because the system caches their files anyway.
_MOST_LARGE = 4
# Number of chunks whose header is remembered, together with their mapping or their verified blocks.
_MOST_OPEN = 1024


class ChunkCache:
    """Chunks and blocks, least recently used first; callers must hold a lock.

    Parameters
    ----------
    limit
        Maximum number of bytes to keep; mapped files do not count.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._chunks: OrderedDict[str, tuple[Chunk, int]] = OrderedDict()
        self._open: OrderedDict[str, OpenChunk] = OrderedDict()
        self._blocks: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._large: deque[str] = deque()

    def clear(self) -> None:
        """Forget everything."""
        self._chunks.clear()
        for chunk in self._open.values():
            chunk.is_open = False
        self._open.clear()
        self._blocks.clear()
        self._large.clear()
        self.used = 0

    # -- whole chunks ------------------------------------------------------------------------------------------

    def __contains__(self, key: str) -> bool:
        return key in self._chunks

    def chunk(self, key: str) -> Chunk | None:
        """Return a chunk; None if the cache does not hold it."""
        found = self._chunks.get(key)
        if found is None:
            return None
        self._chunks.move_to_end(key)
        return found[0]

    def keep(self, key: str, chunk: Chunk, size: int) -> None:
        """Put a chunk in; if room is needed, drop other chunks."""
        old = self._chunks.pop(key, None)
        self.used += size - (0 if old is None else old[1])
        self._chunks[key] = (chunk, size)
        self._make_room(1)

    def keep_briefly(self, key: str) -> None:
        """Drop the chunk ``key``, which was just put in, once a few more chunks were passed to this method."""
        self._large.append(key)
        while len(self._large) > _MOST_LARGE:
            dropped = self._chunks.pop(self._large.popleft(), None)
            self.used -= 0 if dropped is None else dropped[1]

    # -- chunks that are read by range -------------------------------------------------------------------------

    def opened(self, key: str) -> OpenChunk | None:
        """Return a chunk that is read by range; None if the cache does not know it."""
        found = self._open.get(key)
        if found is not None:
            self._open.move_to_end(key)
        return found

    def open(self, chunk: OpenChunk) -> OpenChunk:
        """Remember a chunk that is read by range."""
        self._open[chunk.key] = chunk
        while len(self._open) > _MOST_OPEN:
            _, closed = self._open.popitem(last=False)
            closed.is_open = False
            for block in closed.blocks:
                self.used -= self._blocks.pop((closed.key, block), 0)
        return chunk

    def keep_block(self, chunk: OpenChunk, block: int, data: memoryview) -> None:
        """Put a verified block in, unless its chunk is forgotten; :meth:`evict` makes room for it."""
        if chunk.is_open and block not in chunk.blocks and self._open.get(chunk.key) is chunk:
            chunk.blocks[block] = data
            self._blocks[chunk.key, block] = len(data)
            self.used += len(data)

    def evict(self) -> None:
        """Drop blocks and chunks beyond the limit, but keep two blocks, because a sample may extend over two."""
        self._make_room(0)

    def _make_room(self, chunks: int) -> None:
        while self.used > self.limit and len(self._blocks) > 2:
            (key, block), size = self._blocks.popitem(last=False)
            self._open[key].blocks.pop(block)
            self.used -= size
        while self.used > self.limit and len(self._chunks) > chunks:
            _, (_, dropped) = self._chunks.popitem(last=False)
            self.used -= dropped
