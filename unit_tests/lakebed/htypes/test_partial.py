"""Samples that are promised and filled in later."""

from __future__ import annotations

import numpy as np
import pytest

from lakebed.errors import InvalidInputError
from lakebed.htypes.partial import tiled


def test_a_promise_knows_its_shapes_and_dtype() -> None:
    """Lists are as good as tuples."""
    sample = tiled([100, 200, 3], (10, 20, 3), dtype="float32")  # type: ignore[arg-type]  # users pass lists
    assert (sample.shape, sample.sample_shape, sample.tile_shape) == (
        (100, 200, 3),
        (100, 200, 3),
        (10, 20, 3),
    )
    assert sample.dtype == np.float32
    assert sample.astype("int8").dtype == np.int8
    assert sample.downsample(2).shape == (50, 100, 3)
    assert sample.downsample(30).tile_shape == (1, 1, 3)
    assert tiled((4, 4)).tile_shape is None
    assert "100, 200" in repr(sample)


@pytest.mark.parametrize(("shape", "tile"), [((), None), ((4, -1), None), ((4, 4), (2,)), ((4, 4), (0, 2))])
def test_shapes_that_can_not_be_are_refused(shape: tuple[int, ...], tile: tuple[int, ...] | None) -> None:
    """Tiles must cover the sample."""
    with pytest.raises(InvalidInputError):
        tiled(shape, tile)
