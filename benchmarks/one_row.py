"""A loop over rows, beside Hugging Face datasets: `python -m benchmarks.one_row --peer-python VENV/bin/python`.

100,000 rows of five scalars on disk; `for row in ds: row["age"] > 3`, which reads one column, and `ds[i]["age"] > 3`
for 20,000 rows. What counts is CPU seconds of this process, those of the system included, the best of three; the peer,
which has `datasets`, runs in an interpreter of its own in the same minute. A ratio above 1.5 fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 100_000
SINGLE = 20_000
MOST = 1.5


def columns() -> dict[str, Any]:
    """Five columns of scalars."""
    random = np.random.default_rng(0)
    return {
        "age": random.integers(0, 100, ROWS),
        "height": random.random(ROWS),
        "ok": random.random(ROWS) > 0.5,
        "count": random.integers(0, 9, ROWS, dtype=np.int32),
        "weight": random.random(ROWS, dtype=np.float32),
    }


def loop(rows: Iterable[Any]) -> int:
    """Count the rows of whom one column is above 3."""
    return sum(1 for row in rows if row["age"] > 3)


def best(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three runs."""
    spent = []
    for _ in range(3):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
    return min(spent)


def times(dataset: Any) -> dict[str, float]:
    """Time both loops."""
    return {
        "loop": best(lambda: loop(dataset)),
        "single": best(lambda: loop(dataset[i] for i in range(SINGLE))),
    }


def peer(folder: str) -> None:
    """Print the times of Hugging Face datasets, as JSON."""
    import datasets  # type: ignore[import-not-found,unused-ignore]

    datasets.Dataset.from_dict(columns()).save_to_disk(folder)
    print(json.dumps(times(datasets.load_from_disk(folder))))


def main() -> None:
    """Print both times and their ratio; fail where it is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has `datasets`")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        peer(given.peer)
        return
    import lakebed

    folder = Path(tempfile.mkdtemp(prefix="one-row-"))
    try:
        made = lakebed.empty(folder / "ours")
        for name, column in columns().items():
            made.create_tensor(name, dtype=column.dtype).extend(column)
        made.commit()
        ours = times(lakebed.load(folder / "ours", read_only=True))
        command = [given.peer_python, __file__, "--peer", str(folder / "theirs")]
        theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}; CPU seconds")
    for name, what in (("loop", f"{ROWS:,} rows in a loop"), ("single", f"{SINGLE:,} single rows")):
        ratio = ours[name] / theirs[name]
        print(f"  {what}: {ours[name]:.2f}, Hugging Face datasets {theirs[name]:.2f}, ratio {ratio:.2f}")
    if ours["loop"] > MOST * theirs["loop"]:
        raise SystemExit(f"the loop takes more than {MOST} times as long")


if __name__ == "__main__":
    main()
