"""lakebed: a dataset with an index of vectors."""

from __future__ import annotations

import os
from typing import Any

import lakebed
from benchmarks.nearest import NEAREST, Ask, Task, main

_TEXT = f"SELECT * ORDER BY COSINE_SIMILARITY(vector, ?) DESC LIMIT {NEAREST}"
_BLOCK = 1 << 13
_SETTINGS: dict[str, Any] = {"dtype": os.environ["GRAPH"]} if os.environ.get("GRAPH") else {}


def write(task: Task) -> None:
    """Store the vectors."""
    with lakebed.empty(str(task.store / "ds"), overwrite=True) as ds:
        ds.create_tensor("vector", htype="embedding", dtype="float32")
        for start in range(0, len(task.vectors), _BLOCK):
            ds.vector.extend(task.vectors[start : start + _BLOCK])
    ds.commit("written")
    ds.close()


def build(task: Task) -> None:
    """Make the index."""
    ds = lakebed.load(str(task.store / "ds"), read_only=False)
    ds.create_index("vector", "hnsw", progressbar=False, **_SETTINGS)


def opened(task: Task) -> Ask:
    """Return what asks a query."""
    ds = lakebed.load(str(task.store / "ds"), read_only=True)
    return lambda vector: ds.query(_TEXT, parameters=[vector]).sample_indices


if __name__ == "__main__":
    main(write, build, opened)
