"""Verbs beside what they stand for: `python -m benchmarks.verbs`.

A million rows of an integer and a label on disk, in memory of the system. CPU seconds of this process, those of the
system included, the best of seven; contestants take turns.

    condition       ds[ds["a"] > 3], beside ds.query("SELECT * WHERE a > 3"): at most 1.5 times it
    value_counts    of labels, beside numpy.bincount of the labels as they are read: at most 2 times it
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import lakebed

ROWS = 1_000_000
CLASSES = 20
RUNS = 7


def taken(run: Callable[[], object]) -> float:
    """Return the CPU seconds that a call takes."""
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> int:
    """Print both times and their ratio; exit with status 1 where one is above its limit."""
    place = Path(tempfile.mkdtemp())
    try:
        random = np.random.default_rng(0)
        ds = lakebed.empty(place / "ds")
        ds.create_tensor("a", dtype="int64").extend(random.integers(0, 10, ROWS))
        names = [f"class {number}" for number in range(CLASSES)]
        labels = ds.create_tensor("label", htype="class_label", class_names=names)
        labels.extend(random.integers(0, CLASSES, ROWS).astype(np.uint32))
        ds.commit()
        contests: dict[str, tuple[Callable[[], object], Callable[[], object], float]] = {
            "condition": (lambda: ds[ds["a"] > 3], lambda: ds.query("SELECT * WHERE a > 3"), 1.5),
            "value_counts": (ds["label"].value_counts, lambda: np.bincount(ds["label"].numpy().ravel()), 2.0),
        }
        print(
            f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
        )
        slow = False
        for name, (ours, peer, most) in contests.items():
            times = [(taken(ours), taken(peer)) for _ in range(RUNS)]
            mine, its = (min(column) for column in zip(*times, strict=True))
            slow |= mine > most * its
            print(f"{name:12}  {mine * 1000:7.2f} ms  {its * 1000:7.2f} ms  {mine / its:.2f}, at most {most}")
    finally:
        shutil.rmtree(place)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
