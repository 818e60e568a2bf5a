"""The rank of this process among the processes that train together, and their number."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import dataclass
from typing import Any

from lakebed.errors import InvalidInputError

_log = logging.getLogger(__name__)
_told: list[str] = []
_PARTED = (
    "process %d of %d: each gets its share of the rows, as the process group defines it; distributed=False gives all "
    "rows to each, distributed=True omits this message"
)
_WHOLE = (
    "process %d of %d: torch_dataset gives all rows to each, for a trainer that shares them out, such as accelerate; "
    "distributed=True gives each its share, distributed=False omits this message"
)


@dataclass(frozen=True, slots=True)
class Ranks:
    """The division of rows between processes.

    Parameters
    ----------
    rank, world
        Number of this process and number of all processes, given by the caller; None takes them from the process group.
    distributed
        Whether rows are divided as the process group defines it; None does so and logs it once.
    """

    rank: int | None = None
    world: int | None = None
    distributed: bool | None = None

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.world is None):
            raise InvalidInputError(
                f"rank and world must be given together, not rank={self.rank!r} and world={self.world!r}"
            )
        if self.rank is not None and self.world is not None:
            if self.world < 1 or not 0 <= self.rank < self.world:
                raise InvalidInputError(
                    f"rank={self.rank} and world={self.world}: world must be at least 1, and rank from 0 to world "
                    "- 1"
                )
            if self.distributed is False and self.world > 1:
                raise InvalidInputError(
                    f"distributed=False gives all rows to each process, world={self.world} divides them: give only one"
                )

    def now(self) -> tuple[int, int]:
        """Return the current rank and world; 0 and 1 for a process that trains alone."""
        if self.rank is not None and self.world is not None:
            return self.rank, self.world
        if self.distributed is False:
            return 0, 1
        rank, world = process_group()
        if self.distributed is None:
            _tell(_PARTED, rank, world)
        return rank, world

    def asked(self) -> tuple[int, int]:
        """Return :meth:`now` if the caller gave a rank or `distributed`; otherwise 0 and 1."""
        if self.rank is not None or self.distributed is not None:
            return self.now()
        _tell(_WHOLE, *process_group())
        return 0, 1

    def has_others(self) -> bool:
        """Return whether other processes train too, on the same rows or on other rows."""
        return (self.world or 1) > 1 or process_group()[1] > 1


def _tell(message: str, rank: int, world: int) -> None:
    if world > 1 and message not in _told:
        _told.append(message)
        _log.warning(message, rank, world)


def process_group() -> tuple[int, int]:
    """Return rank and number of processes of the group that trains; 0 and 1 for a process that trains alone.

    The group is that of ``torch.distributed``, which Lightning and accelerate use too, or of ``jax.distributed``, or
    the workers that ``TF_CONFIG`` names where TensorFlow is imported.
    """
    for group in (_of_torch, _of_jax, _of_tensorflow):
        rank, world = group()
        if world > 1:
            return rank, world
    return 0, 1


def _of_torch() -> tuple[int, int]:
    # If PyTorch is missing, or another thread is importing it, no process group exists.
    group: Any = getattr(sys.modules.get("torch"), "distributed", None)
    if not all(hasattr(group, name) for name in ("is_available", "is_initialized", "get_world_size")):
        return 0, 1
    if not group.is_available() or not group.is_initialized():
        return 0, 1
    return int(group.get_rank()), int(group.get_world_size())


def _of_jax() -> tuple[int, int]:
    jax: Any = sys.modules.get("jax")
    is_initialized = getattr(getattr(jax, "distributed", None), "is_initialized", None)
    # If there is no group, the call for the number of processes would initialise JAX's devices.
    if is_initialized is None or not hasattr(jax, "process_index") or not is_initialized():
        return 0, 1
    return int(jax.process_index()), int(jax.process_count())


def _of_tensorflow() -> tuple[int, int]:
    """Return rank and number of the workers of ``TF_CONFIG``, the chief first; 0 and 1 without it.

    If ``TF_CONFIG`` names parameter servers, only the coordinator makes batches: return 0 and 1.
    """
    config = os.environ.get("TF_CONFIG")
    if not config or "tensorflow" not in sys.modules:
        return 0, 1
    try:
        told = json.loads(config)
        cluster, task = told.get("cluster") or {}, told.get("task") or {}
        chiefs, workers = len(cluster.get("chief") or ()), len(cluster.get("worker") or ())
        kind, number = task.get("type"), int(task.get("index", 0))
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"TF_CONFIG is not JSON of a cluster and a task, as TensorFlow requires: {config[:200]!r}"
        ) from error
    if "ps" in cluster or kind not in ("chief", "worker"):
        return 0, 1
    return (number if kind == "chief" else chiefs + number), chiefs + workers
