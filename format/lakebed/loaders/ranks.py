"""Which of the processes that train together this one is: its rank, and how many there are."""

from __future__ import annotations

import logging
import sys
from typing import Any

from lakebed.dataclass import dataclass
from lakebed.errors import InvalidInputError

_log = logging.getLogger(__name__)
_told: list[int] = []


@dataclass(frozen=True, slots=True)
class Ranks:
    """How rows are parted between processes.

    Parameters
    ----------
    rank, world
        Number of this process and of all, as the caller gives them; None leaves them to the process group.
    distributed
        Whether rows are parted as the process group of ``torch.distributed`` says; None says so once in the log.
    """

    rank: int | None = None
    world: int | None = None
    distributed: bool | None = None

    def __post_init__(self) -> None:
        if (self.rank is None) != (self.world is None):
            raise InvalidInputError(
                f"rank and world are given together, not rank={self.rank!r} and world={self.world!r}"
            )
        if self.rank is not None and self.world is not None:
            if self.world < 1 or not 0 <= self.rank < self.world:
                raise InvalidInputError(f"there is no process {self.rank} of {self.world}")
            if self.distributed is False and self.world > 1:
                raise InvalidInputError(
                    f"distributed=False gives all rows to each process, world={self.world} parts them: give one of them"
                )

    def now(self) -> tuple[int, int]:
        """Return rank and world as they are at this moment; 0 and 1 for a process that trains alone."""
        if self.rank is not None and self.world is not None:
            return self.rank, self.world
        if self.distributed is False:
            return 0, 1
        rank, world = process_group()
        if world > 1 and self.distributed is None and not _told:
            _told.append(world)
            _log.warning(
                "process %d of %d: each gets its share of the rows, as the process group says; distributed=False gives "
                "all rows to each, distributed=True does without this line",
                rank,
                world,
            )
        return rank, world


def process_group() -> tuple[int, int]:
    """Return rank and number of processes of the group of ``torch.distributed``; 0 and 1 without one."""
    # Without PyTorch, or while another thread still imports it, there is no group.
    group: Any = getattr(sys.modules.get("torch"), "distributed", None)
    if not all(hasattr(group, name) for name in ("is_available", "is_initialized", "get_world_size")):
        return 0, 1
    if not group.is_available() or not group.is_initialized():
        return 0, 1
    return int(group.get_rank()), int(group.get_world_size())
