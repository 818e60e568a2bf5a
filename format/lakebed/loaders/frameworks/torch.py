"""PyTorch: loaders that are DataLoaders, datasets for the user's own DataLoaders, and batches as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import default_collate

from lakebed import random
from lakebed.errors import InvalidInputError, InvalidOperationError
from lakebed.loaders.collate import Flat, uneven
from lakebed.loaders.draws import fresh_seed
from lakebed.loaders.frameworks.adapters import Passes
from lakebed.loaders.frameworks.arguments import Source
from lakebed.loaders.frameworks.samples import WIDER, Fields, columns_of
from lakebed.loaders.ranks import Ranks, process_group
from lakebed.reading.parallel import cores

Collate = Callable[[list[Any]], Any]
Ragged = Literal["list", "pad", "nested"]


class TorchLoader(Passes, DataLoader):  # type: ignore[misc]
    """A DataLoader whose batches are made on threads of this process; see ``Dataset.pytorch``.

    Each pass is the next epoch; ``state_dict`` and ``load_state_dict`` resume in the middle of an epoch.
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
        """Return the same loader with its batches on a device, copied one batch ahead of the consumer.

        For CUDA the batches are decoded into pinned memory and copied by a separate stream.
        """
        from lakebed.loaders.frameworks.device import DeviceLoader, PinnedPool

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


# -- datasets for the user's own DataLoaders --------------------------------------------------------------------


