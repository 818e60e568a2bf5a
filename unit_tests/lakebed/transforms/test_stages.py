"""Rows of one item: as they were returned where they are whole and few, as columns otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lakebed.errors import TensorDoesNotExistError, TensorMismatchError
from lakebed.transforms.output import Skipped
from lakebed.transforms.stages import Rows, Stage, Stages, WholeRows


def stages(rows: list[Any], sent: list[Rows], limit: float = 1e6) -> Stages:
    def function(item: Any) -> Iterator[Any]:
        yield from rows

    stage = Stage(function, "rows", style="return", copy=False)
    return Stages([stage], ("x", "y"), skip_ok=False, overflow=sent.append, limit=limit)


def test_whole_rows_stay_as_they_are() -> None:
    made = [{"x": 1, "y": "a"}, {"y": "b", "x": 2}]
    of = stages([made[0], Skipped("third", "why"), made[1]], [])
    found = of.rows(0)
    assert isinstance(found, WholeRows)
    assert all(row is other for row, other in zip(found.rows, made, strict=True))
    assert [one.where for one in of.left_out] == ["third"]


def test_an_item_without_rows_has_none() -> None:
    assert stages([], []).rows(0) == {}


def test_large_rows_are_handed_over_in_their_order_each_once() -> None:
    sent: list[Rows] = []
    last = stages([{"x": i, "y": np.zeros(160, np.uint8)} for i in range(9)], sent, limit=500).rows(0)
    assert not isinstance(last, WholeRows)
    assert [x for part in (*sent, last) if part for x in part["x"]] == list(range(9))
    assert len(sent) > 1


def test_rows_of_other_tensors_are_refused_after_whole_ones() -> None:
    whole = {"x": 1, "y": 2}
    with pytest.raises(TensorDoesNotExistError):
        stages([whole, {"x": 1, "z": 2}], []).rows(0)
    with pytest.raises(TensorMismatchError):
        stages([{"x": 1}], []).rows(0)
