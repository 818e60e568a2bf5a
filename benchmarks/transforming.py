"""What every contestant of `benchmarks.transform` is: a program that calls a function with all items and stores rows.

It imports nothing but the standard library, NumPy and what decodes, as it runs in the environment of each contestant.
Imports are not measured; starting workers is.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIDE = 224
# As lakebed encodes arrays for tensors of JPEG files.
QUALITY = 75
SUBSAMPLING = "420"


@dataclass(frozen=True)
class Task:
    """What to do.

    Parameters
    ----------
    work
        ``photos``: decode, resize, encode; ``rows``: small rows; ``empty`` and ``batches``: nothing at all; ``waits``:
        5 ms of sleep an item.
    data
        Folder of the photos.
    store
        Where the rows go.
    count, workers
        Items, and worker processes; 0 is the program itself.
    """

    work: str
    data: str
    store: str
    count: int
    workers: int

    def paths(self) -> list[str]:
        """Photos, again and again if there are too few."""
        found = [str(path) for path in sorted(Path(self.data, "photos").glob("*.jpg"))]
        return [found[i % len(found)] for i in range(self.count)]


def resized(path: str) -> Any:
    """Decode a photo and make it 224 pixels wide and high."""
    import numpy as np
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def encoded(path: str) -> bytes:
    """Decode a photo, resize it, and encode it."""
    import simplejpeg

    data: bytes = simplejpeg.encode_jpeg(resized(path), quality=QUALITY, colorsubsampling=SUBSAMPLING)
    return data


def small(i: int) -> dict[str, Any]:
    """A row of three."""
    return {"x": i, "y": i * 0.5, "t": f"row {i}"}


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main(prepared: Callable[[Task], Callable[[], int]]) -> None:
    """Do what the command line says, and print what it cost.

    Parameters
    ----------
    prepared
        Returns the function that is measured, which returns how many rows were stored.
    """
    task = Task(**json.loads(sys.argv[1]))
    run = prepared(task)
    cpu, began = _cpu(), time.perf_counter()
    rows = run()
    wall = time.perf_counter() - began
    if rows != task.count:
        raise RuntimeError(f"{rows} rows of {task.count}")
    print(json.dumps({"wall": wall, "cpu": _cpu() - cpu}))
