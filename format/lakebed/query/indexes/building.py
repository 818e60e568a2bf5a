"""Building of the segments of an index, block by block, so that memory does not grow with the number of rows.

Each segment is written and registered before the next one is begun, so an interrupted build continues after the last
registered segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.query.indexes import hnsw
from lakebed.query.indexes.bm25 import Words
from lakebed.query.indexes.chunks import Chunks, chunks_of
from lakebed.query.indexes.codes import Best, Codes, Floats, suit
from lakebed.query.indexes.corpus import texts_of
from lakebed.query.indexes.registry import IndexEntry, SegmentEntry, write_segment
from lakebed.query.indexes.segments import Segment
from lakebed.query.relations.stored import StoredColumn
from lakebed.query.values.columns import Numbers, rows
from lakebed.runtime.progress import Advance

if TYPE_CHECKING:
    from lakebed.session.table import Table

TEXT_ROWS = 1 << 19
GRAPH_BYTES = 1 << 28
"""Maximum size of a segment with a graph. Memory holds the graph once while it is built, twice while it is written."""

_ASKED = 64
"""Number of searches that measure the recall."""

_NEAREST = 10
_BLOCK_BYTES = 1 << 22
_BLOCK_ROWS = 1 << 11
"""Number of vectors added at a time; Ctrl-C takes effect after each such step."""

_SAMPLE_RUNS = 64
_SAMPLE_ROWS = 32
"""The sample that decides whether vectors can be stored as bytes: number of row ranges, and rows in each range."""


@dataclass(frozen=True, slots=True)
class Building:
    """The addition of chunks to an index.

    Attributes
    ----------
    places
        Numbers, in `chunks`, of the chunks to add.
    """

    table: Table
    column: StoredColumn
    entry: IndexEntry
    chunks: Chunks
    places: NDArray[np.int64]

    @classmethod
    def of(cls, table: Table, tensor: str, entry: IndexEntry, held: NDArray[np.uint64]) -> Building:
        """Return the addition of the chunks of a tensor whose prints are not in `held`."""
        column = StoredColumn(table.whole, tensor)
        chunks = chunks_of(column.state)
        new = (chunks.prints != 0) & ~np.isin(chunks.prints, held)
        return cls(table, column, entry, chunks, np.flatnonzero(new))

    @property
    def count(self) -> int:
        """Number of rows in the chunks to add."""
        return int(self.chunks.counts[self.places].sum())

    def segments(self, advance: Advance) -> Iterator[SegmentEntry]:
        """Write the segments one after the other; yield the entry of each for the caller to register."""
        if not len(self.places):
            return
        storage = self.table.session.storage
        if self.entry.kind == "bm25":
            for part in self._portions(TEXT_ROWS):
                count = int(self.chunks.counts[part].sum())
                yield write_segment(storage, self._words(part), count, {})
                advance(count)
            return
        width = int(self.column.state.meta.max_shape[0])
        settings = self.entry.settings
        codes = self._codes(width, str(settings["metric"]), str(settings["dtype"]))
        empty = hnsw.Graph(width, settings, codes)
        each = hnsw.row_bytes(width, empty.dtype, int(settings["connectivity"]))
        for part in self._portions(max(1, GRAPH_BYTES // each)):
            segment, facts = self._graph(part, hnsw.Graph(width, settings, codes), advance)
            yield write_segment(storage, segment, int(self.chunks.counts[part].sum()), facts)

    def _portions(self, most: int) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of the chunks of each segment; segments have similar sizes, and at most `most` rows."""
        even = -(-self.count // -(-self.count // most)) if self.count else most
        start = total = 0
        for i, place in enumerate(self.places.tolist()):
            count = int(self.chunks.counts[place])
            if i > start and (total + count > most or total >= even):
                yield self.places[start:i]
                start, total = i, 0
            total += count
        if start < len(self.places):
            yield self.places[start:]

    def _runs(self, part: NDArray[np.int64]) -> list[range]:
        firsts, counts = self.chunks.firsts[part].tolist(), self.chunks.counts[part].tolist()
        return [range(first, first + count) for first, count in zip(firsts, counts, strict=True)]

    def _words(self, part: NDArray[np.int64]) -> Segment:
        texts = pa.concat_arrays([texts_of(self.column, run) for run in self._runs(part)])
        return Words.of(texts, self.chunks.prints[part], self.chunks.counts[part]).to_segment()

    # -- vectors ---------------------------------------------------------------------------------------------------

    def _graph(
        self, part: NDArray[np.int64], graph: hnsw.Graph, advance: Advance
    ) -> tuple[Segment, dict[str, Any]]:
        counts = self.chunks.counts[part]
        asked, own = self._asked(part, graph)
        best = Best(asked, own, graph.metric, min(_NEAREST, max(0, int(counts.sum()) - 1)))
        step = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // (4 * graph.width)))
        at = 0
        for run in self._runs(part):
            for start in range(run.start, run.stop, step):
                block = range(start, min(run.stop, start + step))
                vectors, kept = self._read(block, graph.width, graph.metric, graph.dtype)
                numbers, vectors = at + np.flatnonzero(kept), vectors[kept]
                graph.add(numbers, vectors)
                best.add(numbers, vectors)
                at += len(block)
                advance(len(block))
        facts = graph.measured(best, asked)
        return graph.to_segment(self.chunks.prints[part], counts), facts

    def _asked(self, part: NDArray[np.int64], graph: hnsw.Graph) -> tuple[Floats, NDArray[np.int64]]:
        """Return the vectors that measure the recall, from all parts of a segment, and their numbers in the segment."""
        counts = self.chunks.counts[part]
        own = _spread_out(0, int(counts.sum()) - 1, _ASKED)
        ends = np.cumsum(counts)
        of = np.searchsorted(ends, own, side="right")
        wanted = self.chunks.firsts[part][of] + own - (ends - counts)[of]
        vectors, kept = self._read(wanted, graph.width, graph.metric, graph.dtype)
        return vectors[kept], own[kept]

    def _codes(self, width: int, metric: str, dtype: str) -> Codes | None:
        """Return the coding of vectors as bytes; None if they stay floats."""
        if dtype not in ("auto", "i8"):
            return None
        which = _spread_out(0, len(self.places) - 1, _SAMPLE_RUNS)
        each = -(-_SAMPLE_RUNS // len(which))
        found = []
        for run in self._runs(self.places[which]):
            for start in _spread_out(run.start, max(run.start, run.stop - _SAMPLE_ROWS), each).tolist():
                block = range(start, min(run.stop, start + _SAMPLE_ROWS))
                vectors, kept = self._read(block, width, metric, "f32")
                found.append(vectors[kept])
        sample = np.concatenate(found)
        is_right = len(sample) > 0 if dtype == "i8" else suit(sample, metric)
        return Codes.of(sample, metric) if is_right else None

    def _read(
        self, wanted: range | NDArray[np.int64], width: int, metric: str, dtype: str
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the vectors of the wanted rows, and a mask of the rows whose vector a graph can hold."""
        vectors = np.zeros((len(wanted), width), np.float32)
        kept = np.zeros(len(wanted), np.bool_)
        if not len(wanted):
            return vectors, kept
        given = self.column.read(wanted)
        if isinstance(given, Numbers) and given.values.shape[1:] == (width,):
            vectors[:] = given.values
            kept[:] = True if given.missing is None else ~given.missing
        else:
            for i, value in enumerate(rows(given)):
                if value is not None and value.shape == (width,):
                    vectors[i], kept[i] = value, True
        return vectors, kept & hnsw.usable(vectors, metric, dtype)


def _spread_out(first: int, last: int, count: int) -> NDArray[np.int64]:
    """Return up to `count` different numbers from `first` to `last`, evenly spaced."""
    return np.unique(np.linspace(first, last, count).astype(np.int64))
