"""What every contestant of `benchmarks.loader` is: a program that writes samples once and iterates over their batches.

It imports nothing but the standard library and NumPy, as it runs in the environment of each contestant. Imports are not
measured. Every sample has its row number as its label, so that it can be checked that each one came, and in which
order.

Photos are decoded by simplejpeg (libjpeg-turbo), which is the fastest decoder that Python has, in all contestants that
leave that to the user; a crop is resized by OpenCV, straight into the batch.
"""

from __future__ import annotations

import gc
import json
import math
import random
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

SIDE = 224
RAW = 512, 512, 3
ORDERED = 0.5
"""Shuffled samples of which more than this part follow their neighbours are not."""
REPEATED = 1.02
"""Loaders that give every worker equally many samples repeat some."""

Images = NDArray[np.uint8] | Sequence[NDArray[np.uint8]]


@dataclass(frozen=True)
class Task:
    """What to do.

    Parameters
    ----------
    work
        ``write-photos``, ``write-raw``, or the workload: ``crop``, ``whole``, ``raw``, ...
    data
        Folder of the generated data.
    store
        Folder of the dataset, written earlier.
    scratch
        Empty folder, for what a contestant keeps of what it reads.
    endpoint, url
        Where the dataset lies in a store that speaks S3; any key is good. Empty if it lies in `store`.
    count, batch, workers
        Samples, samples of a batch, and threads or worker processes.
    option
        Variant of the workload.
    """

    work: str
    data: str
    store: str
    scratch: str
    endpoint: str
    url: str
    count: int
    batch: int
    workers: int
    option: str

    @property
    def is_shuffled(self) -> bool:
        return self.option not in ("none", "raw none")

    def photos(self) -> Iterator[tuple[bytes, int]]:
        """Yield the JPEG files and their rows."""
        for row, path in enumerate(self.paths()):
            yield Path(path).read_bytes(), row

    def paths(self) -> list[str]:
        return [f"{self.data}/photos/{row:06d}.jpg" for row in range(self.count)]

    def raw(self) -> NDArray[np.uint8]:
        """Arrays of shape (count, 512, 512, 3), as they lie in a file."""
        return np.memmap(f"{self.data}/raw.bin", np.uint8, "r", shape=(self.count, *RAW))


class Clock:
    """When what is measured began, and when the dataset was open, if a contestant tells."""

    def __init__(self) -> None:
        self.began = self.opened = self.used = 0.0

    def start(self) -> None:
        """Begin to measure; or begin anew, after a pass that brings memory and files to where they are used."""
        self.used = cpu()
        self.began = self.opened = time.perf_counter()

    def is_open(self) -> None:
        self.opened = time.perf_counter()


clock = Clock()


class Contestant(Protocol):
    """A format and its loader. Each method is called in a fresh process."""

    def write(self, task: Task) -> None:
        """Write the samples into the folder `task.store`."""

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Yield the images and the rows of every batch."""


def box(height: int, width: int, chance: random.Random) -> tuple[int, int, int, int]:
    """Top, left, height, width of a random resized crop, as torchvision draws it."""
    for _ in range(10):
        area = height * width * chance.uniform(0.08, 1.0)
        ratio = math.exp(chance.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            return chance.randint(0, height - tall), chance.randint(0, width - wide), tall, wide
    side = min(height, width)
    return (height - side) // 2, (width - side) // 2, side, side


def cropped(image: NDArray[np.uint8], out: NDArray[np.uint8], chance: random.Random) -> None:
    """Resize a random crop into its place in a batch."""
    import cv2

    top, left, height, width = box(image.shape[0], image.shape[1], chance)
    cv2.resize(image[top : top + height, left : left + width], (SIDE, SIDE), dst=out)


def crops(files: Sequence[Any], out: NDArray[np.uint8]) -> None:
    """Decode files and resize a random crop of each into a batch."""
    import simplejpeg

    chance = random.Random()
    for data, room in zip(files, out, strict=True):
        cropped(simplejpeg.decode_jpeg(data), room, chance)


def extents(files: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Shapes that files decode to."""
    import simplejpeg

    return [(*simplejpeg.decode_jpeg_header(data)[:2], 3) for data in files]


def views(flat: NDArray[np.uint8], shapes: Iterable[Sequence[int]]) -> list[NDArray[np.uint8]]:
    """Arrays of different shapes that lie one behind the other."""
    found, at = [], 0
    for shape in shapes:
        size = math.prod(shape)
        found.append(flat[at : at + size].reshape(shape))
        at += size
    return found


def wholes(files: Sequence[Any], rooms: Sequence[NDArray[np.uint8]]) -> None:
    """Decode each file into its place."""
    import simplejpeg

    for data, room in zip(files, rooms, strict=True):
        simplejpeg.decode_jpeg(data, buffer=room)


def decoded(task: Task, files: Sequence[Any]) -> Images:
    """A batch made of files, in this process's memory."""
    if task.work == "crop":
        out = np.empty((len(files), SIDE, SIDE, 3), np.uint8)
        crops(files, out)
        return out
    shapes = extents(files)
    rooms = views(np.empty(sum(map(math.prod, shapes)), np.uint8), shapes)
    wholes(files, rooms)
    return rooms


def main(contestant: Contestant) -> None:
    """Do the task that the first argument describes, and print what it took as JSON."""
    task = Task(**json.loads(sys.argv[1]))
    if task.work.startswith("write"):
        contestant.write(task)
        print("{}")
        return
    gc.collect()
    base = held("self")
    clock.start()
    first, rows, values = 0.0, [], 0
    for images, found in contestant.batches(task):
        first = first or time.perf_counter()
        rows.append(np.asarray(found).reshape(-1))
        values += images.size if isinstance(images, np.ndarray) else sum(image.size for image in images)
    wall, used = time.perf_counter() - clock.began, cpu()
    check(task, np.concatenate(rows).astype(np.int64), values)
    ended = cpu(resource.RUSAGE_CHILDREN)
    gc.collect()  # worker processes end with their iterators
    used += cpu(resource.RUSAGE_CHILDREN) - ended
    found = {"wall": wall, "cpu": used - clock.used, "first": first - clock.began, "base": base}
    found["first after opening"] = first - clock.opened
    print(json.dumps({**found, "samples": task.count, "values": values / sum(map(len, rows)) * task.count}))


def check(task: Task, rows: NDArray[np.int64], values: int) -> None:
    """See that every sample came, and in an order as it should be.

    Raises
    ------
    RuntimeError
        If not.
    """
    if not np.array_equal(np.unique(rows), np.arange(task.count)) or len(rows) > REPEATED * task.count:
        raise RuntimeError(
            f"of {task.count} rows came {len(rows)}, among them {len(np.unique(rows))} different ones"
        )
    follows = float(np.mean(np.diff(rows) == 1))
    if task.is_shuffled and task.option != "chunk" and follows > ORDERED:
        raise RuntimeError(f"{follows:.0%} of the rows follow the row before: not shuffled")
    if task.work == "crop" and values != len(rows) * SIDE * SIDE * 3:
        raise RuntimeError(f"{values} values in {len(rows)} crops")


def cpu(*whose: int) -> float:
    """CPU seconds, by default of this process and of its children that ended."""
    used = [resource.getrusage(who) for who in whose or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def held(process: int | str) -> int:
    """Bytes of a process that are no pages of files: its own, and its part of what it shares with others."""
    try:
        lines = (
            Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
        )
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem"))) * 1024
