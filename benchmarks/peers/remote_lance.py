"""Lance: a table with a column of binaries; it reads rows by number with many requests at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from benchmarks.far import Task, main


class Lance:
    """Both datasets are tables."""

    def write(self, task: Task) -> None:
        """Write them into the folder."""
        images = [task.image(row).tobytes() for row in range(task.images)]
        lance.write_dataset(
            pa.table({"image": pa.array(images, pa.large_binary())}), f"{task.folder}/images.lance"
        )
        lance.write_dataset(pa.table({"number": task.column()}), f"{task.folder}/numbers.lance")

    def _open(self, task: Task, name: str) -> Any:
        options = {
            "aws_access_key_id": "any",
            "aws_secret_access_key": "any",
            "aws_region": "us-east-1",
            "aws_endpoint": task.endpoint,
            "allow_http": "true",
        }
        return lance.dataset(f"{task.url}/{name}.lance", storage_options=options)

    def open(self, task: Task) -> Any:
        """Open the newest version, and count the rows."""
        ds = self._open(task, "images")
        ds.count_rows()
        return ds

    def sample(self, opened: Any, row: int) -> Any:
        """Take one row."""
        return opened.take([row])["image"][0].as_py()

    def scan(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read batches of 64, with as many in advance as it thinks best."""
        for batch in opened.to_batches(batch_size=64):
            for value in batch.column("image"):
                yield value.as_buffer()

    def random(self, task: Task, opened: Any) -> Iterable[Any]:
        """Take all rows with one call."""
        return [value.as_buffer() for value in opened.take(task.rows())["image"]]

    def column(self, task: Task) -> np.ndarray[Any, Any]:
        """Read the whole table."""
        return np.asarray(self._open(task, "numbers").to_table()["number"])


if __name__ == "__main__":
    main(Lance())
