"""Lookup of rows by keys: the first row with each of many keys, and the number of rows with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.query.values.columns import Column, Constant, Numbers, Texts, bits, scalars
from lakebed.query.values.exact import represented
from lakebed.query.values.limits import tick

_MOST = 1 << 62

Found = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Key:
    """A number or text for each row, and the mask of the rows that have one; NaN counts as missing."""

    values: Any
    known: NDArray[np.bool_]

    @classmethod
    def of(cls, column: Column) -> Key | None:
        """Return the keys of a column; None if rows hold more than one number or text."""
        if isinstance(column, Constant):
            if isinstance(column.value, str):
                column = Texts(pa.array([column.value] * column.count, pa.string()))
            elif isinstance(column.value, int | float):
                column = Numbers(np.full(column.count, column.value))
        if isinstance(column, Texts):
            array = column.array.cast(pa.large_string())
            return cls(array, bits(array.is_valid()))
        found = scalars(column)
        if found is None:
            return None
        values, missing = found
        known = np.ones(len(values), np.bool_) if missing is None else ~missing
        return cls(values, known & ~np.isnan(values) if values.dtype.kind == "f" else known)

    @property
    def is_number(self) -> bool:
        """True if the keys are numbers, not texts."""
        return isinstance(self.values, np.ndarray)


class Lookup:
    """Rows by one or more keys.

    Parameters
    ----------
    keys
        Keys of equal length.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self._values: list[Any] = []
        whole = np.zeros(len(keys[0].known), np.int64)
        valid = np.ones(len(keys[0].known), np.bool_)
        for key in keys:
            tick()
            if key.is_number:
                distinct: Any = np.sort(key.values[key.known])
                distinct = distinct[np.append(True, distinct[1:] != distinct[:-1])[: len(distinct)]]
                codes = np.searchsorted(distinct, key.values)
            else:
                distinct = pc.unique(key.values.drop_null())
                codes = _codes(key.values, distinct)
            self._values.append(distinct)
            whole = whole * (len(distinct) + 1) + codes
            valid &= key.known
        (rows,) = np.nonzero(valid)
        tick()
        self._keys, first, self._counts = np.unique(whole[rows], return_index=True, return_counts=True)
        self._rows = rows[first].astype(np.int64)

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Lookup | None:
        """Return the lookup of rows by columns; None if rows of a column hold more than one number or text."""
        keys = [key for key in map(Key.of, columns) if key is not None]
        size = 1
        for key in keys:
            size *= len(key.known) + 1
        return cls(keys) if len(keys) == len(columns) and size < _MOST else None

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return int(self._keys.nbytes + self._counts.nbytes + self._rows.nbytes)

    def find(self, keys: Sequence[Key]) -> Found:
        """Return the first row with each key, -1 for none, and the number of rows with it."""
        count = len(keys[0].known)
        nothing = np.full(count, -1), np.zeros(count, np.int64)
        whole = np.zeros(count, np.int64)
        found = np.ones(count, np.bool_)
        for key, distinct in zip(keys, self._values, strict=True):
            tick()
            if key.is_number != isinstance(distinct, np.ndarray):
                return nothing  # a number is never equal to a text
            if key.is_number:
                values, is_held = represented(key.values, distinct.dtype)
                codes = np.searchsorted(distinct, values)
                near = np.minimum(codes, max(0, len(distinct) - 1))
                found &= key.known & is_held & (distinct[near] == values if len(distinct) else False)
            else:
                codes = _codes(key.values, distinct)
                found &= codes < len(distinct)
            whole = whole * (len(distinct) + 1) + codes
        tick()
        if not len(self._keys):
            return nothing
        places = np.minimum(np.searchsorted(self._keys, whole), len(self._keys) - 1)
        found &= self._keys[places] == whole
        return np.where(found, self._rows[places], -1), np.where(found, self._counts[places], 0)


def _codes(values: Any, distinct: Any) -> NDArray[np.int64]:
    found = pc.index_in(values, value_set=distinct, skip_nulls=True).fill_null(len(distinct))
    return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
