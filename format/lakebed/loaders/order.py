"""The order of samples: a pure function of seed, epoch and position.

A position always gives the same sample, regardless of the number of threads and processes, the amount read ahead, and
where in the epoch reading began. Only a few numbers are kept per *span*, the unit of reading: a run of neighbouring
samples of one chunk, of some hundred kilobytes.

    none      samples in their stored order
    chunk     chunks in random order, the samples of each in their stored order
    window    spans in random order; the samples of a *block* of them in random order
    exact     all samples in random order

In window mode the spans of an epoch are permuted, and the resulting sequence of samples is cut into L *lanes* of equal
length. Position p is sample p div L of lane p mod L. Each lane is cut, at ends of spans, into blocks of about the same
number of bytes; the samples of a block are permuted among themselves. All lanes have the same number of blocks, so the
blocks of all lanes that are read at one time act as one large block.

Lanes serve many processes: process r of W takes the positions p with p mod W = r. If W divides L, each process reads
whole lanes. Then no two processes read the same span, except spans at the ends of lanes, which belong to two lanes.

Size of blocks: consider a reader that fetches spans in the order of their first use, at an even rate, and drops each
span after its last use. While one block ends and the next begins, it holds more than one block; the fewer samples a
span has, the less it holds (`footprint`). Blocks are as large as the window allows for this reader: half of the window
for spans of very many samples, all of it for spans of about five. Spans of one sample need no window, and are permuted
exactly.

The first blocks of an epoch are small, each twice as large as the previous one; the last blocks shrink in the same way.
No block is more than a quarter of the epoch. The samples of a block come from all of its spans, so most of a block must
be read before its first samples are decoded. Small first blocks shorten the wait before the first batch, and small last
blocks shorten the decoding after the last read. Epochs of less than 64 MB are one block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lakebed.errors import InvalidInputError
from lakebed.loaders.draws import BLOCK, SPANS, key, mix
from lakebed.native import order as native

Mode = Literal["none", "chunk", "window", "exact"]
Tail = Literal["pad", "drop", "keep"]
Integers = NDArray[np.int64]

WINDOW = 512 << 20

EASED_BYTES = 64 << 20
"""Minimum number of stored bytes of epochs with smaller first and last blocks."""

_FIRST_BYTES = 16 << 20  # limit of the first and the last block
_FIRST_PART = 1 / 16  # limit of the first block, as a part of the epoch
_LARGEST_PART = 1 / 4  # limit of the largest block
# Usable share of the window; the remainder is a reserve, because the number of spans in a block is random.
_RESERVE = 0.94


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Runs of neighbouring samples; each run is read at once. Together they are the samples 0 to n - 1, in order.

    Attributes
    ----------
    count
        Number of samples in each span, int64.
    nbytes
        Number of stored bytes of each span, int64.
    chunk
        Number of the chunk that contains each span, int64; the spans of one chunk are neighbours.
    """

    count: Integers
    nbytes: Integers
    chunk: Integers
    # For each span, the index of its first sample; the last entry is the total number of samples.
    first: Integers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        first = np.zeros(len(self.count) + 1, dtype=np.int64)
        np.cumsum(self.count, out=first[1:])
        object.__setattr__(self, "first", first)

    def __len__(self) -> int:
        return len(self.count)

    def of(self, samples: ArrayLike) -> Integers:
        """Return the numbers of the spans that hold some samples; int64."""
        return np.searchsorted(self.first, np.asarray(samples, dtype=np.int64), side="right") - 1


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Spans, or parts of them, whose samples are mixed with each other.

    Attributes
    ----------
    positions
        Positions of the block's samples in the epoch: every L-th position if there are L lanes.
    spans
        Numbers of the spans in the order of their first samples, int64.
    uses
        For each span, the number of its samples in this block, int64. After the last of these samples, a reader can
        drop the span; its other samples may belong to another block.
    """

    positions: range
    spans: Integers
    uses: Integers


@dataclass(frozen=True, slots=True, eq=False)
class _Epoch:
    """Layout of one epoch: the sequence of the permuted spans, and the places at which it is cut into blocks."""

    number: int
    slots: Integers  # for each place in the sequence, the number of its span
    # For each place, the index of its first sample in the sequence; the last entry is the total number of samples.
    starts: Integers
    # For each block, the index of its first sample in the sequence; the last entry is the total number of samples.
    # Each lane has a whole number of blocks.
    blocks: Integers
    places: Integers  # for each block, the place in which it begins
    keys: NDArray[np.uint64]  # for each block, the key of its permutation; empty if samples keep their order


class Order:
    """The order of the samples of an epoch.

    Parameters
    ----------
    spans
        The samples.
    mode
        ``none``, ``chunk``, ``window`` or ``exact``.
    seed
        Determines the order, together with the number of the epoch.
    window
        Maximum number of bytes that a reader holds, in window mode.
    lanes
        Number of lanes; by default 64 for a million spans, 8 for 4,096, else 1.

    Examples
    --------
    >>> spans = Spans(np.full(3, 2), np.full(3, 100), np.arange(3))
    >>> order = Order(spans, mode="exact", seed=7)
    >>> order.positions(0, 0, 6).tolist(), order.positions(1, 0, 6).tolist()
    ([3, 0, 1, 2, 5, 4], [2, 1, 0, 3, 5, 4])
    """

    def __init__(
        self, spans: Spans, *, mode: Mode, seed: int, window: int = WINDOW, lanes: int | None = None
    ) -> None:
        if mode not in ("none", "chunk", "window", "exact"):
            raise InvalidInputError(
                f"the mode of an order must be none, chunk, window or exact, not {mode!r}"
            )
        if window < 1 or (lanes is not None and lanes < 1):
            raise InvalidInputError("a window and a number of lanes must be positive")
        self.spans = spans
        self.mode = mode
        self.seed = seed
        self.window = window
        usual = 64 if len(spans) >= 1_000_000 else 8 if len(spans) >= 4096 else 1
        self.lanes = (lanes or usual) if mode == "window" else 1
        # This tuple is replaced but never changed, so threads need no lock.
        self._epochs: tuple[_Epoch, ...] = ()

    def __len__(self) -> int:
        return int(self.spans.first[-1])

    def positions(self, epoch: int, start: int, stop: int) -> Integers:
        """Return the numbers of the samples at positions `start` to ``stop - 1``: int64, shape (stop - start,)."""
        return self.samples(epoch, np.arange(start, stop, dtype=np.int64))

    def samples(self, epoch: int, positions: Integers) -> Integers:
        """Return the numbers of the samples at some positions of an epoch: int64.

        Raises
        ------
        IndexError
            If a position is not below the number of samples.
        """
        self._check(positions)
        if self.mode == "none" or not len(positions):
            return positions
        e = self._epoch(epoch)
        return native.samples_at(
            positions, self.lanes, e.blocks, e.keys, e.places, e.starts, e.slots, self.spans.first
        )

    # -- for reading ahead -------------------------------------------------------------------------------------------

    def block_of(self, epoch: int, positions: ArrayLike) -> Integers:
        """Return for each position of an epoch the number of its block: int64."""
        positions = np.asarray(positions, dtype=np.int64)
        self._check(positions)
        index, lane = np.divmod(positions, self.lanes)
        return np.searchsorted(self._epoch(epoch).blocks, self._lane_starts(lane) + index, side="right") - 1

    def blocks(self, epoch: int) -> int:
        """Return the number of blocks of an epoch; the blocks of a lane are numbered in sequence."""
        return len(self._epoch(epoch).blocks) - 1

    def span_of(self, epoch: int, block: int) -> tuple[int, int]:
        """Return the span of a block, and the position of the span's first sample; for modes ``none`` and ``chunk``."""
        layout = self._epoch(epoch)
        return int(layout.slots[block]), int(layout.starts[block])

    def positions_of(self, epoch: int, number: int) -> range:
        """Return the positions of a block."""
        layout = self._epoch(epoch)
        start, stop = (int(end) for end in layout.blocks[number : number + 2])
        lane = int(np.searchsorted(self._lane_ends(), start, side="right"))
        offset = int(self._lane_starts(lane))
        return range((start - offset) * self.lanes + lane, (stop - offset) * self.lanes + lane, self.lanes)

    def uses(self, epoch: int, number: int) -> tuple[Integers, Integers]:
        """Return the spans of a block, and the number of samples that it has of each; both int64.

        Unlike :meth:`block`, this takes time per span, not per sample; a span of single numbers has 65,536 samples.
        """
        layout = self._epoch(epoch)
        start, stop = layout.blocks[number : number + 2]
        first, last = int(layout.places[number]), int(np.searchsorted(layout.starts, stop))
        ends = np.clip(layout.starts[first : last + 1], start, stop)
        return layout.slots[first:last], np.diff(ends)

    def block(self, epoch: int, number: int, *, rank: int = 0, world: int = 1) -> Block:
        """Return the spans of one block that one of several processes uses.

        Parameters
        ----------
        epoch, number
            The block.
        rank, world
            The process: it takes the positions p with p mod world = rank.

        Returns
        -------
        The block with only the spans that this process uses. Its `positions` include the positions of other processes.
        """
        every = self.positions_of(epoch, number)
        positions = np.arange(every.start, every.stop, every.step, dtype=np.int64)
        numbers = self._spans_of(self.samples(epoch, positions[positions % world == rank]))
        spans, first, uses = np.unique(numbers, return_index=True, return_counts=True)
        order = np.argsort(first)
        return Block(every, spans[order], uses[order])

    def _spans_of(self, samples: Integers) -> Integers:
        return self.spans.of(samples)

    # -- the layout of an epoch --------------------------------------------------------------------------------------

    def _check(self, positions: Integers) -> None:
        if len(positions) and not (int(positions.min()) >= 0 and int(positions.max()) < len(self)):
            raise IndexError(
                f"positions {positions.min()} to {positions.max()} were requested; the epoch has positions 0 to "
                f"{len(self) - 1}"
            )

    def _lane_starts(self, lanes: ArrayLike) -> Integers:
        """Return the starts of lanes in the sequence; if lengths differ, the first lanes have one more sample."""
        short, longer = divmod(len(self), self.lanes)
        lanes = np.asarray(lanes, dtype=np.int64)
        starts: Integers = lanes * short + np.minimum(lanes, longer)
        return starts

    def _lane_ends(self) -> Integers:
        return self._lane_starts(np.arange(1, self.lanes + 1))

    def _epoch(self, epoch: int) -> _Epoch:
        """Return the layout of an epoch; the last two layouts are kept, for reading ahead into the next epoch."""
        for layout in self._epochs:
            if layout.number == epoch:
                return layout
        layout = self._lay_out(epoch)
        self._epochs = (layout, *self._epochs[:1])
        return layout

    def _lay_out(self, epoch: int) -> _Epoch:
        spans = self.spans
        chance = key(self.seed, epoch, SPANS)
        if self.mode == "window":
            slots = native.permuted(len(spans), chance)
        elif self.mode == "chunk":
            slots = _chunks_permuted(spans.chunk, chance)
        else:
            slots = np.arange(len(spans), dtype=np.int64)
        starts = np.zeros(len(spans) + 1, dtype=np.int64)
        np.cumsum(spans.count[slots], out=starts[1:])
        if self.mode == "window":
            blocks = self._cut(slots, starts)
        elif self.mode == "exact":
            blocks = starts[[0, -1]]
        else:
            blocks = starts[np.append(True, np.diff(starts) > 0)]
        keys = np.zeros(0, dtype=np.uint64)
        if self.mode in ("window", "exact"):
            keys = mix(np.uint64(key(self.seed, epoch, BLOCK)) ^ np.arange(len(blocks) - 1, dtype=np.uint64))
        places = np.searchsorted(starts, blocks, side="right") - 1
        return _Epoch(epoch, slots, starts, blocks, places, keys)

    def _cut(self, slots: Integers, starts: Integers) -> Integers:
        """Return the starts of blocks: each lane is cut, at ends of spans, into blocks of similar size in bytes."""
        nbytes = np.concatenate([[0], np.cumsum(self.spans.nbytes[slots])])
        usual = self._usual(self.spans.nbytes)
        room = max(self.window * _RESERVE - self.lanes * usual, usual)
        each = math.ceil(nbytes[-1] * footprint(self._usual(self.spans.count)) / room) if nbytes[-1] else 1
        lanes = np.concatenate([[0], self._lane_ends()])
        parts = _parts(float(nbytes[-1]), each, 4 * self.lanes * usual)
        if len(parts):
            reached = np.interp(lanes, starts, nbytes)  # bytes before each lane
            targets = reached[:-1, None] + np.diff(reached)[:, None] * parts
            inner = starts[np.searchsorted(nbytes, targets)]
            inner = np.clip(inner, lanes[:-1, None], lanes[1:, None])
            lanes = np.concatenate([lanes, inner.ravel()])
        ends = np.sort(lanes)  # np.unique would import all of numpy.ma
        found: Integers = ends[np.append(True, ends[1:] != ends[:-1])]
        return found

    def _usual(self, of: Integers) -> float:
        """Return the mean of `of`, which has one value per span, weighted by the bytes of the spans."""
        nbytes = self.spans.nbytes
        total = int(nbytes.sum())
        return float((nbytes / total * of).sum()) if total else 0.0


