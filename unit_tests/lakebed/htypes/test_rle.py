"""Run lengths of masks, both ways, as numbers and as text."""

from __future__ import annotations

import numpy as np
import pytest

from lakebed.errors import FormatError
from lakebed.htypes.rle import counts_of, decode_rle, encode_rle


def test_run_lengths() -> None:
    """As numbers, and as text that pycocotools made of the same mask."""
    mask = np.zeros((5, 4), bool)
    mask[1:3, 1] = mask[4, 3] = True
    assert encode_rle(mask) == {"size": [5, 4], "counts": [6, 2, 11, 1]}
    assert np.array_equal(decode_rle({"size": [5, 4], "counts": [6, 2, 11, 1]}), mask)
    assert counts_of("62;O").tolist() == [6, 2, 11, 1]
    for bad in (
        {"size": [5, 4], "counts": [6]},
        {"size": [5, 4]},
        {"size": [10**9, 10**9], "counts": []},
        {},
    ):
        with pytest.raises(FormatError):
            decode_rle(bad)
    random = np.random.default_rng(1).random((7, 9)) < 0.5
    assert np.array_equal(decode_rle(encode_rle(random)), random)
