"""Shares of annotations that must agree to decide what a tensor holds: a single wrong one decides nothing."""

from __future__ import annotations

MOSTLY = 0.66
"""Share of annotations that decides; the others have no value, or are left out."""

NEARLY_ALL = 0.95
"""Share for values without a null, such as whole numbers: other annotations are left out."""


def mostly(found: int, looked: int, share: float = MOSTLY) -> bool:
    """Return whether `found` of the annotations decide for the others."""
    return 0 < share * looked <= found


def few(found: int, looked: int) -> bool:
    """Return whether `found` of the annotations are too few to count."""
    return found <= (1 - NEARLY_ALL) * looked
