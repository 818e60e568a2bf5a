"""Deep Lake 3.9.52: `deeplake.compute`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import deeplake

from benchmarks.transforming import Task, main, resized, small


@deeplake.compute  # type: ignore[untyped-decorator]
def _photo(path: str, out: Any) -> None:
    out.append({"image": resized(path)})


@deeplake.compute  # type: ignore[untyped-decorator]
def _row(i: int, out: Any) -> None:
    out.append(small(i))


@deeplake.compute  # type: ignore[untyped-decorator]
def _empty(i: int, out: Any) -> None:
    out.x.append(i)


def _prepared(task: Task) -> Callable[[], int]:
    shutil.rmtree(task.store, ignore_errors=True)
    ds = deeplake.empty(task.store, verbose=False)
    if task.work == "photos":
        ds.create_tensor("image", htype="image", sample_compression="jpeg")
    else:
        ds.create_tensor("x", dtype="int64")
    if task.work == "rows":
        ds.create_tensor("y", dtype="float64")
        ds.create_tensor("t", htype="text")

    def run() -> int:
        items: Any = task.paths() if task.work == "photos" else list(range(task.count))
        function = {"photos": _photo, "rows": _row, "empty": _empty}[task.work]
        function().eval(items, ds, num_workers=task.workers, scheduler="processed", progressbar=False)
        return len(ds)

    return run


if __name__ == "__main__":
    main(_prepared)
