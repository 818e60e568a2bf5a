"""What is done to a dataset while the disk is watched: everything that publishes, in small pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from integration_tests.power.recorder import mark
from lakebed.writing.draft import tensors as draft_tensors

Step = Callable[[lakebed.Dataset], None]


def _tensors(ds: lakebed.Dataset) -> None:
    with ds:
        ds.create_tensor("n", htype="class_label", class_names=["a", "b"])
        ds.create_tensor("group/x", dtype="float32", create_shape_tensor=False)
        ds.create_tensor("t", htype="text")
        _extend(ds, 5)
    ds.flush()


def _extend(ds: lakebed.Dataset, count: int) -> None:
    start = len(ds.n)
    rows = range(start, start + count)
    values = {
        "n": [row % 2 for row in rows],
        "group/x": [np.full((row % 3 + 1, 2), row, np.float32) for row in rows],
        "t": [f"row {row}" for row in rows],
    }
    ds.extend({name: values[name] for name in ds.tensors if name in values})


def _append(ds: lakebed.Dataset) -> None:
    _extend(ds, 1)
    ds.flush()


def _spill(ds: lakebed.Dataset) -> None:
    usual, draft_tensors.SPILL_BYTES = draft_tensors.SPILL_BYTES, 4_000
    try:
        with ds:
            for _ in range(6):
                start = len(ds.n)
                wide = [np.full((40, 2), row, np.float32) for row in range(start, start + 10)]
                ds.extend({"n": [1] * 10, "group/x": wide, "t": ["wide"] * 10})
                ds.group.x.numpy(aslist=True)
    finally:
        draft_tensors.SPILL_BYTES = usual


def _update(ds: lakebed.Dataset) -> None:
    with ds:
        ds.n[0] = 1
        ds.group.x[2] = np.zeros((1, 2), np.float32)
        ds.info["touched"] = len(ds.n)


def _pop(ds: lakebed.Dataset) -> None:
    ds.pop(1)
    ds.flush()


def _commit(ds: lakebed.Dataset) -> None:
    ds.commit(f"{len(ds.n)} rows")


def _rows_and_commit(ds: lakebed.Dataset) -> None:
    _extend(ds, 2)
    ds.commit("rows and commit in one step")


def _branch(ds: lakebed.Dataset) -> None:
    ds.checkout("side", create=True)
    _extend(ds, 3)
    ds.commit("on the side")


def _back(ds: lakebed.Dataset) -> None:
    ds.checkout("main")
    ds.n[1] = 0
    ds.flush()


def _merge(ds: lakebed.Dataset) -> None:
    ds.merge("side", conflict_resolution="ours")


def _tag(ds: lakebed.Dataset) -> None:
    ds.create_tag("good", message="as it should be")


def _delete_tensor(ds: lakebed.Dataset) -> None:
    with ds:
        ds.delete_tensor("t")


def _overwrite(ds: lakebed.Dataset) -> None:
    beside = ds.start_overwrite("next")
    with beside:
        beside.create_tensor("n", htype="class_label", class_names=["a", "b"])
        beside.extend({"n": [0, 1, 1]})
    ds.finish_overwrite("next")


def _reset(ds: lakebed.Dataset) -> None:
    _append(ds)
    ds.reset()


def _squash(ds: lakebed.Dataset) -> None:
    ds.delete_tag("good")
    ds.squash("all in one")


def _collect(ds: lakebed.Dataset) -> None:
    """Delete all garbage at once, however young."""
    lakebed.gc(ds.path, grace=0)


def _delete_branch(ds: lakebed.Dataset) -> None:
    ds.delete_branch("side", force=True)


STEPS: dict[str, Step] = {
    "create tensors": _tensors,
    "append": _append,
    "append again": _append,
    "spilled chunks": _spill,
    "update": _update,
    "pop": _pop,
    "commit": _commit,
    "rows and commit": _rows_and_commit,
    "branch": _branch,
    "back": _back,
    "collect": _collect,
    "merge": _merge,
    "tag": _tag,
    "append after merge": _append,
    "commit after merge": _commit,
    "reset": _reset,
    "delete tensor": _delete_tensor,
    "overwrite": _overwrite,
    "delete branch": _delete_branch,
    "collect again": _collect,
    "rows before squash": _append,
    "squash": _squash,
    "last append": _append,
}


def work(mount: Path, url: str) -> None:
    """Do all steps, each acknowledged by a mark of its name."""
    ds: Any = lakebed.empty(url)
    mark(mount, "create")
    for name, step in STEPS.items():
        step(ds)
        mark(mount, name)
    ds.close()
