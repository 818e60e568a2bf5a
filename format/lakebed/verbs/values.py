"""Verbs of one column: its values, reductions, and conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.documents.json_style import decode_custom, load
from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import VALUES, Compared, Condition, Value

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import DTypeLike, NDArray


def _reduction(name: str) -> Callable[..., Any]:
    """Return the method that reduces all values of a column; with an axis, it calls NumPy's function on the array."""

    def reduction(self: Any, axis: Any = None, **given: Any) -> Any:
        of_numpy = getattr(np, name)
        # Called as np.mean(tensor, axis=0).
        if axis is not None or any(value is not None for value in given.values()):
            return of_numpy(self.numpy(), axis=axis, **given)
        # np.max(tensor) calls this method, too, and passes `out`. As in 3.x it then uses class labels as numbers, and
        # returns a scalar of NumPy.
        is_numpy = "out" in given
        values = self.to_arrow(labels="numbers" if is_numpy else "names")
        found = _of_arrays(_arrays(self), name) if is_file(values.type) else reduced(values, name)
        if is_numpy:
            wanted = self.dtype if isinstance(found, np.floating) and self.dtype.kind == "f" else None
            return of_numpy(self.numpy()) if found is None else np.asarray(found, wanted)[()]
        if isinstance(found, np.datetime64 | np.timedelta64):
            return _time_of(found, flattened(values).type)
        return found.item() if isinstance(found, np.generic) else found

    reduction.__name__ = name
    reduction.__doc__ = f"""Return the {name}.

        Parameters
        ----------
        axis
            None for all values that are not missing; an axis of the array as in NumPy.
        given
            Other arguments of NumPy's function.
        """
    return reduction


