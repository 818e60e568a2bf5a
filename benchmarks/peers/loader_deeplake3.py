"""Deep Lake 3.9.52, whose format ours is: `ds.pytorch`, which decodes in its worker processes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import cv2
import deeplake
import numpy as np

from benchmarks.loading import SIDE, Images, Task, cropped, main

cv2.setNumThreads(1)
BUFFER = 512
"""Megabytes of decoded samples that are mixed with each other."""


def _crop(image: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    out = np.empty((SIDE, SIDE, 3), np.uint8)
    cropped(image, out, random.Random())
    return out


def _collate(task: Task, samples: list[dict[str, Any]]) -> tuple[Any, Any]:
    images = [np.asarray(sample["photo"]) for sample in samples]
    rows = np.concatenate([np.asarray(sample["label"]).reshape(-1) for sample in samples])
    return (np.stack(images) if task.work == "crop" else images), rows


class DeepLake:
    """A dataset."""

    def write(self, task: Task) -> None:
        """Append the files verbatim."""
        with deeplake.empty(f"{task.store}/photos", verbose=False) as dataset:
            dataset.create_tensor("photo", htype="image", sample_compression="jpeg")
            dataset.create_tensor("label", dtype="int64")
            rows = np.arange(task.count).reshape(-1, 1)
            dataset.extend({"photo": [deeplake.read(path) for path in task.paths()], "label": rows})

    def batches(self, task: Task) -> Iterator[tuple[Images, Any]]:
        """Read in sequence, and draw from a buffer."""
        if task.endpoint:
            creds = {
                "aws_access_key_id": "any",
                "aws_secret_access_key": "any",
                "aws_region": "us-east-1",
                "endpoint_url": task.endpoint,
            }
            dataset = deeplake.load(f"{task.url}/photos", creds=creds, read_only=True, verbose=False)
        else:
            dataset = deeplake.load(f"{task.store}/photos", read_only=True, verbose=False)
        loader: Iterable[tuple[Images, Any]] = dataset.pytorch(
            tensors=["photo", "label"],
            transform={"photo": _crop if task.work == "crop" else None, "label": None},
            num_workers=task.workers,
            batch_size=task.batch,
            shuffle=True,
            buffer_size=BUFFER,
            collate_fn=partial(_collate, task),
            decode_method={"photo": "numpy"},
        )
        yield from loader


if __name__ == "__main__":
    main(DeepLake())
