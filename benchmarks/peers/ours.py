"""lakebed; without LAKEBED_FSYNC=0 it waits for the disk whenever it publishes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from benchmarks.contest import APPENDED, Task, images, main

ROWS = 32
BATCH = 1024


def _load(path: Path) -> lakebed.Dataset:
    return lakebed.load(str(path), read_only=True)


def jpeg_ingest(task: Task) -> None:
    """Append the files verbatim."""
    photos = task.photos()
    with task.measured(), lakebed.empty(str(task.out / "photos")) as dataset:
        dataset.create_tensor("photo", htype="image", sample_compression="jpeg")
        dataset.create_tensor("label", htype="class_label")
        dataset.extend({"photo": [lakebed.read(path) for path in photos.paths], "label": photos.labels})
    task.did(len(photos.paths))


def jpeg_decode(task: Task) -> None:
    """Read slices; the option is the number of threads."""
    lakebed.config.THREADS = int(task.option)
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
    """Append the arrays all at once, or one by one with the option "append"."""
    arrays = task.raw()
    with task.measured(), lakebed.empty(str(task.out / "raw")) as dataset:
        dataset.create_tensor("raw", dtype="uint8")
        if task.option == "append":
            for array in arrays:
                dataset.append({"raw": array})
        else:
            dataset.extend({"raw": arrays})
    task.did(len(arrays))


def boxes_write(task: Task) -> None:
    """Append lists of arrays."""
    given = task.boxes()
    with task.measured(), lakebed.empty(str(task.out / "boxes")) as dataset:
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
        with lakebed.empty(str(task.out / f"{size}-labels")) as dataset:
            dataset.create_tensor("label", htype="class_label")
            dataset.extend({"label": task.numbers()[:size]})
    with task.measured():
        pass


def labels_append(task: Task) -> None:
    """Extend and publish."""

    def append(path: Path, rows: NDArray[np.uint32]) -> int:
        dataset = lakebed.load(str(path))
        with task.measured():
            dataset.extend({"label": rows})
            dataset.flush()
        return len(dataset)

    task.at_each_size("labels", append)


def rows_write(task: Task) -> None:
    """Write datasets of each size."""
    for size in task.sizes():
        rows = task.records(size)
        with lakebed.empty(str(task.out / f"{size}-rows")) as dataset:
            for name, column in rows.items():
                dataset.create_tensor(
                    name, dtype=str(column.dtype), create_id_tensor=False, create_shape_tensor=False
                )
            dataset.extend(rows)
        dataset.commit()
    with task.measured():
        pass


def rows_append(task: Task) -> None:
    """Open, extend and publish."""

    def append(path: Path, rows: dict[str, NDArray[Any]]) -> int:
        with task.measured():
            dataset = lakebed.load(str(path))
            dataset.extend(rows)
            dataset.flush()
        return len(dataset)

    task.grow("rows", task.records(APPENDED), append)


def append_loop(task: Task) -> None:
    """Append rows one at a time outside of `with`, or in small batches with the option "extend"."""
    rows = task.numbers()[: task.count]
    batch = 10
    dataset = lakebed.empty(str(task.out / "rows"))
    dataset.create_tensor("label", htype="class_label")
    dataset.create_tensor("value", dtype="float64")
    with task.measured():
        began = time.perf_counter()
        if task.option == "extend":
            for start in range(0, len(rows), batch):
                part = rows[start : start + batch]
                dataset.extend({"label": part, "value": [float(row) for row in part]})
        else:
            for row in rows:
                dataset.append({"label": row, "value": float(row)})
        dataset.flush()
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


def table_write(task: Task) -> None:
    """Write a tensor for each column, as `create_tensor` makes them."""
    columns = task.table()
    with task.measured(), lakebed.empty(str(task.out / "table")) as dataset:
        for name, column in columns.items():
            dataset.create_tensor(name, dtype=column.dtype.name)
        dataset.extend(columns)
        dataset.commit("made")


def table_open(task: Task) -> None:
    """Open, length, first and middle row."""

    def look() -> tuple[int, list[Any], list[Any]]:
        dataset = _load(task.store / "table")
        length, names = len(dataset), list(dataset.tensors)
        first, middle = dataset[0], dataset[length // 2]
        return length, [first[name].numpy() for name in names], [middle[name].numpy() for name in names]

    task.opens(look)


def vectors_write(task: Task) -> None:
    """Append all vectors."""
    vectors = task.vectors()
    with task.measured(), lakebed.empty(str(task.out / "vectors")) as dataset:
        dataset.create_tensor("vector", htype="embedding", dtype="float32")
        dataset.extend({"vector": vectors})
        dataset.commit("made")


def vectors_search(task: Task) -> None:
    """Open, read all and multiply, or batch by batch with the option "batches"."""

    def score(query: NDArray[np.float32]) -> NDArray[np.float32]:
        dataset = _load(task.store / "vectors")
        if task.option == "batches":
            return np.concatenate([batch["vector"] @ query for batch in dataset.batches(BATCH)])
        found: NDArray[np.float32] = dataset.vector.numpy() @ query
        return found

    task.searches(score)


if __name__ == "__main__":
    main(globals())
