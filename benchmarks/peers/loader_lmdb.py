"""LMDB, read by PyTorch's worker processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import lmdb
from torch.utils.data import Dataset

from benchmarks.loading import Images, Task, main
from benchmarks.peers import torch_workers


class _Photos(Dataset[tuple[bytes, int]]):  # type: ignore[misc] # it has no types here
    def __init__(self, path: str, count: int) -> None:
        self._path, self._count = path, count
        self._opened: lmdb.Environment | None = None

    def __len__(self) -> int:
        return self._count

    def __getitems__(self, rows: Sequence[int]) -> list[tuple[bytes, int]]:
        if self._opened is None:  # in the worker, as an environment does not survive a fork
            self._opened = lmdb.open(self._path, readonly=True, lock=False, readahead=False, subdir=False)
        with self._opened.begin() as transaction:
            return [(transaction.get(b"%08d" % row, b""), row) for row in rows]


class Lmdb:
    """A file of keys and values."""

    def write(self, task: Task) -> None:
        """Write all in one transaction."""
        with (
            lmdb.open(f"{task.store}/photos", map_size=1 << 34, subdir=False) as opened,
            opened.begin(write=True) as transaction,
        ):
            for data, row in task.photos():
                transaction.put(b"%08d" % row, data)

    def batches(self, task: Task) -> Iterable[tuple[Images, Any]]:
        """Read the keys in random order."""
        return torch_workers.batches(task, _Photos(f"{task.store}/photos", task.count), shuffle=True)


if __name__ == "__main__":
    main(Lmdb())
