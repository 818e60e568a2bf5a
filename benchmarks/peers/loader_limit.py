"""What no loader can be faster than: bare loops on as many threads, over what is in memory, into hot buffers."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from benchmarks.loading import RAW, SIDE, Task, cpu, held
from benchmarks.regions import Limit, scale_of
from lakebed.codecs.regions import library
from lakebed.loaders.draws import draws
from lakebed.loaders.ops import Compose, RandomResizedCrop
from lakebed.native import headers

SLOTS = 3


def _whole(files: Sequence[bytes]) -> int:
    """Decode each file into the same buffer."""
    room, values = np.ones(1 << 21, np.uint8), 0
    for data in files:
        values += simplejpeg.decode_jpeg(data, buffer=room).size
    return values


class _Boxes:
    """The scan lines of a random box of each file, as its crop needs them; nothing is resized."""

    def __init__(self, task: Task, loop: Limit, files: list[bytes], first: int) -> None:
        self._loop = loop
        self._parts = []
        crop = Compose([RandomResizedCrop(SIDE)])
        for start in range(0, len(files), task.batch):
            part = files[start : start + task.batch]
            rows = np.arange(first + start, first + start + len(part))
            (geometry,) = crop.geometries(headers.jpeg_headers(list(part))[0], draws(1, 0, rows, crop.draws))
            scales = np.array([scale_of(box) for box in geometry.boxes], np.int32)
            self._parts.append((part, np.ascontiguousarray(geometry.boxes), scales))

    def __call__(self) -> int:
        """Decode them into the same buffer."""
        for part, boxes, scales in self._parts:
            self._loop.decode(part, boxes, scales, partial=True)
        return sum(len(part) for part, _, _ in self._parts) * SIDE * SIDE * 3


def _copied(arrays: NDArray[np.uint8], rooms: NDArray[np.uint8]) -> int:
    """Copy arrays into a ring of batches."""
    values, batch = 0, rooms.shape[1]
    for number, start in enumerate(range(0, len(arrays), batch)):
        part = arrays[start : start + batch]
        np.copyto(rooms[number % SLOTS, : len(part)], part)
        values += part.size
    return values


def _shares(task: Task) -> list[Callable[[], int]]:
    """What each thread is to do."""
    ends = [number * task.count // task.workers for number in range(task.workers + 1)]
    bounds = list(pairwise(ends))
    if task.option == "memcpy":
        arrays = np.array(task.raw())
        ring = SLOTS, task.batch // task.workers, *RAW
        return [partial(_copied, arrays[a:b], np.ones(ring, np.uint8)) for a, b in bounds]
    files = [data for data, _ in task.photos()]
    if task.option != "boxes":
        return [partial(_whole, files[a:b]) for a, b in bounds]
    path, problem = library()
    if path is None:
        raise RuntimeError(problem)
    with tempfile.TemporaryDirectory() as folder:
        return [_Boxes(task, Limit(path, Path(folder)), files[a:b], a) for a, b in bounds]


def main() -> None:
    """Share the work among threads, and print what it took as JSON."""
    task = Task(**json.loads(sys.argv[1]))
    shares, found = _shares(task), [0] * task.workers

    def run(number: int) -> None:
        found[number] = shares[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(task.workers)]
    base, used, began = held("self"), cpu(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = {"wall": time.perf_counter() - began, "cpu": cpu() - used}
    print(
        json.dumps(
            {
                **times,
                "first": 0.0,
                "first after opening": 0.0,
                "base": base,
                "samples": task.count,
                "values": sum(found),
            }
        )
    )


if __name__ == "__main__":
    main()
