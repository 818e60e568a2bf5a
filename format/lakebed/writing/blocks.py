"""Encoded samples that wait: a run of blocks that grows at its end, and costs nothing to copy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Self, overload

from lakebed.codecs.block import Block


class Blocks(Sequence[Block]):
    """Blocks in order.

    A fork shares what there is so far; only one of the two, whichever of them is kept, may grow from then on.
    """

    __slots__ = ("_all", "_count", "nbytes")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._all = list(blocks)
        self._count = len(self._all)
        self.nbytes = sum(map(cost, self._all)) if self._all else 0

    def fork(self) -> Self:
        """Return a copy that grows by itself."""
        copy = object.__new__(type(self))
        copy._all, copy._count, copy.nbytes = self._all, self._count, self.nbytes
        return copy

    def append(self, block: Block, nbytes: int) -> None:
        """Add a block that will take so many bytes: see :func:`cost`."""
        if len(self._all) > self._count:  # what a fork added that was given up
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
    """Bytes a block will take in a chunk: data and position rows."""
    return block.nbytes + (0 if isinstance(block.sizes, int) else 12 * block.count)
