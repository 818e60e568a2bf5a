"""JAX: batches as arrays on a device. JAX copies on its own threads, while the previous step is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.loaders.frameworks.adapters import NumpyLoader, Passes
from lakebed.loaders.frameworks.samples import Fields


class JaxLoader(Passes):
    """Batches of JAX arrays; see ``ds.dataloader().jax``. Values other than arrays of numbers are not converted."""

    framework = "jax"

    def __init__(self, batches: NumpyLoader, sharding: Any = None) -> None:
        self.batches = batches
        self.loader = batches.loader
        self.sharding = sharding

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            yield self._put(batch)

    def _put(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            return Fields((name, self._put(value)) for name, value in batch.items())
        if isinstance(batch, tuple):
            return tuple(self._put(value) for value in batch)
        if not isinstance(batch, np.ndarray) or batch.dtype.kind not in "biufc":
            return batch
        if self.sharding is None:
            return jax.numpy.asarray(batch)
        world = self.loader.ranks.now()[1]
        if world == 1 or getattr(self.sharding, "is_fully_addressable", True):
            return jax.device_put(batch, self.sharding)
        return self._global(batch, (world * len(batch), *batch.shape[1:]))

    def _global(self, batch: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Any:
        """Make one array of the batches of all processes."""
        try:
            # Given the global shape, JAX raises an error if the sharding needs rows that this process has not read.
            return jax.make_array_from_process_local_data(self.sharding, batch, shape)
        except ValueError as error:
            raise InvalidInputError(
                f"each process has read its {len(batch):,} of {shape[0]:,} rows, and {self.sharding} does "
                "not divide them so: shard the first axis over all processes, or give all rows to each with "
                f"distributed=False ({error})"
            ) from error
