"""Lance: partitions, each with a graph over quantised vectors; what is found is ordered by stored values."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa

from benchmarks.nearest import NEAREST, Ask, Task, main

_ROWS_OF_A_PARTITION = 50_000
_REFINED = 2


def write(task: Task) -> None:
    """Store the vectors."""
    width = task.vectors.shape[1]
    flat = pa.array(np.asarray(task.vectors).reshape(-1))
    table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(flat, width)})
    lance.write_dataset(table, str(task.store / "ds"), mode="overwrite")


def build(task: Task) -> None:
    """Make the index."""
    lance.dataset(str(task.store / "ds")).create_index(
        "vector",
        "IVF_HNSW_SQ",
        metric="cosine",
        num_partitions=max(1, len(task.vectors) // _ROWS_OF_A_PARTITION),
        m=16,
        ef_construction=128,
    )


def opened(task: Task) -> Ask:
    """Return what asks a query, of all partitions."""
    ds = lance.dataset(str(task.store / "ds"))
    parts = max(1, len(task.vectors) // _ROWS_OF_A_PARTITION)

    def ask(vector: np.ndarray) -> list[int]:
        nearest = {
            "column": "vector",
            "q": vector,
            "k": NEAREST,
            "metric": "cosine",
            "nprobes": parts,
            "ef": 64,
            "refine_factor": _REFINED,
        }
        found = ds.to_table(columns=[], nearest=nearest, with_row_id=True)
        return list(found["_rowid"].to_pylist())

    return ask


if __name__ == "__main__":
    main(write, build, opened)
