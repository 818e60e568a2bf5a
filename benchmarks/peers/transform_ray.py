"""Ray Data: `map`, whose blocks go into Parquet files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from typing import Any

import ray
import ray.data

from benchmarks.transforming import Task, encoded, main, small


def _prepared(task: Task) -> Callable[[], int]:
    shutil.rmtree(task.store, ignore_errors=True)
    ray.init(
        num_cpus=max(1, task.workers),
        include_dashboard=False,
        object_store_memory=500_000_000,
        logging_level=logging.ERROR,
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False

    def run() -> int:
        if task.work == "photos":
            source = ray.data.from_items([{"item": path} for path in task.paths()], override_num_blocks=8)
            made = source.map(lambda row: {"image": encoded(row["item"])})
        else:
            source = ray.data.range(task.count, override_num_blocks=8)
            made = source.map(lambda row: small(row["id"]))
        made.write_parquet(task.store)
        count: Any = task.count
        return int(count)

    return run


if __name__ == "__main__":
    main(_prepared)
