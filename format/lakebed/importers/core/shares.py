"""What annotations must agree in, for a tensor to be as they say: one that is wrong decides nothing for the others."""

from __future__ import annotations

MOSTLY = 0.66
"""Share of the annotations whose values decide what a tensor holds; the others have no value there, or are left out."""

NEARLY_ALL = 0.95
"""The same where no value stands for none, such as of whole numbers: annotations without one are left out."""


def mostly(found: int, looked: int, share: float = MOSTLY) -> bool:
    """Whether so many of the annotations that were looked at decide for the others."""
    return 0 < share * looked <= found


def few(found: int, looked: int) -> bool:
    """Whether so many of the annotations that were looked at decide nothing: nearly all others differ from them."""
    return found <= (1 - NEARLY_ALL) * looked
