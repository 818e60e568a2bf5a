"""Samples that wait to be packed into chunks: new samples as blocks, changes of packed samples as edits. Pure.

Forking blocks or edits copies no samples. Edits are collected so that each chunk is rewritten once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self, overload

from lakebed.codecs.block import Block
from lakebed.versions.chunk_table import NewChunk


class Blocks(Sequence[Block]):
    """Blocks in order.

    A fork shares the current blocks. Afterwards, either the original or the fork may grow; the other must be dropped.
    """

    __slots__ = ("_all", "_count", "nbytes")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._all = list(blocks)
        self._count = len(self._all)
        self.nbytes = sum(map(cost, self._all)) if self._all else 0

    def fork(self) -> Self:
        """Return a copy that grows independently."""
        copy = object.__new__(type(self))
        copy._all, copy._count, copy.nbytes = self._all, self._count, self.nbytes
        return copy

    def append(self, block: Block, nbytes: int) -> None:
        """Add a block that takes ``nbytes`` bytes in a chunk; see :func:`cost`."""
        if len(self._all) > self._count:  # a dropped fork has added blocks to the shared list
            self._all = self._all[: self._count]
        self._all.append(block)
        self._count += 1
        self.nbytes += nbytes

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Block]:
        return islice(self._all, self._count)

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> list[Block]: ...
    def __getitem__(self, index: int | slice) -> Block | list[Block]:
        if isinstance(index, slice):
            return self._all[: self._count][index]
        return self._all[range(self._count)[index]]


def cost(block: Block) -> int:
    """Return the number of bytes that a block takes in a chunk: data and position rows."""
    return block.nbytes + (0 if isinstance(block.sizes, int) else 12 * block.count)


Piece = Block | tuple[NewChunk, ...]
"""Replacement of samples: encoded samples to pack, or chunks that are packed already (tiles of one sample)."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Replacement of samples ``start`` to ``stop`` (exclusive) of a chunk table by pieces."""

    start: int
    stop: int
    pieces: tuple[Piece, ...] = ()


@dataclass(slots=True)
class PendingEdits:
    """Replaced and removed samples of one chunk table.

    Methods take row numbers after all edits so far; edits are stored by row number in the table. Replacements made
    before the last fork are shared with its original; replacements of rows removed since then are ignored.
    """

    nbytes: int = 0
    _shared: dict[int, Piece] = field(default_factory=dict)
    _own: dict[int, Piece] = field(default_factory=dict)
    _removed: tuple[int, ...] = ()

    def fork(self) -> PendingEdits:
        """Return a copy to change, which may be dropped; the original must not change any more."""
        if self._own:
            self._shared.update(self._own)
        return PendingEdits(self.nbytes, self._shared, {}, self._removed)

    def __bool__(self) -> bool:
        return bool(self._shared or self._own or self._removed)

    @property
    def removed(self) -> int:
        """Number of removed samples."""
        return len(self._removed)

    def original(self, row: int) -> int:
        """Return the number of a row in the table."""
        removed = self._removed
        # removed[j] - j is the current number of the first row after the j-th removed row.
        return row + bisect_right(range(len(removed)), row, key=lambda j: removed[j] - j)

    def at(self, row: int) -> Piece | None:
        """Return the replacement of a row; None if the row was not replaced."""
        return self._found(self.original(row))

    def _found(self, at: int) -> Piece | None:
        own = self._own.get(at)
        return self._shared.get(at) if own is None else own

    def replace(self, row: int, piece: Piece) -> None:
        """Replace a row by a piece of one sample."""
        at = self.original(row)
        self.nbytes += _nbytes(piece) - _nbytes(self._found(at))
        self._own[at] = piece

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows, given in ascending order and numbered as before this call."""
        gone = [self.original(row) for row in rows]
        self.nbytes -= sum(_nbytes(self._found(at)) for at in gone)
        self._removed = tuple(sorted([*self._removed, *gone]))

    def splices(self) -> Iterator[Splice]:
        """Yield the changes in the order of the table; neighbouring removals are joined."""
        removed = set(self._removed)
        rows = sorted({*self._shared, *self._own, *removed})
        run: Splice | None = None
        for row in rows:
            piece = None if row in removed else self._found(row)
            if piece is None and run is not None and run.stop == row and not run.pieces:
                run = Splice(run.start, row + 1)
                continue
            if run is not None:
                yield run
            run = Splice(row, row + 1, () if piece is None else (piece,))
        if run is not None:
            yield run


def _nbytes(piece: Piece | None) -> int:
    return piece.nbytes if isinstance(piece, Block) else 0


def splice_blocks(blocks: Sequence[Block], start: int, stop: int, new: Sequence[Block] = ()) -> list[Block]:
    """Replace samples ``start`` to ``stop`` of a run of blocks; nothing is copied."""
    result: list[Block] = []
    at = 0
    placed = False
    for block in blocks:
        end = at + block.count
        if start > at:
            result += _cut(block, 0, min(start, end) - at)
        if not placed and start <= end:
            result += new
            placed = True
        if stop < end:
            result += _cut(block, max(stop, at) - at, block.count)
        at = end
    return result if placed else [*result, *new]


def _cut(block: Block, start: int, stop: int) -> list[Block]:
    return [block.cut(start, stop)] if stop > start else []
