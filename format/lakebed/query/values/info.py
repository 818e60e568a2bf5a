"""Properties of columns that are known before any value is read: kind, dtype, class names, units of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lakebed.query.values.columns import Column


@dataclass(frozen=True, slots=True)
class Info:
    """Properties of a column that are known before it is read.

    Attributes
    ----------
    kind
        ``array``, ``text``, ``json``, or ``any`` if only the values tell.
    dtype, rank
        Dtype and number of axes of arrays; None if they are unknown or differ.
    class_names
        Names of class labels.
    htype
        Htype of the tensor from which the values come.
    coords
        Meaning of the four numbers of a box, such as ``LTWH``.
    unit
        ``pixel`` or ``fractional`` for boxes whose tensor says so.
    logical
        Arrow type of the dates and times that integers stand for.
    is_group
        True if each value holds all samples of a group.
    is_key
        True if the samples of a group are equal, because the rows were grouped by them.
    cost
        Relative cost of reading a row.
    are_nulls_apart
        True if missing values are recorded separately, so that IS NULL reads no values.
    """

    kind: str = "any"
    dtype: np.dtype[Any] | None = None
    rank: int | None = None
    class_names: tuple[str, ...] | None = None
    htype: str = ""
    coords: str = "LTWH"
    unit: str = ""
    logical: str = ""
    is_group: bool = False
    is_key: bool = False
    cost: float = 1.0
    are_nulls_apart: bool = False

    def grouped(self, *, is_key: bool = False) -> Info:
        """Return the properties of a column whose values are groups of values with these properties."""
        return replace(
            self,
            kind=self.kind if self.kind == "array" else "json",
            rank=None if self.rank is None else self.rank + 1,
            is_group=True,
            is_key=is_key,
            cost=self.cost * 4,
            are_nulls_apart=False,
        )


NUMBER = Info("array")
FLAG = Info("array", np.dtype(np.bool_))
TEXT = Info("text")
JSON = Info("json")
ANY = Info()
TIME = Info("array", np.dtype(np.int64), logical="timestamp[us]")

_SHARED = ("kind", "dtype", "rank", "class_names", "htype", "coords", "unit", "logical", "is_group", "is_key")


def merged(infos: Sequence[Info]) -> Info:
    """Return the properties that several columns share, for a column that holds values of all of them."""
    known = [info for info in infos if info != ANY]
    if not known or all(info == known[0] for info in known):
        return known[0] if known else ANY
    shared = {
        name: getattr(known[0], name)
        for name in _SHARED
        if all(getattr(info, name) == getattr(known[0], name) for info in known)
    }
    return Info(**shared, cost=max(info.cost for info in known))


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments of a function: columns of equal length, and their properties."""

    columns: Sequence[Column]
    count: int
    infos: Sequence[Info]