class TorchDataset(IterableDataset):  # type: ignore[misc]
    """Samples one by one, for a DataLoader with or without worker processes; see ``Dataset.torch_dataset``.

    Each worker reads its own share. As soon as an epoch begins in one process, the next pass is a later epoch.
    """

    MOST_WORKERS = 1024

    def __init__(self, source: Source, ranks: Ranks) -> None:
        self._source = source
        self._ranks = ranks
        self._place = (0, 1)
        self._has_others = False
        # Count in shared memory: each epoch starts new workers, which must know what earlier workers counted.
        self._epochs = torch.zeros(self.MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._state: Mapping[str, Any] | None = None
        self._loader: Any = None
        # Draw the seed here and not in the workers: the rows are divided among them, so all need the same order.
        given = random.get_seed() if source.options.get("seed") is None else source.options["seed"]
        self._is_drawn = given is None
        self._seed = fresh_seed() if given is None and source.options.get("shuffle") else given or 0

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        number, workers = (info.id, info.num_workers) if info is not None else (0, 1)
        self._loader = loader = self._loader_of(number, workers)
        epoch = int(self._epochs[number])
        self._count(epoch + 1, number, workers)
        loader.set_epoch(epoch)
        if self._state is not None:
            loader.load_state_dict(self._state)
            self._count(loader.epoch + 1, number, workers)
            self._state = None
        for read in loader:
            yield read["samples"].value

    def _count(self, epoch: int, number: int, workers: int) -> None:
        # The next pass may have more workers, and all must begin with the same epoch. So also set the entries
        # number + workers, number + 2 * workers and so on, which no worker of this pass sets.
        self._epochs[number::workers] = epoch

    def _loader_of(self, number: int, workers: int) -> Any:
        rank, world = self._placed()
        # If trainers such as accelerate divide the samples, all processes of the group need the same order: use the
        # seed 0.
        seed = 0 if self._is_drawn and self._has_others else self._seed
        alone = self._source.samples(None, rank=rank, world=world, seed=seed)
        if workers == 1:
            return alone
        return self._source.samples(
            None,
            rank=rank + world * number,
            world=world * workers,
            seed=seed,
            memory=max(2 * alone.window, alone.memory // workers),
            threads=max(1, cores() // workers) if alone.threads is None else alone.threads,
            tail="keep" if world == 1 else "pad",
        )

    def _placed(self) -> tuple[int, int]:
        # A forked worker sees the process group itself; a spawned worker does not, and uses the values of its parent.
        if get_worker_info() is None or process_group()[1] > 1:
            self._place, self._has_others = self._ranks.asked(), self._ranks.has_others()
        return self._place

    def __len__(self) -> int:
        rank, world = self._placed()
        return len(self._source.samples(None, rank=rank, world=world))

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next pass, in worker processes too."""
        self._epochs.fill_(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of this process's pass; see ``lakebed.Loader.state_dict``."""
        loader = self._loader or self._loader_of(0, 1)
        state: dict[str, Any] = loader.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Start the next pass at the position that a state records."""
        self._state = dict(state)
        if self._is_drawn and type(state.get("seed")) is int:
            self._seed, self._is_drawn = state["seed"], False

    def __getstate__(self) -> dict[str, Any]:
        self._placed()
        return {**self.__dict__, "_loader": None}


class TorchRows(Dataset):  # type: ignore[misc]
    """Samples by number, for samplers of PyTorch; see ``Dataset.torch_dataset``."""

    def __init__(self, source: Source, ranks: Ranks) -> None:
        if ranks.distributed or (ranks.world or 1) > 1:
            raise InvalidInputError(
                "map_style=True returns samples by number; a sampler of PyTorch, such as DistributedSampler, divides "
                "them among processes, so leave out distributed, rank and world"
            )
        # The seed is the same for all workers, so __getitems__ draws the epoch at random.
        self._source = source.using(shuffle=False, distributed=False, seed=source.options.get("seed") or 0)
        self._length = len(self._source.samples(None))
        self._loader: Any = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, i: int) -> Any:
        if not -self._length <= i < self._length:
            raise IndexError(f"index {i} is out of range for {self._length} samples")
        return self.__getitems__([i])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        # Make one loader per process. Worker processes already share the cores, so their loaders use no threads.
        if self._loader is None:
            threads = self._source.options.get("threads") if get_worker_info() is None else 0
            self._loader = self._source.samples(None, threads=threads)
        loader = self._loader
        # Random operations draw from PyTorch's generator, as the transforms of torchvision do.
        epoch = int(torch.randint(1 << 62, ())) if loader.operations else 0
        batch = loader.take([int(number) % self._length for number in numbers], epoch)
        return [whole.value for whole in batch["samples"]]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}


# -- batches as tensors -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tensors:
    """Conversion of batches to tensors.

    Attributes
    ----------
    ragged
        Form of samples that differ in shape, for all tensors or by name; None raises an error for such samples.
    nested
        Names of the tensors whose batches are nested tensors even if all samples have the same shape.
    """

    ragged: Ragged | Mapping[str, Ragged] | None = None
    nested: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: Source, ragged: Ragged | Mapping[str, Ragged] | None) -> Tensors:
        """Return the conversion for the batches of a source.

        Raises
        ------
        InvalidInputError
            If `ragged` is not one of the supported forms.
        """
        for how in ragged.values() if isinstance(ragged, Mapping) else [ragged]:
            if how not in (None, "list", "pad", "nested"):
                raise InvalidInputError(f"ragged must be 'list', 'pad' or 'nested', not {how!r}")
        if isinstance(ragged, Mapping):
            return cls(ragged, frozenset(name for name, how in ragged.items() if how == "nested"))
        if ragged != "nested" or not source.is_plain:
            return cls(ragged)
        operations = source.options.get("operations") or {}
        metas = {name: state.meta for name, state in source.rows.states().items() if name not in operations}
        ragged_ones = [name for name, meta in metas.items() if list(meta.min_shape) != list(meta.max_shape)]
        return cls(ragged, frozenset(ragged_ones))

    @property
    def flat(self) -> bool:
        """Whether the loader must concatenate arrays of different shapes (`Flat`), as nested tensors require."""
        return self.ragged == "nested" or bool(self.nested)

    def collated(self, samples: list[Any]) -> Any:
        """Return samples as one batch of tensors, text as lists; results of a transform as PyTorch collates them.

        Raises
        ------
        InvalidOperationError
            If the samples of a tensor differ in shape, and `ragged` has no form for the tensor.
        """
        columns = columns_of(samples)
        if columns is None:
            return default_collate(samples)
        return Fields((name, self._stacked(name, values)) for name, values in columns.items())

    def batch(self, read: Mapping[str, Any]) -> Fields:
        """Return a batch of arrays as a batch of tensors; lists of values other than arrays stay unchanged."""
        return Fields((name, self._column(name, values)) for name, values in read.items())

    def _column(self, name: str, values: Any) -> Any:
        if name in self.nested and isinstance(values, np.ndarray) and values.ndim > 1:
            lengths = np.full(len(values), values.shape[1])
            return _jagged(values.reshape(-1, *values.shape[2:]), lengths)
        if _is_numeric(values):
            return tensor(values[:, None] if name == "index" and values.ndim == 1 else values)
        if isinstance(values, Flat):
            return self._uneven(name, values.arrays()) if self._how(name) != "nested" else nested(values)
        if isinstance(values, list) and values and all(isinstance(value, np.ndarray) for value in values):
            return self._stacked(name, values)
        return values

    def _how(self, name: str) -> Ragged | None:
        return self.ragged.get(name) if isinstance(self.ragged, Mapping) else self.ragged

    def _stacked(self, name: str, values: list[Any]) -> Any:
        first = values[0]
        if not isinstance(first, np.ndarray):
            return list(values) if isinstance(first, str | bytes) else default_collate(values)
        if first.dtype.kind in "OU":  # text and JSON, as `numpy()` returns them
            is_text = first.dtype.kind == "U"
            return [value[0] if is_text and len(value) == 1 else value.tolist() for value in values]
        if len({value.shape for value in values}) > 1:
            return self._uneven(name, values)
        return self._column(name, np.stack(values))

    def _uneven(self, name: str, values: list[NDArray[Any]]) -> Any:
        how = self._how(name)
        if how == "list":
            return [tensor(value) for value in values]
        if how is not None and len({value.ndim for value in values}) == 1:
            return tensor(uneven(values, "pad")) if how == "pad" else nested(uneven(values, "flat"))
        shapes = sorted({value.shape for value in values})[:3]
        raise InvalidOperationError(
            f"the samples of {name!r} in one batch have different shapes ({', '.join(map(str, shapes))}, "
            "...) and cannot be stacked; give them one shape in transform=, set ragged='list', 'pad' or 'nested', pass "
            "collate_fn=, leave the tensor out with tensors=, or take batches of one sample"
        )


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biufc"


def tensor(values: NDArray[Any]) -> torch.Tensor:
    """Return an array as a tensor that shares its memory; integers are converted to a type that PyTorch supports."""
    values = values.astype(WIDER.get(values.dtype.name, values.dtype), copy=False)
    return torch.from_numpy(values if values.flags.writeable else values.copy())


def nested(flat: Flat) -> torch.Tensor:
    """Return a nested tensor; it shares the memory of `flat` if the arrays differ along their first axis alone."""
    inner = flat.shapes[:, 1:]
    if (inner == inner[0]).all():
        return _jagged(flat.values.reshape(-1, *inner[0].tolist()), flat.shapes[:, 0])
    return torch.nested.nested_tensor([tensor(value) for value in flat.arrays()])


def _jagged(values: NDArray[Any], lengths: NDArray[np.int64]) -> torch.Tensor:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return torch.nested.nested_tensor_from_jagged(tensor(values), torch.from_numpy(offsets))


def row_of_tensors(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row in which arrays are tensors, and single numbers are tensors without axes."""
    return {
        name: tensor(value.reshape(()) if value.shape == (1,) else value) if _is_numeric(value) else value
        for name, value in sample.items()
    }


def as_tensors(sample: Any) -> Any:
    """Return a single sample in which arrays of numbers are tensors."""
    if not isinstance(sample, Fields):
        return sample
    arrays = {name: np.asarray(value) if name == "index" else value for name, value in sample.items()}
    return Fields((name, tensor(value) if _is_numeric(value) else value) for name, value in arrays.items())
