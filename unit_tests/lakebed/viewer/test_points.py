"""Numbers of all rows for a map: as they are, on a plane, of some rows where they are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.viewer import points

DRAWS = np.random.default_rng(2)


@pytest.fixture
def ds() -> lakebed.Dataset:
    ds = lakebed.empty("mem://points")
    ds.create_tensor("flat", dtype="float64")
    ds.create_tensor("wide", htype="embedding", dtype="float32")
    ds.create_tensor("ragged", dtype="float32")
    ds.create_tensor("label", htype="class_label", class_names=["a", "b"])
    ds.create_tensor("score", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("matrix", dtype="uint8")
    for row in range(40):
        wide = np.full(6, 7, np.float32)
        wide[[1, 4]] += [-30 * (row % 2), row]
        ds.append(
            {
                "flat": [row, -row],
                "wide": wide,
                "ragged": np.arange(1 + row % 2, dtype=np.float32),
                "label": np.array([1, 0][: row % 3], np.uint32),
                "score": None if row == 3 else row,
                "text": "x",
                "matrix": np.zeros((2, 2), np.uint8),
            }
        )
    return ds


def test_few_axes_are_told_as_they_are(ds: lakebed.Dataset) -> None:
    values, step, share = points.points(ds.flat)
    np.testing.assert_array_equal(values, np.stack([np.arange(40), -np.arange(40)], 1))
    assert (step, share, values.dtype) == (1, 1.0, np.float32)


def test_more_axes_are_told_on_the_plane_along_which_they_vary_most(ds: lakebed.Dataset) -> None:
    values, _, share = points.points(ds.wide)
    np.testing.assert_allclose(values[:, 0], np.where(np.arange(40) % 2, -15, 15), atol=2)
    np.testing.assert_allclose(values[:, 1], np.arange(40) - 19.5, atol=2)
    assert share == pytest.approx(1)


def test_rows_without_numbers_are_no_numbers(ds: lakebed.Dataset) -> None:
    labels = points.points(ds.label)[0].reshape(-1)
    expected: Any = [[np.nan, 1, 1][row % 3] for row in range(40)]
    np.testing.assert_array_equal(labels, expected)
    scores = points.points(ds.score)[0].reshape(-1)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [3]
    assert scores[39] == 39
    ragged = points.points(ds.ragged)[0]
    assert np.isnan(ragged[::2]).all()
    np.testing.assert_array_equal(ragged[1::2], np.tile([0, 1], (20, 1)))


def test_of_many_rows_some_are_told(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "_MOST_ROWS", 15)
    monkeypatch.setattr(points, "_PIECE", 10)
    values, step, _ = points.points(ds.flat)
    assert step == 3
    np.testing.assert_array_equal(values[:, 0], np.arange(0, 40, 3))


def test_some_vectors_decide_the_plane_of_many(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    found, plane = [], points.plane
    monkeypatch.setattr(points, "plane", lambda rows: (found.append(len(rows)), plane(rows))[1])
    monkeypatch.setattr(points, "_FEWEST", 4)
    for name, number in (("_MOST_SAMPLED", 8), ("_WORK", 4 * 36)):
        monkeypatch.setattr(points, name, number)
        assert points.points(ds.wide)[0].shape == (40, 2)
    assert found == [8, 4]


def test_vectors_with_what_is_no_number_are_left_out_of_the_plane() -> None:
    rows = DRAWS.standard_normal((50, 5)) * [9, 1, 0.1, 4, 0.1]
    rows[7] = np.nan
    mean, basis, share = points.plane(rows)
    assert np.abs(basis).argmax(axis=0).tolist() == [0, 3]
    assert (basis[[0, 3], [0, 1]] > 0).all()
    assert np.isfinite(mean).all()
    assert 0.9 < share <= 1
    assert points.plane(np.full((4, 5), np.nan))[2] == 1.0


@pytest.mark.parametrize("name", ["text", "matrix"])
def test_other_tensors_have_no_places(name: str, ds: lakebed.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="holds no"):
        points.points(ds[name])
