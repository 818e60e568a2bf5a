"""Reductions of the values of a sample, all of them or along an axis: sums, extremes, norms, ANY and ALL.

Samples of many lengths are reduced one length at a time. NumPy sums the last axis of a matrix in the same order as one
sample alone, so results are equal to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.values import integers
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    by_row,
    collect,
    rows,
    take,
    without_value,
)
from lakebed.query.values.limits import tick

_VALUES = 1 << 20
"""Maximum number of values that are gathered into one matrix; a single sample may have more."""

Matrix = Callable[[NDArray[np.generic]], NDArray[np.generic]]

_NEED_VALUES = frozenset({"AVG", "STD", "AMIN", "AMAX", "MEDIAN", "ARG_MIN", "ARG_MAX"})
"""Reductions whose result is missing for a sample without values; the sum of nothing is 0."""

_WIDENED = frozenset({"SUM", "PROD", "AVG", "STD", "MEDIAN", "L2_NORM"})
"""Reductions that compute float16 in float64, because sums of few float16 exceed their largest number, 65504."""


def reduced(name: str, column: Column, axis: int | None = None) -> Column:
    """Reduce each sample to one value, or along an axis; samples without a result are missing.

    Parameters
    ----------
    name
        Key of `REDUCTIONS`.
    axis
        Axis of the sample; None for all.

    Raises
    ------
    QueryError
        If samples lack the axis, or are not numbers.
    """
    if not isinstance(column, Ragged | Numbers):
        return _reduced(name, column, axis)
    if axis is not None and column.missing is not None:
        present = np.flatnonzero(~column.missing)  # skip missing samples, whose axes are unknown
        values: list[Any] = [None] * len(column)
        for row, value in zip(present, rows(_reduced(name, take(column, present), axis)), strict=True):
            values[row] = value
        return collect(values)
    found = _reduced(name, column, axis)
    if name not in _NEED_VALUES or axis is not None:
        return found
    is_empty = column.sizes == 0 if isinstance(column, Ragged) else column.values[:1].size == 0
    empty = np.zeros(len(found), np.bool_) | is_empty
    return without_value(found, empty if column.missing is None else empty | column.missing)


def _reduced(name: str, column: Column, axis: int | None) -> Column:
    def of_one(value: Any) -> Any:
        if value is None and axis is not None:
            return None
        array = _widened(name, _array(value))
        return None if _lacks_values(name, array.shape, axis) else _reduce(name, array, axis)

    with np.errstate(all="ignore"):
        if isinstance(column, Constant):
            return Constant(of_one(column.value), column.count)
        if isinstance(column, Numbers) and (column.missing is None or axis is None):
            if axis is not None and _lacks_values(name, column.values.shape[1:], axis):
                return Constant(None, len(column))
            values = _of_even(name, column.values, axis)
            if column.missing is not None and column.missing.any():
                values = values.copy()
                values[column.missing] = _reduce(name, column.values.reshape(-1)[:0], None)
            return Numbers(values)
        if isinstance(column, Ragged) and axis is None:
            found = _of_uneven(name, column)
            if found is not None:
                return Numbers(found)
        return by_row(len(column), of_one, [column], name)


def _widened(name: str, values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(np.float64) if values.dtype == np.float16 and name in _WIDENED else values


def _lacks_values(name: str, shape: tuple[int, ...], axis: int | None) -> bool:
    """Return whether a reduction needs values and a sample has none, along the axis if one is given."""
    if name not in _NEED_VALUES:
        return False
    if axis is None:
        return 0 in shape
    return -len(shape) <= axis < len(shape) and shape[axis] == 0


def _array(value: Any) -> NDArray[Any]:
    """Return a value as an array of numbers; a list of texts as an array of objects."""
    if value is None:
        return np.empty(0)
    if isinstance(value, list):
        value = [item for item in value if item is not None]
        if value and all(isinstance(item, str) for item in value):
            return np.array(value, object)
        if value and all(isinstance(item, np.ndarray) for item in value):
            return np.concatenate([item.reshape(-1) for item in value])
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise QueryError("lists of unequal length do not form an array", kind="shape") from error
    if array.size == 0 and array.dtype == object:
        return array.astype(np.float64)
    if array.dtype.kind in "UO" and not (array.dtype == object and array.ndim == 1):
        raise _not_numbers()
    return array


def _not_numbers() -> QueryError:
    return QueryError("numbers are needed here, not text", kind="type")


# -- one sample, or samples of one shape -----------------------------------------------------------------------------

Axis = int | tuple[int, ...] | None
Reduce = Callable[[NDArray[Any], Axis], Any]


def _reduce(name: str, values: NDArray[Any], axis: Axis) -> Any:
    if isinstance(axis, int) and not -values.ndim <= axis < values.ndim:
        raise QueryError(f"a sample of {values.ndim} axes has no axis {axis}", kind="rank")
    return REDUCTIONS[name](values, axis)


def _filled(function: Callable[..., Any], dtype: type[np.float64] | None = None) -> Reduce:
    """Return a reduction that is 0 for arrays without values, in the given dtype or the array's."""

    def whole(values: NDArray[Any], axis: Axis) -> Any:
        if values.size == 0 and axis is None:
            return np.zeros((), dtype or values.dtype)
        return function(values) if values.dtype == object else function(values, axis=axis)

    return whole


