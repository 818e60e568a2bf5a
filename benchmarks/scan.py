"""Reading: opening a dataset of a million rows and twenty columns; scans of long columns beside memcpy.

The datasets are made once, and times are CPU seconds. A scan is compared with copying the same bytes inside this
process: into a buffer that is used again (warm), and into fresh memory, where the kernel has to hand out zeroed pages
first. The columns are longer than the processor's caches, so that memory is compared with memory.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from benchmarks.inputs import CACHE
from benchmarks.sync import check

ROWS = 1_000_000
COLUMNS = 20
RUNS = 7
PATH = CACHE / "million"
NUMBERS = 8_000_000
TEXTS = 3_000_000
LONG = CACHE / "long"


def make() -> None:
    """Write the dataset: integers, floats and texts of about 24 bytes, in ten publishes."""
    if lakebed.exists(str(PATH)):
        return
    print(f"making {ROWS:,} rows x {COLUMNS} columns, once", flush=True)
    dataset = lakebed.empty(str(PATH))
    plain: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}
    for n in range(COLUMNS - 4):
        dataset.create_tensor(f"column_{n}", dtype="float64" if n % 2 else "int64", **plain)
    for n in range(COLUMNS - 4, COLUMNS):
        dataset.create_tensor(f"column_{n}", htype="text", **plain)
    step = ROWS // 10
    for start in range(0, ROWS, step):
        numbers = np.arange(start, start + step)
        texts = pa.array([text(n) for n in numbers])
        columns: dict[str, Any] = {f"column_{n}": numbers * (1.5 if n % 2 else 1) for n in range(COLUMNS - 4)}
        columns |= {f"column_{n}": texts for n in range(COLUMNS - 4, COLUMNS)}
        dataset.extend(columns)
        dataset.flush()
    dataset.commit("made")
    dataset.close()


def make_long() -> None:
    """Write two columns that no cache holds, each in a dataset of its own, and commit them."""
    for name, rows in (("numbers", NUMBERS), ("texts", TEXTS)):
        path = str(LONG / name)
        if lakebed.exists(path):
            continue
        print(f"making {rows:,} {name}, once", flush=True)
        dataset = lakebed.empty(path)
        kind: dict[str, Any] = {"dtype": "int64"} if name == "numbers" else {"htype": "text"}
        dataset.create_tensor(name, create_id_tensor=False, create_shape_tensor=False, **kind)
        for start in range(0, rows, 1_000_000):
            numbers = np.arange(start, start + 1_000_000)
            dataset.extend({name: numbers if name == "numbers" else pa.array([text(n) for n in numbers])})
        dataset.commit("made")
        dataset.close()


def text(number: object) -> str:
    """Text of about 25 bytes."""
    return f"text of row number {number}"


def seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median CPU seconds, after one run that warms up."""
    work()
    times = []
    for _ in range(runs):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return statistics.median(times)


def opened_files(work: Callable[[], object]) -> list[str]:
    """Files that a piece of work opens, folders aside."""
    work()
    found: list[str] = []
    watching = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and watching[0] and not arguments[2] & os.O_DIRECTORY:
            found.append(Path(str(arguments[0])).name)

    sys.addaudithook(watch)
    work()
    watching[0] = False
    return found


def open_and_look() -> tuple[int, Any]:
    """Open, length, first row."""
    dataset = lakebed.load(str(PATH), read_only=True)
    row = dataset[0]
    return len(dataset), [row[name].numpy() for name in dataset.tensors]


def open_only() -> int:
    """Open and length: metadata alone."""
    return len(lakebed.load(str(PATH), read_only=True))


@functools.cache
def long_column(column: str) -> lakebed.Dataset:
    """Open dataset of one long column."""
    return lakebed.load(str(LONG / column), read_only=True)


def drain(column: str, batch: int, *, anew: bool) -> int:
    """Scan a column and count its rows; a dataset that is opened anew verifies every chunk."""
    dataset = lakebed.load(str(LONG / column), read_only=True) if anew else long_column(column)
    return sum(len(found[column]) for found in dataset.batches(batch))


def drain_strings(column: str, batch: int) -> int:
    """Scan a text column and make a Python string of every value."""
    return sum(len(list(found[column])) for found in long_column(column).batches(batch))


def copies(size: int) -> tuple[float, float]:
    """Seconds to copy `size` bytes into a warm buffer and into fresh memory."""
    source = np.ones(size, np.uint8)
    target = np.ones(size, np.uint8)
    return seconds(lambda: np.copyto(target, source)), seconds(source.copy)


def report_scan(title: str, column: str, size: int, bar: float) -> None:
    """Print the scan of one column beside memcpy."""
    warm, fresh = copies(size)
    print(f"  {title}: {size / 1e6:.0f} MB; memcpy {size / warm / 1e9:.1f} GB/s warm, ", end="")
    print(f"{size / fresh / 1e9:.1f} GB/s into fresh memory")
    for anew, which in ((True, "first scan, verifies"), (False, "later scans, mapped ")):
        for batch in (1024, 65536):
            taken = seconds(functools.partial(drain, column, batch, anew=anew))
            print(f"    {which}, batches of {batch:>6}: {taken * 1e3:7.1f} ms, ", end="")
            print(f"{warm / taken:.2f} of warm, {fresh / taken:.2f} of fresh memcpy")
        check(f"{which.strip()}: {title} / memcpy, batches of 65536", warm / taken, bar)


def main() -> None:
    """Print the figures of reading."""
    make()
    print(f"reading {ROWS:,} rows x {COLUMNS} columns, warm")
    files = opened_files(open_only)
    print(f"  open and len read {len(files)} files: {', '.join(files)}")
    check("reads of metadata to open", len(files), 2, at_most=True)
    print(f"  open and len: {seconds(open_only) * 1e3:.1f} ms")
    check("open, len, first row of every column, ms", seconds(open_and_look) * 1e3, 50, at_most=True)
    make_long()
    report_scan("int64", "numbers", NUMBERS * 8, 0.5)
    report_scan("text", "texts", sum(len(text(n)) for n in range(TEXTS)), 0.2)
    made = seconds(lambda: drain_strings("texts", 65536), runs=3)
    print(
        f"    and every value made a Python string: {made * 1e3:.0f} ms, {TEXTS / made / 1e6:.1f} M strings/s"
    )


if __name__ == "__main__":
    main()
