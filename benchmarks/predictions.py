"""Predictions of a model written back into the dataset that it reads: ``python -m benchmarks.predictions [ROWS]``."""

from __future__ import annotations

import sys
import tempfile
import time

import numpy as np

import lakebed


def main(rows: int = 1_000_000) -> None:
    """Read, score and write some rows, and say how many a second."""
    with tempfile.TemporaryDirectory(prefix="lakebed-predictions-") as folder:
        ds = lakebed.empty(f"{folder}/ds")
        ds.create_tensor("x", dtype="float32").extend(np.random.default_rng(0).random((rows, 4), np.float32))
        ds.commit("data")
        ds.create_tensor("prediction/label", htype="class_label", class_names=["cat", "dog"])
        ds.create_tensor("prediction/score", dtype="float32")
        started, cpu = time.perf_counter(), time.process_time()
        with ds:
            for batch in lakebed.Loader(ds, 1024, tensors=["x"]):
                score = batch["x"].mean(axis=1)
                ds["prediction"].extend({"label": (score > 0.5).astype("uint32"), "score": score})
        ds.commit("predictions")
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        if not np.allclose(ds["prediction/score"].numpy().ravel(), ds.x.numpy().mean(axis=1)):
            raise SystemExit("what was written is not what was predicted")
        print(f"{rows:,} rows in {seconds:.2f} s ({cpu:.2f} s of CPU): {rows / seconds:,.0f} rows a second")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
