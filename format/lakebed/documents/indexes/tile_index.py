"""Tile encoder: shapes of samples that are cut into tiles, `tiles_index/unsharded` (format.md 4.3).

    bytes          content
    1 + n          version prefix
    8              u64 number of entries
    8              u64 d, number of axes; absent if there are no entries
    8 + 16d each   u64 flat sample index, d u64 sample shape, d u64 tile shape

Further bytes are ignored. Old writers wrote no prefix, and big-endian numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed import limits
from lakebed.documents.indexes import tables, version_prefix
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_WHAT = "tiles_index"


@dataclass(frozen=True, slots=True, eq=False)
class TileIndex:
    """Tiled samples: flat index, uint64, shape (n,); sample and tile shapes, uint64, shape (n, d)."""

    indices: NDArray[np.uint64]
    sample_shapes: NDArray[np.uint64]
    tile_shapes: NDArray[np.uint64]

    @classmethod
    def empty(cls) -> TileIndex:
        """Return an index of a tensor without tiled samples."""
        return cls(np.zeros(0, np.uint64), np.zeros((0, 0), np.uint64), np.zeros((0, 0), np.uint64))

    @classmethod
    def from_entries(cls, entries: Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]) -> TileIndex:
        """Return an index of these samples: flat index -> (sample shape, tile shape), all of one rank."""
        if not entries:
            return cls.empty()
        return cls(
            tables.column(list(entries)),
            tables.column([sample for sample, _ in entries.values()]),
            tables.column([tile for _, tile in entries.values()]),
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> TileIndex:
        """Parse the encoder file.

        Raises
        ------
        FormatError
            If the file ends early, or a tile has no extent.
        LimitError
            If the file is longer, or a sample has more tiles, than this process allows.
        """
        limits.check("MAX_ENCODER_BYTES", len(data), _WHAT)
        order = "<"
        try:
            _, offset = version_prefix.split(data, _WHAT)
        except FormatError:
            # Old files have no version and begin with the highest byte of a count, which is 0 in practice.
            if not data or data[0]:
                raise
            order, offset = ">", 0
        if len(data) < offset + 8:
            raise FormatError(f"{_WHAT} ends before its number of entries")
        u64 = np.dtype(f"{order}u8")
        n = int(np.frombuffer(data, u64, 1, offset)[0])
        if not n:
            return cls.empty()
        if len(data) < offset + 16:
            raise FormatError(f"{_WHAT} ends before its number of axes")
        d = int(np.frombuffer(data, u64, 1, offset + 8)[0])
        if offset + 16 + n * (8 + 16 * d) > len(data):
            raise FormatError(f"{_WHAT} has {len(data)} bytes, too few for {n} entries of {d} axes")
        limits.check("MAX_AXES", d, f"{_WHAT}: axes")
        table = np.frombuffer(data, u64, n * (1 + 2 * d), offset + 16).reshape(n, 1 + 2 * d)
        index = cls(
            tables.column(table[:, 0]), tables.column(table[:, 1 : 1 + d]), tables.column(table[:, 1 + d :])
        )
        if not index.tile_shapes.all() or int(table.max()) > tables.LARGEST_INDEX:
            raise FormatError(f"{_WHAT}: an entry has an impossible shape")
        grids = -(-index.sample_shapes.astype(np.float64) // index.tile_shapes)
        limits.check("MAX_TILES", float(grids.prod(axis=1).max()), f"{_WHAT}: tiles of one sample")
        return index

    def to_bytes(self) -> bytes:
        """Write the encoder file."""
        n = len(self.indices)
        head = version_prefix.PREFIX + n.to_bytes(8, "little")
        if not n:
            return head
        rows = np.concatenate([self.indices[:, None], self.sample_shapes, self.tile_shapes], axis=1)
        d = self.sample_shapes.shape[1]
        return b"".join([head, d.to_bytes(8, "little"), rows.astype("<u8").tobytes()])

    def __len__(self) -> int:
        """Return the number of tiled samples."""
        return len(self.indices)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TileIndex):
            return NotImplemented
        return (
            np.array_equal(self.indices, other.indices)
            and np.array_equal(self.sample_shapes, other.sample_shapes)
            and np.array_equal(self.tile_shapes, other.tile_shapes)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def entries(self) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
        """Flat index -> (sample shape, tile shape)."""
        shapes = zip(
            self.indices.tolist(), self.sample_shapes.tolist(), self.tile_shapes.tolist(), strict=True
        )
        return {index: (tuple(sample), tuple(tile)) for index, sample, tile in shapes}
