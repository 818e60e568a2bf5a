"""HDF5 by h5py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from benchmarks.contest import APPENDED, COLUMNS, Task, force, main


def raw_ingest(task: Task) -> None:
    """Write one contiguous data set, or with the option "append" one that grows by an array at a time."""
    arrays = task.raw()
    with task.measured():
        with h5py.File(task.out / "raw.h5", "w") as file:
            if task.option == "append":
                shape = arrays.shape[1:]
                data = file.create_dataset(
                    "raw", (0, *shape), arrays.dtype, chunks=(1, *shape), maxshape=(None, *shape)
                )
                for number, array in enumerate(arrays):
                    data.resize(number + 1, axis=0)
                    data[number] = array
            else:
                file.create_dataset("raw", data=arrays)
        if task.durable:
            force(task.out / "raw.h5")
    task.did(len(arrays))


def labels_write(task: Task) -> None:
    """Write label files of each size, that can grow."""
    for size in task.sizes():
        with h5py.File(task.out / f"{size}-labels", "w") as file:
            file.create_dataset("labels", data=task.numbers()[:size], chunks=(65536,), maxshape=(None,))
    with task.measured():
        pass


def rows_write(task: Task) -> None:
    """Write a data set for each column, in chunks of the size that HDF5 chooses."""
    for size in task.sizes():
        with h5py.File(task.out / f"{size}-rows", "w") as file:
            for name, column in task.records(size).items():
                file.create_dataset(name, data=column, chunks=True, maxshape=(None,))
    with task.measured():
        pass


def rows_append(task: Task) -> None:
    """Open, resize, assign and close."""

    def append(path: Path, rows: dict[str, NDArray[Any]]) -> int:
        with task.measured(), h5py.File(path, "r+") as file:
            for name, column in rows.items():
                length = len(file[name])
                file[name].resize(length + len(column), axis=0)
                file[name][length:] = column
            if task.durable:
                file.flush()
                os.fsync(file.id.get_vfd_handle())
        return length + len(column)

    task.grow("rows", task.records(APPENDED), append)


def labels_append(task: Task) -> None:
    """Resize, assign and flush."""

    def append(path: Path, rows: NDArray[np.uint32]) -> int:
        with h5py.File(path, "r+") as file:
            labels = file["labels"]
            with task.measured():
                length = len(labels)
                labels.resize(length + len(rows), axis=0)
                labels[length:] = rows
                file.flush()
                if task.durable:
                    os.fsync(file.id.get_vfd_handle())
            return len(labels)

    task.at_each_size("labels", append)


def labels_open(task: Task) -> None:
    """Open, length, first row."""
    path = task.store / f"{task.sizes()[-1]}-labels"
    for _ in range(task.repeats):
        with task.measured(), h5py.File(path, "r") as file:
            found = len(file["labels"]), int(file["labels"][0])
    task.did(*found)


def labels_compare(task: Task) -> None:
    """Open, read all labels, count the matches."""
    path = task.store / f"{task.sizes()[-1]}-labels"
    for _ in range(task.repeats):
        with task.measured(), h5py.File(path, "r") as file:
            found = int(np.count_nonzero(file["labels"][:] == 7))
    task.did(found)


def table_write(task: Task) -> None:
    """Write a data set for each column, that can grow."""
    with task.measured(), h5py.File(task.out / "table.h5", "w") as file:
        for name, column in task.table().items():
            file.create_dataset(name, data=column, chunks=(65536,), maxshape=(None,))


def table_open(task: Task) -> None:
    """Open, length, first and middle row."""

    def look() -> tuple[int, list[Any], list[Any]]:
        with h5py.File(task.store / "table.h5", "r") as file:
            columns = [file[f"column_{n}"] for n in range(len(COLUMNS))]
            length = len(columns[0])
            return length, [column[0] for column in columns], [column[length // 2] for column in columns]

    task.opens(look)


def vectors_write(task: Task) -> None:
    """Write one contiguous data set."""
    vectors = task.vectors()
    with task.measured(), h5py.File(task.out / "vectors.h5", "w") as file:
        file.create_dataset("vectors", data=vectors)


def vectors_search(task: Task) -> None:
    """Open, read all, multiply."""

    def score(query: NDArray[np.float32]) -> NDArray[np.float32]:
        with h5py.File(task.store / "vectors.h5", "r") as file:
            found: NDArray[np.float32] = file["vectors"][:] @ query
            return found

    task.searches(score)


if __name__ == "__main__":
    main(globals())
