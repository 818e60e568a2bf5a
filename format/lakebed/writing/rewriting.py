"""Replace or remove many samples: each of their chunks is rewritten once, one after the other.

One walk over the chunk table makes the plan for the new one. Neighbouring chunks that change are packed together, so
that they stay full. Samples left over at the end of such a run join a small neighbour, or make the last chunk a little
larger; otherwise every change would leave another small chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

import numpy as np

from lakebed.chunks.pack import groups
from lakebed.codecs.block import Block
from lakebed.versions.chunk_table import ChunkTable, NewChunk
from lakebed.writing.pending import cost
from lakebed.writing.repack import SMALL, Plan, may_join
from lakebed.writing.replace_samples import Allocate, SampleNumbers, joined, replaced

# From this many samples on, rewriting the chunks one after the other is cheaper than editing each sample.
MANY = 1024

Change = Callable[[int, int, SampleNumbers, Block], Block | None]
"""Function of (start and end in the new samples, positions in the chunk, old samples of the chunk).

It returns the new samples of the chunk, or None if the chunk does not change.
"""


def by_chunk(table: ChunkTable, rows: SampleNumbers) -> list[tuple[int, int, int, SampleNumbers]]:
    """Return (row of the table, start, end, positions in the chunk) for each chunk with samples in ``rows``.

    The samples of the chunk are ``rows[start:end]``.

    Raises
    ------
    IndexError
        If the table has no such sample.
    """
    ordinals, places = table.locate(np.ascontiguousarray(rows, np.int64))
    cuts = [0, *(np.flatnonzero(ordinals[1:] != ordinals[:-1]) + 1).tolist(), len(rows)]
    return [(int(ordinals[a]), a, b, places[a:b]) for a, b in pairwise(cuts) if b > a]


def replacing(blocks: Sequence[Block], allocate: Allocate) -> Change:
    """Return a change that replaces the sample of each row."""
    starts = np.concatenate([[0], np.cumsum([b.count for b in blocks])])
    offsets = [None if isinstance(b.sizes, int) else b.offsets() for b in blocks]

    def change(first: int, stop: int, at: SampleNumbers, old: Block) -> Block | None:
        pieces = []
        for block, start, ends in zip(blocks, starts.tolist(), offsets, strict=False):
            a, b = max(first - start, 0), min(stop - start, block.count)
            if a < b:
                pieces.append(block.cut(a, b, ends))
        return replaced(old, at, joined(pieces), allocate)

    return change


class Walk:
    """Walks a chunk table from its first chunk to its last.

    Parameters
    ----------
    table
        The current chunks.
    tiled
        Tiled samples; their chunks are kept unchanged, or dropped.
    limit
        Bytes of data per chunk.
    load
        Reads the samples of the chunk of a row.
    pack
        Packs samples into one new chunk.
    """

    def __init__(
        self,
        table: ChunkTable,
        tiled: Collection[int],
        limit: int,
        load: Callable[[int], Block],
        pack: Callable[[Sequence[Block]], NewChunk],
    ) -> None:
        self.plan: Plan = []
        self._table = table
        self._tiled = tiled
        self._limit = limit
        self._load = load
        self._pack = pack
        self._waiting: list[Block] = []
        self._at = 0

    def change(self, row: int, changed: Callable[[Block], Block | None]) -> None:
        """Replace the samples of the chunk of a row; rows ascend from call to call."""
        old = self._load(row)
        new = changed(old)
        if new is None:
            return
        self._keep(row)
        self._at = row + 1
        if new.count == 0:
            return
        if not self._waiting:
            self._take_small_before()
        self._waiting.append(new)
        if sum(map(cost, self._waiting)) > self._limit:
            *full, rest = groups(self._waiting, self._limit)
            self.plan += [self._pack(run) for run in full]
            self._waiting = rest

    def drop(self, row: int) -> None:
        """Drop the chunk of a row."""
        self._keep(row)
        self._at = row + 1

    def end(self) -> Plan:
        """Keep the remaining chunks, and return the plan."""
        self._keep(len(self._table))
        self._flush()
        return self.plan

    def _keep(self, stop: int) -> None:
        """Keep the chunks before row ``stop`` of the chunk table."""
        first = self._at
        if first >= stop:
            return
        if self._waiting and self._is_small(self._waiting) and self._may_join(first, self._waiting):
            self._waiting.append(self._load(first))
            first += 1
        self._flush()
        if first < stop:
            last = self.plan[-1] if self.plan else None
            if isinstance(last, tuple) and last[1] == first:
                self.plan[-1] = (last[0], stop)
            else:
                self.plan.append((first, stop))
        self._at = stop

    def _take_small_before(self) -> None:
        """Pack a small chunk just before the new samples together with them."""
        last = self.plan[-1] if self.plan else None
        if not isinstance(last, tuple):
            return
        first, row = last[0], last[1] - 1
        if self._table.size(row) < SMALL and self._may_join(row, ()):
            self.plan[-1:] = [(first, row)] if row > first else []
            self._waiting.append(self._load(row))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        total = sum(map(cost, waiting))
        if not total and not waiting:
            return
        limit = self._limit * 5 // 4
        if total > limit:
            parts = -(-total // self._limit)
            limit = total // parts + total // (16 * parts) + 1
        self.plan += [self._pack(run) for run in groups(waiting, limit)]

    def _is_small(self, blocks: Sequence[Block]) -> bool:
        return sum(b.nbytes for b in blocks) < min(SMALL, self._limit // 2)

    def _may_join(self, row: int, blocks: Sequence[Block]) -> bool:
        return may_join(self._table, self._tiled, row, sum(map(cost, blocks)), self._limit)
