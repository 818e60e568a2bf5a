"""Dask: a bag over processes, whose partitions go into files."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import dask.bag

from benchmarks.transforming import Task, encoded, main, small


def _kept(rows: Iterable[Any], store: str) -> list[int]:
    found = list(rows)
    Path(store, f"{id(found)}-{len(found)}.pickle").write_bytes(pickle.dumps(found))
    return [len(found)]


def _prepared(task: Task) -> Callable[[], int]:
    shutil.rmtree(task.store, ignore_errors=True)
    Path(task.store).mkdir(parents=True)

    def run() -> int:
        items: Any = task.paths() if task.work == "photos" else list(range(task.count))
        function: Any = encoded if task.work == "photos" else small
        bag = dask.bag.from_sequence(items, npartitions=8).map(function).map_partitions(_kept, task.store)
        scheduler = (
            {"scheduler": "processes", "num_workers": task.workers} if task.workers else {"scheduler": "sync"}
        )
        return int(sum(bag.compute(**scheduler)))

    return run


if __name__ == "__main__":
    main(_prepared)
