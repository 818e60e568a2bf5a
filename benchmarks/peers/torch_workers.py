"""What the loaders have in common that are datasets for PyTorch's worker processes.

Batches are made in the workers, straight in the shared memory in which they go to the process that iterates: one tensor
of crops, or one flat tensor with the shapes of whole images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np
import simplejpeg  # noqa: F401 - for the workers, as imports are not measured
import torch
from torch.utils.data import DataLoader, get_worker_info

from benchmarks.loading import SIDE, Images, Task, crops, extents, views, wholes

cv2.setNumThreads(1)
torch.set_num_threads(1)


def _room(size: int) -> torch.Tensor:
    if get_worker_info() is None:
        return torch.empty(size, dtype=torch.uint8)
    storage = torch.UntypedStorage._new_shared(size)  # noqa: SLF001 - as torch's own collate function does
    return torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,))


def collate(task: Task, samples: Sequence[tuple[Any, int]]) -> tuple[torch.Tensor, Any, torch.Tensor]:
    """Make a batch of files and rows: tensor, shapes of what lies in it, rows."""
    files, rows = [data for data, _ in samples], torch.tensor([int(row) for _, row in samples])
    if task.work == "crop":
        shape = (len(files), SIDE, SIDE, 3)
        out = _room(math.prod(shape)).view(shape)
        crops(files, out.numpy())
        return out, None, rows
    shapes = extents(files)
    out = _room(sum(map(math.prod, shapes)))
    wholes(files, views(out.numpy(), shapes))
    return out, shapes, rows


def batches(task: Task, dataset: Any, **options: Any) -> Iterator[tuple[Images, Any]]:
    """Iterate over a dataset whose samples are files and rows, with worker processes."""
    loader = DataLoader(
        dataset,
        batch_size=task.batch,
        num_workers=task.workers,
        collate_fn=partial(collate, task),
        **options,
    )
    return unpacked(loader)


def unpacked(loader: Any) -> Iterator[tuple[Images, Any]]:
    """Yield batches as arrays."""
    for out, shapes, rows in loader:
        array: np.ndarray[Any, np.dtype[np.uint8]] = out.numpy()
        yield (array if shapes is None else views(array, shapes)), rows.numpy()
