"""Infos that callers hold: in-place changes of lists and dictionaries in an info are stored as well."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lakebed.documents import info as info_document
from lakebed.errors import InfoError, LakebedError

Values = Mapping[str, Any]

DATASET = ""
"""Key of the dataset's own info; the info of a tensor has the key of the tensor."""


@dataclass(slots=True)
class Live:
    """The values of one stored info that a caller holds.

    Parameters
    ----------
    stored
        Values as they were stored when they were last read.
    values
        A copy of the stored values, which the caller may have changed in place.
    """

    stored: Values | None = None
    values: dict[str, Any] = field(default_factory=dict)

    def of(self, stored: Values) -> dict[str, Any]:
        """Return the values; if the stored values have changed, return them with the caller's own changes applied."""
        if self.stored is not stored:
            changes = self._changes()
            self.rebase(stored)
            for name, value in changes.items():
                if value is None:
                    self.values.pop(name, None)
                else:
                    self.values[name] = value[0]
        return self.values

    def rebase(self, stored: Values) -> None:
        """Replace the values by the stored ones, but keep the caller's object for each value that is equal."""
        old, self.stored = self.values, stored
        self.values = {
            name: old[name] if name in old and _is_equal(old[name], value) else deepcopy(value)
            for name, value in stored.items()
        }

    @property
    def is_changed(self) -> bool:
        """True if the caller has changed values in place since they were stored."""
        return self.stored is not None and bool(self._changes())

    def _changes(self) -> dict[str, tuple[Any] | None]:
        """Return the caller's changes: name -> (value,), or None for a removed name."""
        if self.stored is None:
            return {}
        found: dict[str, tuple[Any] | None] = {
            name: (value,)
            for name, value in self.values.items()
            if name not in self.stored or not _is_equal(value, self.stored[name])
        }
        return found | {name: None for name in self.stored if name not in self.values}

    def forget(self) -> None:
        """Read the values again on their next use."""
        self.stored, self.values = None, {}


def stored_form(info: Values) -> Values:
    """Return an info as a later reader will see it, without objects that the caller may change.

    Raises
    ------
    InfoError
        If a value cannot be stored.
    """
    try:
        return info_document.from_bytes(info_document.to_bytes(info))
    except LakebedError as error:
        raise InfoError(f"info takes JSON values, arrays and bytes: {error}") from error


def _is_equal(one: Any, other: Any) -> bool:
    """Return whether two values of an info are the same; arrays are compared by their bytes."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if hasattr(one, "tobytes"):
        return bool(
            one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        )
    return bool(one == other or one != one)
