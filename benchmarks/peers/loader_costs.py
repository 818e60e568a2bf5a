"""lakebed's own costs: per sample and per batch where there is nothing to decode, and memory over many epochs."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import lakebed
from benchmarks.loading import Task, held

BATCHES = (64, 4096)
ROUNDS = 5
EPOCHS = 50
SETTLED = 10
"""Epochs after which the memory has found its size."""


def _empty(batches: int) -> Iterator[dict[str, Any]]:
    for _ in range(batches):
        yield {}


def _took(call: Callable[[], Any]) -> float:
    began = time.process_time()
    for _ in call():
        pass
    return time.process_time() - began


def overhead(task: Task) -> dict[str, float]:
    """Time passes over one-byte samples with small and with large batches; CPU seconds, medians."""
    dataset = lakebed.load(f"{task.store}/bytes", read_only=True)
    made = {size: lakebed.Loader(dataset, size, shuffle=True, threads=task.workers) for size in BATCHES}
    found: dict[str, list[float]] = {}
    source, room = np.ones(1 << 28, np.uint8), np.ones(1 << 28, np.uint8)
    for _ in range(ROUNDS):
        for size, loader in made.items():
            found.setdefault(f"{size}", []).append(_took(lambda loader=loader: loader))  # type: ignore[misc]
        found.setdefault("empty", []).append(_took(lambda: _empty(task.count // BATCHES[0])))
        began = time.process_time()
        np.copyto(room, source)
        found.setdefault("copy", []).append(time.process_time() - began)
    middle = {name: statistics.median(values) for name, values in found.items()}
    small, large = BATCHES
    per_batch = (middle[f"{small}"] - middle[f"{large}"]) / (task.count / small - task.count / large)
    per_sample = (middle[f"{large}"] - per_batch * task.count / large) / task.count
    return {
        "us a sample": per_sample * 1e6,
        "us a batch": per_batch * 1e6,
        "us of an empty generator": middle["empty"] / (task.count / small) * 1e6,
        "copied GB/s": len(room) / middle["copy"] / 1e9,
    }


def epochs(task: Task) -> dict[str, float]:
    """Take memory after each epoch of shuffled photos."""
    dataset = lakebed.load(f"{task.store}/photos", read_only=True)
    sizes = []
    with lakebed.Loader(dataset[: task.count], task.batch, shuffle=True, threads=task.workers) as loader:
        for _ in range(EPOCHS):
            for _ in loader:
                pass
            sizes.append(held("self"))
    settled = sizes[SETTLED:]
    slope = np.polyfit(np.arange(len(settled)), settled, 1)[0]
    return {"KiB an epoch": float(slope) / 1024, "last MB": sizes[-1] / 1e6, "first MB": sizes[0] / 1e6}


def main() -> None:
    """Do the task that the first argument describes, and print the figures as JSON."""
    task = Task(**json.loads(sys.argv[1]))
    base = held("self")
    began, used = time.perf_counter(), time.process_time()
    found = overhead(task) if task.work == "overhead" else epochs(task)
    times = {"wall": time.perf_counter() - began, "cpu": time.process_time() - used, "first": 0.0}
    print(json.dumps({**times, "base": base, "samples": task.count, "values": 0, **found}))


if __name__ == "__main__":
    main()