def footprint(samples: float) -> float:
    """Return the memory that reading a block needs, as a multiple of its size, if each span has `samples` samples.

    With c samples per span: once a fraction x of a block is delivered, a fraction 1 - (1 - x)**c of its spans has been
    needed, and a fraction x**c is finished. A reader with a constant rate must be ahead by the largest distance between
    the first curve and x, and drops spans late by the same distance.
    """
    if samples <= 1:
        return 0.0
    x = math.exp(-math.log(samples) / (samples - 1))
    return 2 * (x - math.pow(x, samples))


def _parts(total: float, each: int, least: float) -> NDArray[np.float64]:
    """Return for each block of a lane, except the first, the fraction of the lane that precedes the block: float64.

    Parameters
    ----------
    total
        Stored bytes of the epoch.
    each
        Minimum number of blocks of equal size that the window requires; 0 if spans have one sample each.
    least
        Minimum size of the blocks of all lanes together, so that each lane has a span in them.
    """
    if each < 1:
        return np.zeros(0)
    largest = min(1 / each, _LARGEST_PART)
    part = max(min(_FIRST_BYTES / total, _FIRST_PART), least / total) if total >= EASED_BYTES else 1.0
    rising = []
    while part < largest:
        rising.append(part)
        part *= 2
    if not rising:
        return np.arange(1, each) / each
    middle = 1 - 2 * sum(rising)
    count = math.ceil(middle / largest)
    sizes = [*rising, *[middle / count] * count, *reversed(rising)]
    return np.cumsum(sizes[:-1])


