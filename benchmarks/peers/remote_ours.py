"""lakebed: two datasets, committed, as most that are read from a bucket are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import lakebed
from benchmarks.far import Task, main

BATCH = 64


class Ours:
    """Both are read with the public API alone."""

    def _creds(self, task: Task) -> dict[str, str]:
        return {
            "aws_access_key_id": "any",
            "aws_secret_access_key": "any",
            "aws_region": "us-east-1",
            "endpoint_url": task.endpoint,
        }

    def write(self, task: Task) -> None:
        """Write them to the store."""
        with lakebed.empty(f"{task.url}/images", creds=self._creds(task)) as ds:
            ds.create_tensor("image", dtype="uint8", create_shape_tensor=False, create_id_tensor=False)
            for start in range(0, task.images, 100):
                rows = range(start, min(start + 100, task.images))
                ds.image.extend([task.image(row) for row in rows])
            ds.commit("written")
        with lakebed.empty(f"{task.url}/numbers", creds=self._creds(task)) as ds:
            ds.create_tensor("number", dtype="int32", create_shape_tensor=False, create_id_tensor=False)
            ds.number.extend(task.column())
            ds.commit("written")

    def open(self, task: Task) -> Any:
        """Open the newest commit, and count the rows."""
        ds = lakebed.load(f"{task.url}/images", creds=self._creds(task), read_only=True)
        len(ds)
        return ds

    def sample(self, opened: Any, row: int) -> Any:
        """Read one row."""
        return opened.image[row].numpy()

    def scan(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read batches of 64."""
        for start in range(0, task.images, BATCH):
            yield from opened.image[start : start + BATCH].numpy(aslist=True)

    def random(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read all rows with one call."""
        found: list[np.ndarray[Any, Any]] = opened.image[task.rows()].numpy(aslist=True)
        return found

    def column(self, task: Task) -> np.ndarray[Any, Any]:
        """Read the whole tensor."""
        ds = lakebed.load(f"{task.url}/numbers", creds=self._creds(task), read_only=True)
        found: np.ndarray[Any, Any] = ds.number.numpy()
        return found


if __name__ == "__main__":
    main(Ours())
