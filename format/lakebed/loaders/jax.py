"""JAX: batches as arrays on a device. JAX copies on its own threads, while the step before is computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from lakebed.loaders.adapters import NumpyLoader, Passes
from lakebed.loaders.samples import Fields


class JaxLoader(Passes):
    """Batches of JAX arrays; see ``ds.dataloader().jax``. What is no array of numbers stays as it is."""

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
        return jax.device_put(batch, self.sharding) if self.sharding is not None else jax.numpy.asarray(batch)
