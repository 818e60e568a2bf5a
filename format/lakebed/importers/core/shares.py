"""Shares of annotations that decide the type of a tensor, so that a few wrong annotations do not change it."""

from __future__ import annotations

MOSTLY = 0.66
"""Minimum share of the annotations that decide the type; other annotations get no value, or are left out."""

NEARLY_ALL = 0.95
"""Minimum share for types without a null, such as whole numbers, because other annotations must be left out."""


def mostly(found: int, looked: int, share: float = MOSTLY) -> bool:
    """Return whether `found` annotations are enough to decide the type."""
    return 0 < share * looked <= found


def few(found: int, looked: int) -> bool:
    """Return whether `found` annotations are too few to change the type."""
    return found <= (1 - NEARLY_ALL) * looked
