"""LitData: chunks of 64 MB, which are fetched whole into a folder on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from functools import partial
from typing import Any

import litdata
import numpy as np
from litdata.streaming import downloader

from benchmarks.far import Task, main

# It has no setting for servers without encryption, such as that of this benchmark.
downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # noqa: SLF001


def _image(row: int, task: Task) -> dict[str, Any]:
    return {"image": task.image(row).tobytes()}


class LitData:
    """Its reader is an iterable over chunks; rows by number it has too."""

    def write(self, task: Task) -> None:
        """Write them into the folder."""
        litdata.optimize(
            partial(_image, task=task),
            list(range(task.images)),
            f"{task.folder}/images",
            chunk_bytes="64MB",
            num_workers=1,
        )

    def open(self, task: Task) -> Any:
        """Fetch the index, and count the rows."""
        options = {
            "endpoint_url": task.endpoint,
            "aws_access_key_id": "any",
            "aws_secret_access_key": "any",
            "region_name": "us-east-1",
        }
        folder = tempfile.mkdtemp(dir=task.folder)
        ds = litdata.StreamingDataset(f"{task.url}/images", cache_dir=folder, storage_options=options)
        len(ds)
        return ds

    def sample(self, opened: Any, row: int) -> Any:
        """Fetch the chunk, and read one row."""
        return opened[row]["image"]

    def scan(self, task: Task, opened: Any) -> Iterable[Any]:
        """Iterate; chunks are fetched ahead by a thread."""
        for row in opened:
            yield row["image"]

    def random(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read rows by number, one after the other: its reader is not made for threads."""
        return [opened[row]["image"] for row in task.rows()]

    def column(self, task: Task) -> np.ndarray[Any, Any]:
        """Say that there is none: a million items of one number each are not what it is for."""
        raise NotImplementedError("it has no columns")


if __name__ == "__main__":
    main(LitData())
