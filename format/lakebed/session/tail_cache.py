"""Small chunks at the ends of tensors: a writer remembers those that it published, or has read.

The next publish packs what such a chunk holds together with what is new. Otherwise it would have to read one chunk of
every tensor first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from lakebed.reading.fetch import ChunkSource
from lakebed.storage.base import Storage, traits_of
from lakebed.versions.state import Snapshot, TensorState

if TYPE_CHECKING:
    from lakebed.writing.tensor_chunks import Files

_SMALL = 256 * 1024
_MOST_BYTES = 16 * 1024 * 1024


class TailCache:
    """Reads whole chunks for a draft, and keeps those that are small.

    Not for several threads at once.

    Parameters
    ----------
    storage
        Where the dataset lies.
    source
        What reads and verifies chunks.
    """

    def __init__(self, storage: Storage, source: ChunkSource) -> None:
        self._source = source
        self._is_remote = not traits_of(storage).local
        self._kept: OrderedDict[str, bytes | memoryview] = OrderedDict()
        self._bytes = 0

    def read(self, state: TensorState, row: int) -> bytes | memoryview:
        """Return the chunk file of a row of a tensor's chunk table."""
        key = state.table.key(row)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        data = self._source.file(state.table, row, pooled=True)
        self._keep(key, data)
        return data

    def fetch(self, wanted: Callable[[], Iterable[tuple[TensorState, int]]]) -> None:
        """Read the chunks that are about to be asked for at the same time, where they lie on a store."""
        if not self._is_remote:
            return
        from lakebed.storage.concurrently import concurrently

        missing = [(state, row) for state, row in wanted() if state.table.key(row) not in self._kept]
        if len(missing) > 1:
            found = concurrently([partial(self._source.file, state.table, row) for state, row in missing])
            for (state, row), data in zip(missing, found, strict=True):
                self._keep(state.table.key(row), data)

    def published(self, snapshot: Snapshot, chunks: Files) -> None:
        """Keep the last chunk of every tensor, as far as this publish wrote it."""
        for state in snapshot.tensors.values():
            sizes = state.table.places.sizes
            if chunks and len(sizes) and sizes[-1] <= _SMALL:
                key = state.table.key(len(sizes) - 1)
                if key in chunks:
                    self._keep(key, b"".join(chunks[key]))

    def clear(self) -> None:
        """Keep nothing: somebody else has been at work."""
        self._kept.clear()
        self._bytes = 0

    def _keep(self, key: str, data: bytes | memoryview) -> None:
        if len(data) > _SMALL or key in self._kept:
            return
        self._kept[key] = data
        self._bytes += len(data)
        while self._bytes > _MOST_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)
