"""Chunk-id encoder: sample index -> chunk, `chunks_index/unsharded` (format.md 4.2).

    bytes      content
    1 + n      version prefix
    1          item width w: 8, or 4; absent before 2.7.6, where it is 4
    2w each    rows [chunk id, last index]

The last column is inclusive; a row that repeats the one before holds a further tile of the same sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakebed import limits
from lakebed.documents.indexes import tables, version_prefix
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

STUB = version_prefix.PREFIX + b"\x01"
"""Start of a file in place of an index whose chunks only pages name (see `pages.py`); readers of 3.x refuse it."""

_WHAT = "chunks_index"
_WIDTH_SINCE = (2, 7, 6)


class Span(NamedTuple):
    """Place of a sample: `rows` rows starting at `row` (several if it is tiled), and `position` in the first row."""

    row: int
    rows: int
    position: int


def chunk_name(id: int) -> str:  # noqa: A002
    """File name of a chunk: its id in hexadecimal, without leading zeros."""
    return f"{int(id):x}"


@dataclass(frozen=True, slots=True, eq=False)
class ChunkIds:
    """Rows of (chunk id, last sample index), both uint64, shape (rows,)."""

    ids: NDArray[np.uint64]
    last: NDArray[np.uint64]
    raw: bytes | None = field(default=None, init=False, repr=False)
    """The file's bytes, if it was written, or was read with ``keep``."""

    @classmethod
    def empty(cls) -> ChunkIds:
        """Return an index of a tensor without samples."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64))

    @classmethod
    def from_counts(cls, ids: Sequence[int] | NDArray[np.uint64], counts: Sequence[int]) -> ChunkIds:
        """Return an index of chunks that hold `counts` samples each, one row per chunk."""
        last = np.cumsum(np.asarray(counts, np.uint64), dtype=np.uint64) - np.uint64(1)
        return cls(np.asarray(ids, np.uint64), last)

    @classmethod
    def from_bytes(cls, data: bytes, *, keep: bool = False) -> ChunkIds:
        """Parse the encoder file.

        Parameters
        ----------
        keep
            Keep the bytes, so that they are written again as long as nothing changes.

        Raises
        ------
        FormatError
            If the length is not a whole number of rows or `last` decreases.
        LimitError
            If a row covers more samples than one chunk may hold.
        """
        version, offset = version_prefix.split(data, _WHAT)
        width = 4
        if version_prefix.numbers(version, _WHAT) >= _WIDTH_SINCE:
            if len(data) <= offset:
                raise FormatError(f"{_WHAT} ends before its item width")
            width = data[offset]
            offset += 1
            if width not in (4, 8):
                raise FormatError(f"{_WHAT} has items of {width} bytes; 4 and 8 are known")
        ids, last = tables.read(data, offset, width, 2, _WHAT)
        tables.check_last(last, _WHAT, repeats=True)
        if len(last):
            most = int(last[0]) + 1
            if len(last) > 1:
                most = max(most, int((last[1:] - last[:-1]).max()))
            limits.check("MAX_CHUNK_SAMPLES", most, f"{_WHAT}: samples in one chunk")
        index = cls(ids, last)
        if keep:
            object.__setattr__(index, "raw", data)
        return index

    def to_bytes(self) -> bytes:
        """Write the encoder file, 8 bytes per item."""
        if self.raw is None:
            data = version_prefix.PREFIX + b"\x08" + np.stack([self.ids, self.last], axis=1).tobytes()
            object.__setattr__(self, "raw", data)
        return self.raw or b""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChunkIds):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(self.last, other.last)

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        """Number of samples."""
        return int(self.last[-1]) + 1 if len(self.last) else 0

    @property
    def counts(self) -> NDArray[np.uint64]:
        """Number of samples that begin in each row, shape (rows,); 0 for the further tiles of a sample."""
        return tables.rows_of(self.last)

    def locate(self, index: int) -> Span:
        """Return the rows of the chunks that hold sample `index`, and its position in the first chunk.

        Raises
        ------
        IndexError
            If the sample does not exist.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"there is no sample {index}: the tensor has {self.count}")
        wanted = np.uint64(index)
        row = int(np.searchsorted(self.last, wanted))
        rows = 1
        if int(self.last[row]) == index:
            rows = int(np.searchsorted(self.last, wanted, side="right")) - row
        return Span(row, rows, index - (int(self.last[row - 1]) + 1 if row else 0))
