"""LMDB: a key per sample."""

from __future__ import annotations

import struct
from pathlib import Path

import lmdb
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from benchmarks.contest import Task, content, images, main

MAP_SIZE = 4 << 30


def _key(row: int) -> bytes:
    return struct.pack(">I", row)


def jpeg_ingest(task: Task) -> None:
    """Put a label and the file's bytes under each key, in one transaction."""
    photos = task.photos()
    with task.measured():
        store = lmdb.open(str(task.out / "photos"), map_size=MAP_SIZE, sync=task.durable)
        with store.begin(write=True) as transaction:
            for row, (path, label) in enumerate(zip(photos.paths, photos.labels.tolist(), strict=True)):
                transaction.put(_key(row), struct.pack("<I", label) + content(path), append=True)
        store.close()
    task.did(len(photos.paths))


def _decoded(value: memoryview) -> NDArray[np.uint8]:
    image: NDArray[np.uint8] = simplejpeg.decode_jpeg(value[4:])
    return image


def _opened(path: Path) -> lmdb.Environment:
    return lmdb.open(str(path), readonly=True, lock=False, readahead=False)


def jpeg_decode(task: Task) -> None:
    """Read with a cursor and decode without a copy."""
    with task.measured(), _opened(task.store / "photos").begin(buffers=True) as transaction:
        found = images(_decoded(value) for _, value in transaction.cursor())
    task.did(*found)


def jpeg_random(task: Task) -> None:
    """Get and decode one sample at a time."""
    with _opened(task.store / "photos").begin(buffers=True) as transaction:
        task.latencies(lambda row: _decoded(memoryview(transaction.get(_key(row), b""))))


if __name__ == "__main__":
    main(globals())
