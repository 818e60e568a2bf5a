"""A bare loop over a pool of processes that writes a file for each photo: what the work itself costs."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.transforming import Task, encoded, main


def _photo(given: tuple[str, str]) -> int:
    path, target = given
    with open(target, "wb") as file:  # noqa: PTH123
        file.write(encoded(path))
    return 1


def _prepared(task: Task) -> Callable[[], int]:
    shutil.rmtree(task.store, ignore_errors=True)
    folder = Path(task.store)
    folder.mkdir(parents=True)

    def run() -> int:
        items = [(path, str(folder / f"{i}.jpg")) for i, path in enumerate(task.paths())]
        if not task.workers:
            return sum(map(_photo, items))
        with multiprocessing.get_context("fork").Pool(task.workers) as pool:
            return sum(pool.imap(_photo, items, chunksize=32))

    return run


if __name__ == "__main__":
    main(_prepared)