def _chunks_permuted(chunk: Integers, chance: int) -> Integers:
    """Return the spans with chunks in random order, the spans of one chunk in sequence."""
    if not len(chunk):
        return np.zeros(0, dtype=np.int64)
    firsts = np.concatenate([[0], np.nonzero(np.diff(chunk))[0] + 1])
    lengths = np.diff(np.append(firsts, len(chunk)))
    chunks = native.permuted(len(firsts), chance)
    lengths = lengths[chunks]
    before = np.cumsum(lengths) - lengths
    return np.repeat(firsts[chunks] - before, lengths) + np.arange(len(chunk))


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each of several processes in an epoch; all processes take equally many steps.

    Step g is global batch g: the positions from g * batch to before (g + 1) * batch. Process r takes the positions p
    with p mod world = r, so that together any number of processes takes the same batches in the same order. If the last
    batch is incomplete, ``pad`` continues with positions beyond the epoch, which repeat its first positions and are not
    real; ``drop`` leaves out samples that cannot be divided evenly; ``keep`` lets some processes take fewer samples and
    steps than others, as workers of one process may.

    Parameters
    ----------
    samples
        Number of samples in an epoch.
    batch
        Number of samples in a global batch: at least one for each process.
    rank, world
        Number of this process, and number of all processes.
    tail
        ``pad``, ``drop`` or ``keep``.
    drop_last
        Whether an incomplete last batch is left out.

    Examples
    --------
    >>> [Shares(10, 4, rank, 2).step(2)[0].tolist() for rank in (0, 1)]
    [[8], [9]]
    >>> Shares(9, 4, 1, 2).step(2)
    (array([0]), array([False]))
    """

    samples: int
    batch: int
    rank: int = 0
    world: int = 1
    tail: Tail = "pad"
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.world < 1 or not 0 <= self.rank < self.world:
            raise InvalidInputError(
                f"rank={self.rank} and world={self.world}: world must be at least 1, and rank from 0 to world - 1"
            )
        if self.batch < self.world:
            raise InvalidInputError(
                f"a batch of {self.batch} has no sample for each of {self.world} processes: make batches larger"
            )
        if self.tail not in ("pad", "drop", "keep"):
            raise InvalidInputError(f"the tail of an epoch must be pad, drop or keep, not {self.tail!r}")

    @property
    def end(self) -> int:
        """End of the positions that processes share; positions from `samples` on repeat the first positions."""
        full = self.samples - self.samples % self.batch
        rest = self.samples - full
        if self.drop_last or not rest:
            return full
        if self.tail == "keep":
            return self.samples
        if self.tail == "drop":
            return full + rest - rest % self.world
        even = -(-self.samples // self.world) * self.world
        return min(max(even, full + self.world), full + self.batch)

    @property
    def own(self) -> int:
        """Number of positions that this process takes."""
        return (self.end - self.rank + self.world - 1) // self.world

    def __len__(self) -> int:
        full, rest = divmod(self.end, self.batch)
        has_own = (self.rank - full * self.batch) % self.world < rest
        return full + has_own

    def step(self, number: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the positions that this process takes in one step, and a mask that is False for repeated positions."""
        start = number * self.batch
        stop = min(start + self.batch, self.end)
        if not 0 <= start < stop:
            raise IndexError(f"step {number} is out of range: the epoch has steps 0 to {len(self) - 1}")
        own = np.arange(start + (self.rank - start) % self.world, stop, self.world, dtype=np.int64)
        return own % self.samples, own < self.samples
