"""Deep Lake 4: another format; its dataset for PyTorch, read by PyTorch's worker processes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import cv2
import deeplake
import numpy as np
import torch
from deeplake import types
from torch.utils.data import DataLoader

from benchmarks.contest import content
from benchmarks.loading import SIDE, Images, Task, cropped, main, views

cv2.setNumThreads(1)
torch.set_num_threads(1)


def _samples(task: Task, samples: list[dict[str, Any]]) -> Any:
    rows = torch.tensor([int(sample["label"]) for sample in samples])
    images = [np.asarray(sample["photo"]) for sample in samples]
    if task.work == "crop":
        out = np.empty((len(images), SIDE, SIDE, 3), np.uint8)
        chance = random.Random()
        for image, room in zip(images, out, strict=True):
            cropped(image, room, chance)
        return torch.from_numpy(out), None, rows
    flat = np.concatenate([image.reshape(-1) for image in images])
    return torch.from_numpy(flat), [image.shape for image in images], rows


class DeepLake4:
    """A dataset."""

    def write(self, task: Task) -> None:
        """Append the files' bytes to a column of images in JPEG."""
        dataset = deeplake.create(f"{task.store}/photos")
        dataset.add_column("photo", types.Image(sample_compression="jpeg"))
        dataset.add_column("label", types.UInt32())
        files = [content(path) for path in task.paths()]
        dataset.append({"photo": files, "label": np.arange(task.count, dtype=np.uint32)})
        dataset.commit()

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Read random rows."""
        loader = DataLoader(
            deeplake.open_read_only(f"{task.store}/photos").pytorch(),
            batch_size=task.batch,
            shuffle=True,
            num_workers=task.workers,
            collate_fn=partial(_samples, task),
        )
        for out, shapes, rows in loader:
            array: np.ndarray[Any, np.dtype[np.uint8]] = out.numpy()
            yield (array if shapes is None else views(array, shapes)), rows.numpy()


if __name__ == "__main__":
    main(DeepLake4())
