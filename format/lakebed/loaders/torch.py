"""PyTorch: loaders that are DataLoaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory

from lakebed.loaders.adapters import Passes
from lakebed.loaders.arguments import Source
from lakebed.loaders.ranks import Ranks
from lakebed.loaders.torch_datasets import TorchDataset
from lakebed.loaders.torch_tensors import Ragged, Tensors, as_tensors

Collate = Callable[[list[Any]], Any]


class TorchLoader(Passes, DataLoader):  # type: ignore[misc]
    """A DataLoader whose batches are made on threads of this process; see ``Dataset.pytorch``.

    Each pass is the next epoch. It resumes in the middle of one through ``state_dict`` and ``load_state_dict``.
    """

    framework = "pytorch"

    def __init__(
        self,
        source: Source,
        batch_size: int | None,
        collate_fn: Collate | None,
        *,
        drop_last: bool,
        pinned: bool,
        ragged: Ragged | Mapping[str, Ragged] | None = None,
    ) -> None:
        self.is_whole = source.is_plain and collate_fn is None and batch_size is not None
        self.tensors = Tensors.of(source, ragged)
        if self.is_whole:
            flat = "flat" if self.tensors.flat else "list"
            self.loader = source.batches(batch_size, drop_last=drop_last, ragged=flat)
        else:
            self.loader = source.samples(batch_size, drop_last=drop_last)
        super().__init__(
            TorchDataset(source, Ranks(distributed=False)),
            batch_size=batch_size,
            drop_last=drop_last and batch_size is not None,
            collate_fn=collate_fn or (self.tensors.collated if batch_size is not None else as_tensors),
            pin_memory=pinned,
        )

    def to(self, device: torch.device | str) -> Any:
        """Return the same loader with its batches on a device, one ahead of the one that is computed with.

        On CUDA they are decoded into pinned memory and copied by a stream of their own.
        """
        from lakebed.loaders.device import DeviceLoader, PinnedPool

        if torch.device(device).type == "cuda":
            self.loader.take_memory_from(PinnedPool)
        return DeviceLoader(self, device)

    def __iter__(self) -> Iterator[Any]:
        pinned = self.pin_memory and torch.cuda.is_available()
        for read in self.loader:
            if self.is_whole:
                batch: Any = self.tensors.batch(read)
            elif self.batch_size is None:
                batch = self.collate_fn(read["samples"].value)
            else:
                batch = self.collate_fn([whole.value for whole in read["samples"]])
            yield pin_memory(batch) if pinned else batch
