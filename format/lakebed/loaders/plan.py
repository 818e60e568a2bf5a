"""The samples of each batch of an epoch, and the spans to be read for it; computed for many batches at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lakebed.loaders.order import Order, Shares
from lakebed.loaders.spans import SpanTable
from lakebed.loaders.windows import PagedSpans

# Number of positions that are computed at a time: one call of NumPy takes as long as computing a hundred positions.
_TOGETHER = 4096

Key = tuple[int, int]
"""(block, span): the span is read once for the block, and dropped after its last use in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One batch, before anything is read.

    Parameters
    ----------
    number
        Number of the batch in the epoch.
    rows
        Row numbers in the dataset.
    real
        Mask of the samples, False for samples that repeat other samples.
    keys
        For each sample, the span to be read.
    insides
        For each sample, its position in its span.
    """

    number: int
    rows: NDArray[np.int64]
    real: NDArray[np.bool_]
    keys: list[Key]
    insides: list[int]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One epoch as one process sees it.

    Parameters
    ----------
    start
        Position at which the pass begins: 0, or the position where another run stopped.
    """

    table: SpanTable | PagedSpans
    order: Order
    shares: Shares
    epoch: int
    start: int = 0

    def steps(self, first: int = 0) -> Iterator[Step]:
        """Yield the batches, starting with number `first`."""
        together = max(1, _TOGETHER // max(1, self.shares.batch // self.shares.world))
        for begin in range(first, len(self.shares), together):
            yield from self._some(range(begin, min(begin + together, len(self.shares))))

    def next_block(self, number: int) -> int:
        """Return the next batch, after batch `number`, that may have samples of a new block."""
        order, batch = self.order, self.shares.batch
        if order.mode in ("none", "chunk"):
            return number + 1
        first = self.start + number * batch
        reached = np.arange(first, min(first + max(batch, order.lanes), len(order)))
        blocks = {int(block) for block in order.block_of(self.epoch, reached)}
        stop = min((order.positions_of(self.epoch, block).stop for block in blocks), default=first)
        return max(number + 1, (stop - self.start) // batch)

    def _some(self, numbers: range) -> Iterator[Step]:
        found = [self.shares.step(number) for number in numbers]
        positions = np.concatenate([own for own, _ in found]) + self.start
        samples = self.order.samples(self.epoch, positions)
        blocks = self.order.block_of(self.epoch, positions).tolist()
        spans, insides = self.table.find(samples)
        rows = self.table.rows_at(samples)
        keys, places = list(zip(blocks, spans.tolist(), strict=True)), insides.tolist()
        at = 0
        for number, (own, real) in zip(numbers, found, strict=True):
            end = at + len(own)
            yield Step(number, rows[at:end], real, keys[at:end], places[at:end])
            at = end

    def uses(self, block: int, first: int = 0) -> Mapping[Key, int]:
        """Return the spans of a block that this process reads from batch `first` on -> number of samples from each."""
        begin = self.start + first * self.shares.batch
        if self.order.mode in ("none", "chunk"):
            span, at = self.order.span_of(self.epoch, block)
            left = np.arange(max(at, begin), at + len(self.table.rows_of(span))) - self.start
            return {(block, span): int(np.count_nonzero(left % self.shares.world == self.shares.rank))}
        every, world = self.order.positions_of(self.epoch, block), self.shares.world
        if begin > every.start or self.start % world:
            positions = np.arange(every.start, every.stop, every.step)
            mine = (positions >= begin) & ((positions - self.start) % world == self.shares.rank)
            samples = self.order.samples(self.epoch, positions[mine])
            spans, uses = np.unique(self.table.find(samples)[0], return_counts=True)
        elif world == 1:
            spans, uses = self.order.uses(self.epoch, block)
        else:
            found = self.order.block(self.epoch, block, rank=self.shares.rank, world=world)
            spans, uses = found.spans, found.uses
        return {(block, span): count for span, count in zip(spans.tolist(), uses.tolist(), strict=True)}
