"""Rows of a version that a segment of an index covers.

A segment is made of whole chunks and identifies each by its *print*: a checksum of its id, number of samples, size and
the checksums of its bytes. A chunk in which any of these differs has another print. So an index never finds rows that
were updated, removed, moved into another chunk, or written in place by another program; if such rows still exist, they
are searched as rows that no index covers. A chunk without known checksums has no print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.versions.state import TensorState

Rows = NDArray[np.int64]
Prints = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a tensor in one version: for each its print (0 for none), first row and number of rows."""

    prints: Prints
    firsts: Rows
    counts: Rows

    @property
    def rows(self) -> int:
        """Number of rows of the tensor."""
        return int(self.firsts[-1] + self.counts[-1]) if len(self.firsts) else 0


def chunks_of(state: TensorState) -> Chunks:
    """Return the chunks of a tensor."""
    table = state.table
    last = table.ids.last.astype(np.int64)
    firsts = np.concatenate([np.zeros(1, np.int64), last[:-1] + 1])[: len(last)]
    counts = last + 1 - firsts
    sizes, sums = table.places.sizes, table.places.sums
    ends = np.cumsum(table.places.sum_counts())
    prints = np.zeros(len(last), np.uint64)
    sums_bytes = sums.tobytes()
    for i, (id_, count, size, end) in enumerate(
        zip(table.ids.ids.tolist(), counts.tolist(), sizes.tolist(), ends.tolist(), strict=True)
    ):
        if size and count > 0:
            begin = int(ends[i - 1]) if i else 0
            told = b"%d %d %d " % (id_, count, size) + sums_bytes[8 * begin : 8 * end]
            prints[i] = xxhash.xxh3_64_intdigest(told)
    # The tiles of a sample all have its row: only the first tile keeps a print.
    prints[1:][firsts[1:] > last[1:]] = 0
    return Chunks(prints, firsts, counts)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Rows of a version that segments cover.

    Attributes
    ----------
    rows
        For each segment, the current row of each of its samples, -1 if it is not a row of this version.
    uncovered
        Ranges of rows that no segment covers.
    alive
        For each segment, the number of its samples that are rows of this version.
    """

    rows: list[Rows]
    uncovered: list[range]
    alive: list[int]

    @property
    def uncovered_count(self) -> int:
        """Number of rows that no segment covers."""
        return sum(map(len, self.uncovered))


def coverage(chunks: Chunks, segments: Sequence[tuple[Prints, NDArray[np.uint32]]], length: int) -> Coverage:
    """Find the samples of segments in a version.

    Parameters
    ----------
    segments
        Prints and counts of the chunks of each segment.
    length
        Number of rows of the tensor; rows after the last chunk belong to no chunk.

    Raises
    ------
    FormatError
        If a segment has another number of samples for a chunk than the chunk itself.
    """
    known = {value: i for i, value in enumerate(chunks.prints.tolist()) if value}
    taken = np.zeros(len(chunks.prints), np.bool_)
    found: list[Rows] = []
    alive: list[int] = []
    for prints, counts in segments:
        places = np.array([known.get(value, -1) for value in prints.tolist()], np.int64)
        for i, place in enumerate(places.tolist()):
            if place < 0:
                continue
            if taken[place]:
                places[i] = -1
                continue
            if int(chunks.counts[place]) != int(counts[i]):
                raise FormatError(
                    "a segment of an index and the dataset disagree about the samples of a chunk"
                )
            taken[place] = True
        sizes = counts.astype(np.int64)
        starts = np.cumsum(sizes) - sizes
        firsts = np.where(places >= 0, chunks.firsts[places] if len(chunks.firsts) else 0, 0)
        rows = np.arange(int(sizes.sum()), dtype=np.int64) + np.repeat(firsts - starts, sizes)
        rows[np.repeat(places < 0, sizes)] = -1
        found.append(rows)
        alive.append(int(sizes[places >= 0].sum()))
    uncovered = _runs(chunks.firsts[~taken], chunks.counts[~taken])
    if chunks.rows < length:
        uncovered.append(range(chunks.rows, length))
    return Coverage(found, uncovered, alive)


def _runs(firsts: Rows, counts: Rows) -> list[range]:
    """Return ranges of rows; adjacent ranges are joined."""
    found: list[range] = []
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        if count <= 0:
            continue
        if found and found[-1].stop == first:
            found[-1] = range(found[-1].start, first + count)
        else:
            found.append(range(first, first + count))
    return found
