"""Empty lists of Arrow: no boxes are an array that can be joined to others."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed

NUMBER = itertools.count()
BOXES = [[], [[1.0, 2.0, 3.0, 4.0]], [], [[5.0, 6.0, 7.0, 8.0]] * 2]
ANY = pa.list_(pa.list_(pa.float32()))
FOUR = pa.list_(pa.list_(pa.float32(), 4))


def made(htype: str, **options: Any) -> lakebed.Tensor:
    ds = lakebed.empty(f"mem://empty-lists-{next(NUMBER)}")
    return ds.create_tensor("x", htype=htype, dtype="float32", **options)


@pytest.mark.parametrize(
    "options", [{}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"}], ids=str
)
@pytest.mark.parametrize(("htype", "kind"), [("bbox", ANY), ("bbox", FOUR), ("generic", FOUR)])
@pytest.mark.parametrize("size", [1, 4])
def test_no_boxes_have_the_shape_of_boxes(
    htype: str, kind: pa.DataType, size: int, options: dict[str, Any]
) -> None:
    """Where htype or Arrow type say how many numbers a box has, whichever rows come together."""
    x = made(htype, **options)
    for start in range(0, 4, size):
        x.extend(pa.array(BOXES[start : start + size], kind))
    shapes = [(0, 4), (1, 4), (0, 4), (2, 4)]
    assert [sample.numpy().shape for sample in x] == [sample.shape for sample in x] == shapes
    assert np.concatenate(x.numpy(aslist=True)).tolist() == [box for row in BOXES for box in row]
    assert pa.array(x.to_arrow()).to_pylist() == BOXES
    assert x.null_mask() is None


def test_boxes_of_eight_numbers() -> None:
    x = made("bbox.3d")
    x.extend(pa.array([[], [[1.0] * 8]], ANY))
    assert [sample.shape for sample in x] == [(0, 8), (1, 8)]


def test_nothing_is_guessed_from_other_rows() -> None:
    """Where neither htype nor Arrow type says it: the rows before may be other ones the next time."""
    x = made("generic")
    x.append(np.ones((2, 4), "f4"))
    x.extend(pa.array([[], [[1.0, 2.0, 3.0, 4.0]]], ANY))
    assert [sample.shape for sample in x] == [(2, 4), (0, 0), (1, 4)]


def test_nulls_and_empty_lists_of_python_are_as_in_3x() -> None:
    """They have no axes; a null is told from no boxes."""
    x = made("bbox")
    x.extend(pa.array([None, [], [[1.0, 2.0, 3.0, 4.0]]], ANY))
    x.append([])
    x.append(np.zeros((0, 4), "f4"))
    assert [sample.shape for sample in x] == [(0, 0), (0, 4), (1, 4), (0, 0), (0, 4)]
    assert x.null_mask().tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(("htype", "empty"), [("sequence[bbox]", (0, 4)), ("sequence", (0, 0))])
def test_frames_without_boxes(htype: str, empty: tuple[int, int]) -> None:
    x = made(htype)
    x.extend(pa.array([BOXES[:2], [], BOXES[2:3]], pa.list_(ANY)))
    found = [[item.shape for item in sample.numpy(aslist=True)] for sample in x]
    assert found == [[empty, (1, 4)], [], [empty]]
