"""Chance is a function of its key: it has no state, and stays the same in later releases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import InvalidInputError
from lakebed.loaders.draws import draws, key, mix, weighted


def test_recorded_words():
    assert mix(np.array([0, 1, 2**64 - 1], dtype=np.uint64)).tolist() == [
        16294208416658607535,
        10451216379200822465,
        16490336266968443936,
    ]
    assert key(0) == mix(np.zeros(1, dtype=np.uint64))[0]
    assert [key(1, 2, 3), key(3, 2, 1), key(-1), key(2**64 - 1)] == [
        15020427595393229491,
        15432287184251514724,
        16490336266968443936,
        16490336266968443936,
    ]


def test_recorded_draws():
    assert draws(7, 0, [3, 4], 2).tolist() == [
        [0.35384403272103815, 0.8709596933637239],
        [0.9167692401250829, 0.6142413943013474],
    ]
    assert weighted([1, 2, 3, 0, 4], size=8, seed=5).tolist() == [0, 0, 1, 1, 2, 2, 2, 4]
    assert weighted([1, 2, 3, 0, 4], replace=False, size=3, seed=5).tolist() == [1, 2, 4]


@given(
    seed=st.integers(-(2**70), 2**70),
    epoch=st.integers(0, 2**40),
    rows=st.lists(st.integers(0, 2**62), max_size=20),
    n=st.integers(0, 5),
)
def test_draws_of_a_sample_are_the_same_in_any_company(seed, epoch, rows, n):
    together = draws(seed, epoch, rows, n)
    assert together.shape == (len(rows), n)
    assert ((together >= 0) & (together < 1)).all()
    for row, own in zip(rows, together, strict=True):
        assert (draws(seed, epoch, [row], n)[0] == own).all()
    assert (draws(seed, epoch, rows, n + 3)[:, :n] == together).all()


def test_draws_are_spread_evenly_and_do_not_depend_on_each_other():
    drawn = draws(1, 2, np.arange(50_000), 4)
    assert abs(np.histogram(drawn, bins=50, range=(0, 1))[0] / 4000 - 1).max() < 5 / np.sqrt(4000)
    both = np.concatenate(
        [drawn[:-1], drawn[1:], draws(2, 2, np.arange(49_999), 1), draws(1, 3, np.arange(49_999), 1)], 1
    )
    correlations = np.corrcoef(both.T) - np.eye(both.shape[1])
    assert abs(correlations).max() < 5 / np.sqrt(50_000)


def test_rows_are_drawn_in_proportion_to_weights():
    weights = np.array([0.0, 1.0, 2.0, 7.0, 0.0, 1e-9])
    rows = weighted(weights, size=200_000, seed=3)
    assert (np.diff(rows) >= 0).all()
    shares = np.bincount(rows, minlength=6) / 200_000
    assert shares[[0, 4]].tolist() == [0, 0]
    assert shares[[1, 2, 3]] == pytest.approx([0.1, 0.2, 0.7], abs=0.005)
    assert not (weighted(weights, size=50, seed=3, epoch=1) == weighted(weights, size=50, seed=3)).all()


def test_without_replacement_rows_come_once_and_heavy_ones_more_often():
    picked = np.array([weighted([1, 1, 8, 0], replace=False, size=2, seed=seed) for seed in range(4000)])
    assert (picked[:, 0] < picked[:, 1]).all()
    # P(row 2 is among two of weights 1, 1, 8) = 0.8 + 0.2 * 8 / 9
    assert (picked == 2).any(axis=1).mean() == pytest.approx(0.8 + 0.2 * 8 / 9, abs=0.015)
    assert (picked == 3).sum() == 0
    assert weighted([1.0] * 5, replace=False).tolist() == [0, 1, 2, 3, 4]


def test_weights_that_cannot_be_drawn_from():
    for weights, kwargs in (
        ([1, -1], {}),
        ([1, np.nan], {}),
        ([1, np.inf], {}),
        ([[1, 2]], {}),
        ([0, 0], {}),
        ([], {"size": 1}),
        ([1, 0, 2], {"replace": False, "size": 3}),
        ([1, 2], {"size": -1}),
    ):
        with pytest.raises(InvalidInputError):
            weighted(weights, **kwargs)
    assert weighted([], size=0).tolist() == []
    assert weighted([]).tolist() == []
