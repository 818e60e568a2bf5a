"""Names for commits and parents of merges: the side file ``.lakebed/refs.json``, which 3.9.52 leaves alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for a commit; ``time`` in POSIX seconds."""

    name: str
    commit: str
    message: str | None
    time: float
    user: str
