"""Arithmetic and comparisons, value by value; values of one row broadcast as in NumPy."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
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
    as_ragged,
    bits,
    by_row,
    either,
)
from lakebed.query.values.exact import compared, may_round

Operation = Callable[[Any, Any], Any]


def _ordering(function: Operation) -> Operation:
    """Return a comparison of numbers that does not round; booleans are 0 and 1."""

    def operation(a: Any, b: Any) -> Any:
        a, b = (
            side.view(np.uint8) if isinstance(side, np.ndarray) and side.dtype == np.bool_ else side
            for side in (a, b)
        )
        return compared(function, a, b) if may_round(a, b) else function(a, b)

    return operation


_ORDERINGS: dict[str, Operation] = {
    "=": _ordering(operator.eq),
    "!=": _ordering(operator.ne),
    "<": _ordering(operator.lt),
    "<=": _ordering(operator.le),
    ">": _ordering(operator.gt),
    ">=": _ordering(operator.ge),
}

_OF_TEXT: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison -> the equivalent comparison with the sides exchanged."""


# -- arithmetic ------------------------------------------------------------------------------------------------------


def arithmetic(sign: str, left: Column, right: Column) -> Column:
    """Compute ``left sign right``.

    Raises
    ------
    QueryError
        If shapes do not broadcast, an operand is not a number, or an integer is divided by zero.
    """
    if sign == "%" and isinstance(right, Numbers) and right.missing is not None:
        mask = right.missing.reshape(-1, *(1,) * (right.values.ndim - 1))
        right = Numbers(np.where(mask, 1, right.values).astype(right.values.dtype), right.missing)
    return _combined(left, right, _ARITHMETIC[sign], sign)


def wide(function: np.ufunc) -> Operation:
    """Return an operation on numbers in which literals have 64 bits and booleans are numbers."""

    def operation(a: Any, b: Any) -> Any:
        a, b = _number(a), _number(b)
        dtype = np.result_type(a.dtype, b.dtype)
        return function(a, b, dtype=np.int64 if dtype == np.bool_ else dtype)

    return operation


def _exact(function: np.ufunc) -> Operation:
    """Return the operation that adds, subtracts or multiplies; integers give an exact result or an error."""

    def operation(a: Any, b: Any) -> Any:
        a, b = _number(a), _number(b)
        if a.dtype.kind in "biu" and b.dtype.kind in "biu":
            return integers.computed(function, a, b)
        return function(a, b, dtype=np.result_type(a.dtype, b.dtype))

    return operation


def _divide(a: Any, b: Any) -> Any:
    return np.true_divide(np.asarray(a, np.float64), np.asarray(b, np.float64))


def _modulo(a: Any, b: Any) -> Any:
    a, b = _number(a), _number(b)
    if a.dtype.kind not in "biu" or b.dtype.kind not in "biu":
        return wide(np.mod)(a, b)
    if np.any(np.equal(b, 0)):
        raise QueryError("division of an integer by zero with %", kind="runtime")
    return integers.remainder(a, b)


def _power(a: Any, b: Any) -> Any:
    return np.power(np.asarray(a, np.float64), np.asarray(b, np.float64))


_ARITHMETIC: dict[str, Operation] = {
    "+": _exact(np.add),
    "-": _exact(np.subtract),
    "*": _exact(np.multiply),
    "/": _divide,
    "%": _modulo,
    "^": _power,
}


def _number(value: Any) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        if array.dtype == object and array.size and all(isinstance(item, int) for item in array.flat):
            raise QueryError("a number has more than 64 bits", kind="type")
        raise QueryError("arithmetic needs numbers", kind="type")
    return array


def negative(column: Column) -> Column:
    """Compute ``-column``; integers become int64."""

    def negated(values: NDArray[Any]) -> NDArray[Any]:
        values = _number(values)
        return integers.negated(values) if values.dtype.kind in "biu" else np.asarray(np.negative(values))

    return mapped(column, negated, "-")


def mapped(column: Column, function: Callable[[Any], Any], name: str) -> Column:
    """Apply a function that keeps shapes to all values."""
    with np.errstate(all="ignore"):
        if isinstance(column, Numbers):
            return Numbers(function(column.values), column.missing)
        if isinstance(column, Ragged):
            return Ragged(function(column.flat), column.shapes, column.missing)
        if isinstance(column, Constant) and not isinstance(column.value, str | list | dict):
            return Constant(
                None if column.value is None else function(np.asarray(column.value)), column.count
            )
        if isinstance(column, Objects):
            return by_row(
                len(column), lambda v: _on_documents(lambda a, _: function(a), v, 0), [column], name
            )
    raise QueryError(f"{name} needs numbers, not text", kind="type")


# -- comparisons -----------------------------------------------------------------------------------------------------


