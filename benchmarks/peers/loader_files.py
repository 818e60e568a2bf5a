"""Files, read by PyTorch's worker processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils.data import Dataset

from benchmarks.contest import content
from benchmarks.loading import Images, Task, main
from benchmarks.peers import torch_workers


class _Photos(Dataset[tuple[bytes, int]]):  # type: ignore[misc] # it has no types here
    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> tuple[bytes, int]:
        return content(self._paths[row]), row


class Files:
    """A folder."""

    def write(self, task: Task) -> None:
        """They are there."""

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Read the files in random order."""
        return torch_workers.batches(task, _Photos(task.paths()), shuffle=True)


if __name__ == "__main__":
    main(Files())
