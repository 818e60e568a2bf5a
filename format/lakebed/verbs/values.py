"""Verbs of one column: what values it has, and what is asked of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import VALUES, Condition, Value

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import DTypeLike, NDArray


class ColumnVerbs:
    """Values of a column: of labels their names, of arrays all numbers; missing ones are left out."""

    if TYPE_CHECKING:

        @property
        def is_single(self) -> bool: ...
        def numpy(self) -> Any: ...
        def to_arrow(self, *, labels: Any = "names") -> Any: ...
        def _condition(self, *parts: str | Value | Condition) -> Condition: ...

    # -- values ------------------------------------------------------------------------------------------------------

    def unique(self) -> list[Any]:
        """Return the different values, in the order in which they come first."""
        found: list[Any] = _flat(self.to_arrow()).unique().drop_null().to_pylist()
        return found

    def nunique(self) -> int:
        """Return the number of different values."""
        return len(ColumnVerbs.unique(self))

    def value_counts(self) -> dict[Any, int]:
        """Return how often each value is there: {value: count}, the commonest first."""
        column: Any = self
        names = getattr(column.info, "class_names", None) if column.htype == "class_label" else None
        if names:
            numbers = _flat(self.to_arrow(labels="numbers")).drop_null()
            counts = np.bincount(numbers.to_numpy())
            order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
            return {names[i] if i < len(names) else i: int(counts[i]) for i in order.tolist()}
        counted = _flat(self.to_arrow()).drop_null().value_counts()
        values, counts = counted.field("values"), counted.field("counts").to_numpy()
        order = np.argsort(-counts, kind="stable")
        return dict(zip(values.take(order).to_pylist(), counts[order].tolist(), strict=True))

    def tolist(self) -> Any:
        """Return the values as Python has them, None where one is missing."""
        found = self.to_arrow()
        values = _arrays(self) if _is_file(found) else found.to_pylist()
        return values[0] if self.is_single else values

    def to_numpy(self, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Read as an array, of single numbers with the shape (rows,); missing numbers are NaN of floats.

        Parameters
        ----------
        dtype
            Dtype of the array; None for that of the column.
        """
        column: Any = self
        wanted = column.dtype if dtype is None else np.dtype(dtype)
        fill = (
            {"fill": np.nan}
            if wanted is not None and wanted.kind == "f" and hasattr(column, "null_mask")
            else {}
        )
        found: NDArray[Any] = np.asarray(column.numpy(**fill), wanted if dtype is not None else None)
        return found.reshape(-1) if found.shape[1:] == (1,) and not self.is_single else found

    def astype(self, dtype: DTypeLike) -> NDArray[Any]:
        """Read as an array of a dtype; ``ds.cast_column`` changes what is stored.

        Parameters
        ----------
        dtype
            Dtype of the array.
        """
        return ColumnVerbs.to_numpy(self, dtype)

    # -- of all values -----------------------------------------------------------------------------------------------

    def min(self, axis: Any = None, **given: Any) -> Any:
        """Return the smallest value.

        Parameters
        ----------
        axis
            None for all values, of which missing ones are left out; otherwise as NumPy does of the array.
        given
            What NumPy's function takes beside it.
        """
        return _reduced(self, "min", axis, given)

    def max(self, axis: Any = None, **given: Any) -> Any:
        """Return the largest value; see :meth:`min`."""
        return _reduced(self, "max", axis, given)

    def mean(self, axis: Any = None, **given: Any) -> Any:
        """Return the mean; see :meth:`min`."""
        return _reduced(self, "mean", axis, given)

    def sum(self, axis: Any = None, **given: Any) -> Any:
        """Return the sum; see :meth:`min`."""
        return _reduced(self, "sum", axis, given)

    def std(self, axis: Any = None, **given: Any) -> Any:
        """Return the standard deviation; see :meth:`min`."""
        return _reduced(self, "std", axis, given)

    # -- conditions --------------------------------------------------------------------------------------------------

    def isna(self) -> Condition:
        """Return the condition that the value is missing."""
        return self._condition(" IS NULL")

    isnull = isna

    def notna(self) -> Condition:
        """Return the condition that there is a value."""
        return self._condition(" IS NOT NULL")

    notnull = notna

    def isin(self, values: Iterable[Any]) -> Condition:
        """Return the condition that the value is one of some.

        Parameters
        ----------
        values
            Values, None for a missing one; of labels names or numbers.

        Raises
        ------
        InvalidInputError
            If it is one text, not several.
        """
        if isinstance(values, str | bytes):
            raise InvalidInputError(f"isin takes several values: isin([{values!r}])")
        given = list(values)
        known = [value for value in given if value is not None]
        found = self._condition(" IN (", Value(known), ")")
        return found if len(known) == len(given) else found | ColumnVerbs.isna(self)

    def contains(self, value: Any) -> Condition:
        """Return the condition that the value is among those of an array, list or several labels, or part of a text.

        Parameters
        ----------
        value
            A value, such as the name of a label, which may have wildcards, ``"c*"``.

        Raises
        ------
        InvalidInputError
            If it is no single value.
        """
        if not isinstance(value, VALUES):
            raise InvalidInputError(
                "contains takes one value: join several, ds['kinds'].contains('cat') | ds['kinds'].contains('dog')"
            )
        return self._condition().enclosed("CONTAINS(", ", ", Value(value), ")")

    def between(self, low: Any, high: Any) -> Condition:
        """Return the condition that the value is from ``low`` to ``high``, both included.

        Parameters
        ----------
        low, high
            Values, as the column is compared with.
        """
        return self._condition(" BETWEEN ", Value(low), " AND ", Value(high))


