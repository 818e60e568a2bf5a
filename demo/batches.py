"""Read a stream of the lake in batches, as a training loop would: batches.py DATASET."""

from __future__ import annotations

import sys
import time

import numpy as np

import lakebed


def main() -> None:
    """Print the first batch's columns, then the rate of a whole pass."""
    dataset = lakebed.load(sys.argv[1], read_only=True)
    columns = ["id", "age", "weight", "name", "occupation", "updated_at"]
    for name, values in next(iter(dataset.batches(256, tensors=columns))).items():
        first = values[:3].ravel().tolist() if isinstance(values, np.ndarray) else list(values[:3])
        print(f"  {name:<12} {type(values).__name__:<12} {first}")

    began = time.perf_counter()
    rows = sum(len(batch["id"]) for batch in dataset.batches(256, tensors=columns))
    seconds = time.perf_counter() - began
    print(
        f"  {rows:,} rows x {len(columns)} columns in {seconds:.2f} s: {rows / seconds:,.0f} rows per second"
    )


if __name__ == "__main__":
    main()
