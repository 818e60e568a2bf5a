"""Shares of annotations that decide the type of a tensor, so that a single wrong annotation does not."""

from __future__ import annotations

MOSTLY = 0.66
"""Share of annotations that decides the type; other annotations get no value, or are left out."""

NEARLY_ALL = 0.95
"""Share as `MOSTLY`, for types without a null, such as whole numbers: other annotations must be left out."""


def mostly(found: int, looked: int, share: float = MOSTLY) -> bool:
    """Return whether `found` annotations are enough to decide the type."""
    return 0 < share * looked <= found


def few(found: int, looked: int) -> bool:
    """Return whether `found` annotations are too few to change the type."""
    return found <= (1 - NEARLY_ALL) * looked
