"""Pad encoder: samples that sparse assignment filled in, `pad_index/unsharded` (FORMAT.md 4.6).

bytes      content
1 + n      version prefix
8 each     u32 pairs start, end (exclusive), sorted
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed.documents import tables, version_prefix
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHAT = "pad_index"


@dataclass(frozen=True, slots=True, eq=False)
class PadIndex:
    """Ranges [start, end) of padding, both uint64, shape (ranges,), sorted and apart."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]

    @classmethod
    def from_bytes(cls, data: bytes) -> PadIndex:
        """Parse the encoder file.

        Raises
        ------
        FormatError
            If the length is no whole number of pairs, or the ranges are empty or out of order.
        """
        _, offset = version_prefix.split(data, _WHAT)
        starts, ends = tables.read(data, offset, 4, 2, _WHAT)
        if bool((starts >= ends).any()) or bool((starts[1:] < ends[:-1]).any()):
            raise FormatError(f"{_WHAT}: its ranges are out of order")
        return cls(starts, ends)

    def to_bytes(self) -> bytes:
        """Write the encoder file."""
        return version_prefix.PREFIX + tables.write(4, [self.starts, self.ends], _WHAT)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PadIndex):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.ends, other.ends)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, index: int) -> bool:
        """Tell whether a sample is padding."""
        row = int(np.searchsorted(self.starts, np.uint64(index), side="right")) - 1
        return row >= 0 and index < int(self.ends[row])
