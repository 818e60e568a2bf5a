"""Copy rows in any order out of mapped chunk files, for tensors whose samples have one shape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import config
from lakebed.documents.manifest import BLOCK
from lakebed.native import gather
from lakebed.reading.bulk import whole_chunk
from lakebed.reading.fetch import EvenSamples
from lakebed.reading.locate import Locating
from lakebed.reading.samples import SampleReader

# Maximum number of mapped chunk files per tensor; the system allows some 65,000 mappings per process.
_MOST_MAPPED = 8192


class ScatteredRows:
    """Copies rows in any order; maps a chunk, and verifies a block, at the first request for a row in it.

    Parameters
    ----------
    reader
        Reader of a tensor; all requested rows must be in settled chunks.
    """

    def __init__(self, reader: SampleReader) -> None:
        self._reader = reader
        self._shape, self._dtype = tuple(reader.state.meta.max_shape), reader.known_dtype()
        self._item = reader.item
        self._sources = gather.RowSources(reader.state.table.ids.last, self._item, BLOCK)
        self._mapped: dict[int, EvenSamples] = {}

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return rows: shape (rows, *sample shape).

        Raises
        ------
        CorruptError
            If a chunk is damaged; the error names tensor and row.
        """
        out = np.empty((len(rows), *self._shape), self._dtype)
        room = out.reshape(-1).view(np.uint8)
        done = self._sources.take(rows, room, 0)
        while done < len(rows):
            self._make_ready(int(rows[done]))
            done = self._sources.take(rows, room, done)
        return out

    def _make_ready(self, row: int) -> None:
        """Map the chunk of a row if it is not mapped, and verify the blocks of the row."""
        reader = self._reader
        with Locating(reader, row):
            ordinal, inside = (int(found[0]) for found in reader.locate(np.array([row])))
            if not self._sources.has(ordinal):
                found = reader.source.settled_samples(reader.state.table, ordinal, self._item)
                if found is None:
                    self._sources.put(ordinal, whole_chunk(reader, ordinal, self._item), 0, b"")
                    return
                self._sources.put(ordinal, found.mapped, found.start, found.chunk.seen)
                self._mapped[ordinal] = found
            self._mapped[ordinal].verify(inside)


def scattered(reader: SampleReader, rows: NDArray[np.int64], dense: int) -> ScatteredRows | None:
    """Return a reader for copying these rows a few at a time; None if they are few, or no chunk can be mapped.

    Parameters
    ----------
    dense
        Minimum number of rows per chunk for which mapping pays.
    """
    local = reader.source.remote is None and config.OS_CACHE
    if not local or not reader.is_gathered or reader.chunk_codec() is not None or not reader.item:
        return None
    table = reader.state.table
    used = np.flatnonzero(np.bincount(reader.locate(rows)[0], minlength=len(table.ids.last)))
    if not 0 < len(used) <= min(_MOST_MAPPED, len(rows) // dense):
        return None
    if not all(reader.source.is_settled(table, int(ordinal)) for ordinal in used):
        return None
    return ScatteredRows(reader)
