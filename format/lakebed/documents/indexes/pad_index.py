"""Pad encoder: samples that sparse assignment filled in, `pad_index/unsharded` (format.md 4.6).

    bytes      content
    1 + n      version prefix
    8 each     u32 start, u32 end (exclusive) of one range

When 3.9.52 removes padded samples, it leaves empty ranges, and sometimes half of one. Both are accepted, because only a
merge reads this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed.documents.indexes import tables, version_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_WHAT = "pad_index"


@dataclass(frozen=True, slots=True, eq=False)
class PadIndex:
    """Alternating starts and ends of the ranges of padding, uint64, shape (2 * ranges,)."""

    bounds: NDArray[np.uint64]

    @classmethod
    def empty(cls) -> PadIndex:
        """Return an index of a tensor without padding."""
        return cls(np.zeros(0, np.uint64))

    @classmethod
    def from_rows(cls, rows: NDArray[np.integer]) -> PadIndex:
        """Return an index of these padded samples: ascending, each once."""
        if not len(rows):
            return cls.empty()
        cuts = np.flatnonzero(np.diff(rows) != 1)
        starts = rows[np.concatenate([[0], cuts + 1])]
        ends = rows[np.concatenate([cuts, [len(rows) - 1]])] + 1
        return cls(tables.column(np.stack([starts, ends], axis=1).reshape(-1)))

    @classmethod
    def from_bytes(cls, data: bytes) -> PadIndex:
        """Parse the encoder file.

        Raises
        ------
        FormatError
            If the length is not a whole number of bounds.
        """
        _, offset = version_prefix.split(data, _WHAT)
        (bounds,) = tables.read(data, offset, 4, 1, _WHAT)
        return cls(bounds)

    def to_bytes(self) -> bytes:
        """Write the encoder file."""
        return version_prefix.PREFIX + tables.write(4, [self.bounds], _WHAT)

    def __eq__(self, other: object) -> bool:
        return np.array_equal(self.bounds, other.bounds) if isinstance(other, PadIndex) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, index: int) -> bool:
        """Tell whether a sample is padding."""
        whole = len(self.bounds) // 2 * 2
        starts, ends = self.bounds[:whole:2], self.bounds[1:whole:2]
        return bool(((starts <= index) & (index < ends)).any())

    def rows(self) -> NDArray[np.int64]:
        """Return the padded samples, ascending: int64."""
        whole = self.bounds[: len(self.bounds) // 2 * 2].astype(np.int64).reshape(-1, 2)
        runs = [np.arange(start, end, dtype=np.int64) for start, end in whole.tolist()]
        return np.unique(np.concatenate(runs)) if runs else np.empty(0, np.int64)

    def with_range(self, start: int, end: int) -> PadIndex:
        """Return the index with padding at its end."""
        return PadIndex.from_rows(np.concatenate([self.rows(), np.arange(start, end, dtype=np.int64)]))

    def without(self, rows: Sequence[int] | NDArray[np.integer]) -> PadIndex:
        """Return the index without samples that were given values."""
        mine = self.rows()
        gone = np.isin(mine, np.asarray(rows, np.int64))
        return PadIndex.from_rows(mine[~gone]) if gone.any() else self

    def removed(self, rows: Sequence[int] | NDArray[np.integer]) -> PadIndex:
        """Return the index without removed samples, given in ascending order; later samples move up."""
        left = self.without(rows).rows()
        return PadIndex.from_rows(left - np.searchsorted(np.asarray(rows, np.int64), left))
