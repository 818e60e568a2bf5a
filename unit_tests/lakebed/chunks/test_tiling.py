"""Tiles: the shapes that 3.9.52 chooses, their order, and which of them a part of a sample touches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.chunks.tiling import box, boxes, choose_tile_shape, grid, layouts, touched
from lakebed.errors import InvalidInputError

EXTENTS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=3)


@pytest.mark.parametrize(
    ("shape", "nbytes", "threshold", "factor", "exclude_last", "tile"),
    [
        ((50, 60), 3000, 3000, 1.0, False, (50, 60)),
        ((50, 60), 3000, 1500, 1.0, False, (50, 30)),
        ((50, 60), 3000, 800, 1.0, False, (25, 30)),
        ((7, 7), 49, 13, 1.0, False, (4, 4)),
        ((5000, 4000, 3), 60_000_000, 16_000_000, 0.5, True, (2500, 4000, 3)),
        ((9, 3, 400), 10_800, 6000, 1.0, True, (5, 3, 400)),
        ((9, 3, 400), 10_800, 6000, 1.0, False, (9, 3, 200)),
    ],
)
def test_the_largest_axis_is_halved(
    shape: Any, nbytes: int, threshold: int, factor: float, exclude_last: bool, tile: Any
) -> None:
    """format.md 6.3: halve the largest axis (the first on ties) until the estimate fits; round up at the end."""
    found = choose_tile_shape(shape, nbytes, threshold, factor=factor, exclude_last=exclude_last)
    assert found == tile


@pytest.mark.parametrize(("shape", "exclude_last"), [((1, 1), False), ((1, 400), True), ((400,), True)])
def test_what_can_not_be_halved_is_refused(shape: Any, exclude_last: bool) -> None:
    """An axis below 2 ends the search with an error that names the way out."""
    with pytest.raises(InvalidInputError, match="tiling_threshold"):
        choose_tile_shape(shape, 4000, 100, factor=1.0, exclude_last=exclude_last)


@given(EXTENTS)
def test_tiles_cover_the_sample_once(axes: list[tuple[int, int]]) -> None:
    """Boxes come in C order of the grid, do not overlap and leave nothing out."""
    shape, tile = tuple(a for a, _ in axes), tuple(b for _, b in axes)
    seen = np.zeros(shape, dtype=np.int64)
    places = boxes(shape, tile)
    assert len(places) == np.prod(grid(shape, tile), dtype=np.int64)
    for number, place in enumerate(places):
        seen[place] += 1
        assert box(shape, tile, number) == place
    assert (seen == 1).all()


@st.composite
def _parts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]]:
    axes = draw(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=3))
    shape, tile = tuple(a for a, _ in axes), tuple(b for _, b in axes)
    bound = st.none() | st.integers(-12, 12)
    leading = draw(st.integers(0, len(shape)))
    trailing = draw(st.none() | st.integers(0, len(shape) - leading))
    named = [*shape[:leading], *shape[len(shape) - (trailing or 0) :]] if trailing else list(shape[:leading])
    items: list[Any] = []
    for extent in named:
        kinds = [
            st.integers(-extent, extent - 1),
            st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1, -3])),
        ]
        if not any(isinstance(item, list) for item in items):
            kinds.append(st.lists(st.integers(-extent, extent - 1), max_size=3))
        items.append(draw(st.one_of(kinds)))
    if trailing is not None:
        items.insert(leading, ...)
    return shape, tile, tuple(items)


@given(_parts())
def test_touched_tiles_are_those_that_hold_the_part(
    case: tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]],
) -> None:
    """Exactly the tiles that own an element of the selected part are named, ascending."""
    shape, tile, subscript = case
    owner = np.zeros(shape, dtype=np.int64)
    for number, place in enumerate(boxes(shape, tile)):
        owner[place] = number
    assert touched(shape, tile, subscript) == np.unique(owner[subscript]).tolist()


def test_other_subscripts_touch_all() -> None:
    """Masks over several axes and new axes are not followed; nothing is left out for them."""
    mask = np.zeros((4, 6), dtype=np.bool_)
    assert touched((4, 6), (2, 3), mask) == [0, 1, 2, 3]
    assert touched((4, 6), (2, 3), None) == [0, 1, 2, 3]
    assert touched((4, 6), (2, 3), [True, False, False, False]) == [0, 1]
    assert touched((4, 6), (2, 3), 3) == [2, 3]


@pytest.mark.parametrize("subscript", [4, -5, (0, 0, 0), (..., ...), [0, 9]])
def test_bad_subscripts(subscript: Any) -> None:
    """What NumPy refuses is refused before any tile is read."""
    with pytest.raises(IndexError):
        touched((4, 6), (2, 3), subscript)


def test_tiles_that_can_not_cover_are_refused() -> None:
    """Ranks must agree and a tile needs extent."""
    for tile in [(2,), (2, 0)]:
        with pytest.raises(InvalidInputError):
            grid((4, 6), tile)


@given(EXTENTS)
def test_a_layout_is_found_again_from_its_tiles(axes: list[tuple[int, int]]) -> None:
    """The shapes of the tiles alone tell the sample's shape, up to layouts with the same tiles."""
    shape, tile = tuple(max(a, 1) for a, _ in axes), tuple(b for _, b in axes)
    tile = tuple(map(min, shape, tile))
    parts = [tuple(part.stop - part.start for part in place) for place in boxes(shape, tile)]
    found = layouts(parts)
    assert (shape, tile) in found
    for other in found:
        assert [tuple(part.stop - part.start for part in place) for place in boxes(*other)] == parts


def test_tiles_that_belong_to_no_grid() -> None:
    """Shapes that do not fit together have no layout."""
    assert layouts([]) == []
    assert layouts([(2, 2), (3, 2)]) == []
    assert layouts([(2, 2), (2, 1), (1, 2)]) == []
    assert layouts([(2, 2)] * 4) == [((2, 8), (2, 2)), ((4, 4), (2, 2)), ((8, 2), (2, 2))]
