"""Rows by their keys: of many keys at once, the first row that has each, and how many have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.query.values.columns import Column, Constant, Numbers, Ragged, Texts, tick
from lakebed.query.values.exact import represented

_MOST = 1 << 62


class Lookup:
    """Rows by one or more keys, each one number or text per row; what is missing, or NaN, has no key.

    Parameters
    ----------
    keys
        Columns of equal length.
    """

    def __init__(self, keys: Sequence[Column]) -> None:
        self._values: list[Any] = []
        whole = np.zeros(len(keys[0]), np.int64)
        valid = np.ones(len(keys[0]), np.bool_)
        for column in keys:
            tick()
            values, known = _plain(column)
            if isinstance(values, np.ndarray):
                distinct: Any = _distinct(values[known])
                tick()
                codes = np.searchsorted(distinct, values)
            else:
                distinct = pc.unique(values.drop_null())
                tick()
                codes = _codes(values, distinct)
            self._values.append(distinct)
            whole = whole * (len(distinct) + 1) + codes
            valid &= known
        (rows,) = np.nonzero(valid)
        tick()
        self._keys, first, self._counts = np.unique(whole[rows], return_index=True, return_counts=True)
        self._rows = rows[first].astype(np.int64)

    @classmethod
    def of(cls, keys: Sequence[Column]) -> Lookup | None:
        """Return the rows by their keys; None where a key is neither one number nor one text per row."""
        if not all(map(is_plain, keys)):
            return None
        size = 1
        for column in keys:
            size *= len(column) + 1
        return cls(keys) if size < _MOST else None

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""
        return int(self._keys.nbytes + self._counts.nbytes + self._rows.nbytes)

    def find(self, keys: Sequence[Column]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first row with each of some keys, -1 where there is none, and how many have it."""
        count = len(keys[0])
        whole = np.zeros(count, np.int64)
        found = np.ones(count, np.bool_)
        for column, distinct in zip(keys, self._values, strict=True):
            tick()
            values, known = _plain(column)
            if isinstance(values, np.ndarray) != isinstance(distinct, np.ndarray):
                return np.full(count, -1), np.zeros(count, np.int64)  # numbers equal no texts
            if isinstance(values, np.ndarray):
                values, is_one = represented(values, distinct.dtype)
                known = known & is_one
                codes = np.searchsorted(distinct, values)
                near = np.minimum(codes, max(0, len(distinct) - 1))
                found &= known & (distinct[near] == values if len(distinct) else False)
            else:
                codes = _codes(values, distinct)
                found &= codes < len(distinct)
            whole = whole * (len(distinct) + 1) + codes
        tick()
        places = np.minimum(np.searchsorted(self._keys, whole), max(0, len(self._keys) - 1))
        if not len(self._keys):
            return np.full(count, -1), np.zeros(count, np.int64)
        found &= self._keys[places] == whole
        return np.where(found, self._rows[places], -1), np.where(found, self._counts[places], 0)


def is_plain(column: Column) -> bool:
    """Whether a column has one number or text per row, or none."""
    if isinstance(column, Numbers):
        return column.values[:1].size == 1 or not len(column)
    if isinstance(column, Ragged):
        return bool((column.sizes <= 1).all())
    return isinstance(column, Texts) or (
        isinstance(column, Constant) and isinstance(column.value, str | int | float)
    )


def _plain(column: Column) -> tuple[Any, NDArray[np.bool_]]:
    """Return numbers of one type, or texts, and which of them are there."""
    if isinstance(column, Constant):
        if isinstance(column.value, str):
            column = Texts(pa.array([column.value] * column.count, pa.string()))
        else:
            column = Numbers(np.full(column.count, column.value))
    if isinstance(column, Texts):
        array = column.array.cast(pa.large_string())
        return array, array.is_valid().to_numpy(zero_copy_only=False)
    if isinstance(column, Ragged):
        known = column.sizes == 1
        values = np.zeros(len(column), column.flat.dtype)
        values[known] = column.flat
    else:
        assert isinstance(column, Numbers)  # noqa: S101 - as is_plain tells
        values = column.values.reshape(-1) if column.values.size else np.zeros(0, column.values.dtype)
        known = np.ones(len(values), np.bool_)
    if column.missing is not None:
        known = known & ~column.missing
    if values.dtype.kind == "f":
        known = known & ~np.isnan(values)
    return values, known


def _distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return different numbers, ascending."""
    found = np.sort(values)
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


def _codes(values: Any, distinct: Any) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (
        pc.index_in(values, value_set=distinct, skip_nulls=True)
        .fill_null(len(distinct))
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    return found
