"""What becomes of all values of a sample, or of one of its axes: sums, extremes, norms, ANY and ALL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.values import integers
from lakebed.query.values.by_size import by_size
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

Reduce = Callable[..., Any]


_OF_SOMETHING = frozenset({"AVG", "STD", "AMIN", "AMAX", "MEDIAN", "ARG_MIN", "ARG_MAX"})
"""Those that have no value where there are none; a sum of nothing is 0."""


def reduced(name: str, column: Column, axis: int | None = None) -> Column:
    """Reduce each sample to one value, or along one of its axes; what has no value is missing.

    Parameters
    ----------
    name
        Of `REDUCTIONS`.
    axis
        Of the sample; None is all of them.

    Raises
    ------
    QueryError
        If the samples have no such axis, or are no numbers.
    """
    if axis is not None and isinstance(column, Ragged | Numbers) and column.missing is not None:
        present = np.flatnonzero(~column.missing)  # of the others nobody knows the axes
        values: list[Any] = [None] * len(column)
        for row, value in zip(
            present.tolist(), rows(_reduced(name, take(column, present), axis)), strict=True
        ):
            values[row] = value
        return collect(values)
    found = _reduced(name, column, axis)
    if name not in _OF_SOMETHING or axis is not None or not isinstance(column, Ragged | Numbers):
        return found
    nothing = (
        column.sizes == 0 if isinstance(column, Ragged) else np.full(len(found), column.values[:1].size == 0)
    )
    return without_value(found, nothing if column.missing is None else nothing | column.missing)


def _reduced(name: str, column: Column, axis: int | None) -> Column:
    whole = REDUCTIONS[name]
    with np.errstate(all="ignore"):

        def of_one(value: Any) -> Any:
            if value is None and axis is not None:
                return None
            array = _array(value)
            return None if name in _OF_SOMETHING and _has_none(array, axis) else whole(array, axis)

        if isinstance(column, Constant):
            return Constant(of_one(column.value), column.count)
        if isinstance(column, Numbers) and column.missing is None:
            if (
                axis is not None
                and name in _OF_SOMETHING
                and _has_none(np.empty(column.values.shape[1:]), axis)
            ):
                return Constant(None, len(column))
            return Numbers(_of_even(name, whole, column.values, axis))
        if isinstance(column, Numbers) and axis is None:
            values = np.asarray(_of_even(name, whole, column.values, None)).copy()
            if column.missing is not None and column.missing.any():
                values[column.missing] = whole(np.empty(0, column.values.dtype), None)
            return Numbers(values)
        if isinstance(column, Ragged) and axis is None:
            found = _of_uneven(name, column)
            if found is not None:
                return Numbers(found)
        return by_row(len(column), of_one, [column], name)


def _has_none(array: NDArray[Any], axis: int | None) -> bool:
    """Tell whether there are no values, along an axis where one is given."""
    if axis is None or not -array.ndim <= axis < array.ndim:
        return array.size == 0 and axis is None
    return bool(array.shape[axis] == 0)


def _array(value: Any) -> NDArray[Any]:
    """Return a value as numbers; of a list of texts, as an array of texts."""
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
        raise QueryError("lists of unequal length are no array", kind="shape") from error
    if array.size == 0 and array.dtype == object:
        return array.astype(np.float64)
    if array.dtype.kind in "UO" and not (array.dtype == object and array.ndim == 1):
        raise QueryError("numbers are needed here, not text", kind="type")
    return array


# -- one sample, or samples of one shape -----------------------------------------------------------------------------


def _axes(values: NDArray[Any], axis: int | None) -> Any:
    if axis is None:
        return None
    if not -values.ndim <= axis < values.ndim:
        raise QueryError(f"a sample of {values.ndim} axes has no axis {axis}", kind="rank")
    return axis


def _filled(function: Reduce, empty: Any) -> Reduce:
    """Return a reduction that has a value for samples without any."""

    def whole(values: NDArray[Any], axis: Any = None) -> Any:
        axis = axis if isinstance(axis, tuple) else _axes(values, axis)
        if values.size == 0 and axis is None:
            return np.asarray(empty, np.float64 if isinstance(empty, float) else values.dtype)
        if values.dtype == object:
            return function(values)
        return function(values, axis=axis)

    return whole


def _total(values: NDArray[Any], axis: Any = None) -> Any:
    """Sum in the dtype of the values, as the language does; booleans and integers in 64 bits, exact or an error."""
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    if _countable(values).dtype.kind in "iu":
        return integers.total(values, axis)
    return np.sum(values, axis=axis)


def _product(values: NDArray[Any], axis: Any = None) -> Any:
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    if _countable(values).dtype.kind in "iu":
        return integers.product(values, axis)
    return np.prod(values, axis=axis)


def _countable(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind not in "biufc":
        raise QueryError("numbers are needed here, not text", kind="type")
    return values


def _any(values: NDArray[Any], axis: Any = None) -> Any:
    return np.any(values != 0, axis=axis if isinstance(axis, tuple) else _axes(values, axis))


def _all(values: NDArray[Any], axis: Any = None) -> Any:
    return np.all(values != 0, axis=axis if isinstance(axis, tuple) else _axes(values, axis))


def _all_strict(values: NDArray[Any], axis: Any = None) -> Any:
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    return np.logical_and(np.all(values != 0, axis=axis), _extent(values, axis) > 0)


def _extent(values: NDArray[Any], axis: Any) -> int:
    axes = range(values.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([values.shape[a] for a in axes], dtype=np.int64))


def _l1(values: NDArray[Any], axis: Any = None) -> Any:
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    return np.sum(np.abs(_real(values)), axis=axis, dtype=np.float64).astype(np.float32)


def _l2(values: NDArray[Any], axis: Any = None) -> Any:
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    return np.sqrt(np.sum(np.square(_real(values)), axis=axis, dtype=np.float64)).astype(np.float32)


def _linf(values: NDArray[Any], axis: Any = None) -> Any:
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    if values.size == 0:
        return np.float32(0)
    return np.max(np.abs(_real(values)), axis=axis).astype(np.float32)


def _real(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype.kind == "f" else _countable(values).astype(np.float64)


def _count(values: NDArray[Any], axis: Any = None) -> Any:
    axis = axis if isinstance(axis, tuple) else _axes(values, axis)
    if isinstance(axis, int) or (isinstance(axis, tuple) and axis):
        kept = [n for i, n in enumerate(values.shape) if i not in _normal(axis, values.ndim)]
        return np.full(kept, _extent(values, axis), np.int64)
    return np.int64(values.size)


def _normal(axis: Any, rank: int) -> set[int]:
    return {a % rank for a in (axis if isinstance(axis, tuple) else (axis,))}


REDUCTIONS: dict[str, Reduce] = {
    "SUM": _total,
    "PROD": _product,
    "AVG": _filled(np.mean, 0.0),
    "STD": _filled(np.std, 0.0),
    "AMIN": _filled(np.min, 0),
    "AMAX": _filled(np.max, 0),
    "MEDIAN": _filled(np.median, 0.0),
    "ARG_MIN": _filled(np.argmin, 0),
    "ARG_MAX": _filled(np.argmax, 0),
    "ANY": _any,
    "ALL": _all,
    "ALL_STRICT": _all_strict,
    "L1_NORM": _l1,
    "L2_NORM": _l2,
    "LINF_NORM": _linf,
    "COUNT": _count,
}
"""Name -> function of an array and an axis; None is all axes."""


def _of_even(name: str, whole: Reduce, values: NDArray[Any], axis: int | None) -> NDArray[Any]:
    """Reduce many samples of one shape at once."""
    rank = values.ndim - 1
    if axis is not None:
        if not -rank <= axis < rank:
            raise QueryError(f"samples of {rank} axes have no axis {axis}", kind="rank")
        return np.asarray(whole(values, (axis % rank + 1,)))
    if values[:1].size == 0:
        one = np.asarray(whole(np.empty(0, values.dtype), None))
        return np.full(len(values), one, one.dtype)
    flat = values.reshape(len(values), values[0].size)
    if name in ("ARG_MIN", "ARG_MAX", "MEDIAN"):
        by_name: dict[str, Reduce] = {"ARG_MIN": np.argmin, "ARG_MAX": np.argmax, "MEDIAN": np.median}
        return np.asarray(by_name[name](flat, axis=1))
    return np.asarray(whole(flat, (1,)))


# -- samples of many shapes ------------------------------------------------------------------------------------------


def _of_uneven(name: str, column: Ragged) -> NDArray[Any] | None:
    """Reduce samples that lie one behind the other; None where only row by row is known."""
    offsets = column.offsets
    sizes = np.diff(offsets)
    held = sizes > 0
    if name in ("ANY", "ALL", "ALL_STRICT", "COUNT"):
        if name == "COUNT":
            return sizes
        flags = column.flat if column.flat.dtype == np.bool_ else column.flat != 0
        found = np.zeros(len(sizes), np.bool_) if name != "ALL" else np.ones(len(sizes), np.bool_)
        joined: np.ufunc = np.logical_or if name == "ANY" else np.logical_and
        if held.any():
            found[held] = joined.reduceat(flags, offsets[:-1][held])
        return found
    if name in _REDUCEAT:
        function, empty = _REDUCEAT[name]
        flat = _countable(column.flat)
        if name in ("SUM", "PROD"):
            dtype = np.sum(np.empty(0, flat.dtype)).dtype
            flat = flat if flat.dtype.kind in "iu" else flat.astype(dtype, copy=False)
        else:
            dtype = flat.dtype
        if not held.any():
            return np.full(len(sizes), empty, dtype)
        starts = offsets[:-1][held]
        of_integers = _OF_INTEGERS.get(name) if flat.dtype.kind in "iu" else None
        found = function.reduceat(flat, starts) if of_integers is None else of_integers(flat, starts)
        values = np.full(len(sizes), empty, found.dtype)
        values[held] = found
        return values
    if name in ("AVG", "L1_NORM", "L2_NORM", "LINF_NORM"):
        return _derived(name, column.flat, offsets, held, sizes)
    if name in _BY_SIZE and column.flat.dtype.kind in "iuf":
        nothing = np.asarray(REDUCTIONS[name](np.empty(0, column.flat.dtype), None))
        return by_size(column.flat, offsets, partial(_BY_SIZE[name], axis=1), nothing)
    return None


_BY_SIZE: dict[str, Reduce] = {
    "STD": np.std,
    "MEDIAN": np.median,
    "ARG_MIN": np.argmin,
    "ARG_MAX": np.argmax,
}


_REDUCEAT: dict[str, tuple[np.ufunc, int]] = {
    "SUM": (np.add, 0),
    "PROD": (np.multiply, 1),
    "AMIN": (np.minimum, 0),
    "AMAX": (np.maximum, 0),
}


_OF_INTEGERS: dict[str, Reduce] = {"SUM": integers.totals, "PROD": integers.products}


def _derived(
    name: str,
    flat: NDArray[Any],
    offsets: NDArray[np.int64],
    held: NDArray[np.bool_],
    sizes: NDArray[np.int64],
) -> NDArray[Any]:
    numbers = _countable(flat).astype(np.float64)
    if name in ("L1_NORM", "LINF_NORM"):
        numbers = np.abs(numbers)
    elif name == "L2_NORM":
        numbers = np.square(numbers)
    found = np.zeros(len(sizes), np.float64)
    if held.any():
        function = np.maximum if name == "LINF_NORM" else np.add
        found[held] = function.reduceat(numbers, offsets[:-1][held])
    if name == "AVG":
        return np.divide(found, sizes, out=np.zeros_like(found), where=held)
    return (np.sqrt(found) if name == "L2_NORM" else found).astype(np.float32)


def items_of(column: Column) -> Column:
    """Count the items of each sample: of its first axis, of a list or dictionary, or the characters of a text.

    Of what is missing it is missing, too.
    """
    if isinstance(column, Ragged):
        return Numbers(column.shapes[:, 0], column.missing)
    if isinstance(column, Numbers):
        extent = column.values.shape[1] if column.values.ndim > 1 else 1
        return Numbers(np.full(len(column), extent, np.int64), column.missing)
    if isinstance(column, Texts):
        import pyarrow.compute as pc

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
