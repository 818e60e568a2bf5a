"""lakebed: its loader, with threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import obstore  # noqa: F401 - before measuring, as is the decoder
import simplejpeg  # noqa: F401

import lakebed
from benchmarks.loading import RAW, SIDE, Images, Task, clock, main
from lakebed.loaders.ops import RandomResizedCrop

KINDS: dict[str, dict[str, Any]] = {
    "raw": {},
    "lz4": {"sample_compression": "lz4"},
    "lz4-chunks": {"chunk_compression": "lz4"},
}
TOGETHER = 64
Loader = lakebed.Loader  # imported here


class Ours:
    """Datasets on this machine, or in a bucket."""

    def write(self, task: Task) -> None:
        """Write photos and rows, or arrays in each form."""
        if task.work == "write-photos":
            with lakebed.empty(f"{task.store}/photos") as dataset:
                dataset.create_tensor("photo", htype="image", sample_compression="jpeg")
                dataset.create_tensor("label", dtype="int64")
                rows = np.arange(task.count).reshape(-1, 1)
                dataset.extend({"photo": [lakebed.read(path) for path in task.paths()], "label": rows})
                dataset.commit("written")
            return
        if task.work == "write-bytes":
            with lakebed.empty(f"{task.store}/bytes") as dataset:
                dataset.create_tensor("value", dtype="uint8")
                dataset.value.extend(np.zeros((task.count, 1), np.uint8))
                dataset.commit("written")
            return
        arrays = task.raw()
        for name, options in KINDS.items():
            with lakebed.empty(f"{task.store}/{name}") as dataset:
                dataset.create_tensor("array", dtype="uint8", **options)
                dataset.create_tensor("label", dtype="int64")
                for start in range(0, task.count, TOGETHER):
                    part = arrays[start : start + TOGETHER]
                    rows = np.arange(start, start + len(part)).reshape(-1, 1)
                    dataset.extend({"array": part, "label": rows})
                dataset.commit("written")

    def batches(self, task: Task) -> Iterator[tuple[Images, Any]]:
        """Iterate."""
        options: dict[str, Any] = {"batch_size": task.batch, "threads": task.workers, "seed": 1}
        name, _, order = task.option.rpartition(" ")
        options["shuffle"] = False if order == "none" else order or "window"
        image, path = ("array", name) if task.work in KINDS or name in KINDS else ("photo", "photos")
        if task.work in KINDS:
            path = task.work
        if task.work == "crop":
            options["operations"] = {"photo": RandomResizedCrop(SIDE)}
        if task.endpoint:
            creds = {
                "aws_access_key_id": "any",
                "aws_secret_access_key": "any",
                "aws_region": "us-east-1",
                "endpoint_url": task.endpoint,
            }
            dataset = lakebed.load(f"{task.url}/{path}", creds=creds, read_only=True)
        else:
            dataset = lakebed.load(f"{task.store}/{path}", read_only=True)
        clock.is_open()
        assert image == "photo" or tuple(dataset[image].meta.max_shape) == RAW
        with Loader(dataset, **options) as loader:
            if image == "array":
                for _ in loader:
                    pass
                clock.start()
            for batch in loader:
                yield batch[image], batch["label"]


if __name__ == "__main__":
    main(Ours())
