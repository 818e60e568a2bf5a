"""usearch alone: one graph over all vectors, with the settings that lakebed has by default."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from usearch.index import Index

from benchmarks.nearest import NEAREST, Ask, Task, main

_WIDE = 64


def write(task: Task) -> None:
    """Have nothing to store but the graph."""


def build(task: Task) -> None:
    """Make and store the graph."""
    graph = Index(
        ndim=task.vectors.shape[1],
        metric="cos",
        dtype=os.environ.get("GRAPH") or "f32",
        connectivity=16,
        expansion_add=128,
        enable_key_lookups=False,
    )
    graph.add(np.arange(len(task.vectors), dtype=np.uint64), task.vectors)
    graph.save(str(task.store / "graph"))


def opened(task: Task) -> Ask:
    """Return what asks the graph."""
    graph: Any = Index.restore(str(task.store / "graph"), view=True, enable_key_lookups=False)
    graph.expansion_search = _WIDE
    return lambda vector: graph.search(vector, NEAREST, threads=1).keys.tolist()


if __name__ == "__main__":
    main(write, build, opened)
