"""Some bytes of a file, and what their source told about the file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a file from some offset on.

    Parameters
    ----------
    data
        The bytes; fewer than were asked for if the file ends before.
    total
        Size of the file; None if the source does not tell.
    tag
        Whatever tells this content of the file from another; None if the source has nothing of the kind.
    has_ranges
        False if the source sends the file from its beginning whatever is asked for, so that parts are no cheaper.
    """

    data: bytes
    total: int | None = None
    tag: str | None = None
    has_ranges: bool = True
