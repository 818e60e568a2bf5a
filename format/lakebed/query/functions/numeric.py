"""Functions of numbers and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import FLAG, NUMBER, Given, Info, merged
from lakebed.query.functions.function import Function
from lakebed.query.values import integers, keys
from lakebed.query.values.by_size import by_size, count_different
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    by_row,
    collect,
    flags,
    row,
    rows,
    strings,
    truth,
    without_value,
)
from lakebed.query.values.elementwise import arithmetic, compare, mapped, on_numbers, wide
from lakebed.query.values.exact import joint
from lakebed.query.values.reductions import items_of, reduced


def same(infos: Sequence[Info]) -> Info:
    """Return what is known of values that have the shape of the first argument."""
    return Info("array", None, infos[0].rank)


def extreme(infos: Sequence[Info]) -> Info:
    """Return what is known of the smallest or largest of values: it means what they do."""
    return Info("array", logical=infos[0].logical)


def _reduction(name: str) -> Callable[[Given], Column]:
    def compute(given: Given) -> Column:
        axis = constant_int(given, 1, name) if len(given.columns) > 1 else None
        return reduced(name, given.columns[0], axis)

    return compute


def constant_int(given: Given, number: int, name: str) -> int:
    """Return an argument that is one whole number for all rows.

    Raises
    ------
    QueryError
        If it is none.
    """
    value = constant(given, number, name)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(()).item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | np.integer):
        raise QueryError(f"argument {number + 1} of {name} is one whole number", kind="type")
    return int(value)


def constant(given: Given, number: int, name: str) -> Any:
    """Return an argument that is the same for all rows.

    Raises
    ------
    QueryError
        If it differs by row.
    """
    column = given.columns[number]
    if not isinstance(column, Constant):
        raise QueryError(f"argument {number + 1} of {name} must be the same for all rows", kind="type")
    return column.value


def _of_values(name: str, function: Callable[[Any], Any]) -> Function:
    return Function(name, 1, 1, lambda given: mapped(given.columns[0], function, name), same)


def _float(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def computed(values: Any) -> Any:
        return function(
            np.asarray(values, np.float32 if np.asarray(values).dtype == np.float32 else np.float64)
        )

    return computed


def _absolute(values: Any) -> Any:
    values = np.asarray(values)
    if values.dtype.kind == "i":
        return integers.absolute(values)
    return values if values.dtype.kind in "bu" else np.abs(values)


def _sign(values: Any) -> Any:
    values = np.asarray(values)
    return np.sign(values.view(np.uint8) if values.dtype == np.bool_ else values)


def _rounded(given: Given) -> Column:
    digits = constant_int(given, 1, "ROUND") if len(given.columns) > 1 else 0
    return mapped(given.columns[0], lambda values: np.round(np.asarray(values), digits), "ROUND")


def _nonzero(given: Given) -> Column:
    return by_row(
        given.count, lambda v: np.flatnonzero(np.asarray(v)).astype(np.int64), given.columns, "NONZERO"
    )


def _clip(given: Given) -> Column:
    low, high = constant(given, 1, "CLIP"), constant(given, 2, "CLIP")
    return mapped(given.columns[0], lambda values: np.clip(values, low, high), "CLIP")


def _sorted(given: Given) -> Column:
    return by_row(
        given.count,
        lambda v: sorted(v) if isinstance(v, list) else np.sort(v, axis=-1),
        given.columns,
        "SORT",
    )


def _unique(given: Given) -> Column:
    return _by_row_if_there(
        given, lambda v: sorted(set(v)) if isinstance(v, list) else np.unique(v), "UNIQUE"
    )


def _by_row_if_there(given: Given, function: Any, name: str) -> Column:
    """Compute row by row; what is missing stays so."""
    found, missing = by_row(given.count, function, given.columns, name), given.columns[0].missing
    return found if missing is None else without_value(found, missing)


def _flat(given: Given) -> Column:
    column = given.columns[0]
    if isinstance(column, Numbers) and column.missing is None:
        return Numbers(column.values.reshape(len(column), -1) if len(column) else column.values.reshape(0, 0))
    return _by_row_if_there(given, lambda v: np.asarray(v).reshape(-1), "FLATTEN")


def _extreme(name: str, function: Any) -> Function:
    def compute(given: Given) -> Column:
        found = given.columns[0]
        for column in given.columns[1:]:
            found = on_numbers(found, column, chosen, name)
        return found

    def chosen(a: Any, b: Any) -> Any:
        first, second = np.asarray(a), np.asarray(b)
        if first.dtype.kind in "biu" and second.dtype.kind in "biu":
            dtype = joint([first, second])  # NumPy makes floats of int64 beside uint64
            a, b = first.astype(dtype), second.astype(dtype)
        return wide(function)(a, b)

    return Function(name, 2, None, compute, _extreme_info)


def _extreme_info(infos: Sequence[Info]) -> Info:
    """Return what is known of the largest or smallest of some values: what their numbers mean."""
    logical = infos[0].logical if len({info.logical for info in infos}) == 1 else ""
    return Info("array", logical=logical)


def _coalesce(given: Given) -> Column:
    """Return the first value that is not missing."""
    columns = list(given.columns)
    found = _plain(columns[0])
    for column in columns[1:]:
        gone = found.missing
        if isinstance(found, Ragged):
            gone = found.sizes == 0 if gone is None else gone | (found.sizes == 0)
        if gone is None or not gone.any():
            return found
        second = rows(column)
        values = [second[i] if is_gone else row(found, i) for i, is_gone in enumerate(gone.tolist())]
        found = _collected([None if v is None else v for v in values])
    return found


def _plain(column: Column) -> Column:
    return _collected([column.value] * column.count) if isinstance(column, Constant) else column


def _collected(values: list[Any]) -> Column:
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    if arrays and all(a.size == 1 for a in arrays) and any(isinstance(v, int | float) for v in values):
        values = [None if v is None else np.asarray(v).reshape(arrays[0].shape) for v in values]
    return collect(values)


def _null_if(given: Given) -> Column:
    alike = truth(compare("=", given.columns[0], given.columns[1]))
    values = rows(given.columns[0])
    return _collected(
        [None if same_value else value for value, same_value in zip(values, alike.tolist(), strict=True)]
    )


def _count(given: Given) -> Column:
    """Count the values of a sample, or the samples of a group that are not missing."""
    column = given.columns[0]
    if not given.infos[0].is_group:
        if isinstance(column, Texts):
            return Numbers((~column.array.is_null().to_numpy(zero_copy_only=False)).astype(np.int64))
        return reduced("COUNT", column) if isinstance(column, Numbers | Ragged) else items_of(column)
    if isinstance(column, Objects):
        return by_row(given.count, _present, [column], "COUNT")
    return items_of(column)


def _present(value: Any) -> np.int64:
    return np.int64(sum(map(_is_there, value)) if isinstance(value, list) else 0)


def _is_there(value: Any) -> bool:
    """Whether a value of a group is not missing: a missing number is an empty array here, as it is to IS NULL."""
    return value is not None and not (isinstance(value, np.ndarray) and value.size == 0)


def count_distinct(given: Given) -> Column:
    """Count the different values of a sample, or of a group."""
    column = given.columns[0]
    if isinstance(column, Ragged) and column.flat.dtype.kind in "biuf":
        return Numbers(by_size(column.flat, column.offsets, count_different, np.zeros((), np.int64)))
    if isinstance(column, Objects):
        found = _different_texts(column.items)
        if found is not None:
            return Numbers(found)
    return by_row(given.count, _different, given.columns, "COUNT")


def _different_texts(groups: list[Any]) -> NDArray[np.int64] | None:
    """Count the different texts of groups; None if they hold others than texts."""
    if not all(isinstance(group, list) for group in groups):
        return None
    items = list(chain.from_iterable(groups))
    if not all(item is None or isinstance(item, str) for item in items):
        return None
    codes = keys.codes(strings(items), scalars=True)
    of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[codes >= 0]
    pairs = np.unique(of * (int(codes.max(initial=0)) + 1) + codes[codes >= 0])
    return np.bincount(pairs // (int(codes.max(initial=0)) + 1), minlength=len(groups)).astype(np.int64)


def _different(value: Any) -> np.int64:
    if isinstance(value, list):
        return np.int64(len({repr(item) for item in value if _is_there(item)}))
    return np.int64(len(np.unique(value)))


def logical(name: str, function: Any) -> Function:
    """Return AND or OR, value by value."""
    return Function(
        name,
        2,
        2,
        lambda given: on_numbers(flags(given.columns[0]), flags(given.columns[1]), function, name),
        FLAG,
    )


def max_weight(given: Given) -> Column:
    """Return the largest of the weights whose conditions are true; the columns are conditions and weights in turn."""
    return _weighed(given, np.maximum)


def sum_weight(given: Given) -> Column:
    """Return the sum of the weights whose conditions are true."""
    return _weighed(given, np.add)


def _weighed(given: Given, function: np.ufunc) -> Column:
    found: NDArray[np.float64] | None = None
    for condition, weight in zip(given.columns[::2], given.columns[1::2], strict=True):
        weights = weights_of(weight)
        told = np.where(truth(condition), weights, 0.0 if function is np.add else -np.inf)
        found = told if found is None else function(found, told)
    if found is None:
        return Constant(np.float64(0), given.count)
    return Numbers(np.where(np.isneginf(found), 0.0, found))


def weights_of(column: Column) -> NDArray[np.float64]:
    """Return one number per row; 0 where it is missing.

    Raises
    ------
    QueryError
        If a row has several numbers, or none that is one.
    """
    if isinstance(column, Constant) and isinstance(column.value, int | float | np.ndarray):
        if np.size(column.value) != 1:
            raise QueryError("one number per row is needed here, not an array", kind="type")
        return np.full(column.count, float(np.asarray(column.value).reshape(())), np.float64)
    if isinstance(column, Objects):
        return np.array([float(v) if isinstance(v, int | float) else 0.0 for v in column.items], np.float64)
    if isinstance(column, Ragged) and bool((column.sizes <= 1).all()):
        found = np.zeros(len(column))
        found[column.sizes == 1] = column.flat
        return found
    if not isinstance(column, Numbers) or (len(column) and column.values[0].size != 1):
        raise QueryError("one number per row is needed here", kind="type")
    weights = column.values.reshape(-1).astype(np.float64)
    return weights if column.missing is None else np.where(column.missing, 0.0, weights)


def _is_nan(values: Any) -> Any:
    values = np.asarray(values)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)


def _power(given: Given) -> Column:
    return arithmetic("^", given.columns[0], given.columns[1])


def _modulo(given: Given) -> Column:
    return arithmetic("%", given.columns[0], given.columns[1])


def _logarithm(given: Given) -> Column:
    """Return the logarithm to base 10, or to the first of two arguments, as PostgreSQL and DuckDB do."""
    if len(given.columns) == 1:
        return mapped(given.columns[0], _float(np.log10), "LOG")
    base, value = (mapped(column, _float(np.log), "LOG") for column in given.columns)
    return arithmetic("/", value, base)


def _angle(given: Given) -> Column:
    return on_numbers(given.columns[0], given.columns[1], np.arctan2, "ATAN2")


def _variance(given: Given) -> Column:
    """Return the mean square of the distance from the mean, as STD is its root."""
    axis = constant_int(given, 1, "VAR") if len(given.columns) > 1 else None
    apart = reduced("STD", given.columns[0], axis)
    return arithmetic("*", apart, apart)


def _is_infinite(values: Any) -> Any:
    values = np.asarray(values)
    return np.isinf(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)


FUNCTIONS: list[Function] = [
    *(Function(name, 1, 2, _reduction(name), NUMBER) for name in (
        "SUM", "PROD", "AVG", "STD", "MEDIAN", "ARG_MIN", "ARG_MAX",
    )),
    *(Function(name, 1, 2, _reduction(of), NUMBER) for name, of in (
        ("MEAN", "AVG"), ("ARGMIN", "ARG_MIN"), ("ARGMAX", "ARG_MAX"),
    )),
    *(Function(name, 1, 2, _reduction(of), extreme) for name, of in (
        ("MIN", "AMIN"), ("AMIN", "AMIN"), ("MAX", "AMAX"), ("AMAX", "AMAX"),
    )),
    Function("VAR", 1, 2, _variance, NUMBER),
    *(Function(name, 1, 2, _reduction(name), FLAG) for name in ("ANY", "ALL", "ALL_STRICT")),
    Function("COUNT", 1, 1, _count, NUMBER),
    Function("LEN", 1, 1, lambda given: items_of(given.columns[0]), NUMBER),
    Function("LENGTH", 1, 1, lambda given: items_of(given.columns[0]), NUMBER),
    Function("CHAR_LENGTH", 1, 1, lambda given: items_of(given.columns[0]), NUMBER),
    logical("LOGICAL_AND", np.logical_and),
    logical("LOGICAL_OR", np.logical_or),
    _of_values("ABS", _absolute),
    _of_values("SIGN", _sign),
    _of_values("SQRT", _float(np.sqrt)),
    _of_values("EXP", _float(np.exp)),
    _of_values("LN", _float(np.log)),
    _of_values("LOG2", _float(np.log2)),
    _of_values("LOG10", _float(np.log10)),
    Function("LOG", 1, 2, _logarithm, NUMBER),
    _of_values("FLOOR", np.floor),
    _of_values("CEIL", np.ceil),
    _of_values("CEILING", np.ceil),
    _of_values("TRUNC", np.trunc),
    _of_values("SIN", _float(np.sin)),
    _of_values("COS", _float(np.cos)),
    _of_values("TAN", _float(np.tan)),
    _of_values("ASIN", _float(np.arcsin)),
    _of_values("ACOS", _float(np.arccos)),
    _of_values("ATAN", _float(np.arctan)),
    Function("ATAN2", 2, 2, _angle, NUMBER),
    _of_values("DEGREES", _float(np.degrees)),
    _of_values("RADIANS", _float(np.radians)),
    Function("PI", 0, 0, lambda given: Constant(np.float64(np.pi), given.count), NUMBER),
    _of_values("ISNAN", _is_nan),
    _of_values("ISINF", _is_infinite),
    Function("ROUND", 1, 2, _rounded, same),
    Function("POWER", 2, 2, _power, NUMBER),
    Function("POW", 2, 2, _power, NUMBER),
    Function("MOD", 2, 2, _modulo, NUMBER),
    Function("CLIP", 3, 3, _clip, same),
    Function("NONZERO", 1, 1, _nonzero, NUMBER, 1.0),
    Function("SORT", 1, 1, _sorted, same, 1.0),
    Function("UNIQUE", 1, 1, _unique, NUMBER, 1.0),
    Function("FLATTEN", 1, 1, _flat, NUMBER, 0.5),
    _extreme("GREATEST", np.maximum),
    _extreme("LEAST", np.minimum),
    Function("COALESCE", 1, None, _coalesce, merged, 1.0),
    Function("IFNULL", 2, 2, _coalesce, merged, 1.0),
    Function("NULLIF", 2, 2, _null_if, lambda infos: infos[0], 1.0),
]  # fmt: skip
