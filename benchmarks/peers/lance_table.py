"""Lance, in its present file format; it does not wait for the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.contest import APPENDED, Task, content, main

BOX = pa.list_(pa.float32(), 4)
ROWS_PER_BATCH = 256


def jpeg_ingest(task: Task) -> None:
    """Write record batches of binary values and labels."""
    photos = task.photos()
    schema = pa.schema([("photo", pa.large_binary()), ("label", pa.uint32())])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(photos.paths), ROWS_PER_BATCH):
            values = [content(path) for path in photos.paths[start : start + ROWS_PER_BATCH]]
            columns = [
                pa.array(values, pa.large_binary()),
                pa.array(photos.labels[start : start + len(values)]),
            ]
            yield pa.record_batch(columns, schema=schema)

    with task.measured():
        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), str(task.out / "photos"))
    task.did(len(photos.paths))


def _lists(values: pa.Array, column: list[NDArray[np.float32]] | list[NDArray[np.uint32]]) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in column])]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, values)


def boxes_write(task: Task) -> None:
    """Concatenate, write lists of boxes and lists of labels."""
    given = task.boxes()
    with task.measured():
        flat = pa.FixedSizeListArray.from_arrays(np.concatenate(given.boxes).reshape(-1), 4)
        labels = pa.array(np.concatenate(given.labels))
        table = pa.table({"boxes": _lists(flat, given.boxes), "labels": _lists(labels, given.labels)})
        lance.write_dataset(table, str(task.out / "boxes"))
    task.did(len(given.boxes))


def boxes_read(task: Task) -> None:
    """Read a table; with the option "arrays", cut it into an array per row as the others do."""
    with task.measured():
        table = lance.dataset(str(task.store / "boxes")).to_table().combine_chunks()
        numbers = [table["boxes"].chunk(0), table["labels"].chunk(0)]
        if task.option == "arrays":
            cut = [np.split(_values(column), column.offsets.to_numpy()[1:-1]) for column in numbers]
    if task.option == "arrays":
        task.did(len(cut[0]), sum(len(value) for value in cut[0]), sum(len(value) for value in cut[1]))
    else:
        task.did(len(table), *(len(column.flatten()) for column in numbers))


def _values(column: pa.ListArray) -> NDArray[np.float32]:
    values = column.values
    if pa.types.is_fixed_size_list(values.type):
        boxes: NDArray[np.float32] = values.flatten().to_numpy().reshape(-1, 4)
        return boxes
    found: NDArray[np.float32] = values.to_numpy()
    return found


def labels_write(task: Task) -> None:
    """Write label datasets of each size."""
    for size in task.sizes():
        table = pa.table({"label": task.numbers()[:size]})
        lance.write_dataset(table, str(task.out / f"{size}-labels"))
    with task.measured():
        pass


def rows_write(task: Task) -> None:
    """Write tables of each size."""
    for size in task.sizes():
        lance.write_dataset(pa.table(task.records(size)), str(task.out / f"{size}-rows"))
    with task.measured():
        pass


def rows_append(task: Task) -> None:
    """Open, append a fragment."""

    def append(path: Path, rows: dict[str, NDArray[Any]]) -> int:
        with task.measured():
            lance.dataset(str(path)).insert(pa.table(rows))
        return int(lance.dataset(str(path)).count_rows())

    task.grow("rows", task.records(APPENDED), append)


def labels_append(task: Task) -> None:
    """Append a fragment."""

    def append(path: Path, rows: NDArray[np.uint32]) -> int:
        dataset = lance.dataset(str(path))
        with task.measured():
            dataset.insert(pa.table({"label": rows}))
        return int(lance.dataset(str(path)).count_rows())

    task.at_each_size("labels", append)


def labels_open(task: Task) -> None:
    """Open, length, first row."""
    path = str(task.store / f"{task.sizes()[-1]}-labels")
    for _ in range(task.repeats):
        with task.measured():
            dataset = lance.dataset(path)
            found = dataset.count_rows(), dataset.take([0])["label"][0].as_py()
    task.did(*found)


def labels_compare(task: Task) -> None:
    """Open, read all labels, count the matches."""
    path = str(task.store / f"{task.sizes()[-1]}-labels")
    for _ in range(task.repeats):
        with task.measured():
            labels = lance.dataset(path).to_table()["label"]
            found = pc.sum(pc.equal(labels, 7)).as_py()
    task.did(found)


def table_write(task: Task) -> None:
    """Write a table."""
    with task.measured():
        lance.write_dataset(pa.table(task.table()), str(task.out / "table"))


def table_open(task: Task) -> None:
    """Open, length, first and middle row."""

    def look() -> tuple[int, list[Any], list[Any]]:
        dataset = lance.dataset(str(task.store / "table"))
        length = dataset.count_rows()
        rows = dataset.take([0, length // 2])
        first, middle = ([column[n].as_py() for column in rows.columns] for n in range(2))
        return length, first, middle

    task.opens(look)


def vectors_write(task: Task) -> None:
    """Write a column of lists of a fixed length."""
    vectors = task.vectors()
    with task.measured():
        column = pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
        lance.write_dataset(pa.table({"vector": column}), str(task.out / "vectors"))


def vectors_search(task: Task) -> None:
    """Open, multiply batch by batch."""

    def score(query: NDArray[np.float32]) -> NDArray[np.float32]:
        batches = lance.dataset(str(task.store / "vectors")).to_batches()
        return np.concatenate([_matrix(batch["vector"]) @ query for batch in batches])

    task.searches(score)


def _matrix(column: pa.FixedSizeListArray) -> NDArray[np.float32]:
    found: NDArray[np.float32] = column.flatten().to_numpy().reshape(len(column), -1)
    return found


if __name__ == "__main__":
    main(globals())
