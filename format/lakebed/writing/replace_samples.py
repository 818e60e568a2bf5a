"""Replace or remove many samples of one chunk in one pass over its bytes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block, Shapes, shapes_of, sizes_of
from lakebed.native import chunks as native_chunks
from lakebed.native import merge as native

SampleNumbers = NDArray[np.int64]
"""Numbers of samples: int64, ascending, each once."""


PAGE = 4096

Allocate = Callable[[int], NDArray[np.uint8]]
"""Function that returns a buffer of a given size.

The buffer is a used one if possible, because the first access to new memory costs more than filling it.
"""


def fresh(size: int) -> NDArray[np.uint8]:
    """Return new memory."""
    return np.empty(size, np.uint8)


def into_page(buffer: NDArray[np.uint8], place: int) -> int:
    """Return the first position in a buffer whose offset in its memory page is that of file position ``place``."""
    return int((place - buffer.__array_interface__["data"][0]) % PAGE)


def placed(size: int, place: int, allocate: Allocate) -> NDArray[np.uint8]:
    """Return a buffer whose offset in its memory page is that of file position ``place``: it is copied fastest."""
    found = allocate(size + PAGE)
    start = into_page(found, place)
    return found[start : start + size]


def joined(blocks: Sequence[Block]) -> Block:
    """Join blocks; copies the bytes unless only one is given."""
    if len(blocks) == 1 and blocks[0].buffers is None:
        return blocks[0]
    data = memoryview(b"".join(b.joined() for b in blocks))
    return Block(data, sum(b.count for b in blocks), sizes_of(blocks), shapes_of(blocks))


def replaced(old: Block, at: SampleNumbers, new: Block, allocate: Allocate = fresh) -> Block | None:
    """Replace the samples with the numbers ``at`` by one new sample each; return None if nothing would change."""
    shapes = _replaced_shapes(old, at, new)
    source, added = old.joined(), new.joined()
    if isinstance(old.sizes, int) and _are_all(new.sizes, old.sizes):
        if _same_shapes(old.shapes, shapes) and native.same_fixed(source, old.sizes, at, added):
            return None
        data = allocate(len(source))
        data[:] = np.frombuffer(source, np.uint8)
        native.put_fixed(data, old.sizes, at, added)
        return Block(data.data, old.count, old.sizes, shapes)
    offsets, ends = old.offsets(), new.offsets()
    if _same_shapes(old.shapes, shapes) and native.same_items(source, offsets, at, added, ends):
        return None
    sizes = np.array(old.size_array())
    sizes[at] = new.size_array()
    data = allocate(int(sizes.sum(dtype=np.int64)))
    native.replace_items(source, offsets, at, added, ends, data)
    return Block(data.data, old.count, sizes, shapes)


def _are_all(sizes: int | NDArray[np.uint32], size: int) -> bool:
    return sizes == size if isinstance(sizes, int) else bool((sizes == size).all())


def _replaced_shapes(old: Block, at: SampleNumbers, new: Block) -> Shapes:
    if old.ndim is None and new.ndim is None:
        return None
    if isinstance(old.shapes, tuple) and isinstance(new.shapes, tuple) and old.shapes == new.shapes:
        return old.shapes
    ndim = new.ndim if old.ndim is None else old.ndim
    shapes = np.array(old.shape_array(ndim or 0))
    shapes[at] = new.shape_array(ndim or 0)
    return shapes


def _same_shapes(old: Shapes, new: Shapes) -> bool:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray):
        return np.array_equal(old, new)
    return isinstance(old, tuple | None) and isinstance(new, tuple | None) and old == new


def without(old: Block, at: SampleNumbers, allocate: Allocate = fresh) -> Block:
    """Remove the samples with the numbers ``at``."""
    kept = np.ones(old.count, np.bool_)
    kept[at] = False
    shapes = old.shapes[kept] if isinstance(old.shapes, np.ndarray) else old.shapes
    count = old.count - len(at)
    source = old.joined()
    if isinstance(old.sizes, int):
        data = allocate(count * old.sizes)
        native_chunks.gather_fixed(source, old.sizes, np.flatnonzero(kept), data)
        return Block(data.data, count, old.sizes, shapes)
    sizes = old.sizes[kept]
    data = allocate(int(sizes.sum(dtype=np.int64)))
    nothing = np.zeros(len(at) + 1, np.int64)
    native.replace_items(source, old.offsets(), at, b"", nothing, data)
    return Block(data.data, count, sizes, shapes)
