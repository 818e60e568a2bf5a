"""Deep Lake 3.9.52: the same datasets as ours, written by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import deeplake
import numpy as np

from benchmarks.far import Task, main


class DeepLake3:
    """It reads one chunk after the other."""

    def write(self, task: Task) -> None:
        """Write them into the folder."""
        options = {"create_shape_tensor": False, "create_id_tensor": False}
        with deeplake.empty(f"{task.folder}/images", overwrite=True) as ds:
            ds.create_tensor("image", dtype="uint8", **options)
            ds.image.extend([task.image(row) for row in range(task.images)])
            ds.commit("written")
        with deeplake.empty(f"{task.folder}/numbers", overwrite=True) as ds:
            ds.create_tensor("number", dtype="int32", **options)
            ds.number.extend(task.column())
            ds.commit("written")

    def _open(self, task: Task, name: str) -> Any:
        creds = {
            "aws_access_key_id": "any",
            "aws_secret_access_key": "any",
            "aws_region": "us-east-1",
            "endpoint_url": task.endpoint,
        }
        return deeplake.load(f"{task.url}/{name}", creds=creds, read_only=True, verbose=False)

    def open(self, task: Task) -> Any:
        """Open the newest version, and count the rows."""
        ds = self._open(task, "images")
        len(ds)
        return ds

    def sample(self, opened: Any, row: int) -> Any:
        """Read one row."""
        return opened.image[row].numpy()

    def scan(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read row after row; a chunk is read once."""
        for row in range(task.images):
            yield opened.image[row].numpy()

    def random(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read all rows with one call: it has no reads in parallel, and is not made for threads."""
        found: list[np.ndarray[Any, Any]] = opened.image[task.rows()].numpy(aslist=True)
        return found

    def column(self, task: Task) -> np.ndarray[Any, Any]:
        """Read the whole tensor."""
        found: np.ndarray[Any, Any] = self._open(task, "numbers").number.numpy()
        return found


if __name__ == "__main__":
    main(DeepLake3())
