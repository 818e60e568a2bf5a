"""What every contestant is: a program that does one workload and says what it cost.

It imports nothing but the standard library and NumPy, as it runs in the environment of each contestant. Imports and
preparation are not measured; what lies inside ``with task.measured()`` is.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZES = (10_000, 100_000, 1_000_000)
"""Rows of the label datasets that are appended to."""
APPENDED = 10_000
COLUMNS = ("i8", "f8", "i8", "f8", "i8", "f8", "i8", "i4", "f4", "i4", "f4", "i4")
"""Numbers of a row of the table: 76 bytes."""
DIMENSIONS = 768
FOUND = 10
RECORD = {
    "id": "int64",
    "kind": "int32",
    **{f"f{i}": "float32" for i in range(4)},
    **{f"d{i}": "float64" for i in range(6)},
}
"""Columns of the records that are appended: 76 bytes each."""


@dataclass(frozen=True)
class Photos:
    """JPEG files and a label for each."""

    paths: list[str]
    labels: NDArray[np.uint32]


@dataclass(frozen=True)
class Boxes:
    """Ragged sets of boxes, float32 of shape (n, 4), with n labels, uint32, each."""

    boxes: list[NDArray[np.float32]]
    labels: list[NDArray[np.uint32]]


@dataclass
class Task:
    """One workload to do.

    Parameters
    ----------
    data
        Folder of the generated data.
    out
        Fresh folder for what is written.
    store
        What this contestant wrote earlier and now reads; the folder that was its `out`.
    durable
        Whether what is measured ends with everything forced to disk.
    option
        Variant of the workload, such as a number of threads.
    repeats
        How often a short workload is repeated within the process.
    warm
        Bytes to `warm` before measuring.
    """

    workload: str
    data: Path
    out: Path
    store: Path
    durable: bool
    option: str
    count: int
    repeats: int
    warm: int
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    peak: list[int] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    check: str = ""

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Take the CPU seconds of the process and its children, wall seconds, and growth of memory at its peak."""
        gc.collect()
        warm(self.out, self.warm)
        before = _restart_peak()
        children = _children()
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu + _children() - children)
        self.peak.append(max(0, _status("VmHWM") - before))

    def did(self, *facts: object) -> None:
        """State a fact of the result that must be the same for all contestants."""
        self.check = " ".join(map(str, facts))

    def fresh(self, name: str) -> Path:
        """Name of a new file or folder in `out`."""
        number = len(list(self.out.iterdir()))
        return self.out / f"{number}-{name}"

    def copied(self, name: str, number: int) -> Path:
        """Copy of a file or folder of `store`, that may be changed."""
        copy = self.out / f"{number}-{name}"
        (shutil.copytree if (self.store / name).is_dir() else shutil.copy)(self.store / name, copy)
        return copy

    def photos(self) -> Photos:
        folder = self.data / "photos"
        paths = [str(folder / f"{number:06d}.jpg") for number in range(self.count)]
        return Photos(paths, np.load(self.data / "photo_labels.npy")[: self.count])

    def raw(self) -> NDArray[np.uint8]:
        """Arrays of shape (count, 512, 512, 3), in memory."""
        shape = (self.count, 512, 512, 3)
        return np.fromfile(self.data / "raw.bin", np.uint8, int(np.prod(shape))).reshape(shape)

    def boxes(self) -> Boxes:
        offsets = np.load(self.data / "box_offsets.npy")[: self.count + 1].tolist()
        flat, labels = np.load(self.data / "boxes.npy"), np.load(self.data / "box_labels.npy")
        pairs = list(itertools.pairwise(offsets))
        return Boxes([flat[a:b].copy() for a, b in pairs], [labels[a:b].copy() for a, b in pairs])

    def numbers(self) -> NDArray[np.uint32]:
        """Labels, as many as the largest dataset needs."""
        found: NDArray[np.uint32] = np.load(self.data / "labels.npy")
        return found

    def records(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return columns of numbers, the same for all contestants."""
        chance = np.random.default_rng(7)
        return {name: chance.integers(0, 1 << 30, rows).astype(kind) for name, kind in RECORD.items()}

    def order(self) -> list[int]:
        """Row numbers in random order, the same for all contestants."""
        rows: list[int] = np.random.default_rng(7).integers(0, self.count, min(2_000, self.count)).tolist()
        return rows

    def latencies(self, read: Callable[[int], Any]) -> None:
        """Read single rows in random order; median and 99th percentile of their wall milliseconds."""
        rows = self.order()
        for row in rows[:20]:
            read(row)
        times, pixels = [], 0
        with self.measured():
            for row in rows:
                began = time.perf_counter()
                image = read(row)
                times.append(time.perf_counter() - began)
                pixels += image.size
        self.figures |= {f"p{percent}": float(np.percentile(times, percent)) * 1e3 for percent in (50, 99)}
        self.did(pixels)

    def at_each_size(self, name: str, append: Callable[[Path, NDArray[np.uint32]], int]) -> None:
        """Append rows to copies of each label dataset; `append` measures itself and returns the new length."""
        self.grow(name, self.numbers()[:APPENDED], append)

    def grow(self, name: str, rows: Any, append: Callable[[Path, Any], int]) -> None:
        """Append rows to copies of a dataset of each size; `append` measures itself and returns the new length."""
        for size in SIZES:
            if size > self.count:
                continue
            taken = len(self.wall)
            for number in range(self.repeats):
                target = self.copied(f"{size}-{name}", number * len(SIZES) + SIZES.index(size))
                if append(target, rows) != size + APPENDED:
                    raise RuntimeError(f"{target} has not grown by {APPENDED}")
            self.figures |= {
                f"wall_{size}": statistics.median(self.wall[taken:]) * 1e3,
                f"cpu_{size}": statistics.median(self.cpu[taken:]) * 1e3,
            }

    def table(self) -> dict[str, NDArray[Any]]:
        """Columns of numbers of each kind, in memory."""
        return {f"column_{n}": np.arange(self.count).astype(kind) for n, kind in enumerate(COLUMNS)}

    def opens(self, look: Callable[[], tuple[int, list[Any], list[Any]]]) -> None:
        """Open a table several times; `look` returns its length, its first row and its middle row."""
        for _ in range(self.repeats):
            with self.measured():
                length, first, middle = look()
        self.did(length, *[[float(np.ravel(value)[0]) for value in row] for row in (first, middle)])

    def vectors(self) -> NDArray[np.float32]:
        """Vectors, of shape (count, DIMENSIONS), in memory."""
        return np.random.default_rng(5).standard_normal((self.count, DIMENSIONS), dtype=np.float32)

    def searches(self, score: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> None:
        """Find the vectors with the largest products; `score` returns the product of a query with each of them."""
        query = np.random.default_rng(6).standard_normal(DIMENSIONS, dtype=np.float32)
        with self.measured():
            scores = score(query)
            best = np.argpartition(-scores, FOUND)[:FOUND]
            found = best[np.argsort(-scores[best])]
        self.did(len(scores), found.tolist())

    def sizes(self) -> list[int]:
        """Rows of the label datasets that this run has."""
        return [size for size in SIZES if size <= self.count]


def content(path: str) -> bytes:
    """Read a file, without pathlib's cost, which is no contestant's."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def images(decoded: Iterator[NDArray[np.uint8]] | Sequence[NDArray[np.uint8]]) -> tuple[int, int]:
    """Number of images and of their values; none of them is kept."""
    number = values = 0
    for image in decoded:
        number += 1
        values += image.size
    return number, values


def main(workloads: Mapping[str, Any]) -> None:
    """Do the task that the first argument describes, and print the result as JSON.

    Parameters
    ----------
    workloads
        The functions of a program (its `globals()`): that of the workload "a-b" is called `a_b`.
    """
    given = json.loads(sys.argv[1])
    task = Task(**{**given, **{name: Path(given[name]) for name in ("data", "out", "store")}})
    workloads[task.workload.replace("-", "_")](task)
    found = asdict(task)
    print(json.dumps({name: found[name] for name in ("cpu", "wall", "peak", "figures", "check")}))


def warm(folder: Path, size: int) -> None:
    """Use and free memory, of the kind that files take, so that new pages are at hand for some seconds.

    A virtual machine may give freed pages back to its host; the first use of each then costs ten times as much, and
    chance decides who pays for it.
    """
    piece = np.ones(1 << 20, np.uint8)
    scratch = folder / "scratch"
    with scratch.open("wb", buffering=0) as out:
        out.writelines(piece.data for _ in range(size >> 20))
    scratch.unlink()
    np.ones(size // 4, np.uint8)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _restart_peak() -> int:
    """Let the kernel forget the peak so far; returns the memory in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _status("VmRSS")


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def force(path: Path) -> None:
    """Force a file, or every file and folder below a folder, to disk."""
    for found in [path, *path.rglob("*")] if path.is_dir() else [path]:
        fd = os.open(found, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
