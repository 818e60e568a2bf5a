"""PyTorch: datasets for the DataLoaders of others, and which of the processes that train together this one is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from lakebed import random
from lakebed.errors import InvalidInputError
from lakebed.loaders.arguments import Source
from lakebed.loaders.draws import fresh_seed
from lakebed.loaders.ranks import Ranks, process_group
from lakebed.reading.parallel import cores


class TorchDataset(IterableDataset):  # type: ignore[misc]
    """Samples one by one, for a DataLoader with or without worker processes; see ``Dataset.torch_dataset``.

    Each worker reads a share of its own. An epoch is counted when it begins, in whichever process.
    """

    MOST_WORKERS = 1024

    def __init__(self, source: Source, ranks: Ranks) -> None:
        self._source = source
        self._ranks = ranks
        self._place = (0, 1)
        self._has_others = False
        # Workers are started anew for each epoch, and may be many: what they count, the next ones must know.
        self._epochs = torch.zeros(self.MOST_WORKERS, dtype=torch.int64).share_memory_()
        self._state: Mapping[str, Any] | None = None
        self._loader: Any = None
        # Workers share the rows, and so an order.
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
        # Also for those that are not there: a pass of other numbers of workers may follow, all of the same epoch.
        self._epochs[number::workers] = epoch

    def _loader_of(self, number: int, workers: int) -> Any:
        rank, world = self._placed()
        # Trainers that share samples out, as accelerate does, count on one order for all processes of a group.
        seed = 0 if self._is_drawn and self._has_others else self._seed
        alone = self._source.samples(None, rank=rank, world=world, seed=seed)
        if workers == 1:
            return alone
        share = max(2 * alone.window, alone.memory // workers)
        threads = max(1, cores() // workers) if alone.threads is None else alone.threads
        tail = "keep" if world == 1 else "pad"
        return self._source.samples(
            None,
            rank=rank + world * number,
            world=world * workers,
            seed=seed,
            memory=share,
            threads=threads,
            tail=tail,
        )

    def _placed(self) -> tuple[int, int]:
        # A worker that was forked knows the group; one that was spawned does not, and has been told.
        if get_worker_info() is None or process_group()[1] > 1:
            self._place, self._has_others = self._ranks.asked(), self._ranks.has_others()
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
                "map_style=True hands out samples by number: a sampler of PyTorch, as DistributedSampler, parts them; "
                "leave out distributed, rank and world"
            )
        # Chance comes by the epoch; the seed is the same for all workers.
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
