"""Functions of numbers and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.functions.function import Function
from lakebed.query.values import integers, keys
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Ragged,
    Texts,
    bits,
    by_row,
    collect,
    either,
    flags,
    row,
    rows,
    scalars,
    strings,
    truth,
    without_value,
)
from lakebed.query.values.elementwise import arithmetic, compare, is_group, mapped, on_numbers, wide
from lakebed.query.values.exact import joint
from lakebed.query.values.info import FLAG, NUMBER, Given, Info, merged
from lakebed.query.values.reductions import by_size, count_different, items_of, reduced


def _same_shape(infos: Sequence[Info]) -> Info:
    """Return the properties of numbers with the shape of the first argument."""
    return Info("array", None, infos[0].rank)


def _same_meaning(infos: Sequence[Info]) -> Info:
    """Return the properties of numbers that are times if the first argument is."""
    return Info("array", logical=infos[0].logical)


def _common_meaning(infos: Sequence[Info]) -> Info:
    """Return the properties of numbers that are times if all arguments are."""
    return _same_meaning(infos) if len({info.logical for info in infos}) == 1 else NUMBER


def _reduction(name: str) -> Callable[[Given], Column]:
    return lambda given: reduced(name, given.columns[0], _axis(given, name))


def _axis(given: Given, name: str) -> int | None:
    return constant_int(given, 1, name) if len(given.columns) > 1 else None


def constant_int(given: Given, number: int, name: str) -> int:
    """Return an argument that must be one whole number for all rows."""
    value = constant(given, number, name)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(()).item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int | np.integer):
        raise QueryError(f"argument {number + 1} of {name} must be one whole number", kind="type")
    return int(value)


def constant(given: Given, number: int, name: str) -> Any:
    """Return an argument that must be the same for all rows."""
    column = given.columns[number]
    if not isinstance(column, Constant):
        raise QueryError(f"argument {number + 1} of {name} must be the same for all rows", kind="type")
    return column.value


def _of_values(name: str, function: Callable[[Any], Any]) -> Function:
    return Function(name, 1, 1, lambda given: mapped(given.columns[0], function, name), _same_shape)


def _float(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that computes float32 arrays in float32, and all other numbers in float64."""
    return lambda values: function(values if values.dtype == np.float32 else values.astype(np.float64))


