"""Faster frozen data: changed copies of dataclasses, mappings whose values are made on access. Pure."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import Any, TypeVar

T = TypeVar("T")
V = TypeVar("V")


def changed(original: T, **changes: Any) -> T:
    """Return a changed copy of a dataclass without slots, in a third of the time of `replace`.

    Parameters
    ----------
    original
        An object of a class whose `__init__` only stores the fields.
    changes
        Names of fields, which are not checked, and their new values.
    """
    copy = object.__new__(type(original))
    copy.__dict__.update(original.__dict__, **changes)
    return copy


class OnDemand(Mapping[str, V]):
    """A mapping whose values are made once each, on first access.

    Threads that request a value at the same time get the same object.

    Parameters
    ----------
    names
        The names, in order.
    make
        Makes the value of a name; after an error, the next access calls it again.
    """

    __slots__ = ("_made", "_make", "_names")

    def __init__(self, names: Iterable[str], make: Callable[[str], V]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make
        self._made: dict[str, V] = {}

    def __getitem__(self, name: str) -> V:
        """Return the value of a name, making it on first access."""
        found = self._made.get(name)
        if found is None:
            if name not in self._names:
                raise KeyError(name)
            found = self._made.setdefault(name, self._make(name))
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a name, or the default if it is missing."""
        found = self._made.get(name)
        return found if found is not None else self[name] if name in self._names else default

    def __contains__(self, name: object) -> bool:
        """Return whether a name exists."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._names)

    def _whole(self) -> dict[str, V]:
        made = self._made
        return {name: made[name] if name in made else self[name] for name in self._names}

    def items(self) -> ItemsView[str, V]:
        """Return names and values; missing values are made first."""
        return self._whole().items()

    def values(self) -> ValuesView[V]:
        """Return the values; missing values are made first."""
        return self._whole().values()

    def __reduce__(self) -> tuple[type[dict[str, V]], tuple[dict[str, V]]]:
        """Return the arguments to pickle and copy the mapping as a dictionary of all values."""
        return dict, (dict(self),)
