"""Parts of samples, and of tiled ones, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.chunks.tiling import box, grid
from lakebed.session.changes.regions import expanded, put, region, whole
from unit_tests.effort import examples

SLICES = st.builds(
    slice,
    st.none() | st.integers(-8, 8),
    st.none() | st.integers(-8, 8),
    st.sampled_from([None, 1, 2, 3, -1, -2]),
)


@st.composite
def parts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[Any, ...]]]:
    """Return a shape, a tile shape, and a chain of subscripts that fit it."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    tile = tuple(draw(st.integers(1, extent)) for extent in shape)
    left: tuple[int, ...] = shape
    chain = []
    for _ in range(draw(st.integers(1, 3))):
        subscript: list[Any] = []
        for extent in left[: draw(st.integers(0, len(left)))]:
            single = extent > 0 and draw(st.booleans())
            subscript.append(draw(st.integers(-extent, extent - 1)) if single else draw(SLICES))
        if draw(st.booleans()):
            # Before the last axes only if all are named, so that each item still fits its axis.
            at = draw(st.integers(0, len(subscript))) if len(subscript) == len(left) else len(subscript)
            subscript.insert(at, ...)
        chain.append(tuple(subscript))
        left = np.empty(left)[chain[-1]].shape
    return shape, tile, chain


@settings(max_examples=examples(300), deadline=None)
@given(parts())
def test_a_region_is_what_numpy_picks(
    case: tuple[tuple[int, ...], tuple[int, ...], list[tuple[Any, ...]]],
) -> None:
    """Shape and elements agree, and put into tiles they land where an assignment to the whole puts them."""
    shape, tile, chain = case
    sample = np.arange(np.prod(shape)).reshape(shape)
    picked = sample
    for subscript in chain:
        picked = np.asarray(picked[subscript])
    where = region(shape, chain)
    assert where is not None
    assert where.shape == picked.shape
    assert np.array_equal(sample[np.ix_(*where.positions)].reshape(picked.shape), picked)
    value = -1 - np.arange(picked.size).reshape(picked.shape)
    expected = sample.copy()
    expected[np.ix_(*where.positions)] = value.reshape([len(p) for p in where.positions])
    tiled = sample.copy()
    touched = list(where.tiles(shape, tile))
    for number in touched:
        place = box(shape, tile, number)
        data = tiled[place].copy()
        where.put_into(data, shape, tile, number, value)
        tiled[place] = data
    assert np.array_equal(tiled, expected)
    changed = {
        tuple(int(i) // t for i, t in zip(at, tile, strict=True)) for at in np.argwhere(expected != sample)
    }
    assert {tuple(int(i) for i in np.unravel_index(n, grid(shape, tile))) for n in touched} >= changed
    assert len(touched) == len(set(touched))


@settings(max_examples=examples(100), deadline=None)
@given(parts())
def test_put_goes_through_chains(
    case: tuple[tuple[int, ...], tuple[int, ...], list[tuple[Any, ...]]],
) -> None:
    """It assigns through copies, too."""
    shape, _, chain = case
    where = region(shape, chain)
    assert where is not None
    array, expected = np.zeros(shape), np.zeros(shape)
    put(array, chain, 5)
    expected[np.ix_(*where.positions)] = 5
    assert np.array_equal(array, expected)
    through_copy = np.zeros((4, 3))
    put(through_copy, [([0, 2],), (1, slice(1, None))], 7)
    assert through_copy.tolist() == [[0, 0, 0], [0, 0, 0], [0, 7, 7], [0, 0, 0]]


def test_what_is_no_region() -> None:
    """Lists and masks are not one; too many subscripts are an error."""
    assert region((3, 3), [([0, 1],)]) is None
    assert region((3, 3), [(True,)]) is None
    assert whole((2, 3)).shape == (2, 3)
    for subscript in ((0, 0, 0), (0, ..., 0, 0)):
        with pytest.raises(IndexError, match="too many"):
            expanded(subscript, 2)
    with pytest.raises(IndexError):
        region((3,), [(3,)])
