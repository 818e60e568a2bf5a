"""Lance: random rows of a table, taken and decoded by threads, as its own threads do not survive a fork.

From a bucket it scans fragments in random order, and draws from a buffer: single rows would cost a request each.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import cv2
import lance
import numpy as np
import pyarrow as pa
import simplejpeg  # noqa: F401 - before measuring

from benchmarks.loading import Images, Task, decoded, main

cv2.setNumThreads(1)
PER_BATCH = 256
AHEAD = 3
BUFFER = 1000
PER_FRAGMENT = 500


class Lance:
    """A table."""

    def write(self, task: Task) -> None:
        """Write record batches of binary values and rows."""
        schema = pa.schema([("photo", pa.large_binary()), ("label", pa.uint32())])

        def batches() -> Iterator[pa.RecordBatch]:
            photos = list(task.paths())
            for start in range(0, len(photos), PER_BATCH):
                rows = range(start, min(start + PER_BATCH, len(photos)))
                files = [open(photos[row], "rb").read() for row in rows]  # noqa: SIM115, PTH123
                columns = [pa.array(files, pa.large_binary()), pa.array(list(rows), pa.uint32())]
                yield pa.record_batch(columns, schema=schema)

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        lance.write_dataset(reader, f"{task.store}/photos", max_rows_per_file=PER_FRAGMENT)

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Take random rows, or scan."""
        options, path = None, f"{task.store}/photos"
        if task.endpoint:
            path = f"{task.url}/photos"
            options = {
                "endpoint": task.endpoint,
                "access_key_id": "any",
                "secret_access_key": "any",
                "region": "us-east-1",
                "allow_http": "true",
            }
        dataset = lance.dataset(path, storage_options=options)
        tables = _scanned(dataset) if task.endpoint else None

        def taken(rows: list[int]) -> tuple[Images, Any]:
            found = dataset.take(rows, columns=["photo", "label"])
            return load(
                [value for chunk in found["photo"].chunks for value in chunk], found["label"].to_numpy()
            )

        def load(values: list[Any], labels: Any) -> tuple[Images, Any]:
            return decoded(task, [np.frombuffer(value.as_buffer(), np.uint8) for value in values]), labels

        with ThreadPoolExecutor(task.workers) as pool:
            under_way: deque[Future[tuple[Images, Any]]] = deque()
            if tables is not None:
                for rows in _mixed(tables, task.batch):
                    under_way.append(pool.submit(load, [row[0] for row in rows], [row[1] for row in rows]))
                    if len(under_way) > AHEAD:
                        yield under_way.popleft().result()
            else:
                numbers = list(range(task.count))
                random.shuffle(numbers)
                for start in range(0, task.count, task.batch):
                    under_way.append(pool.submit(taken, numbers[start : start + task.batch]))
                    if len(under_way) > AHEAD:
                        yield under_way.popleft().result()
            for future in under_way:
                yield future.result()


def _scanned(dataset: lance.LanceDataset) -> Iterator[tuple[Any, int]]:
    """Scan the fragments in random order, read ahead."""
    fragments = list(dataset.get_fragments())
    random.shuffle(fragments)
    scanner = dataset.scanner(fragments=fragments, batch_size=64, batch_readahead=16, fragment_readahead=4)
    for batch in scanner.to_batches():
        yield from zip(batch["photo"], batch["label"].to_pylist(), strict=True)


def _mixed(samples: Iterator[tuple[Any, int]], batch: int) -> Iterator[list[tuple[Any, int]]]:
    """Draw batches from a buffer, which begins small."""
    held: list[tuple[Any, int]] = []
    for sample in samples:
        held.append(sample)
        if len(held) >= BUFFER:
            yield [held.pop(random.randrange(len(held))) for _ in range(batch)]
    random.shuffle(held)
    for start in range(0, len(held), batch):
        yield held[start : start + batch]


if __name__ == "__main__":
    main(Lance())
