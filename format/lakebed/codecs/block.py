"""Encoded samples on their way into chunks: a run of bytes plus its sizes and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | memoryview


class EarlyFile(Protocol):
    """A chunk file that was written before its samples were packed."""

    @property
    def count(self) -> int:
        """Number of samples in the file."""


Shapes = tuple[int, ...] | NDArray[np.uint32] | None


@dataclass(frozen=True, slots=True)
class Block:
    """``count`` encoded samples, back to back.

    Parameters
    ----------
    data
        Contiguous bytes, exactly the sum of the sizes.
    sizes
        Bytes of each sample: one int if all agree, else uint32 of shape (count,).
    shapes
        Shape of each sample: one tuple if all agree, else uint32 of shape (count, ndim); None while the rank is
        unknown, which only empty samples may have (format.md 5.3).
    buffers
        The bytes of each sample in a separate buffer, with ``data`` empty: large samples and files, which are written
        without copying. None if ``data`` holds them all.
    early
        The chunk files that already hold the first samples, in sequence (`lakebed.writing.early_chunks`).
    """

    data: memoryview
    count: int
    sizes: int | NDArray[np.uint32]
    shapes: Shapes
    buffers: Sequence[Buffer] | None = None
    early: Sequence[EarlyFile] = ()

    @classmethod
    def of_buffers(cls, buffers: Sequence[bytes | bytearray | memoryview], shapes: Shapes) -> Block:
        """Return a block of samples in separate buffers, without copying them."""
        views: list[Buffer] = [b if isinstance(b, bytes) else memoryview(b).cast("B") for b in buffers]
        sizes = np.fromiter(map(len, views), dtype=np.uint32, count=len(views))
        return cls(memoryview(b""), len(views), sizes, shapes, views)

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        if self.buffers is None:
            return self.data.nbytes
        return self.sizes * self.count if isinstance(self.sizes, int) else int(self.sizes.sum())

    def pieces(self) -> Sequence[Buffer]:
        """Return the bytes of all samples, as consecutive buffers."""
        if self.buffers is not None:
            return self.buffers
        return (self.data,) if self.data.nbytes else ()

    def joined(self) -> memoryview:
        """Return the bytes of all samples, back to back."""
        return self.data if self.buffers is None else memoryview(b"".join(self.buffers))

    @property
    def ndim(self) -> int | None:
        """Rank of the samples; None while unknown."""
        if self.shapes is None:
            return None
        return len(self.shapes) if isinstance(self.shapes, tuple) else int(self.shapes.shape[1])

    def size_array(self) -> NDArray[np.uint32]:
        """Return the sizes of all samples: uint32, shape (count,)."""
        if isinstance(self.sizes, int):
            return np.full(self.count, self.sizes, dtype=np.uint32)
        return self.sizes

    def shape_array(self, ndim: int) -> NDArray[np.uint32]:
        """Return the shapes of all samples: uint32, shape (count, ndim); unknown ranks read as zeros."""
        if self.shapes is None:
            return np.zeros((self.count, ndim), dtype=np.uint32)
        if isinstance(self.shapes, tuple):
            row = np.array(self.shapes, dtype=np.uint32).reshape(1, ndim)
            return np.repeat(row, self.count, axis=0)
        return self.shapes

    def shape(self, i: int) -> tuple[int, ...] | None:
        """Return the shape of sample ``i``; None while the rank is unknown."""
        if self.shapes is None or isinstance(self.shapes, tuple):
            return self.shapes
        return tuple(self.shapes[i].tolist())

    def offsets(self) -> NDArray[np.int64]:
        """Return the start of each sample in ``data`` and the end of the last: int64, shape (count + 1,)."""
        if isinstance(self.sizes, int):
            return np.arange(self.count + 1, dtype=np.int64) * self.sizes
        result = np.empty(self.count + 1, dtype=np.int64)
        result[0], result[1:] = 0, self.sizes
        # Sum in place, because a sum of numbers of another dtype first converts them in a slow loop.
        np.cumsum(result, out=result)
        return result

    def cut(self, start: int, stop: int, offsets: NDArray[np.int64] | None = None) -> Block:
        """Return samples ``start`` to ``stop`` (exclusive) without copying; pass :meth:`offsets` for repeated cuts."""
        if start == 0 and stop == self.count:
            return self
        if isinstance(self.sizes, int):
            first, last = start * self.sizes, stop * self.sizes
        else:
            at = self.offsets() if offsets is None else offsets
            first, last = int(at[start]), int(at[stop])
        sizes = self.sizes if isinstance(self.sizes, int) else self.sizes[start:stop]
        shapes = (
            self.shapes if self.shapes is None or isinstance(self.shapes, tuple) else self.shapes[start:stop]
        )
        if self.buffers is not None:
            early = self._early(start, stop) if self.early else ()
            return Block(self.data, stop - start, sizes, shapes, self.buffers[start:stop], early)
        return Block(self.data[first:last], stop - start, sizes, shapes)

    def _early(self, start: int, stop: int) -> Sequence[EarlyFile]:
        """Return the chunk file of exactly these samples, in a tuple; empty if no such file exists."""
        at = 0
        for file in self.early:
            if at == start and at + file.count == stop:
                return (file,)
            at += file.count
        return ()

    def shape_bounds(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the smallest and largest extent per axis; None if no sample has a shape."""
        if self.shapes is None or self.count == 0:
            return None
        if isinstance(self.shapes, tuple):
            return self.shapes, self.shapes
        low, high = self.shapes.min(axis=0), self.shapes.max(axis=0)
        return tuple(int(v) for v in low), tuple(int(v) for v in high)


_sizes, _shapes = attrgetter("sizes"), attrgetter("shapes")


def sizes_of(blocks: Sequence[Block]) -> int | NDArray[np.uint32]:
    """Return the size in bytes of each sample of all blocks: one int if all agree, else uint32 of shape (samples,)."""
    sizes = list(map(_sizes, blocks))
    if set(map(type, sizes)) == {int} and len(set(sizes)) == 1:
        found: int = sizes[0]
        return found
    return np.concatenate([block.size_array() for block in blocks])


def shapes_of(blocks: Sequence[Block]) -> Shapes:
    """Return the shape of each sample of all blocks: one tuple if all agree, else uint32 of shape (samples, ndim).

    None while no block knows its rank.
    """
    shapes = list(map(_shapes, blocks))
    if set(map(type, shapes)) == {tuple} and len(set(shapes)) == 1:
        found: tuple[int, ...] = shapes[0]
        return found
    ndim = next((block.ndim for block in blocks if block.ndim is not None), None)
    return None if ndim is None else np.concatenate([block.shape_array(ndim) for block in blocks])


def empty_block(count: int, ndim: int | None) -> Block:
    """Return ``count`` empty samples (``None``): no bytes, all extents zero (format.md 5.3)."""
    return Block(memoryview(b""), count, 0, None if ndim is None else (0,) * ndim)


def join_samples(parts: Sequence[bytes], shapes: Shapes) -> Block:
    """Join separately encoded samples back to back."""
    sizes = np.fromiter(map(len, parts), dtype=np.uint32, count=len(parts))
    return Block(memoryview(b"".join(parts)), len(parts), sizes, shapes)
