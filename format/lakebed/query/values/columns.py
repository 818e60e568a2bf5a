"""Columns: the values of many rows, in one of five forms.

    class      holds                                                  a missing value is
    Numbers    one array, shape (rows, *sample)                       True in `missing`
    Ragged     all samples concatenated, and the shape of each        True in `missing`
    Texts      an Arrow array of strings                              null
    Objects    a list: JSON values, lists, arrays of any rank         None
    Constant   one value for all rows                                 None

Computations treat a missing sample as an empty one; reading returns None for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.values.exact import joint
from lakebed.query.values.limits import tick

Mask = NDArray[np.bool_]
Rows = range | NDArray[np.int64]

_TICK_ROWS = 256
"""Rows computed one by one between two checks of the clock: some rows take a millisecond each."""


@dataclass(slots=True)
class Numbers:
    """Samples of one shape.

    `given` holds the values of JSON before they were converted to one dtype, if they were integers, floats or booleans
    in one column: beside texts of other rows, 1 stays 1.
    """

    values: NDArray[Any]
    missing: Mask | None = None
    given: NDArray[np.object_] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(slots=True)
class Ragged:
    """Samples of one rank: `flat` holds all values, `shapes` is int64 of shape (rows, rank)."""

    flat: NDArray[Any]
    shapes: NDArray[np.int64]
    missing: Mask | None = None
    _offsets: NDArray[np.int64] | None = field(default=None)

    def __len__(self) -> int:
        return len(self.shapes)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of values of each sample."""
        return np.diff(self.offsets)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Start of each sample in `flat`, and the end of the last one."""
        if self._offsets is None:
            self._offsets = np.zeros(len(self.shapes) + 1, np.int64)
            sizes = self.shapes[:, 0]
            for axis in range(1, self.shapes.shape[1]):
                sizes = sizes * self.shapes[:, axis]
            np.cumsum(sizes, out=self._offsets[1:])
        return self._offsets


@dataclass(slots=True)
class Texts:
    """Strings."""

    array: pa.Array

    def __len__(self) -> int:
        return len(self.array)

    @property
    def missing(self) -> Mask | None:
        """Mask that is True for null; None if no value is null."""
        return bits(self.array.is_null()) if self.array.null_count else None


@dataclass(slots=True)
class Objects:
    """Python objects."""

    items: list[Any]

    def __len__(self) -> int:
        return len(self.items)

    @property
    def missing(self) -> Mask | None:
        """Mask that is True for None; None if no value is None."""
        # Use `is`: == would compare arrays value by value.
        found = np.fromiter((item is None for item in self.items), np.bool_, len(self.items))
        return found if found.any() else None


@dataclass(slots=True)
class Constant:
    """One value that all rows share: a number, text, array, JSON value or None."""

    value: Any
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def missing(self) -> Mask | None:
        """All True if the value is None, else None."""
        return np.ones(self.count, np.bool_) if self.value is None else None


Column = Numbers | Ragged | Texts | Objects | Constant


def bits(array: Any) -> Mask:
    """Return an Arrow array of booleans, which has no nulls, as a NumPy array."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    found: Mask = array.to_numpy(zero_copy_only=False)
    return found


def strings(values: Sequence[str | None]) -> Texts:
    """Return Python strings as a column."""
    return Texts(pa.array(values, pa.string()))


# -- single rows -----------------------------------------------------------------------------------------------------


def row(column: Column, i: int) -> Any:
    """Return the value of a row, None if it is missing."""
    if isinstance(column, Constant):
        return column.value
    if isinstance(column, Objects):
        return column.items[i]
    if isinstance(column, Texts):
        return column.array[i].as_py()
    if column.missing is not None and column.missing[i]:
        return None
    if isinstance(column, Numbers):
        return np.asarray(column.values[i])
    at = column.offsets
    return column.flat[at[i] : at[i + 1]].reshape(tuple(column.shapes[i].tolist()))


def rows(column: Column) -> list[Any]:
    """Return the values of all rows, None for missing ones."""
    if isinstance(column, Constant):
        return [column.value] * column.count
    if isinstance(column, Objects):
        return column.items
    if isinstance(column, Texts):
        found: list[Any] = column.array.to_pylist()
        return found
    return [row(column, i) for i in range(len(column))]


def empty_like(column: Column) -> NDArray[Any]:
    """Return the empty sample that computations use for a missing one."""
    if isinstance(column, Ragged):
        return _empty(column.flat.dtype)
    return _empty(column.values.dtype if isinstance(column, Numbers) else np.dtype(np.float64))


