"""MosaicML streaming: shards of 64 MB, read by PyTorch's worker processes."""

# ruff: noqa: E402 - what is declared must be so before it is asked for
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch

# It imports torchvision, of which there may be no build for this PyTorch; importing needs only that this is declared.
_DECLARED = torch.library.Library("torchvision", "DEF")
with contextlib.suppress(RuntimeError):
    for _name in ("nms", "qnms"):
        _DECLARED.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from streaming import MDSWriter, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

from benchmarks.loading import Images, Task, main
from benchmarks.peers import torch_workers


class _Photos(StreamingDataset):  # type: ignore[misc] # it has no types
    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        for sample in super().__iter__():
            yield sample["photo"], sample["label"]


class Mosaic:
    """A folder of shards."""

    def write(self, task: Task) -> None:
        """Write bytes and rows."""
        with MDSWriter(out=f"{task.store}/photos", columns={"photo": "bytes", "label": "int"}) as out:
            for data, row in task.photos():
                out.write({"photo": data, "label": row})

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Shuffle as it does by default."""
        clean_stale_shared_memory()
        place: dict[str, str] = {"local": f"{task.store}/photos"}
        if task.endpoint:
            os.environ |= {
                "S3_ENDPOINT_URL": task.endpoint,
                "AWS_ACCESS_KEY_ID": "any",
                "AWS_SECRET_ACCESS_KEY": "any",
                "AWS_REGION": "us-east-1",
            }
            place = {"remote": f"{task.url}/photos", "local": f"{task.scratch}/photos"}
        dataset = _Photos(**place, shuffle=True, batch_size=task.batch)
        return torch_workers.batches(task, dataset)


if __name__ == "__main__":
    main(Mosaic())