def compare(sign: str, left: Column, right: Column) -> Column:
    """Compute ``left sign right``; values of different shape or kind are unequal, missing ones compare as false."""
    if isinstance(left, Numbers) and isinstance(right, Constant) and isinstance(right.value, int | float):
        with np.errstate(all="ignore"):
            return Numbers(np.asarray(_ORDERINGS[sign](left.values, right.value)), left.missing)
    if isinstance(left, Constant) and not isinstance(right, Constant):
        return compare(MIRRORED[sign], right, left)
    if isinstance(left, Texts) and (isinstance(right, Texts) or _is_text(right)):
        return Numbers(_texts(sign, left, right))
    if isinstance(left, Objects | Texts) or isinstance(right, Objects | Texts) or _is_document(left, right):
        return by_row(len(left), lambda a, b: documents(sign, a, b), [left, right], sign)
    operation = _ORDERINGS[sign]

    def checked(a: Any, b: Any) -> Any:
        try:
            return operation(a, b)
        except ValueError:
            return np.zeros((), np.bool_)

    return _combined(left, right, operation, sign, checked)


def _is_text(column: Column) -> bool:
    return isinstance(column, Constant) and isinstance(column.value, str)


def _is_document(*columns: Column) -> bool:
    return any(isinstance(c, Constant) and isinstance(c.value, str | dict | list | None) for c in columns)


def _texts(sign: str, left: Texts, right: Column) -> NDArray[np.bool_]:
    """Compare texts; missing ones compare as false."""
    if isinstance(right, Constant):
        second = pa.scalar(right.value, pa.string())
    else:
        second = right.array if isinstance(right, Texts) else None
    found = _OF_TEXT[sign](left.array, second)
    return bits(found.fill_null(False) if found.null_count else found)


def documents(sign: str, left: Any, right: Any) -> Any:
    """Compare two JSON values: lists value by value, values of different kinds as unequal, null as false."""
    left, right = (_document(side) if isinstance(side, np.ndarray) else side for side in (left, right))
    if left is None or right is None:
        return False
    if isinstance(left, list) and not isinstance(right, list):
        return _told([_NOTHING if _is_empty(item) else documents(sign, item, right) for item in left])
    if isinstance(right, list) and not isinstance(left, list):
        return _told([_NOTHING if _is_empty(item) else documents(sign, left, item) for item in right])
    if isinstance(left, list) and isinstance(right, list):
        if len(left) != len(right):
            return sign == "!="
        pairs = zip(left, right, strict=True)
        return np.array([bool(np.all(documents(sign, a, b))) for a, b in pairs], np.bool_)
    if any(isinstance(left, kind) != isinstance(right, kind) for kind in (str, dict)):
        return sign == "!="
    if isinstance(left, dict):
        return left == right if sign == "=" else left != right and sign == "!="
    return _ORDERINGS[sign](left, right)


_NOTHING = np.empty(0, np.bool_)


