"""What every contestant of `benchmarks.indexes` is: a program that makes an index, or looks for the ten nearest.

It imports nothing but the standard library and NumPy, as it runs in the environment of each contestant. Vectors lie in
a file that is mapped: the memory of a process is what it holds beside that.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

NEAREST = 10
_EVERY = 0.02


@dataclass(frozen=True)
class Task:
    """What to do.

    Parameters
    ----------
    vectors
        Shape (rows, width), float32, mapped.
    store
        Folder of this contestant; it stays from making to asking.
    """

    vectors: np.ndarray[Any, Any]
    store: Path


Ask = Callable[["np.ndarray[Any, Any]"], Any]
"""Returns the rows of the ten nearest vectors."""


class Peak:
    """The most memory that this process has held, mapped files left out; bytes."""

    def __init__(self) -> None:
        self.before = self.most = _held()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_EVERY):
            self.most = max(self.most, _held())


def _held() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc tells nothing of memory")


def main(write: Callable[[Task], None], build: Callable[[Task], None], opened: Callable[[Task], Ask]) -> None:
    """Do what the first argument says, and print as JSON what it took: CPU and wall seconds, bytes, rows found."""
    given = json.loads(sys.argv[1])
    data = Path(given["data"])
    task = Task(np.load(data / "vectors.npy", mmap_mode="r"), Path(given["store"]))
    if given["work"] == "build":
        write(task)
        with Peak() as peak:
            used, began = time.process_time(), time.perf_counter()
            build(task)
            cpu, wall = time.process_time() - used, time.perf_counter() - began
        size = sum(file.stat().st_size for file in task.store.rglob("*") if file.is_file())
        print(json.dumps({"cpu": cpu, "wall": wall, "peak": peak.most - peak.before, "size": size}))
        return
    ask = opened(task)
    queries = np.load(data / "queries.npy")
    found = [list(map(int, ask(query))) for query in queries]
    times = []
    for _ in range(given["repeats"]):
        used = time.process_time()
        for query in queries:
            ask(query)
        times.append((time.process_time() - used) / len(queries))
    print(json.dumps({"cpu": min(times), "found": found}))
