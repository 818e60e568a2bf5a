"""Lance: random rows of a table, taken and decoded by threads, as its own threads do not survive a fork."""

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

from benchmarks.loading import Images, Task, decoded, main

cv2.setNumThreads(1)
PER_BATCH = 256
AHEAD = 3


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

        lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), f"{task.store}/photos")

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Take random rows."""
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
        rows = list(range(task.count))
        random.shuffle(rows)

        def load(start: int) -> tuple[Images, Any]:
            found = dataset.take(rows[start : start + task.batch], columns=["photo", "label"])
            files = [
                np.frombuffer(value.as_buffer(), np.uint8)
                for chunk in found["photo"].chunks
                for value in chunk
            ]
            return decoded(task, files), found["label"].to_numpy()

        ahead = 16 if task.endpoint else AHEAD
        threads = ahead if task.endpoint else task.workers  # those that wait for the network decode nothing
        with ThreadPoolExecutor(threads) as pool:
            under_way: deque[Future[tuple[Images, Any]]] = deque()
            for start in range(0, task.count, task.batch):
                under_way.append(pool.submit(load, start))
                if len(under_way) > ahead:
                    yield under_way.popleft().result()
            for future in under_way:
                yield future.result()


if __name__ == "__main__":
    main(Lance())
