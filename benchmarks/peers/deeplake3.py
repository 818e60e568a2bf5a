"""Deep Lake 3.9.52, whose format ours is."""

from __future__ import annotations

import time
from pathlib import Path

import deeplake
import numpy as np
from numpy.typing import NDArray

from benchmarks.contest import Task, force, images, main

ROWS = 32


def _empty(path: Path) -> deeplake.Dataset:
    return deeplake.empty(str(path), verbose=False)


def _load(path: Path) -> deeplake.Dataset:
    return deeplake.load(str(path), read_only=True, verbose=False)


def jpeg_ingest(task: Task) -> None:
    """Append the files verbatim."""
    photos = task.photos()
    with task.measured(), _empty(task.out / "photos") as dataset:
        dataset.create_tensor("photo", htype="image", sample_compression="jpeg")
        dataset.create_tensor("label", htype="class_label")
        dataset.extend({"photo": [deeplake.read(path) for path in photos.paths], "label": photos.labels})
    task.did(len(photos.paths))


def jpeg_decode(task: Task) -> None:
    """Read slices."""
    with task.measured():
        photos = _load(task.store / "photos").photo
        found = images(
            image
            for start in range(0, len(photos), ROWS)
            for image in photos[start : start + ROWS].numpy(aslist=True)
        )
    task.did(*found)


def jpeg_random(task: Task) -> None:
    """Read one row at a time."""
    photos = _load(task.store / "photos").photo
    task.latencies(lambda row: photos[row].numpy())


def raw_ingest(task: Task) -> None:
    """Append all arrays."""
    arrays = task.raw()
    with task.measured():
        with _empty(task.out / "raw") as dataset:
            dataset.create_tensor("raw", dtype="uint8")
            dataset.extend({"raw": arrays})
        if task.durable:
            force(task.out / "raw")
    task.did(len(arrays))


def boxes_write(task: Task) -> None:
    """Append lists of arrays."""
    given = task.boxes()
    with task.measured(), _empty(task.out / "boxes") as dataset:
        dataset.create_tensor("boxes", htype="bbox")
        dataset.create_tensor("labels", htype="class_label")
        dataset.extend({"boxes": given.boxes, "labels": given.labels})
    task.did(len(given.boxes))


def boxes_read(task: Task) -> None:
    """Read both tensors as lists of arrays."""
    with task.measured():
        dataset = _load(task.store / "boxes")
        found = [dataset[name].numpy(aslist=True) for name in ("boxes", "labels")]
    task.did(len(found[0]), sum(len(value) for value in found[0]), sum(len(value) for value in found[1]))


def labels_write(task: Task) -> None:
    """Write label datasets of each size."""
    for size in task.sizes():
        with _empty(task.out / f"{size}-labels") as dataset:
            dataset.create_tensor("label", htype="class_label")
            dataset.extend({"label": task.numbers()[:size]})
    with task.measured():
        pass


def labels_append(task: Task) -> None:
    """Append inside `with`."""

    def append(path: Path, rows: NDArray[np.uint32]) -> int:
        dataset = deeplake.load(str(path), verbose=False)
        with task.measured(), dataset:
            dataset.extend({"label": rows})
        return len(dataset)

    task.at_each_size("labels", append)


def append_loop(task: Task) -> None:
    """Append rows one at a time, outside of `with`."""
    rows = task.numbers()[: task.count]
    dataset = _empty(task.out / "rows")
    dataset.create_tensor("label", htype="class_label")
    dataset.create_tensor("value", dtype="float64")
    with task.measured():
        began = time.perf_counter()
        for row in rows:
            dataset.append({"label": row, "value": float(row)})
        task.figures["rows"] = len(rows) / (time.perf_counter() - began)
    task.did(len(dataset))


def labels_open(task: Task) -> None:
    """Open, length, first row."""
    path = task.store / f"{task.sizes()[-1]}-labels"
    for _ in range(task.repeats):
        with task.measured():
            dataset = _load(path)
            found = len(dataset), int(dataset.label[0].numpy()[0])
    task.did(*found)


def labels_compare(task: Task) -> None:
    """Open, read all labels, count the matches."""
    path = task.store / f"{task.sizes()[-1]}-labels"
    for _ in range(task.repeats):
        with task.measured():
            found = int(np.count_nonzero(_load(path).label.numpy() == 7))
    task.did(found)


if __name__ == "__main__":
    main(globals())
