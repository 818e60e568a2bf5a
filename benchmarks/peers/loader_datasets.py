"""Hugging Face datasets: Arrow files, read by PyTorch's worker processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import datasets
from torch.utils.data import DataLoader

from benchmarks.loading import Images, Task, main
from benchmarks.peers import torch_workers


def _samples(task: Task, samples: list[dict[str, Any]]) -> Any:
    return torch_workers.collate(task, [(sample["photo"], sample["label"]) for sample in samples])


def _rows(task: Task) -> Iterator[dict[str, Any]]:
    return ({"photo": data, "label": row} for data, row in task.photos())


class HuggingFace:
    """A folder of Arrow files that are mapped into memory."""

    def write(self, task: Task) -> None:
        """Write bytes and rows."""
        features = datasets.Features({"photo": datasets.Value("binary"), "label": datasets.Value("int64")})
        made = datasets.Dataset.from_generator(
            _rows, gen_kwargs={"task": task}, features=features, cache_dir=f"{task.scratch}/cache"
        )
        made.save_to_disk(f"{task.store}/photos")

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Read batches of random rows."""
        loader = DataLoader(
            datasets.load_from_disk(f"{task.store}/photos"),
            batch_size=task.batch,
            shuffle=True,
            num_workers=task.workers,
            collate_fn=partial(_samples, task),
        )
        return torch_workers.unpacked(loader)


if __name__ == "__main__":
    main(HuggingFace())
