"""Pad encoder: samples that sparse assignment filled in, `pad_index/unsharded` (FORMAT.md 4.6).

    bytes      content
    1 + n      version prefix
    8 each     u32 start, u32 end (exclusive) of one range

3.9.52 leaves empty ranges behind, and sometimes half of one, when it removes padded samples; only a merge
looks at this file, so it is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed.documents import tables, version_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHAT = "pad_index"


@dataclass(frozen=True, slots=True, eq=False)
class PadIndex:
    """Starts and ends of the ranges of padding in turn, uint64, shape (2 * ranges,)."""

    bounds: NDArray[np.uint64]

    @classmethod
    def from_bytes(cls, data: bytes) -> PadIndex:
        """Parse the encoder file.

        Raises
        ------
        FormatError
            If the length is no whole number of bounds.
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
