"""What every contestant of `benchmarks.remote` is: a program that writes a dataset once and reads it from a bucket.

It imports nothing but the standard library and NumPy, as it runs in the environment of each contestant. Imports are not
measured.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SMALLEST, LARGEST = 60_000, 140_000
"""Bytes of an image; evenly spread, so 100 kB on average."""


@dataclass(frozen=True)
class Task:
    """What to do.

    Parameters
    ----------
    work
        ``write``, ``open``, ``scan``, ``random`` or ``column``.
    endpoint, bucket, prefix
        Where the dataset lies in a store that speaks S3; any key is good.
    folder
        Empty, on this machine: to write into, or for what a contestant keeps of what it reads.
    images, numbers
        Rows of the two datasets.
    picked
        Rows that are read at random.
    in_flight
        Requests, or threads that read, at the same time.
    """

    work: str
    endpoint: str
    bucket: str
    prefix: str
    folder: str
    images: int
    numbers: int
    picked: int
    in_flight: int

    @property
    def url(self) -> str:
        """Address of the dataset."""
        return f"s3://{self.bucket}/{self.prefix}"

    def image(self, row: int) -> NDArray[np.uint8]:
        """Bytes that nothing compresses, as those of a JPEG file: uint8, of one dimension."""
        size = int(self.sizes()[row])
        return np.random.default_rng(row).integers(0, 256, size, np.uint8)

    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each image."""
        return np.random.default_rng(1).integers(SMALLEST, LARGEST, self.images)

    def column(self) -> NDArray[np.int32]:
        """A number for each row of the second dataset, that hardly compresses."""
        return np.random.default_rng(2).integers(0, 1 << 31, self.numbers, np.int32)

    def rows(self) -> list[int]:
        """Rows in random order, each once, the same for all contestants."""
        rows: list[int] = np.random.default_rng(3).permutation(self.images)[: self.picked].tolist()
        return rows

    def at_once(self, read: Callable[[int], Any]) -> Iterable[Any]:
        """Read the random rows in as many threads as may be in flight."""
        with ThreadPoolExecutor(self.in_flight) as pool:
            yield from pool.map(read, self.rows())


class Contestant(Protocol):
    """A format and its reader. Every method but `write` is called in a fresh process, after `open`."""

    def write(self, task: Task) -> None:
        """Write both datasets into the folder, or to the store."""

    def open(self, task: Task) -> Any:
        """Open the dataset of images."""

    def sample(self, opened: Any, row: int) -> Any:
        """Read one image."""

    def scan(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read all images in order."""

    def random(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read `task.rows()`, in any order."""

    def column(self, task: Task) -> NDArray[Any]:
        """Open the dataset of numbers and read all of them."""


def main(contestant: Contestant) -> None:
    """Do the task that the first argument describes, and print what it took as JSON."""
    task = Task(**json.loads(sys.argv[1]))
    if task.work == "write":
        contestant.write(task)
        print("{}")
        return
    times: dict[str, float] = {}
    began = time.perf_counter()
    if task.work == "column":
        used = _cpu()
        found = contestant.column(task)
        times |= {"column": time.perf_counter() - began, "cpu": _cpu() - used}
        _same(bool((np.asarray(found).reshape(-1) == task.column()).all()), "the numbers")
        print(json.dumps(times))
        return
    opened = contestant.open(task)
    times["open"] = time.perf_counter() - began
    began, used = time.perf_counter(), _cpu()
    if task.work == "open":
        first = contestant.sample(opened, task.rows()[0])
        times["first sample"] = time.perf_counter() - began
        _same(_bytes(first) == task.image(task.rows()[0]).tobytes(), "the first sample")
    else:
        read = contestant.scan if task.work == "scan" else contestant.random
        rows: Sequence[int] = range(task.images) if task.work == "scan" else task.rows()
        sizes = [_size(image) for image in read(task, opened)]
        times[task.work] = time.perf_counter() - began
        _same(sorted(sizes) == sorted(task.sizes()[list(rows)].tolist()), "sizes")
    print(json.dumps({**times, "cpu": _cpu() - used}))


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _bytes(image: Any) -> bytes:
    return image.tobytes() if isinstance(image, np.ndarray) else bytes(image)


def _size(image: Any) -> int:
    return int(image.size) if isinstance(image, np.ndarray) else len(image)


def _same(is_same: bool, what: str) -> None:
    if not is_same:
        raise RuntimeError(f"{what}: not what was written")
