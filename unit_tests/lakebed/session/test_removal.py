"""Removing rows: the rules of 3.x (API.md 2.2, 3.2; facts tested on 3.9.52)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.testing.faulty import FaultyStorage
from unit_tests.lakebed.datasets import create_on, new_memory, open_on, visible


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Ten numbers and six texts."""
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="int64").extend(np.arange(10))
    ds.create_tensor("t", htype="text").extend(list("abcdef"))
    return ds


def numbers(ds: lakebed.Dataset) -> list[int]:
    """What is left of the numbers."""
    return [int(v) for v in ds.n.numpy().ravel()]


@pytest.mark.parametrize(
    ("index", "left"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (0, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (np.int64(4), [0, 1, 2, 3, 5, 6, 7, 8, 9]),
        ([7, 1], [0, 2, 3, 4, 5, 6, 8, 9]),
        ((2, 3), [0, 1, 4, 5, 6, 7, 8, 9]),
        (slice(2, 8, 2), [0, 1, 3, 5, 7, 8, 9]),
        (slice(-3, None), [0, 1, 2, 3, 4, 5, 6]),
        (np.array([0, 9]), [1, 2, 3, 4, 5, 6, 7, 8]),
        ([], list(range(10))),
    ],
)
def test_one_or_several_rows_of_a_tensor(ds: lakebed.Dataset, index: Any, left: list[int]) -> None:
    """The others move up; companions follow."""
    ds.n.pop(index)
    assert numbers(ds) == left
    ds.flush()
    again = open_on(ds.storage)
    assert numbers(again) == left
    assert len(again["_n_id"]) == len(again["_n_shape"]) == len(left)


def test_rows_of_a_dataset(ds: lakebed.Dataset) -> None:
    """A tensor that has no such row stays as it is; by default the last row of the longest tensor goes."""
    ds.pop()
    assert (len(ds.n), len(ds.t)) == (9, 6)
    ds.pop([0, 7])
    assert (numbers(ds), ds.t.text()) == ([1, 2, 3, 4, 5, 6, 8], list("bcdef"))
    ds.pop(slice(0, 2))
    assert (numbers(ds), ds.t.text()) == ([3, 4, 5, 6, 8], list("def"))


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (-1, IndexError, "negative"),
        (10, IndexError, "out of range"),
        ([0, 10], IndexError, "out of range"),
        ([1, 1], ValueError, "Duplicate"),
        ("x", TypeError, "no rows"),
        (1.5, TypeError, "no rows"),
        ([True, False], TypeError, "row number"),
    ],
)
def test_rows_that_can_not_be_removed(
    ds: lakebed.Dataset, index: Any, error: type[Exception], message: str
) -> None:
    """Nothing changes then."""
    for owner in (ds, ds.n):
        with pytest.raises(error, match=message):
            owner.pop(index)
    assert (len(ds.n), len(ds.t)) == (10, 6)


def test_nothing_to_remove(ds: lakebed.Dataset) -> None:
    """An empty tensor or dataset says so."""
    empty = create_on(new_memory())
    for _ in range(2):
        for index in (None, 0, -1):
            with pytest.raises(IndexError, match="empty dataset"):
                empty.pop(index)
        if not empty.tensors:
            empty.create_tensor("x")
    ds.n.clear()
    for index in (None, 0):
        with pytest.raises(IndexError, match="empty tensor"):
            ds.n.pop(index)


def test_selections_can_not_be_popped(ds: lakebed.Dataset) -> None:
    """Only the whole can."""
    for call in (ds[0:2].pop, ds.n[0:2].pop, ds.n[0].pop, ds.n[1:].clear):
        with pytest.raises(lakebed.errors.InvalidOperationError, match="view"):
            call()


def test_clear_keeps_the_settings(ds: lakebed.Dataset) -> None:
    """Shape bounds and companions start anew; other tensors are not touched."""
    ds.n.clear()
    assert (len(ds.n), ds.n.shape, ds.n.meta.max_shape, ds.n.dtype) == (0, (0,), [], np.dtype("int64"))
    assert (len(ds["_n_id"]), len(ds.t)) == (0, 6)
    ds.n.append([1, 2])
    ds.flush()
    assert open_on(ds.storage).n.numpy().tolist() == [[1, 2]]


def test_popping_everything_resets_the_shape(ds: lakebed.Dataset) -> None:
    """A tensor without samples takes any rank again (format.md 3)."""
    ds.n.pop(list(range(10)))
    assert ds.n.meta.max_shape == []
    ds.n.append(np.zeros((2, 2), dtype="int64"))
    assert ds.n.shape == (1, 2, 2)


def test_an_earlier_commit_keeps_popped_rows(ds: lakebed.Dataset) -> None:
    """Chunks that it shares with the head are not changed."""
    commit = ds.commit()
    ds.pop([0, 3])
    ds.commit()
    ds.checkout(commit)
    assert (numbers(ds), ds.t.text()) == (list(range(10)), list("abcdef"))


def test_a_failing_disk_leaves_what_was_published(ds: lakebed.Dataset) -> None:
    """Wherever the storage fails, a later reader finds the state before or after."""
    ds.flush()
    before, storage = visible(ds), ds.storage
    ds.close()
    outcomes = []
    for budget in range(40):
        faulty = FaultyStorage(storage, fail_after=budget, error=lambda: lakebed.errors.StorageError("full"))
        try:
            victim = open_on(faulty)
            victim.pop([1, 2])
            victim.n[0] = 77
            victim.flush()
        except lakebed.errors.StorageError:
            victim._session.discard()
        outcomes.append(visible(open_on(storage)))
        if outcomes[-1] != before:
            break
    assert len(outcomes) > 3
    assert all(outcome == before for outcome in outcomes[:-1])
    assert [v[0] for v in outcomes[-1]["tensors"]["n"][1]][:3] == [77, 3, 4]
