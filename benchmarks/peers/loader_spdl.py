"""SPDL: files, read and decoded by the threads of its pipeline."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import cv2
import simplejpeg  # noqa: F401 - before measuring
from spdl.pipeline import PipelineBuilder

from benchmarks.contest import content
from benchmarks.loading import Images, Task, decoded, main

cv2.setNumThreads(1)


class Spdl:
    """A folder."""

    def write(self, task: Task) -> None:
        """They are there."""

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Make whole batches in each thread."""
        paths, rows = task.paths(), list(range(task.count))
        random.shuffle(rows)

        def numbers() -> Iterator[list[int]]:
            for start in range(0, len(rows), task.batch):
                yield rows[start : start + task.batch]

        def load(some: list[int]) -> tuple[Images, list[int]]:
            return decoded(task, [content(paths[row]) for row in some]), some

        builder = PipelineBuilder().add_source(numbers()).pipe(load, concurrency=task.workers).add_sink(3)
        pipeline = builder.build(num_threads=task.workers)
        with pipeline.auto_stop():
            yield from pipeline


if __name__ == "__main__":
    main(Spdl())
