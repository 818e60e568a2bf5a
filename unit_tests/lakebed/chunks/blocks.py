"""Samples of every kind as blocks, and what they must come back as."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from lakebed.codecs.block import Block, empty_block, join_samples

Sample = tuple[bytes, tuple[int, ...] | None]


def fixed(count: int, shape: tuple[int, ...], item: int = 2) -> tuple[Block, list[Sample]]:
    """Samples of one shape, as arrays give them."""
    size = item * int(np.prod(shape))
    data = np.resize(np.arange(251, dtype=np.uint8), count * size).tobytes()
    samples: list[Sample] = [(data[i * size : (i + 1) * size], shape) for i in range(count)]
    return Block(memoryview(data), count, size, shape), samples


def ragged(shapes: list[tuple[int, ...]], item: int = 2) -> tuple[Block, list[Sample]]:
    """Samples of one rank and different shapes."""
    parts = [bytes([i % 256]) * (item * int(np.prod(shape))) for i, shape in enumerate(shapes)]
    table = np.array(shapes, dtype=np.uint32).reshape(len(shapes), len(shapes[0]))
    return join_samples(parts, table), list(zip(parts, shapes, strict=True))


def text(values: list[str]) -> tuple[Block, list[Sample]]:
    """Text samples: different sizes, one shape."""
    parts = [v.encode() for v in values]
    return join_samples(parts, (1,)), [(p, (1,)) for p in parts]


def nothing(count: int, ndim: int | None) -> tuple[Block, list[Sample]]:
    """Samples that are None; `ndim` None is a tensor whose rank is unknown so far."""
    return empty_block(count, ndim), [(b"", None if ndim is None else (0,) * ndim)] * count


EXTENTS = st.integers(0, 3)


@st.composite
def block_lists(draw: st.DrawFn) -> tuple[list[Block], list[Sample]]:
    """Blocks of one tensor: all of one rank, empty ones of unknown rank only before the first that has one."""
    ndim = draw(st.integers(1, 3))
    shape = st.tuples(*[EXTENTS] * ndim)
    fixed_blocks = st.builds(fixed, st.integers(1, 5), shape)
    ragged_blocks = st.builds(ragged, st.lists(shape, min_size=1, max_size=5))
    empty_blocks = st.builds(nothing, st.integers(1, 3), st.just(ndim))
    kinds = [fixed_blocks, ragged_blocks, empty_blocks]
    if ndim == 1:
        kinds.append(st.builds(text, st.lists(st.text(max_size=4), min_size=1, max_size=5)))
    unknown = draw(st.lists(st.builds(nothing, st.integers(1, 3), st.none()), max_size=2))
    known = draw(st.lists(st.one_of(kinds), max_size=5))
    pairs = unknown + known
    samples = [sample for _, part in pairs for sample in part]
    return [block for block, _ in pairs], samples
