"""PyTorch: batches of tensors, from loaders that are DataLoaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import default_collate

from lakebed.errors import InvalidOperationError
from lakebed.loaders.adapters import Passes
from lakebed.loaders.arguments import Source
from lakebed.loaders.samples import WIDER, Fields, columns_of
from lakebed.loaders.torch_datasets import TorchDataset

Collate = Callable[[list[Any]], Any]


def collate(samples: list[Any]) -> Any:
    """Return samples as one batch of tensors, text as lists; what a transform made as PyTorch collates it.

    Raises
    ------
    InvalidOperationError
        If the samples of a tensor differ in shape.
    """
    columns = columns_of(samples)
    if columns is None:
        return default_collate(samples)
    return Fields((name, _stacked(name, values)) for name, values in columns.items())


def tensor(name: str, values: Any) -> Any:
    """Return the samples of one column of a batch as a tensor; lists of anything but arrays as they are."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biufc":
        if name == "index" and values.ndim == 1:
            values = values[:, None]
        values = values.astype(WIDER.get(values.dtype.name, values.dtype), copy=False)
        return torch.from_numpy(values if values.flags.writeable else values.copy())
    if isinstance(values, list) and values and all(isinstance(value, np.ndarray) for value in values):
        return _stacked(name, values)
    return values


def _stacked(name: str, values: list[Any]) -> Any:
    first = values[0]
    if not isinstance(first, np.ndarray):
        return list(values) if isinstance(first, str | bytes) else default_collate(values)
    if first.dtype.kind in "OU":  # text and json as `numpy()` gives them
        return [
            value[0] if len(value) == 1 and first.dtype.kind == "U" else value.tolist() for value in values
        ]
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        raise InvalidOperationError(
            f"the samples of {name!r} in one batch have different shapes ({', '.join(map(str, sorted(shapes)[:3]))}, "
            "...) and cannot be stacked; give them one shape in transform=, pass collate_fn=, leave the tensor out "
            "with tensors=, or take batches of one sample"
        )
    return tensor(name, np.stack(values))


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
    ) -> None:
        self.is_whole = source.is_plain and collate_fn is None and batch_size is not None
        make = source.batches if self.is_whole else source.samples
        self.loader = make(batch_size, drop_last=drop_last)
        super().__init__(
            TorchDataset(source),
            batch_size=batch_size,
            drop_last=drop_last and batch_size is not None,
            collate_fn=collate_fn or (collate if batch_size is not None else as_tensors),
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
                batch: Any = Fields((name, tensor(name, values)) for name, values in read.items())
            elif self.batch_size is None:
                batch = self.collate_fn(read["samples"].value)
            else:
                batch = self.collate_fn([whole.value for whole in read["samples"]])
            yield pin_memory(batch) if pinned else batch


def as_tensors(sample: Any) -> Any:
    """Return a single sample with tensors for arrays."""
    if not isinstance(sample, Fields):
        return sample
    arrays = {name: np.asarray(value) if name == "index" else value for name, value in sample.items()}
    return Fields(
        (name, tensor("", value) if isinstance(value, np.ndarray) else value)
        for name, value in arrays.items()
    )
