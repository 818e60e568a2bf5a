"""Verbs that combine rows: concatenation and groups; all of them are queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import listed, quoted
from lakebed.verbs.values import flattened

if TYPE_CHECKING:
    import pyarrow as pa

_REDUCTIONS = {
    "mean": "AVG({})", "avg": "AVG({})", "sum": "SUM({})", "min": "MIN({})", "max": "MAX({})",
    "median": "MEDIAN({})", "std": "STD({})", "var": "VAR({})", "count": "COUNT({})",
    "nunique": "COUNT(DISTINCT {})", "first": "{}[0]", "last": "{}[-1]", "list": "{}", "size": "COUNT(*)",
}  # fmt: skip
"""Reduction of a group -> expression of the query language."""


def concat(rows: Sequence[Any]) -> Any:
    """Concatenate datasets, views and results: ``lakebed.concat([a, b])``, or ``a + b``.

    Nothing is copied: the result reads from its parts. ``.materialize(dest)`` stores it.

    Parameters
    ----------
    rows
        At least one dataset, view or result. A column that one of them lacks has missing values in its rows.

    Returns
    -------
    A result; a view if all are views of one dataset; if only one is passed, the same object.

    Raises
    ------
    InvalidInputError
        If the list is empty.
    QueryError
        If columns of one name hold different kinds of values.

    Examples
    --------
    >>> import lakebed
    >>> a = lakebed.from_rows("mem://first-rows", [{"id": 1}, {"id": 2}])
    >>> b = lakebed.from_rows("mem://more-rows", [{"id": 3}])
    >>> lakebed.concat([a, b]).id.tolist()
    [1, 2, 3]
    """
    given = list(rows)
    if not given:
        raise InvalidInputError("concat takes at least one dataset, view or result")
    if len(given) == 1:
        return given[0]
    names = list(dict.fromkeys(name for one in given for name in one.tensors))
    parts = []
    for number, one in enumerate(given):
        there = set(one.tensors)
        columns = (quoted(name) if name in there else f"NULL AS {quoted(name)}" for name in names)
        parts.append(f'SELECT {", ".join(columns)} FROM "{number}"')  # noqa: S608 - of our own language
    return given[0].query(" UNION ALL ".join(parts), named={str(i): one for i, one in enumerate(given)})


concatenate_datasets = concat
"""Name of ``concat`` in Hugging Face ``datasets``."""


class Groups:
    """Rows grouped by the values of columns, returned by ``groupby``.

    Parameters
    ----------
    rows
        A dataset, a view or a result.
    by
        Names of the columns.
    columns
        Columns that ``mean()`` and other reductions reduce: ``groupby("kind")["age"].mean()``.

    Raises
    ------
    InvalidInputError
        If `by` is not a name.
    """

    def __init__(self, rows: Any, by: Any, columns: Sequence[str] = ()) -> None:
        self._rows, self._columns = rows, list(columns)
        self._by = listed(by) if isinstance(by, Iterable) else []
        if not self._by or not all(isinstance(name, str) for name in self._by):
            raise InvalidInputError(
                "groupby takes names of columns: store other values first, as in ds['old'] = ds['age'] > 30"
            )

    def agg(
        self, columns: Mapping[str, str | Sequence[str]] | None = None, **named: str | tuple[str, str]
    ) -> Any:
        """Reduce each group to a row, in the order of the keys.

        Parameters
        ----------
        columns
            {column: reduction}, or several reductions, whose results are called ``column_reduction``: ``mean``,
            ``sum``, ``min``, ``max``, ``median``, ``std``, ``var``, ``count`` (values), ``nunique``, ``first``
            and ``last`` (row, also if its value is missing), ``list``, ``size`` (rows).
        named
            ``name=(column, reduction)``; ``name="size"`` counts rows.

        Returns
        -------
        A result with the keys and a column for each reduction.

        Raises
        ------
        InvalidInputError
            If a reduction is unknown.
        """
        if not isinstance(columns, Mapping | None):
            raise InvalidInputError(f"agg takes {{column: reduction}}, as {{'age': 'mean'}}, not {columns!r}")
        wanted: dict[str, tuple[str, Any]] = {}
        for column, given in (columns or {}).items():
            if isinstance(given, str) or callable(given):
                wanted[column] = column, given
            else:
                wanted |= {f"{column}_{how}": (column, how) for how in given}
        wanted |= {name: ("", given) if isinstance(given, str) else given for name, given in named.items()}
        parts = list(map(quoted, self._by))
        parts += [f"{self._reduction(name, *given)} AS {quoted(name)}" for name, given in wanted.items()]
        keys = ", ".join(map(quoted, self._by))
        return self._rows.query(f"SELECT {', '.join(parts)} GROUP BY {keys} ORDER BY {keys}")

    def _reduction(self, name: str, column: str, how: Any) -> str:
        """Return the expression of a reduction of a column."""
        if not isinstance(how, str) or how not in _REDUCTIONS or (not column and how != "size"):
            raise InvalidInputError(
                f"{name!r} is not a reduction of a column, {how!r}: write (column, {'|'.join(_REDUCTIONS)}); a "
                "function is called with each group by: for key, rows in ds.groupby(...)"
            )
        said = _REDUCTIONS[how].format(quoted(column) if column else "")
        if column in self._rows and how in ("mean", "avg", "median", "sum", "std", "var"):
            import pyarrow as pa

            # The type of a result's column follows from its values.
            found = flattened(self._rows[column][:100].to_arrow())
            if pa.types.is_temporal(found.type):
                raise InvalidInputError(
                    f"groups have no {how} of dates and times, {column!r}: for key, rows in ds.groupby(...): "
                    f"rows[{column!r}].mean()"
                )
        return said

    def size(self) -> Any:
        """Count the rows of each group.

        Returns
        -------
        A result with the keys and the column ``count``.
        """
        return self.agg(count="size")

    count = size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _REDUCTIONS:
            raise AttributeError(
                f"groups have no {name!r}: use agg({{column: reduction}}), size() or one of {', '.join(_REDUCTIONS)}"
            )

        def reduce(columns: str | Sequence[str] = ()) -> Any:
            wanted = listed(columns) or self._columns
            if not wanted:
                raise InvalidInputError(f"name the columns: ds.groupby(...).{name}('age')")
            return self.agg(dict.fromkeys(wanted, name))

        return reduce

    def __getitem__(self, columns: str | Sequence[str]) -> Groups:
        """Choose the columns that ``mean()`` and other reductions apply to."""
        return Groups(self._rows, self._by, listed(columns))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        numbers = codes(self._rows, self._by)
        order = np.argsort(numbers, kind="stable")
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        for start, rows in zip(starts, np.split(order, starts[1:]), strict=True):
            values = [self._rows[name][int(order[start])].to_arrow().to_pylist()[0] for name in self._by]
            yield values[0] if len(values) == 1 else tuple(values), self._rows[rows]

    def __len__(self) -> int:
        return len(np.unique(codes(self._rows, self._by)))

    def __repr__(self) -> str:
        return f"Groups(by={self._by!r}): .agg({{column: 'mean'}}), .size(), or for key, view in it"


def codes(rows: Any, names: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each row, the same for rows that are equal in all columns: shape (rows,).

    Missing values equal each other, and so do NaN. Numbers are in the order of the first rows.
    """
    import pyarrow as pa

    found = np.zeros(len(rows), np.int64)
    for column in rows.to_arrow(list(names)).columns:
        values = column.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        elif pa.types.is_nested(values.type):
            values = pa.array(map(repr, values.to_pylist()), pa.string())
        numbers = _numbered(values)
        found = _numbered(pa.array(found * (numbers.max(initial=0) + 1) + numbers))
    return found


def _numbered(values: pa.Array) -> NDArray[np.int64]:
    """Number values in the order of their first rows."""
    return values.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)  # type: ignore[no-any-return]
