"""Bytes of a file with facts about the file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a file from some offset on.

    Parameters
    ----------
    data
        The bytes; fewer than requested if the file ends earlier.
    total
        Size of the file; None if unknown.
    tag
        Identity of this content of the file; None if unknown.
    has_ranges
        False if the source always sends the file from its beginning, so that parts are no cheaper.
    """

    data: bytes
    total: int | None = None
    tag: str | None = None
    has_ranges: bool = True
