"""lakebed: `compute`, and `transform` with batches."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lakebed
from benchmarks.transforming import Task, main, resized, small


@lakebed.compute
def _photo(path: str, out: Any) -> None:
    out.append({"image": resized(path)})


@lakebed.compute
def _row(i: int, out: Any) -> None:
    out.append(small(i))


@lakebed.compute
def _empty(i: int, out: Any) -> None:
    out.x.append(i)


@lakebed.compute
def _waits(i: int, out: Any) -> None:
    time.sleep(0.005)
    out.x.append(i)


def _batches(batch: Any) -> dict[str, Any]:
    return {"x": batch}


def _prepared(task: Task) -> Callable[[], int]:
    shutil.rmtree(task.store, ignore_errors=True)
    ds = lakebed.empty(task.store)
    if task.work == "photos":
        ds.create_tensor("image", htype="image", sample_compression="jpeg")
    else:
        ds.create_tensor("x", dtype="int64")
    if task.work == "rows":
        ds.create_tensor("y", dtype="float64")
        ds.create_tensor("t", htype="text")
    ds.flush()
    options: dict[str, Any] = {"num_workers": task.workers, "scheduler": "processed"}

    def run() -> int:
        if task.work == "batches":
            return lakebed.transform(_batches, np.arange(task.count), ds, batch_size=1000, **options).rows
        items: Any = task.paths() if task.work == "photos" else list(range(task.count))
        function = {"photos": _photo, "rows": _row, "empty": _empty, "waits": _waits}[task.work]
        return function().eval(items, ds, progressbar=False, **options).rows

    return run


if __name__ == "__main__":
    main(_prepared)
