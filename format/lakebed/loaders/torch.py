"""PyTorch: loaders that are DataLoaders, and datasets for the DataLoaders of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import default_collate

from lakebed.errors import InvalidOperationError
from lakebed.loaders.samples import WIDER, Fields, Passes, Source, columns_of
from lakebed.reading.parallel import cores

Collate = Callable[[list[Any]], Any]


def process() -> tuple[int, int]:
    """Return the rank of this process and the number of processes that train together; 0 and 1 where it is alone."""
    group = torch.distributed
    if not group.is_available() or not group.is_initialized():
        return 0, 1
    return group.get_rank(), group.get_world_size()


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


class TorchDataset(IterableDataset):  # type: ignore[misc]
    """Samples one by one, for a DataLoader with or without worker processes; see ``Dataset.torch_dataset``.

    Each worker reads a share of its own. An epoch is counted when it begins, in whichever process.
    """

    MOST_WORKERS = 1024

    def __init__(self, source: Source, *, is_distributed: bool = False) -> None:
        self._source = source
        self._is_distributed = is_distributed
        self._place = (0, 1)
        # Workers are started anew for each epoch, and may be many: what they count, the next ones must know.
        self._epochs = torch.zeros(self.MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._state: Mapping[str, Any] | None = None
        self._loader: Any = None

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        number, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        self._loader = loader = self._loader_of(number, workers)
        epoch = int(self._epochs[number])
        self._epochs[number] = epoch + 1
        loader.set_epoch(epoch)
        if self._state is not None:
            loader.load_state_dict(self._state)
            self._epochs[number], self._state = loader.epoch + 1, None
        for read in loader:
            yield read["samples"].value

    def _loader_of(self, number: int, workers: int) -> Any:
        rank, world = self._placed()
        alone = self._source.samples(None, rank=rank, world=world)
        if workers == 1:
            return alone
        share = max(2 * alone.window, alone.memory // workers)
        threads = max(1, cores() // workers) if alone.threads is None else alone.threads
        tail = "keep" if world == 1 else "pad"
        return self._source.samples(
            None, rank=rank + world * number, world=world * workers, memory=share, threads=threads, tail=tail
        )

    def _placed(self) -> tuple[int, int]:
        if self._is_distributed and get_worker_info() is None:
            self._place = process()
        return self._place

    def __len__(self) -> int:
        rank, world = self._placed()
        return len(self._source.samples(None, rank=rank, world=world))

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be a certain epoch, in worker processes too."""
        self._epochs.fill_(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass of this process is; see ``lakebed.Loader.state_dict``."""
        loader = self._loader or self._loader_of(0, 1)
        state: dict[str, Any] = loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next pass go on where another one was."""
        self._state = dict(state)

    def __getstate__(self) -> dict[str, Any]:
        self._placed()
        return {**self.__dict__, "_loader": None}


class TorchRows(Dataset):  # type: ignore[misc]
    """Samples by number, for samplers of PyTorch; see ``Dataset.torch_dataset``."""

    def __init__(self, source: Source) -> None:
        self._source = source.using(shuffle=False)
        self._length = len(source.samples(None))
        self._loader: Any = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, i: int) -> Any:
        if not -self._length <= i < self._length:
            raise IndexError(f"index {i} is out of range for {self._length} samples")
        return self.__getitems__([i])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        if self._loader is None:  # in each process one of its own; those of workers share the cores already
            threads = self._source.options.get("threads") if get_worker_info() is None else 0
            self._loader = self._source.samples(None, threads=threads)
        loader = self._loader
        # Chance of operations is that of PyTorch, as that of the transforms of torchvision is.
        epoch = int(torch.randint(1 << 62, ())) if loader.operations else 0
        batch = loader.take([int(number) % self._length for number in numbers], epoch)
        return [whole.value for whole in batch["samples"]]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}