def _is_empty(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size == 0


def _told(found: list[Any]) -> Any:
    """Return the comparisons of the items of a list: one array, or a list of arrays if items are lists or arrays."""
    if all(isinstance(item, bool | np.bool_) for item in found):
        return np.array(found, np.bool_)
    return [np.atleast_1d(np.asarray(item)) if not isinstance(item, list) else item for item in found]


def _document(array: NDArray[Any]) -> Any:
    if array.size == 0:
        return None
    return array.reshape(()).item() if array.size == 1 else array.tolist()


# -- two operands ----------------------------------------------------------------------------------------------------


def _combined(
    left: Column, right: Column, fast: Operation, name: str, careful: Operation | None = None
) -> Column:
    """Apply an operation of arrays to the values of each row.

    Parameters
    ----------
    fast
        The operation on arrays whose shapes broadcast.
    careful
        The operation on a single row; None if it is the same.
    """
    count = len(left)
    slow = careful or fast
    if isinstance(left, Texts) or isinstance(right, Texts):
        raise QueryError(f"{name} needs numbers, not text", kind="type")
    with np.errstate(all="ignore"):
        if isinstance(left, Constant) and isinstance(right, Constant):
            if left.value is None or right.value is None:
                return Constant(None, count)
            return Constant(np.asarray(slow(left.value, right.value)), count)
        if isinstance(left, Objects) or isinstance(right, Objects):
            return by_row(count, lambda a, b: _on_documents(slow, a, b), [left, right], name)
        if any(isinstance(side, Constant) and side.value is None for side in (left, right)):
            return Objects([None] * count)
        found = _even(left, right, fast)
        if found is None:
            found = _uneven(left, right, fast)
        return by_row(count, slow, [left, right], name) if found is None else found


def _on_documents(operation: Operation, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if is_group(left) and is_group(right):
        if len(left) != len(right):
            raise QueryError(
                f"groups of {len(left)} and {len(right)} samples cannot be combined", kind="shape"
            )
        return [operation(_number(a), _number(b)) for a, b in zip(left, right, strict=True)]
    if is_group(left):
        pairs = zip(left, _of_members(right, left), strict=True)
        return [operation(_number(item), _number(other)) for item, other in pairs]
    if is_group(right):
        pairs = zip(_of_members(left, right), right, strict=True)
        return [operation(_number(other), _number(item)) for other, item in pairs]
    return operation(_number(left), _number(right))


def _of_members(value: Any, group: list[NDArray[Any]]) -> Iterable[Any]:
    """Return the operand of each sample of a group: an array with one more axis than the samples has one for each.

    Raises
    ------
    QueryError
        If the array has neither one item nor as many as the group.
    """
    if np.ndim(value) <= max(sample.ndim for sample in group):
        return itertools.repeat(value, len(group))
    if len(value) not in (1, len(group)):
        raise QueryError(f"groups of {len(group)} and {len(value)} samples cannot be combined", kind="shape")
    return value if len(value) == len(group) else itertools.repeat(value[0], len(group))


def is_group(value: Any) -> bool:
    """Return whether a value is a list of arrays: the samples of a group."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, np.ndarray) for item in value)


def _even(left: Column, right: Column, operation: Operation) -> Column | None:
    """Compute with arrays of one shape and constants; None for other columns, or shapes that do not broadcast."""
    if isinstance(left, Ragged) or isinstance(right, Ragged):
        return None
    first, second = _aligned(left, right)
    try:
        np.broadcast_shapes(np.shape(first), np.shape(second))
    except ValueError:
        return None
    missing = either(left.missing, right.missing)
    try:
        return Numbers(np.asarray(operation(first, second)), missing)
    except QueryError:
        if missing is None:
            raise
    # The placeholders of missing values caused the error, for example a division by zero: compute without these rows.
    kept = np.flatnonzero(~missing)
    sides = [side[kept] if isinstance(of, Numbers) else side for side, of in ((first, left), (second, right))]
    found = np.asarray(operation(*sides))
    values = np.zeros((len(missing), *found.shape[1:]), found.dtype)
    values[kept] = found
    return Numbers(values, missing)


def _aligned(left: Column, right: Column) -> tuple[Any, Any]:
    """Return operands of equal rank, so that NumPy broadcasts along axes of samples, not along rows."""
    rank = max(_rank(left), _rank(right))
    return _of_rank(left, rank), _of_rank(right, rank)


def _rank(column: Column) -> int:
    if isinstance(column, Numbers):
        return column.values.ndim - 1
    return np.ndim(column.value) if isinstance(column, Constant) else 0


def _of_rank(column: Column, rank: int) -> Any:
    if not isinstance(column, Numbers):
        return column.value if isinstance(column, Constant) else None
    values = column.values
    lacking = rank - (values.ndim - 1)
    return values.reshape(len(values), *(1,) * lacking, *values.shape[1:]) if lacking else values


def _uneven(left: Column, right: Column, operation: Operation) -> Column | None:
    """Compute with ragged samples and a constant number, a number per row, or samples of the same shapes.

    The other operand may also be a constant vector that is as long as the last axis of all samples; for all other
    operands return None.
    """
    if isinstance(right, Ragged) and not isinstance(left, Ragged):
        return _uneven(right, left, lambda a, b: operation(b, a))
    if not isinstance(left, Ragged):
        return None
    missing = either(left.missing, right.missing)
    if isinstance(right, Constant):
        value = np.asarray(right.value)
        if value.ndim == 0:
            return Ragged(operation(left.flat, right.value), left.shapes, missing, left.offsets)
        if value.ndim == 1 and left.shapes.shape[1] > 1 and bool(np.all(left.shapes[:, -1] == len(value))):
            found = operation(left.flat.reshape(-1, len(value)), value)
            return Ragged(found.reshape(-1), left.shapes, missing, left.offsets)
        return None
    if (
        isinstance(right, Numbers)
        and right.values[:1].size == 1
        and right.values.ndim - 1 <= left.shapes.shape[1]
    ):
        repeated = np.repeat(right.values.reshape(-1), left.sizes)
        shapes, flat = left.shapes, operation(left.flat, repeated)
        if right.missing is not None:
            kept = ~np.repeat(right.missing, left.sizes)
            flat, shapes = flat[kept], np.where(right.missing[:, None], 0, shapes)
        return Ragged(flat, shapes, missing)
    if isinstance(right, Numbers | Ragged):
        other = as_ragged(right)
        if np.array_equal(left.shapes, other.shapes):
            return Ragged(operation(left.flat, other.flat), left.shapes, missing, left.offsets)
    return None


def on_numbers(left: Column, right: Column, function: Operation, name: str) -> Column:
    """Apply a function of two arrays to the values of each row.

    Raises
    ------
    QueryError
        If shapes do not broadcast, or an operand is text.
    """
    return _combined(left, right, function, name)
