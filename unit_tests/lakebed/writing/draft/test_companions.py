"""Smaller copies of images and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from lakebed.writing.draft.companions import downsample

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("shape", [(60, 80, 3), (61, 83, 3), (60, 80, 4), (60, 80), (60, 80, 1)])
@pytest.mark.parametrize("factor", [2, 3])
def test_images_are_averaged_and_masks_sampled(shape: tuple[int, ...], factor: int) -> None:
    """By Pillow's bilinear filter; masks take the nearest pixel, so that no new value appears."""
    array = RNG.integers(0, 256, shape, dtype="u1")
    flat = array[:, :, 0] if shape[-1] == 1 else array
    size = (shape[1] // factor, shape[0] // factor)
    for htype, how in (("image", Image.Resampling.BILINEAR), ("segment_mask", Image.Resampling.NEAREST)):
        expected = np.asarray(Image.fromarray(flat).resize(size, how))
        found = downsample(array, htype, factor)
        assert found.shape == (size[1], size[0], *shape[2:])
        assert np.array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize("dtype", ["u4", "i8", "u2", "f4", "bool"])
def test_every_dtype_keeps_its_values(dtype: str) -> None:
    """Masks of any dtype, and truth values of any htype, hold only values that were there."""
    array = RNG.integers(0, 2 if dtype == "bool" else 200, (60, 80)).astype(dtype)
    for htype in ("segment_mask", "binary_mask"):
        found = downsample(array, htype, 2)
        assert (found.shape, found.dtype) == ((30, 40), array.dtype)
        assert set(np.unique(found)) <= set(np.unique(array))
    assert downsample(array, "image", 2).shape == (30, 40)
    if dtype == "bool":
        assert np.array_equal(downsample(array, "image", 2), array[::2, ::2])


@pytest.mark.parametrize("shape", [(20, 20, 3), (1000, 1, 3), (0, 0, 3), (5,), (2, 40, 40, 3)])
def test_small_images_get_no_smaller_copy(shape: Any) -> None:
    """An empty array of the same rank."""
    found = downsample(np.zeros(shape, "u1"), "image", 2)
    assert found.size == 0
    assert found.ndim == len(shape)
    assert downsample(np.zeros((21, 20, 3), "u1"), "image", 2).shape == (10, 10, 3)