def _exact(of_integers: Reduce, otherwise: Callable[..., Any]) -> Reduce:
    """Return a sum or product in the dtype of the values; integers give an exact result of 64 bits or an error."""

    def whole(values: NDArray[Any], axis: Axis) -> Any:
        if _countable(values).dtype.kind in "iu":
            return of_integers(values, axis)
        return otherwise(values, axis=axis)

    return whole


def _countable(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "biufc":
        raise _not_numbers()
    return values


def _float(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind == "f" else _countable(values).astype(np.float64)


def _extent(values: NDArray[Any], axis: Axis) -> int:
    axes = range(values.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return math.prod(values.shape[a] for a in axes)


def _count(values: NDArray[Any], axis: Axis) -> Any:
    if axis is None:
        return np.int64(values.size)
    return np.full(np.delete(values.shape, axis), _extent(values, axis), np.int64)


def _norm(reduce: Callable[..., Any], prepare: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Reduce:
    """Return a norm, which is computed in float64 and is a float32."""
    return lambda values, axis: np.float32(finish(reduce(prepare(_float(values)), axis=axis)))


def _same(values: Any) -> Any:
    return values


_sum_wide = partial(np.sum, dtype=np.float64)

REDUCTIONS: dict[str, Reduce] = {
    "SUM": _exact(integers.total, np.sum),
    "PROD": _exact(integers.product, np.prod),
    "AVG": _filled(np.mean, np.float64),
    "STD": _filled(np.std, np.float64),
    "AMIN": _filled(np.min),
    "AMAX": _filled(np.max),
    "MEDIAN": _filled(np.median, np.float64),
    "ARG_MIN": _filled(np.argmin),
    "ARG_MAX": _filled(np.argmax),
    "ANY": lambda values, axis: np.any(values != 0, axis=axis),
    "ALL": lambda values, axis: np.all(values != 0, axis=axis),
    "ALL_STRICT": lambda v, axis: np.logical_and(np.all(v != 0, axis=axis), _extent(v, axis) > 0),
    "L1_NORM": _norm(_sum_wide, np.abs, _same),
    "L2_NORM": _norm(_sum_wide, np.square, np.sqrt),
    "LINF_NORM": _norm(partial(np.max, initial=0), np.abs, _same),
    "COUNT": _count,
}
"""Name -> function of an array and an axis; None stands for all axes."""

_ONE_AXIS: dict[str, Callable[..., Any]] = {"ARG_MIN": np.argmin, "ARG_MAX": np.argmax, "MEDIAN": np.median}
"""Reductions that take no tuple of axes, or are slow with one."""

_BY_SIZE: dict[str, Callable[..., Any]] = {**_ONE_AXIS, "STD": np.std}
"""Reductions of ragged samples that work one length at a time."""


def _of_even(name: str, values: NDArray[Any], axis: int | None) -> NDArray[Any]:
    """Reduce many samples of one shape at once."""
    values, rank = _widened(name, values), values.ndim - 1
    if axis is not None:
        if not -rank <= axis < rank:
            raise QueryError(f"samples of {rank} axes have no axis {axis}", kind="rank")
        return np.asarray(_reduce(name, values, (axis % rank + 1,)))
    if values[:1].size == 0:
        one = np.asarray(_reduce(name, np.empty(0, values.dtype), None))
        return np.full(len(values), one, one.dtype)
    flat = values.reshape(len(values), values[0].size)
    if name in _ONE_AXIS:
        return np.asarray(_ONE_AXIS[name](flat, axis=1))
    return np.asarray(_reduce(name, flat, (1,)))


# -- samples of many shapes ------------------------------------------------------------------------------------------

Runs = Callable[[NDArray[Any], NDArray[np.int64]], NDArray[Any]]
"""Function that reduces concatenated samples, none of them empty, which begin at the given positions."""


def _of_uneven(name: str, column: Ragged) -> NDArray[Any] | None:
    """Reduce concatenated samples; None if the reduction works row by row only."""
    flat, sizes = _widened(name, column.flat), column.sizes
    if name == "COUNT":
        return sizes
    if name in _RUNS:
        reduce, empty = _RUNS[name]
        held = sizes > 0
        if held.any():
            found = reduce(flat, column.offsets[:-1][held])
        else:
            found = np.asarray(_reduce(name, flat[:0], None))[None]
        values = np.full(len(sizes), empty, found.dtype)
        if held.any():
            values[held] = found
        return values
    if flat.dtype.kind not in "iuf":
        return None
    nothing = np.asarray(_reduce(name, flat[:0], None))
    return by_size(flat, column.offsets, partial(_BY_SIZE[name], axis=1), nothing)


def _flags(values: NDArray[Any]) -> NDArray[np.bool_]:
    return values if values.dtype == np.bool_ else values != 0


def _exact_runs(of_integers: Runs, otherwise: np.ufunc) -> Runs:
    def runs(flat: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
        if _countable(flat).dtype.kind in "iu":
            return of_integers(flat, starts)
        found: NDArray[Any] = otherwise.reduceat(flat.astype(np.sum(flat[:0]).dtype, copy=False), starts)
        return found

    return runs


def _average_runs(flat: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    totals: NDArray[Any] = np.add.reduceat(_countable(flat).astype(np.float64), starts)
    return totals / np.diff(starts, append=len(flat))


def _norm_runs(reduce: np.ufunc, prepare: Callable[[Any], Any], finish: Callable[[Any], Any]) -> Runs:
    def runs(flat: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
        found = finish(reduce.reduceat(prepare(_countable(flat).astype(np.float64)), starts))
        return np.asarray(found, np.float32)

    return runs


_RUNS: dict[str, tuple[Runs, int]] = {
    "ANY": (lambda flat, starts: np.logical_or.reduceat(_flags(flat), starts), 0),
    "ALL": (lambda flat, starts: np.logical_and.reduceat(_flags(flat), starts), 1),
    "ALL_STRICT": (lambda flat, starts: np.logical_and.reduceat(_flags(flat), starts), 0),
    "SUM": (_exact_runs(integers.totals, np.add), 0),
    "PROD": (_exact_runs(integers.products, np.multiply), 1),
    "AMIN": (lambda flat, starts: np.minimum.reduceat(_countable(flat), starts), 0),
    "AMAX": (lambda flat, starts: np.maximum.reduceat(_countable(flat), starts), 0),
    "AVG": (_average_runs, 0),
    "L1_NORM": (_norm_runs(np.add, np.abs, _same), 0),
    "L2_NORM": (_norm_runs(np.add, np.square, np.sqrt), 0),
    "LINF_NORM": (_norm_runs(np.maximum, np.abs, _same), 0),
}
"""Name -> the reduction, and its value for a sample without values."""


def by_size(
    flat: NDArray[np.generic], offsets: NDArray[np.int64], reduce: Matrix, empty: NDArray[np.generic]
) -> NDArray[np.generic]:
    """Reduce concatenated samples, all samples of one length together.

    Parameters
    ----------
    reduce
        Takes samples of one length, shape (samples, length), and returns one value for each.
    empty
        Result for a sample without values.

    Returns
    -------
    Shape (samples,), in a dtype that holds all results.
    """
    sizes = np.diff(offsets)
    found: NDArray[np.generic] | None = None
    for places, size in _alike(sizes):
        tick()
        if size:
            starts = offsets[:-1][places]
            if len(places) == 1:
                matrix = flat[starts[0] : starts[0] + size][None]
            else:
                matrix = flat[starts[:, None] + np.arange(size)]
            values = np.asarray(reduce(matrix))
        else:
            values = np.full(len(places), empty, empty.dtype)
        if found is None:
            found = np.zeros(len(sizes), values.dtype)
        elif found.dtype != values.dtype:
            found = found.astype(np.result_type(found.dtype, values.dtype))
        found[places] = values
    return np.zeros(0, empty.dtype) if found is None else found


def _alike(sizes: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield (positions of samples of one length, this length), at most as many samples as fit into one matrix."""
    order = np.argsort(sizes, kind="stable")
    ordered = sizes[order]
    edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
    for start, stop in pairwise(edges if len(order) else [0]):
        size = int(ordered[start])
        step = max(1, _VALUES // max(1, size))
        for first in range(start, stop, step):
            yield order[first : min(stop, first + step)], size


def count_different(matrix: NDArray[np.generic]) -> NDArray[np.int64]:
    """Count the different values of each row of a matrix; all NaN count as one."""
    ordered = np.sort(matrix, axis=1)
    found: NDArray[np.int64] = 1 + np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    if ordered.dtype.kind == "f":
        found -= np.maximum(np.count_nonzero(np.isnan(ordered), axis=1) - 1, 0)
    return found


# -- items -----------------------------------------------------------------------------------------------------------


def items_of(column: Column) -> Column:
    """Count the items of each sample: along its first axis, of a list or dictionary, or the characters of a text.

    The count of a missing sample is missing.
    """
    if isinstance(column, Ragged):
        return Numbers(column.shapes[:, 0], column.missing)
    if isinstance(column, Numbers):
        extent = column.values.shape[1] if column.values.ndim > 1 else 1
        return Numbers(np.full(len(column), extent, np.int64), column.missing)
    if isinstance(column, Texts):
        lengths = pc.utf8_length(column.array).fill_null(0).to_numpy(zero_copy_only=False)
        return Numbers(lengths.astype(np.int64), column.missing)
    if isinstance(column, Objects):
        return by_row(len(column), _items, [column], "LEN")
    return Constant(_items(column.value), column.count)


def _items(value: Any) -> np.int64 | None:
    if value is None:
        return None
    if isinstance(value, str | list | dict):
        return np.int64(len(value))
    return np.int64(len(value) if isinstance(value, np.ndarray) and value.ndim else 1)
