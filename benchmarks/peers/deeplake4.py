"""Deep Lake 4: another format, and another API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deeplake
import numpy as np
from deeplake import types
from numpy.typing import NDArray

from benchmarks.contest import APPENDED, Task, content, force, images, main


def jpeg_ingest(task: Task) -> None:
    """Append the files' bytes to a column of images in JPEG."""
    photos = task.photos()
    with task.measured():
        dataset = deeplake.create(str(task.out / "photos"))
        dataset.add_column("photo", types.Image(sample_compression="jpeg"))
        dataset.add_column("label", types.UInt32())
        values = [content(path) for path in photos.paths]
        dataset.append({"photo": values, "label": photos.labels})
        dataset.commit()
    task.did(len(photos.paths))


def jpeg_decode(task: Task) -> None:
    """Iterate over rows, which is the fastest way."""
    with task.measured():
        found = images(row["photo"] for row in deeplake.open_read_only(str(task.store / "photos")))
    task.did(*found)


def jpeg_random(task: Task) -> None:
    """Read one row at a time."""
    dataset = deeplake.open_read_only(str(task.store / "photos"))
    column = dataset["photo"]
    task.latencies(lambda row: column[row])


def raw_ingest(task: Task) -> None:
    """Append the arrays all at once, or one by one with the option "append"."""
    arrays = task.raw()
    with task.measured():
        dataset = deeplake.create(str(task.out / "raw"))
        dataset.add_column("raw", types.Array("uint8", 3))
        step = 1 if task.option == "append" else len(arrays)
        for start in range(0, len(arrays), step):
            dataset.append({"raw": arrays[start : start + step]})
        dataset.commit()
        if task.durable:
            force(task.out / "raw")
    task.did(len(arrays))


def boxes_write(task: Task) -> None:
    """Append lists of arrays."""
    given = task.boxes()
    with task.measured():
        dataset = deeplake.create(str(task.out / "boxes"))
        dataset.add_column("boxes", types.Array("float32", 2))
        dataset.add_column("labels", types.Array("uint32", 1))
        dataset.append({"boxes": given.boxes, "labels": given.labels})
        dataset.commit()
    task.did(len(given.boxes))


def boxes_read(task: Task) -> None:
    """Read both columns as lists of arrays."""
    with task.measured():
        dataset = deeplake.open_read_only(str(task.store / "boxes"))
        found = [dataset[name][:] for name in ("boxes", "labels")]
    task.did(len(found[0]), sum(len(value) for value in found[0]), sum(len(value) for value in found[1]))


def labels_write(task: Task) -> None:
    """Write label datasets of each size."""
    for size in task.sizes():
        dataset = deeplake.create(str(task.out / f"{size}-labels"))
        dataset.add_column("label", types.UInt32())
        dataset.append({"label": task.numbers()[:size]})
        dataset.commit()
    with task.measured():
        pass


def rows_write(task: Task) -> None:
    """Write datasets of each size."""
    for size in task.sizes():
        dataset = deeplake.create(str(task.out / f"{size}-rows"))
        for name, column in task.records(size).items():
            dataset.add_column(name, str(column.dtype))
        dataset.append(task.records(size))
        dataset.commit()
    with task.measured():
        pass


def rows_append(task: Task) -> None:
    """Open, append and commit."""

    def append(path: Path, rows: dict[str, NDArray[Any]]) -> int:
        with task.measured():
            dataset = deeplake.open(str(path))
            dataset.append(rows)
            dataset.commit()
        return len(dataset)

    task.grow("rows", task.records(APPENDED), append)


def labels_append(task: Task) -> None:
    """Append and commit."""

    def append(path: Path, rows: NDArray[np.uint32]) -> int:
        dataset = deeplake.open(str(path))
        with task.measured():
            dataset.append({"label": rows})
            dataset.commit()
        return len(dataset)

    task.at_each_size("labels", append)


def labels_open(task: Task) -> None:
    """Open, length, first row."""
    path = str(task.store / f"{task.sizes()[-1]}-labels")
    for _ in range(task.repeats):
        with task.measured():
            dataset = deeplake.open_read_only(path)
            found = len(dataset), int(dataset["label"][0])
    task.did(*found)


def labels_compare(task: Task) -> None:
    """Open, read all labels, count the matches."""
    path = str(task.store / f"{task.sizes()[-1]}-labels")
    for _ in range(task.repeats):
        with task.measured():
            dataset = deeplake.open_read_only(path)
            found = int(np.count_nonzero(np.asarray(dataset["label"][:]) == 7))
    task.did(found)


if __name__ == "__main__":
    main(globals())
