"""Credentials encoder: flat link sample -> code of its credentials, `creds_index/unsharded` (format.md 4.5).

    bytes      content
    1 + n      version prefix
    8 each     u32 rows [code, last index]

Code 0: no credentials; code k: the k-th of `creds_keys` in linked_creds.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed.documents.indexes import tables, version_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_WHAT = "creds_index"


@dataclass(frozen=True, slots=True, eq=False)
class CredsIndex:
    """Rows of (code, last flat index), both uint64, shape (rows,)."""

    codes: NDArray[np.uint64]
    last: NDArray[np.uint64]

    @classmethod
    def from_codes(cls, codes: Sequence[int] | NDArray[np.integer]) -> CredsIndex:
        """Return an index of samples with these codes; equal neighbours share a row."""
        values = tables.column(codes)
        ends = np.flatnonzero(np.append(values[1:] != values[:-1], np.ones(min(len(values), 1), bool)))
        return cls(values[ends], tables.column(ends))

    @classmethod
    def from_bytes(cls, data: bytes) -> CredsIndex:
        """Parse the encoder file.

        Raises
        ------
        FormatError
            If the length is not a whole number of rows or `last` does not grow.
        """
        _, offset = version_prefix.split(data, _WHAT)
        codes, last = tables.read(data, offset, 4, 2, _WHAT)
        tables.check_last(last, _WHAT)
        return cls(codes, last)

    def to_bytes(self) -> bytes:
        """Write the encoder file."""
        return version_prefix.PREFIX + tables.write(4, [self.codes, self.last], _WHAT)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CredsIndex):
            return NotImplemented
        return np.array_equal(self.codes, other.codes) and np.array_equal(self.last, other.last)

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """Number of samples."""
        return int(self.last[-1]) + 1 if len(self.last) else 0

    def code(self, index: int) -> int:
        """Return the code of a sample.

        Raises
        ------
        IndexError
            If the sample does not exist.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"there is no sample {index}: the tensor has {self.count}")
        return int(self.codes[int(np.searchsorted(self.last, np.uint64(index)))])

    def values(self) -> NDArray[np.uint64]:
        """Return the codes of all samples: uint64, shape (count,)."""
        return np.repeat(self.codes, tables.rows_of(self.last).astype(np.int64))

    def between(self, first: int, stop: int) -> NDArray[np.uint64]:
        """Return the codes of neighbouring samples: uint64, shape (stop - first,), or fewer at the end of the index."""
        ends = np.minimum(self.last + np.uint64(1), np.uint64(stop)).astype(np.int64)
        counts = np.diff(np.maximum(ends, first), prepend=first)
        return np.repeat(self.codes, counts)

    def extend(self, codes: Sequence[int] | NDArray[np.integer]) -> CredsIndex:
        """Return the index with more samples, which have these codes."""
        more = CredsIndex.from_codes(codes)
        if not len(self.codes) or not len(more.codes):
            return more if len(more.codes) else self
        keep = len(self.codes) - int(self.codes[-1] == more.codes[0])
        return CredsIndex(
            np.concatenate([self.codes[:keep], more.codes]),
            np.concatenate([self.last[:keep], more.last + np.uint64(self.count)]),
        )

    def replaced(self, index: int, code: int) -> CredsIndex:
        """Return the index with another code for one sample."""
        if self.code(index) == code:
            return self
        values = self.values()
        values[index] = code
        return CredsIndex.from_codes(values)
