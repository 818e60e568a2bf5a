"""Sequence encoder: sequence -> its flat samples, `sequence_index/unsharded` (format.md 4.4).

    bytes      content
    1 + n      version prefix
    12 each    u32 rows [items, start, last index]

Each sequence that a row covers has `items` items; `start` is the flat index of the first item of the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed import limits
from lakebed.documents.indexes import tables, version_prefix
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_WHAT = "sequence_index"


@dataclass(frozen=True, slots=True, eq=False)
class SequenceIndex:
    """Rows of (items per sequence, first flat index, last sequence), all uint64, shape (rows,)."""

    items: NDArray[np.uint64]
    start: NDArray[np.uint64]
    last: NDArray[np.uint64]

    @classmethod
    def from_lengths(cls, lengths: Sequence[int] | NDArray[np.integer]) -> SequenceIndex:
        """Return an index of sequences with these numbers of items; equal neighbours share a row."""
        counts = tables.column(lengths)
        ends = np.flatnonzero(np.append(counts[1:] != counts[:-1], np.ones(min(len(counts), 1), bool)))
        items, last = counts[ends], tables.column(ends)
        before = np.concatenate(
            [np.zeros(1, np.uint64), np.cumsum(items * tables.rows_of(last), dtype=np.uint64)]
        )
        return cls(items, before[: len(items)], last)

    @classmethod
    def from_bytes(cls, data: bytes) -> SequenceIndex:
        """Parse the encoder file.

        Raises
        ------
        FormatError
            If the length is not a whole number of rows, `last` does not grow, or a row does not start where
            the previous row ends.
        """
        _, offset = version_prefix.split(data, _WHAT)
        items, start, last = tables.read(data, offset, 4, 3, _WHAT)
        tables.check_last(last, _WHAT)
        ends = start + items * tables.rows_of(last)
        if len(start) and (int(start[0]) or not np.array_equal(start[1:], ends[:-1])):
            raise FormatError(f"{_WHAT}: a row does not start where the previous row ends")
        if len(ends) and int(ends[-1]) > tables.LARGEST_INDEX:
            raise FormatError(f"{_WHAT}: {int(ends[-1])} items are more than the format allows")
        return cls(items, start, last)

    def to_bytes(self) -> bytes:
        """Write the encoder file.

        Raises
        ------
        LimitError
            If the index has more than 2^32 sequences or items.
        """
        return version_prefix.PREFIX + tables.write(4, [self.items, self.start, self.last], _WHAT)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SequenceIndex):
            return NotImplemented
        return np.array_equal(self.items, other.items) and np.array_equal(self.last, other.last)

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """Number of sequences."""
        return int(self.last[-1]) + 1 if len(self.last) else 0

    @property
    def total(self) -> int:
        """Number of items in all sequences."""
        return int((self.items * tables.rows_of(self.last)).sum())

    @property
    def lengths(self) -> NDArray[np.uint64]:
        """Number of items of every sequence, shape (count,).

        Raises
        ------
        LimitError
            If the index has more sequences than this process allows.
        """
        limits.check("MAX_TABLE_ROWS", self.count, f"{_WHAT}: sequences")
        return np.repeat(self.items, tables.rows_of(self.last).astype(np.int64))

    def span(self, index: int) -> tuple[int, int]:
        """Return the first flat index of a sequence, and the flat index after its last item.

        Raises
        ------
        IndexError
            If the sequence does not exist.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"sequence {index} of {self.count}")
        row = int(np.searchsorted(self.last, np.uint64(index)))
        items = int(self.items[row])
        start = int(self.start[row]) + (index - (int(self.last[row - 1]) + 1 if row else 0)) * items
        return start, start + items

    def within(self, flat: int) -> SequenceIndex:
        """Return the sequences that are complete within a number of flat samples."""
        if self.total <= flat:
            return self
        lengths = self.lengths
        return SequenceIndex.from_lengths(lengths[np.cumsum(lengths) <= flat])

    def extend(self, lengths: Sequence[int] | NDArray[np.integer]) -> SequenceIndex:
        """Return the index with more sequences of these numbers of items."""
        more = SequenceIndex.from_lengths(lengths)
        if not len(self.items) or not len(more.items):
            return more if len(more.items) else self
        joined = int(self.items[-1] == more.items[0])
        keep = len(self.items) - joined
        return SequenceIndex(
            np.concatenate([self.items[:keep], more.items]),
            np.concatenate([self.start, more.start[joined:] + np.uint64(self.total)]),
            np.concatenate([self.last[:keep], more.last + np.uint64(self.count)]),
        )
