"""Hugging Face `datasets`: `map`, whose rows go into Arrow files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets

from benchmarks.transforming import Task, encoded, main, small


def _photo(row: dict[str, Any]) -> dict[str, Any]:
    return {"image": encoded(row["item"])}


def _made(row: dict[str, Any]) -> dict[str, Any]:
    return small(row["item"])


def _batches(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["item"]}


def _prepared(task: Task) -> Callable[[], int]:
    shutil.rmtree(task.store, ignore_errors=True)
    Path(task.store).mkdir(parents=True)
    datasets.disable_progress_bars()

    def run() -> int:
        items: Any = task.paths() if task.work == "photos" else list(range(task.count))
        source = datasets.Dataset.from_dict({"item": items})
        options: dict[str, Any] = {
            "remove_columns": ["item"],
            "cache_file_name": f"{task.store}/made.arrow",
            "num_proc": task.workers or None,
        }
        if task.work == "batches":
            source = source.with_format("numpy")
            return len(source.map(_batches, batched=True, batch_size=1000, **options))
        function = {"photos": _photo, "rows": _made, "empty": lambda row: {"x": row["item"]}}[task.work]
        return len(source.map(function, **options))

    return run


if __name__ == "__main__":
    main(_prepared)
