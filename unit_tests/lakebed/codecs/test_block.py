"""Blocks of encoded samples: cutting and bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.codecs.block import Block, empty_block, join_samples
from unit_tests.effort import examples
from unit_tests.lakebed.chunks.blocks import Sample, block_lists


def samples_of(block: Block) -> list[bytes]:
    """Bytes of each sample."""
    at = block.offsets().tolist()
    return [bytes(block.data[a:b]) for a, b in itertools.pairwise(at)]


@settings(max_examples=examples(60))
@given(block_lists(), st.data())
def test_cut_is_slicing(blocks_and_samples: tuple[list[Block], list[Sample]], data: st.DataObject) -> None:
    """A cut holds the samples of the range with their sizes and shapes, as slicing a list would."""
    for block in blocks_and_samples[0]:
        start = data.draw(st.integers(0, block.count))
        stop = data.draw(st.integers(start, block.count))
        piece = block.cut(start, stop)
        assert piece.count == stop - start
        assert samples_of(piece) == samples_of(block)[start:stop]
        assert piece.nbytes == sum(map(len, samples_of(piece)))
        assert piece.size_array().tolist() == block.size_array()[start:stop].tolist()
        if block.ndim is not None:
            assert np.array_equal(piece.shape_array(block.ndim), block.shape_array(block.ndim)[start:stop])


def test_cut_copies_nothing() -> None:
    """The bytes of a cut are those of the block."""
    data = bytearray(b"abcdef")
    piece = Block(memoryview(data), 3, 2, (1,)).cut(1, 3)
    data[2] = ord("X")
    assert bytes(piece.data) == b"Xdef"


@pytest.mark.parametrize(
    ("block", "bounds"),
    [
        (Block(memoryview(bytes(8)), 2, 4, (2, 2)), ((2, 2), (2, 2))),
        (join_samples([b"ab", b"abc"], np.array([[1, 2], [3, 1]], np.uint32)), ((1, 1), (3, 2))),
        (empty_block(2, 3), ((0, 0, 0), (0, 0, 0))),
        (empty_block(2, None), None),
        (Block(memoryview(b""), 0, 4, (2,)), None),
    ],
)
def test_bounds(block: Block, bounds: object) -> None:
    """Smallest and largest extent per axis; none where no sample has a shape."""
    assert block.shape_bounds() == bounds
