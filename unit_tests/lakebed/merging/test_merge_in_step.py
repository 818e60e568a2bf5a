"""Rows that lie beside each other on both lines stay beside each other in a merge, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import lakebed
from lakebed.errors import MergeMismatchError
from lakebed.merging import content
from lakebed.merging.plan import Conflict, Keep, RowPlan, Steps, Value, decide
from unit_tests.lakebed.merging.branching import everything, held, lines, numbers, set_row


def gone_and_changed() -> lakebed.Dataset:
    """There a row is removed from all tensors, here it is changed in one of them."""
    return lines(numbers(1, 2, 3, names="az"), lambda ds: ds.pop(0), set_row(0, 9, "z"))


def test_a_row_that_is_kept_in_one_tensor_is_kept_in_all() -> None:
    """The choice for the tensor with the conflict decides for the row."""
    ds = gone_and_changed()
    ds.merge("b", conflict_resolution="ours")
    assert held(ds) == {"a": [1, 2, 3], "z": [9, 2, 3]}
    ds = gone_and_changed()
    ds.merge("b", conflict_resolution="theirs")
    assert held(ds) == {"a": [2, 3], "z": [2, 3]}


def test_a_merge_that_would_tear_rows_is_refused_unless_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the planning overlooks, nothing is touched; with force every tensor is merged by itself."""

    def careless(plans: dict[str, RowPlan], choose: Callable[[Conflict], Keep | Value]) -> dict[str, Steps]:
        steps = dict(decide(plans, choose))
        return {**steps, "z": replace(steps["z"], deletes=np.array([1]))}

    monkeypatch.setattr(content, "decide", careless)
    monkeypatch.setattr(content, "along", lambda plans, steps: (plans, steps))
    ds = gone_and_changed()
    before, commits = everything(ds), ds.commits
    with pytest.raises(MergeMismatchError, match=r"'z' would no longer match the rows of 'a'.*force=True"):
        ds.merge("b", conflict_resolution="ours")
    assert everything(ds) == before
    assert ds.commits == commits
    ds.merge("b", conflict_resolution="ours", force=True)
    assert held(ds) == {"a": [1, 2, 3], "z": [9, 3]}
    assert len(ds.commits) == len(commits) + 1
