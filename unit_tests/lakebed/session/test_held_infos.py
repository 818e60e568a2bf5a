"""What is changed in place in an info is stored by the next flush, commit or end, as if it had been assigned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import InfoError, LockedException, ReadOnlyModeError


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "ds")
    with lakebed.empty(path) as ds:
        ds.create_tensor("g/x", dtype="int64")
        ds.append({"g/x": 1})
        ds.info.update(l=[1], d={"a": {"b": 1}}, n=float("nan"))
        ds["g/x"].info["l"] = [1]
        ds.commit()
    return path


ENDS: dict[str, Callable[[lakebed.Dataset], object]] = {
    "commit": lambda ds: ds.commit(),
    "flush": lambda ds: ds.flush(),
    "append, commit": lambda ds: (ds.append({"g/x": 2}), ds.commit()),
    "another key": lambda ds: (ds.info.update(k=1), ds["g/x"].info.update(k=1), ds.flush()),
    "checkout": lambda ds: ds.checkout("other", create=True),
    "close": lambda ds: ds.close(),
    "block": lambda ds: ds.__exit__(None, None, None),
}


@pytest.mark.parametrize("end", ENDS)
def test_changes_in_place_are_stored(path: str, end: str) -> None:
    ds = lakebed.load(path)
    if end == "block":
        ds.__enter__()
    ds.info["l"].append(2)
    ds.info["d"]["a"].update(b=2)
    ds["g/x"].info["l"].append(3)
    ENDS[end](ds)
    found = lakebed.load(path)
    if end == "checkout":
        found.checkout("other")
    assert (found.info["l"], found.info["d"], found["g/x"].info["l"]) == ([1, 2], {"a": {"b": 2}}, [1, 3])


def test_objects_stay_those_that_the_caller_holds(path: str) -> None:
    ds = lakebed.load(path)
    held = ds.info["l"]
    held.append(2)
    ds.commit()
    ds.info["other"] = 1
    held.append(3)
    ds.commit()
    assert ds.info["l"] is held
    assert lakebed.load(path).info["l"] == [1, 2, 3]


def test_an_assignment_wins_over_what_was_changed_before(path: str) -> None:
    ds = lakebed.load(path)
    ds.info["l"].append(2)
    ds.info["l"] = [9]
    ds.flush()
    assert lakebed.load(path).info["l"] == [9]


def test_looking_changes_nothing(path: str) -> None:
    ds = lakebed.load(path)
    assert ds.info["l"] == [1]
    assert np.isnan(ds.info["n"])
    with pytest.raises(lakebed.errors.EmptyCommitError):
        ds.commit(allow_empty=False)


def test_what_cannot_be_stored_is_told_once(path: str) -> None:
    ds = lakebed.load(path)
    ds.info["l"].append(object())
    with pytest.raises(InfoError, match="JSON"):
        ds.flush()
    ds.flush()
    assert ds.info["l"] == [1]
    read: Any = lakebed.load(path, read_only=True)
    read.info["l"].append(2)
    with pytest.raises(ReadOnlyModeError):
        read.flush()


def test_a_reset_drops_what_was_changed_in_place(path: str) -> None:
    ds = lakebed.load(path)
    ds.info["l"].append(2)
    ds.reset()
    ds.append({"g/x": 3})
    ds.flush()
    assert lakebed.load(path).info["l"] == [1]


def test_what_cannot_be_stored_now_is_tried_again(path: str) -> None:
    ds, other = lakebed.load(path), lakebed.load(path)
    with other:
        other.append({"g/x": 2})
        ds.info["l"].append(2)
        with pytest.raises(LockedException):
            ds.flush()
    ds.flush()
    assert lakebed.load(path).info["l"] == [1, 2]
