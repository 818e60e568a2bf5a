"""MosaicML streaming: shards of 64 MB, which are fetched whole into a folder on this machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from benchmarks.far import Task, main


class Mosaic:
    """Its reader is an iterable over shards; rows by number it has too."""

    def write(self, task: Task) -> None:
        """Write them into the folder."""
        with MDSWriter(out=f"{task.folder}/images", columns={"image": "bytes"}) as out:
            for row in range(task.images):
                out.write({"image": task.image(row).tobytes()})

    def open(self, task: Task) -> Any:
        """Fetch the index, and count the rows."""
        os.environ |= {
            "S3_ENDPOINT_URL": task.endpoint,
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_REGION": "us-east-1",
        }
        clean_stale_shared_memory()
        local = tempfile.mkdtemp(dir=task.folder)
        ds = StreamingDataset(remote=f"{task.url}/images", local=local, shuffle=False, batch_size=1)
        len(ds)
        return ds

    def sample(self, opened: Any, row: int) -> Any:
        """Fetch the shard, and read one row."""
        return opened[row]["image"]

    def scan(self, task: Task, opened: Any) -> Iterable[Any]:
        """Iterate; shards are fetched ahead by threads."""
        for row in opened:
            yield row["image"]

    def random(self, task: Task, opened: Any) -> Iterable[Any]:
        """Read rows by number, in threads."""
        return task.at_once(lambda row: opened[row]["image"])

    def column(self, task: Task) -> np.ndarray[Any, Any]:
        """Say that there is none: a million items of one number each are not what it is for."""
        raise NotImplementedError("it has no columns")


if __name__ == "__main__":
    main(Mosaic())