@cache
def _empty(dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.empty(0, dtype)


def item_of(value: Any, number: int | np.integer[Any]) -> Any:
    """Return an item of a list, None for a missing sample of a group."""
    found = value[number]
    # A missing sample is the one cached array that `_empty` returns; a stored empty sample is another object.
    return None if isinstance(found, np.ndarray) and found is _empty(found.dtype) else found


def computed_rows(column: Column) -> list[Any]:
    """Return the values of all rows as functions take them: missing ones are empty arrays or texts."""
    if isinstance(column, Texts):
        return [text or "" for text in rows(column)]
    if isinstance(column, Numbers | Ragged) and column.missing is not None:
        empty = empty_like(column)
        return [empty if value is None else value for value in rows(column)]
    return rows(column)


# -- many rows -------------------------------------------------------------------------------------------------------


def take(column: Column, wanted: NDArray[np.int64] | Mask) -> Column:
    """Return the rows that row numbers or a mask select."""
    if wanted.dtype == np.bool_:
        wanted = np.flatnonzero(wanted)
    if isinstance(column, Constant):
        return Constant(column.value, len(wanted))
    if isinstance(column, Objects):
        return Objects([column.items[i] for i in wanted.tolist()])
    if isinstance(column, Texts):
        return Texts(
            column.array.take(pa.Array.from_buffers(pa.int64(), len(wanted), [None, pa.py_buffer(wanted)]))
        )
    missing = None if column.missing is None else column.missing[wanted]
    if isinstance(column, Numbers):
        given = None if column.given is None else column.given[wanted]
        return Numbers(np.take(column.values, wanted, axis=0), missing, given)
    starts, sizes = column.offsets[:-1][wanted], column.sizes[wanted]
    return Ragged(column.flat[spread(starts, sizes)], column.shapes[wanted], missing)


def spread(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated ranges that begin at `starts` and have `sizes` numbers."""
    total = int(sizes.sum())
    ends = np.cumsum(sizes)
    found: NDArray[np.int64] = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - sizes), sizes)
    return found


def collect(values: list[Any]) -> Column:
    """Return the column that holds Python values; None is missing."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {str}:
        return strings(values)
    if all(issubclass(kind, np.ndarray | np.generic | bool | int | float) for kind in kinds):
        found = _collected_arrays(values)
        if isinstance(found, Numbers) and len(kinds) > 1 and kinds <= {bool, int, float}:
            found.given = np.array(values, object)
        return found
    return Objects(values)


def _collected_arrays(values: list[Any]) -> Column:
    arrays = [None if value is None else np.asarray(value) for value in values]
    known = [array for array in arrays if array is not None]
    if not known or any(array.dtype.kind not in "biufc" for array in known):
        return Objects(values)
    missing = None
    if len(known) < len(arrays):
        missing = np.fromiter((array is None for array in arrays), np.bool_, len(arrays))
    dtype = joint(known)
    shape = known[0].shape
    if all(array.shape == shape for array in known):
        whole = np.zeros((len(arrays), *shape), dtype)
        for i, array in enumerate(arrays):
            if array is not None:
                whole[i] = array
        return Numbers(whole, missing)
    rank = max(1, *(array.ndim for array in known))
    known = [array.reshape(1) if array.ndim == 0 else array for array in known]
    if any(array.ndim != rank for array in known):
        if any(array.ndim != rank and array.size for array in known):
            return Objects(arrays)
        known = [array if array.ndim == rank else array.reshape((0,) * rank) for array in known]
    shapes = np.zeros((len(arrays), rank), np.int64)
    shapes[slice(None) if missing is None else ~missing] = [array.shape for array in known]
    flat = np.concatenate([array.reshape(-1) for array in known]).astype(dtype, copy=False)
    return Ragged(flat, shapes, missing)


def concatenated(parts: Sequence[Column], *, are_json: bool = False) -> Column:
    """Concatenate columns; integers and floats of JSON stay what they were if texts or lists are added later."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    texts = [part.array for part in parts if isinstance(part, Texts)]
    if len(texts) == len(parts):
        return Texts(pa.concat_arrays(texts))
    numbers = [part for part in parts if isinstance(part, Numbers)]
    if len(numbers) == len(parts) and len({part.values.shape[1:] for part in numbers}) == 1:
        found = Numbers(_concatenated_arrays([part.values for part in numbers]), _joined_masks(numbers))
        is_mixed = are_json and len({part.values.dtype for part in numbers}) > 1
        if found.values.ndim == 1 and (is_mixed or any(part.given is not None for part in numbers)):
            found.given = np.concatenate(list(map(_as_given, numbers)))
        return found
    arrays = [as_ragged(part) for part in parts if isinstance(part, Numbers | Ragged)]
    if len(arrays) == len(parts) and len({part.shapes.shape[1] for part in arrays}) == 1:
        flat = _concatenated_arrays([part.flat for part in arrays])
        return Ragged(flat, np.concatenate([part.shapes for part in arrays]), _joined_masks(arrays))
    values: list[Any] = []
    for part in parts:
        values += rows(part) if not isinstance(part, Numbers) or part.given is None else part.given.tolist()
    if any(value is not None and not isinstance(value, np.ndarray | np.generic) for value in values):
        # JSON values: numbers are those of Python beside texts and lists.
        values = [
            value.item() if isinstance(value, np.ndarray) and not value.ndim else value for value in values
        ]
    return collect(values)


def _concatenated_arrays(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    dtype = joint(arrays)
    return np.concatenate([array.astype(dtype, copy=False) for array in arrays])


def _as_given(part: Numbers) -> NDArray[np.object_]:
    if part.given is not None:
        return part.given
    found = part.values.astype(object)
    found[slice(0) if part.missing is None else part.missing] = None
    return found


def _joined_masks(parts: Sequence[Numbers] | Sequence[Ragged]) -> Mask | None:
    if all(part.missing is None for part in parts):
        return None
    return np.concatenate([np.zeros(len(p), np.bool_) if p.missing is None else p.missing for p in parts])


def as_ragged(column: Numbers | Ragged) -> Ragged:
    """Return arrays of one shape as a ragged column; scalars become arrays of one value."""
    if isinstance(column, Ragged):
        return column
    values = column.values if column.values.ndim > 1 else column.values.reshape(-1, 1)
    shapes = np.broadcast_to(np.array(values.shape[1:], np.int64), (len(values), values.ndim - 1))
    if column.missing is None:
        return Ragged(values.reshape(-1), shapes)
    kept = values[~column.missing]
    return Ragged(kept.reshape(-1), np.where(column.missing[:, None], 0, shapes), column.missing)


def in_places(parts: Sequence[Column], places: Sequence[NDArray[np.int64]]) -> Column:
    """Concatenate columns and put their rows at the given places, which are all numbers below the number of rows."""
    order = np.concatenate(places)
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return take(concatenated(parts), inverse)


def scalars(column: Column) -> tuple[NDArray[Any], Mask | None] | None:
    """Return one number per row and the mask of missing ones; None if the column holds other values."""
    if isinstance(column, Ragged):
        sizes = column.sizes
        if (sizes > 1).any():
            return None
        values = np.zeros(len(column), column.flat.dtype)
        values[sizes == 1] = column.flat
        return values, sizes == 0
    if not isinstance(column, Numbers) or (len(column) and column.values[0].size != 1):
        return None
    return column.values.reshape(-1), column.missing


def either(first: Mask | None, second: Mask | None) -> Mask | None:
    """Return the union of two masks."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def without_value(column: Column, missing: Mask) -> Column:
    """Mark more rows of a column as missing."""
    if not missing.any():
        return column
    if isinstance(column, Numbers):
        return Numbers(column.values, either(column.missing, missing))
    if isinstance(column, Constant) and missing.all():
        return Constant(None, column.count)
    return Objects(
        [None if gone else value for gone, value in zip(missing.tolist(), rows(column), strict=True)]
    )


# -- truth values ----------------------------------------------------------------------------------------------------


def truth(column: Column) -> Mask:
    """Return whether each row has at least one value and all of its values are true."""
    if isinstance(column, Constant):
        return np.full(column.count, _is_true(column.value))
    if isinstance(column, Texts | Objects):
        return np.fromiter(map(_is_true, rows(column)), np.bool_, len(column))
    if isinstance(column, Ragged):
        values = column.flat if column.flat.dtype == np.bool_ else column.flat != 0
        offsets = column.offsets
        falses = np.zeros(len(values) + 1, np.int64)
        np.cumsum(~values, out=falses[1:])
        found: Mask = (falses[offsets[1:]] == falses[offsets[:-1]]) & (offsets[1:] > offsets[:-1])
        return found
    told: Mask = column.values if column.values.dtype == np.bool_ else column.values != 0
    size = math.prod(told.shape[1:])
    if size == 1:
        told = told.reshape(-1)
    else:
        told = np.all(told.reshape(len(told), size), axis=1) if size else np.zeros(len(told), np.bool_)
    return told if column.missing is None else told & ~column.missing


def flags(column: Column) -> Column:
    """Return an operand of AND, OR and NOT: arrays unchanged, texts and constants as booleans."""
    if isinstance(column, Texts):
        return Numbers(truth(column))
    if isinstance(column, Constant) and column.value is not None and not isinstance(column.value, np.ndarray):
        return Constant(_is_true(column.value), column.count)
    return column


def _is_true(value: Any) -> bool:
    pending = [value]  # use a loop, because JSON values may be nested deeper than Python's stack allows
    while pending:
        value = pending.pop()
        if isinstance(value, list) and value:
            pending.extend(value)
        elif isinstance(value, np.ndarray):
            if not (value.size and value.all()):
                return False
        elif not value:
            return False
    return True


def by_row(
    count: int,
    function: Callable[..., Any],
    arguments: Sequence[Column],
    name: str,
    *,
    every: int = _TICK_ROWS,
) -> Column:
    """Call a function for each row, if no vectorised way is known.

    Parameters
    ----------
    every
        Number of rows between two checks of the clock.

    Raises
    ------
    QueryError
        If the function fails; the error names the row.
    """
    lists = [computed_rows(argument) for argument in arguments]
    found: list[Any] = []
    for i in range(count):
        if i % every == 0:
            tick()
        try:
            found.append(function(*[values[i] for values in lists]))
        except QueryError as error:
            error.row = i if error.row is None else error.row
            raise
        except (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, KeyError) as error:
            raise QueryError(f"{name}: {error}", kind="runtime", row=i) from error
    return collect(found)