def _reduced(column: Any, name: str, axis: Any, given: dict[str, Any]) -> Any:
    """Reduce all values of a column; with an axis, as NumPy does of the array."""
    if axis is not None or any(
        value is not None for value in given.values()
    ):  # as np.mean(tensor, axis=0) asks
        return getattr(np, name)(column.numpy(), axis=axis, **given)
    # np.max(tensor) asks for this method, too. It means the array, as in 3.x: labels are numbers, scalars NumPy's.
    is_numpy = "out" in given
    as_numbers = {"labels": "numbers"} if is_numpy and column.htype == "class_label" else {}
    found = _of_all(column, column.to_arrow(**as_numbers), name)
    if is_numpy:
        return getattr(np, name)(column.numpy()) if found is None else np.asarray(found)[()]
    return found.item() if isinstance(found, np.generic) else found


def _of_all(column: Any, found: pa.ChunkedArray, name: str) -> Any:
    """Reduce all values that are there; None if there are none and it is no sum."""
    if _is_file(found):
        return _of_arrays(
            name, (np.asarray(value) for value in _arrays(column, as_lists=False) if value is not None)
        )
    return reduced(found, name)


def reduced(found: pa.ChunkedArray | pa.Array, name: str) -> Any:
    """Reduce all values of a column that was read: its min, max, mean, sum or std; None of no value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = _flat(found).drop_null()
    if not len(flat):
        return 0 if name == "sum" else None
    if pa.types.is_dictionary(flat.type):
        flat = flat.cast(flat.type.value_type)
    if not (pa.types.is_string(flat.type) or pa.types.is_large_string(flat.type)):
        values = np.asarray(flat)
        try:
            if values.dtype.kind in "mM" and name == "mean":  # of which NumPy has none
                return values.view(np.int64).mean().round().astype(np.int64).view(values.dtype)
            return getattr(np, name)(values)
        except TypeError as error:
            raise InvalidInputError(f"there is no {name} of {flat.type}: {error}") from error
    if name not in ("min", "max"):
        raise InvalidInputError(f"there is no {name} of texts; value_counts() and unique() tell of them")
    return pc.min_max(flat)[name].as_py()


def _flat(column: pa.ChunkedArray | pa.Array) -> Any:
    """Return the values of a column, those of all arrays in a row."""
    import pyarrow as pa

    nested = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    while any(is_nested(column.type) for is_nested in nested):
        column = (
            column.flatten()
            if isinstance(column, pa.Array)
            else pa.chunked_array([chunk.flatten() for chunk in column.chunks], column.type.value_type)
        )
    return column


def _is_file(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type))


def _arrays(column: Any, *, as_lists: bool = True) -> Any:
    """Return the samples of a column of files, as lists of Python or one after the other as arrays."""
    values = column.recorded_values() if hasattr(column, "recorded_values") else iter(column.values())
    return [None if value is None else np.asarray(value).tolist() for value in values] if as_lists else values


def _of_arrays(name: str, arrays: Iterable[NDArray[Any]]) -> Any:
    """Reduce arrays that are read one after the other."""
    found = [
        (
            a.min(),
            a.max(),
            a.sum(dtype=np.float64 if a.dtype.kind == "f" else None).item(),
            np.square(a, dtype=np.float64).sum(),
            a.size,
        )
        for a in arrays
        if a.size
    ]
    if not found:
        return 0 if name == "sum" else None
    low, high, total, squares, count = zip(*found, strict=True)
    mean = sum(total) / sum(count)
    spread = max(0.0, sum(squares) / sum(count) - mean**2) ** 0.5
    return {"min": min(low), "max": max(high), "sum": sum(total), "mean": mean, "std": spread}[name]