class ColumnVerbs(Compared):
    """Verbs of a tensor or a result's column; labels are compared by name, arrays by element, nulls are ignored."""

    # -- values ------------------------------------------------------------------------------------------------------

    def unique(self: Any) -> list[Any]:
        """Return the different values, in the order of their first rows."""
        return flattened(self.to_arrow()).unique().drop_null().to_pylist()  # type: ignore[no-any-return]

    def nunique(self) -> int:
        """Return the number of different values."""
        return len(ColumnVerbs.unique(self))

    def value_counts(self: Any) -> dict[Any, int]:
        """Return the frequency of each value: {value: count}, the most frequent first."""
        names = getattr(self.info, "class_names", None) if self.htype == "class_label" else None
        if names:
            numbers = flattened(self.to_arrow(labels="numbers")).drop_null()
            counts = np.bincount(numbers.to_numpy())
            order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            return {names[i] if i < len(names) else i: int(counts[i]) for i in order.tolist()}
        counted = flattened(self.to_arrow()).drop_null().value_counts()
        values, counts = counted.field("values"), counted.field("counts").to_numpy()
        order = np.argsort(-counts, kind="stable")
        return dict(zip(values.take(order).to_pylist(), counts[order].tolist(), strict=True))

    def tolist(self: Any) -> Any:
        """Return the values as Python values, None for missing ones."""
        found = self.to_arrow()
        if is_file(found.type):
            values = [None if array is None else array.tolist() for array in _arrays(self)]
        else:
            values = found.to_pylist()
            if getattr(self, "base_htype", None) in ("json", "list", "tag"):
                values = _documents(values)
        return values[0] if self.is_single else values

    def to_numpy(self: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Read as an array; single numbers have the shape (rows,), and missing floats are NaN.

        Parameters
        ----------
        dtype
            Dtype of the array; None for that of the column.
        """
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        is_filled = wanted is not None and wanted.kind == "f" and hasattr(self, "null_mask")
        found: NDArray[Any] = np.asarray(self.numpy(**({"fill": np.nan} if is_filled else {})), dtype)
        return found.reshape(-1) if found.shape[1:] == (1,) and not self.is_single else found

    astype = to_numpy  # an alias; ``ds.cast_column`` changes the stored values

    # -- reductions --------------------------------------------------------------------------------------------------

    min, max, mean = _reduction("min"), _reduction("max"), _reduction("mean")
    sum, std = _reduction("sum"), _reduction("std")

    # -- conditions --------------------------------------------------------------------------------------------------

    def isna(self) -> Condition:
        """Return the condition that the value is missing."""
        return self._condition(" IS NULL")

    def notna(self) -> Condition:
        """Return the condition that the value is not missing."""
        return self._condition(" IS NOT NULL")

    isnull, notnull = isna, notna

    def isin(self, values: Iterable[Any]) -> Condition:
        """Return the condition that the value is one of the given values.

        Parameters
        ----------
        values
            Values; None stands for a missing value; labels can be names or numbers.

        Raises
        ------
        InvalidInputError
            If `values` is a single text.
        """
        if isinstance(values, str | bytes):
            raise InvalidInputError(f"isin takes several values: isin([{values!r}])")
        given = list(values)
        known = [value for value in given if value is not None]
        found = self._condition(" IN (", Value(known), ")")
        return found if len(known) == len(given) else found | ColumnVerbs.isna(self)

    def contains(self, value: Any) -> Condition:
        """Return the condition that the row's array, list or labels contain a value, or that its text contains it.

        Parameters
        ----------
        value
            A value, such as the name of a label; a text may contain wildcards, ``"c*"``.

        Raises
        ------
        InvalidInputError
            If `value` is not a single value.
        """
        column = self._condition()
        if not isinstance(value, VALUES):
            raise InvalidInputError(
                "contains takes one value: join conditions, ds['kinds'].contains('cat') | ds['kinds'].contains('dog')"
            )
        return replace(column, parts=("CONTAINS(",)).followed_by(column, ", ", Value(value), ")")

    def between(self, low: Any, high: Any) -> Condition:
        """Return the condition that the value is from ``low`` to ``high``, both included.

        Parameters
        ----------
        low, high
            Values of a type with which the column can be compared.
        """
        return self._condition(" BETWEEN ", Value(low), " AND ", Value(high))


def _documents(values: Any) -> Any:
    """Return the values of JSON texts, also of those in lists."""
    if isinstance(values, str):
        return decode_custom(load(values.encode(), "a sample"))
    return [_documents(value) for value in values] if isinstance(values, list) else values


def _time_of(found: np.datetime64 | np.timedelta64, kind: pa.DataType) -> Any:
    """Return a time as `tolist` does: with its zone, and nanoseconds as those of pandas."""
    import pyarrow as pa

    ticks = pa.array([found.astype(np.int64)])
    return ticks.cast(f"int{kind.bit_width}").cast(kind)[0].as_py()


def reduced(found: pa.ChunkedArray | pa.Array, name: str) -> Any:
    """Return the min, max, mean, sum or std of all values of a column; None if the column has no values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from lakebed.htypes.arrow import is_text

    flat = flattened(found).drop_null()
    if not len(flat):
        return 0 if name == "sum" else None
    if pa.types.is_dictionary(flat.type):
        flat = flat.cast(flat.type.value_type)
    if not is_text(flat.type):
        values = np.asarray(flat)
        try:
            if values.dtype.kind in "mM" and name == "mean":  # NumPy cannot compute the mean of dates
                return values.view(np.int64).mean().round().astype(np.int64).view(values.dtype)
            # Use Python's integers, because the sum may exceed 64 bits.
            if name == "sum" and values.dtype in (np.int64, np.uint64):
                return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
            is_wide = values.dtype.kind == "f" and name in ("sum", "mean", "std")
            return getattr(np, name)(values, **({"dtype": np.float64} if is_wide else {}))
        except TypeError as error:
            raise InvalidInputError(f"there is no {name} of {flat.type}: {error}") from error
    if name not in ("min", "max"):
        raise InvalidInputError(f"there is no {name} of texts; value_counts() and unique() describe them")
    return pc.min_max(flat)[name].as_py()


def flattened(column: pa.ChunkedArray | pa.Array) -> Any:
    """Return the values of a column; arrays are concatenated."""
    import pyarrow as pa

    while pa.types.is_nested(column.type) and not pa.types.is_struct(column.type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        column = pa.chunked_array([chunk.flatten() for chunk in chunks], column.type.value_type)
    return column


def is_file(kind: pa.DataType) -> bool:
    """Return whether a column holds files."""
    import pyarrow as pa

    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _arrays(column: Any) -> Iterator[NDArray[Any] | None]:
    """Read the samples of a column of files one by one."""
    values = column.recorded_values() if hasattr(column, "recorded_values") else column.values()
    return (None if value is None else np.asarray(value) for value in values)


def _of_arrays(arrays: Iterable[NDArray[Any] | None], name: str) -> Any:
    """Reduce arrays that are read one by one."""
    facts = [_facts(array) for array in arrays if array is not None and array.size]
    if not facts:
        return 0 if name == "sum" else None
    low, high, total, squares, count = zip(*facts, strict=True)
    mean = sum(total) / sum(count)
    spread = max(0.0, sum(squares) / sum(count) - mean**2) ** 0.5
    return {"min": min(low), "max": max(high), "sum": sum(total), "mean": mean, "std": spread}[name]


def _facts(array: NDArray[Any]) -> tuple[Any, ...]:
    total = array.sum(dtype=np.float64 if array.dtype.kind == "f" else None).item()
    return array.min(), array.max(), total, np.square(array, dtype=np.float64).sum(), array.size
