"""The limits: plain bytes, plain files, plain NumPy, and a bare loop of simplejpeg."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from benchmarks.contest import APPENDED, COLUMNS, DIMENSIONS, Boxes, Task, content, force, images, main


def jpeg_ingest(task: Task) -> None:
    """Concatenate the files into one."""
    photos = task.photos()
    with task.measured(), (task.out / "photos").open("wb") as out:
        out.writelines(content(path) for path in photos.paths)
        out.write(photos.labels.data)
        out.flush()
        if task.durable:
            os.fsync(out.fileno())
    task.did(len(photos.paths))


def jpeg_decode(task: Task) -> None:
    """Decode bytes that lie in memory, one after the other."""
    data = [content(path) for path in task.photos().paths]
    with task.measured():
        found = images(simplejpeg.decode_jpeg(photo) for photo in data)
    task.did(*found)


def jpeg_random(task: Task) -> None:
    """Open, read, decode one file at a time."""
    paths = task.photos().paths

    def read(row: int) -> NDArray[np.uint8]:
        image: NDArray[np.uint8] = simplejpeg.decode_jpeg(content(paths[row]))
        return image

    task.latencies(read)


def raw_ingest(task: Task) -> None:
    """Write one array after the other to one file, each with a call."""
    arrays = task.raw()
    with task.measured(), (task.out / "raw").open("wb", buffering=0) as out:
        for array in arrays:
            out.write(array.data)
        if task.durable:
            os.fsync(out.fileno())
    task.did(len(arrays))


def boxes_write(task: Task) -> None:
    """Concatenate and write values and offsets."""
    given = task.boxes()
    with task.measured():
        _save(task.out, given)
        if task.durable:
            force(task.out)
    task.did(len(given.boxes))


def _save(folder: Path, given: Boxes) -> None:
    for name, column in (("boxes", given.boxes), ("labels", given.labels)):
        np.save(folder / f"{name}.npy", np.concatenate(column))
        np.save(folder / f"{name}_offsets.npy", np.cumsum([len(value) for value in column]))


def boxes_read(task: Task) -> None:
    """Read values and offsets, cut them into views."""
    with task.measured():
        found = []
        for name in ("boxes", "labels"):
            values = np.load(task.store / f"{name}.npy")
            offsets = np.load(task.store / f"{name}_offsets.npy")
            found.append(np.split(values, offsets[:-1]))
    task.did(len(found[0]), sum(len(value) for value in found[0]), sum(len(value) for value in found[1]))


def labels_write(task: Task) -> None:
    """Write label files of each size."""
    for size in task.sizes():
        task.numbers()[:size].tofile(task.out / f"{size}-labels")
    with task.measured():
        pass


def rows_write(task: Task) -> None:
    """Write the bytes of all columns of each size."""
    for size in task.sizes():
        (task.out / f"{size}-rows").write_bytes(b"".join(c.tobytes() for c in task.records(size).values()))
    with task.measured():
        pass


def rows_append(task: Task) -> None:
    """Append the bytes of all columns to one file."""

    def append(path: Path, rows: dict[str, NDArray[Any]]) -> int:
        with task.measured(), path.open("ab") as out:
            for column in rows.values():
                out.write(column.data)
            out.flush()
            if task.durable:
                os.fsync(out.fileno())
        return path.stat().st_size // 76

    task.grow("rows", task.records(APPENDED), append)


def labels_append(task: Task) -> None:
    """Append to a plain file."""

    def append(path: Path, rows: NDArray[np.uint32]) -> int:
        with task.measured(), path.open("ab") as out:
            out.write(rows.data)
            out.flush()
            if task.durable:
                os.fsync(out.fileno())
        return path.stat().st_size // 4

    task.at_each_size("labels", append)


def labels_open(task: Task) -> None:
    """Map a file, look at its size and first value."""
    path = task.store / f"{task.sizes()[-1]}-labels"
    for _ in range(task.repeats):
        with task.measured():
            labels = np.memmap(path, np.uint32, "r")
            found = len(labels), int(labels[0])
    task.did(*found)


def labels_compare(task: Task) -> None:
    """Read a file and count the matches."""
    path = task.store / f"{task.sizes()[-1]}-labels"
    for _ in range(task.repeats):
        with task.measured():
            found = int(np.count_nonzero(np.fromfile(path, np.uint32) == 7))
    task.did(found)


def table_write(task: Task) -> None:
    """Write a file for each column."""
    with task.measured():
        for name, column in task.table().items():
            column.tofile(task.out / name)


def table_open(task: Task) -> None:
    """Map the files, look at two values of each."""

    def look() -> tuple[int, list[Any], list[Any]]:
        columns = [
            np.memmap(task.store / f"column_{n}", np.dtype(kind), "r") for n, kind in enumerate(COLUMNS)
        ]
        length = len(columns[0])
        return length, [column[0] for column in columns], [column[length // 2] for column in columns]

    task.opens(look)


def vectors_write(task: Task) -> None:
    """Write one file."""
    vectors = task.vectors()
    with task.measured():
        vectors.tofile(task.out / "vectors")


def vectors_search(task: Task) -> None:
    """Read the file, multiply."""
    path = task.store / "vectors"
    task.searches(lambda query: np.fromfile(path, np.float32).reshape(-1, DIMENSIONS) @ query)


def append_loop(task: Task) -> None:
    """Write rows one at a time, each with a call."""
    rows = task.numbers()[: task.count]
    with task.measured(), (task.out / "rows").open("wb", buffering=0) as out:
        began = time.perf_counter()
        out.writelines(row.tobytes() for row in rows)
        if task.durable:
            os.fsync(out.fileno())
        task.figures["rows"] = len(rows) / (time.perf_counter() - began)
    task.did(len(rows))


if __name__ == "__main__":
    main(globals())
