"""Rewrite the chunks that edits touch, and only those: splices of samples -> a plan for the new chunk table.

A chunk that becomes small is merged with a neighbour (format.md 6.4), a large chunk is cut; the format allows every
packing. New chunks get new ids, so that the chunks of published versions never change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from lakebed.codecs.block import Block
from lakebed.versions.chunk_table import ChunkTable, NewChunk
from lakebed.writing.pending import Piece, Splice

Plan = list[tuple[int, int] | NewChunk]
Load = Callable[[int], Block]
Write = Callable[[Sequence[Block]], list[NewChunk]]

# A rewritten chunk with less data is merged with a neighbour if possible (format.md 6.4).
SMALL = 2_000_000


class _Repacking:
    """Walks a chunk table from its first sample to its last; samples are kept, skipped, or added."""

    def __init__(
        self, table: ChunkTable, tiled: Collection[int], limit: int, load: Load, write: Write, *, merge: bool
    ) -> None:
        self.plan: Plan = []
        self._table = table
        self._tiled = tiled
        self._limit = limit
        self._load = load
        self._write = write
        self._merge = merge
        self._row = 0  # row of the table that contains sample `_at`
        self._at = 0
        self._open: tuple[int, Block] | None = None
        self._waiting: list[Block] = []

    def keep(self, stop: int) -> None:
        """Keep samples up to ``stop`` (exclusive); chunks that are kept whole are not rewritten."""
        last = self._table.ids.last
        while self._at < stop:
            if self._at == self._table.first(self._row):
                rows = int(np.searchsorted(last, np.uint64(stop), side="left"))
                if rows > self._row:
                    self._keep_rows(self._row, rows)
                    self._row, self._at = rows, int(last[rows - 1]) + 1
                    continue
            first, block = self._table.first(self._row), self._opened()
            end = min(stop, first + block.count)
            self._waiting.append(block.cut(self._at - first, end - first))
            self._leave(end)

    def skip(self, stop: int) -> None:
        """Drop samples up to ``stop`` (exclusive)."""
        while self._at < stop:
            self._leave(min(stop, int(self._table.ids.last[self._row]) + 1))

    def add(self, piece: Piece) -> None:
        """Insert new samples at the current position."""
        if isinstance(piece, Block):
            self._waiting.append(piece)
        else:
            self.flush()
            self.plan += piece

    def flush(self) -> None:
        """Pack the waiting samples."""
        waiting, self._waiting = [b for b in self._waiting if b.count], []
        if not waiting:
            return
        if self._is_small(waiting) and self.plan and isinstance(self.plan[-1], tuple):
            first, stop = self.plan[-1]
            if self._may_join(stop - 1, waiting):
                self.plan[-1:] = [(first, stop - 1)] if stop - 1 > first else []
                waiting.insert(0, self._load(stop - 1))
        self.plan += self._write(waiting)

    def _keep_rows(self, first: int, stop: int) -> None:
        joins_before = bool(self.plan) and isinstance(self.plan[-1], tuple)
        alone = bool(self._waiting) and not joins_before and self._is_small(self._waiting)
        if alone and self._may_join(first, self._waiting):
            self._waiting.append(self._load(first))
            first += 1
        self.flush()
        if self.plan and isinstance(self.plan[-1], tuple) and self.plan[-1][1] == first:
            first = self.plan.pop()[0]  # type: ignore[index]  # a run of rows, as was just asked
        if first < stop:
            self.plan.append((first, stop))

    def _leave(self, at: int) -> None:
        """Move to sample ``at``, which is in the current chunk or is the first sample of the next chunk."""
        self._at = at
        last = self._table.ids.last
        if at > int(last[self._row]):
            self._row = int(np.searchsorted(last, np.uint64(at), side="left"))

    def _opened(self) -> Block:
        if self._open is None or self._open[0] != self._row:
            self._open = (self._row, self._load(self._row))
        return self._open[1]

    def _is_small(self, blocks: Iterable[Block]) -> bool:
        return self._merge and sum(b.nbytes for b in blocks) < SMALL

    def _may_join(self, row: int, blocks: Iterable[Block]) -> bool:
        return may_join(self._table, self._tiled, row, sum(b.nbytes for b in blocks), self._limit)


def may_join(table: ChunkTable, tiled: Collection[int], row: int, nbytes: int, limit: int) -> bool:
    """Return whether the chunk of a row holds whole samples and has room for this many bytes."""
    size = table.size(row)
    if size == 0 or table.first(row) in tiled or table.samples(row) == 0:
        return False
    return size + nbytes <= limit


def replan(
    table: ChunkTable,
    splices: Iterable[Splice],
    *,
    tiled: Collection[int],
    limit: int,
    load: Load,
    write: Write,
    merge: bool = True,
) -> Plan:
    """Apply splices, ascending and disjoint, to a table of chunks.

    Parameters
    ----------
    tiled
        Tiled samples, which are kept or dropped as a whole.
    limit
        Bytes of data per chunk.
    load
        Reads the samples of the chunk of a row.
    write
        Packs samples into new chunks.
    merge
        Whether small chunks may be merged; requires lossless compression.
    """
    walk = _Repacking(table, tiled, limit, load, write, merge=merge)
    for splice in splices:
        walk.keep(splice.start)
        for piece in splice.pieces:
            walk.add(piece)
        walk.skip(splice.stop)
    walk.keep(table.count)
    walk.flush()
    return walk.plan


def compacted(
    table: ChunkTable,
    *,
    tiled: Collection[int],
    limit: int,
    load: Load,
    write: Write,
    size: Callable[[int], int],
) -> Plan:
    """Merge neighbouring small chunks into the fewest chunks of up to ``limit`` bytes; ``size`` returns their sizes."""
    sizes = [
        0 if table.samples(row) == 0 or table.first(row) in tiled else size(row) for row in range(len(table))
    ]
    plan: Plan = []
    row = 0
    while row < len(table):
        stop, total = row + 1, sizes[row]
        while sizes[row] and stop < len(table) and sizes[stop] and total + sizes[stop] <= limit:
            total += sizes[stop]
            stop += 1
        if stop - row > 1:
            plan += write([load(r) for r in range(row, stop)])
        else:
            plan.append((row, stop))
        row = stop
    return plan