def _of_floats(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a test of numbers, such as for NaN, that is false for all integers."""
    return lambda values: function(values) if values.dtype.kind == "f" else np.zeros(values.shape, np.bool_)


def _absolute(values: Any) -> Any:
    if values.dtype.kind == "i":
        return integers.absolute(values)
    return values if values.dtype.kind in "bu" else np.abs(values)


def _rounded(given: Given) -> Column:
    digits = _axis(given, "ROUND") or 0
    return mapped(given.columns[0], lambda values: np.round(values, digits), "ROUND")


def _clip(given: Given) -> Column:
    low, high = constant(given, 1, "CLIP"), constant(given, 2, "CLIP")
    return mapped(given.columns[0], lambda values: np.clip(values, low, high), "CLIP")


def _of_rows(
    name: str, function: Callable[[Any], Any], info: Any, *, keeps_missing: bool = False
) -> Function:
    """Return a function that is called sample by sample; if `keeps_missing`, a missing sample has a missing value."""

    def compute(given: Given) -> Column:
        found, missing = by_row(given.count, function, given.columns, name), given.columns[0].missing
        return without_value(found, missing) if keeps_missing and missing is not None else found

    return Function(name, 1, 1, compute, info, 1.0)


def _flat(given: Given) -> Column:
    column = given.columns[0]
    if isinstance(column, Numbers) and column.missing is None:
        return Numbers(column.values.reshape(len(column), -1) if len(column) else column.values.reshape(0, 0))
    return _FLATTEN.compute(given)


_FLATTEN = _of_rows("FLATTEN", lambda v: np.asarray(v).reshape(-1), NUMBER, keeps_missing=True)


def _extreme(name: str, function: np.ufunc) -> Function:
    def chosen(a: Any, b: Any) -> Any:
        first, second = np.asarray(a), np.asarray(b)
        if first.dtype.kind in "biu" and second.dtype.kind in "biu":
            dtype = joint([first, second])  # NumPy would convert int64 and uint64 to float64
            a, b = first.astype(dtype), second.astype(dtype)
        return wide(function)(a, b)

    def compute(given: Given) -> Column:
        return reduce(lambda found, column: on_numbers(found, column, chosen, name), given.columns)

    return Function(name, 2, None, compute, _common_meaning)


def _coalesce(given: Given) -> Column:
    """Return the first value that is not missing."""
    found, *others = given.columns
    if isinstance(found, Constant):
        found = _collected(rows(found))
    for column in others:
        gone = either(found.missing, found.sizes == 0 if isinstance(found, Ragged) else None)
        if gone is None or not gone.any():
            return found
        second = rows(column)
        found = _collected(
            [second[i] if is_gone else row(found, i) for i, is_gone in enumerate(gone.tolist())]
        )
    return found


def _collected(values: list[Any]) -> Column:
    """Return values as a column; if all arrays among them hold one number, plain numbers get the arrays' shape."""
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    if arrays and all(a.size == 1 for a in arrays) and any(isinstance(v, int | float) for v in values):
        values = [None if v is None else np.asarray(v).reshape(arrays[0].shape) for v in values]
    return collect(values)


def _null_if(given: Given) -> Column:
    alike = truth(compare("=", *given.columns)).tolist()
    return _collected([None if same else v for v, same in zip(rows(given.columns[0]), alike, strict=True)])


def _count(given: Given) -> Column:
    """Count the values of a sample, or the samples of a group that are not missing."""
    column = given.columns[0]
    if isinstance(column, Objects) and (given.infos[0].is_group or any(map(is_group, column.items))):
        return by_row(given.count, _present, [column], "COUNT")
    if given.infos[0].is_group:
        return items_of(column)
    if isinstance(column, Texts):
        return Numbers(bits(column.array.is_valid()).astype(np.int64))
    return reduced("COUNT", column) if isinstance(column, Numbers | Ragged) else items_of(column)


def _present(value: Any) -> np.int64:
    return np.int64(sum(map(_is_there, value)) if isinstance(value, list) else 0)


def _is_there(value: Any) -> bool:
    """Return whether a sample of a group is not missing; an empty array counts as missing."""
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
    """Count the different texts of each group; None if groups hold other values."""
    if not all(isinstance(group, list) for group in groups):
        return None
    items = list(chain.from_iterable(groups))
    if not all(item is None or isinstance(item, str) for item in items):
        return None
    codes = keys.codes(strings(items), refuse_arrays=True)
    of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[codes >= 0]
    count = int(codes.max(initial=0)) + 1
    pairs = np.unique(of * count + codes[codes >= 0])
    return np.bincount(pairs // count, minlength=len(groups)).astype(np.int64)


def _different(value: Any) -> np.int64:
    if isinstance(value, list):
        return np.int64(len({keys.hashable(item) for item in value if _is_there(item)}))
    return np.int64(len(np.unique(value)))


def _of_two(name: str, function: Callable[[Column, Column], Column], info: Info = NUMBER) -> Function:
    return Function(name, 2, 2, lambda given: function(*given.columns), info)


def _logical(name: str, function: np.ufunc) -> Function:
    """Return AND or OR, value by value."""
    return _of_two(name, lambda a, b: on_numbers(flags(a), flags(b), function, name), FLAG)


def weighed(given: Given, function: np.ufunc) -> Column:
    """Return the sum or maximum of the weights whose conditions are true.

    The arguments alternate: a condition, its weight, the next condition, and so on.
    """
    otherwise = 0.0 if function is np.add else -np.inf
    pairs = zip(given.columns[::2], given.columns[1::2], strict=True)
    found = reduce(function, [np.where(truth(told), weights_of(weight), otherwise) for told, weight in pairs])
    return Numbers(np.where(np.isneginf(found), 0.0, found))


def weights_of(column: Column) -> NDArray[np.float64]:
    """Return one number per row, 0 for missing values.

    Raises
    ------
    QueryError
        If a row has several numbers, or a value that is not a number.
    """
    if isinstance(column, Constant) and isinstance(column.value, int | float | np.ndarray):
        column = Numbers(np.full((column.count, *np.shape(column.value)), column.value))
    if isinstance(column, Objects):
        return np.array([float(v) if isinstance(v, int | float) else 0.0 for v in column.items], np.float64)
    found = scalars(column)
    if found is None:
        raise QueryError("one number per row is needed here, not text or an array", kind="type")
    values, gone = found
    weights = values.astype(np.float64)
    return weights if gone is None else np.where(gone, 0.0, weights)


def _logarithm(given: Given) -> Column:
    """Return the logarithm to base 10, or to the first of two arguments, as in PostgreSQL and DuckDB."""
    if len(given.columns) == 1:
        return mapped(given.columns[0], _float(np.log10), "LOG")
    base, value = (mapped(column, _float(np.log), "LOG") for column in given.columns)
    return arithmetic("/", value, base)


def _variance(given: Given) -> Column:
    """Return the variance: the mean squared distance from the mean, which is the square of STD."""
    apart = reduced("STD", given.columns[0], _axis(given, "VAR"))
    return arithmetic("*", apart, apart)


FUNCTIONS: list[Function] = [
    *(Function(name, 1, 2, _reduction(of), NUMBER) for name, of in (
        ("SUM", "SUM"), ("PROD", "PROD"), ("AVG", "AVG"), ("MEAN", "AVG"), ("STD", "STD"), ("MEDIAN", "MEDIAN"),
        ("ARG_MIN", "ARG_MIN"), ("ARGMIN", "ARG_MIN"), ("ARG_MAX", "ARG_MAX"), ("ARGMAX", "ARG_MAX"),
    )),
    *(Function(name, 1, 2, _reduction(of), _same_meaning) for name, of in (
        ("MIN", "AMIN"), ("AMIN", "AMIN"), ("MAX", "AMAX"), ("AMAX", "AMAX"),
    )),
    *(Function(name, 1, 2, _reduction(name), FLAG) for name in ("ANY", "ALL", "ALL_STRICT")),
    *(Function(name, 1, 1, lambda given: items_of(given.columns[0]), NUMBER) for name in (
        "LEN", "LENGTH", "CHAR_LENGTH",
    )),
    *(_of_values(name, _float(function)) for name, function in (
        ("SQRT", np.sqrt), ("EXP", np.exp), ("LN", np.log), ("LOG2", np.log2), ("LOG10", np.log10), ("SIN", np.sin),
        ("COS", np.cos), ("TAN", np.tan), ("ASIN", np.arcsin), ("ACOS", np.arccos), ("ATAN", np.arctan),
        ("DEGREES", np.degrees), ("RADIANS", np.radians),
    )),
    *(_of_values(name, function) for name, function in (
        ("ABS", _absolute), ("FLOOR", np.floor), ("CEIL", np.ceil), ("CEILING", np.ceil), ("TRUNC", np.trunc),
        ("SIGN", lambda values: np.sign(values.view(np.uint8) if values.dtype == np.bool_ else values)),
        ("ISNAN", _of_floats(np.isnan)), ("ISINF", _of_floats(np.isinf)),
    )),
    *(_of_two(name, partial(arithmetic, sign)) for name, sign in (("POWER", "^"), ("POW", "^"), ("MOD", "%"))),
    _of_two("ATAN2", lambda a, b: on_numbers(a, b, np.arctan2, "ATAN2")),
    _logical("LOGICAL_AND", np.logical_and),
    _logical("LOGICAL_OR", np.logical_or),
    Function("VAR", 1, 2, _variance, NUMBER),
    Function("COUNT", 1, 1, _count, NUMBER),
    Function("LOG", 1, 2, _logarithm, NUMBER),
    Function("PI", 0, 0, lambda given: Constant(np.float64(np.pi), given.count), NUMBER),
    Function("ROUND", 1, 2, _rounded, _same_shape),
    Function("CLIP", 3, 3, _clip, _same_shape),
    _of_rows("NONZERO", lambda v: np.flatnonzero(np.asarray(v)).astype(np.int64), NUMBER),
    _of_rows("SORT", lambda v: sorted(v) if isinstance(v, list) else np.sort(v, axis=-1), _same_shape),
    _of_rows(
        "UNIQUE", lambda v: sorted(set(v)) if isinstance(v, list) else np.unique(v), NUMBER, keeps_missing=True
    ),
    Function("FLATTEN", 1, 1, _flat, NUMBER, 0.5),
    _extreme("GREATEST", np.maximum),
    _extreme("LEAST", np.minimum),
    Function("COALESCE", 1, None, _coalesce, merged, 1.0),
    Function("IFNULL", 2, 2, _coalesce, merged, 1.0),
    Function("NULLIF", 2, 2, _null_if, lambda infos: infos[0], 1.0),
]  # fmt: skip
