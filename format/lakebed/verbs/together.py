"""Verbs that put rows together: one behind the other, side by side, in groups; all of them queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import quoted

_REDUCTIONS = {
    "mean": "AVG({})", "avg": "AVG({})", "sum": "SUM({})", "min": "MIN({})", "max": "MAX({})",
    "median": "MEDIAN({})", "std": "STD({})", "var": "VAR({})", "count": "COUNT({})",
    "nunique": "COUNT(DISTINCT {})", "first": "{}[0]", "last": "{}[-1]", "list": "{}", "size": "COUNT(*)",
}  # fmt: skip
"""What a group is reduced by -> how queries say it of a column."""

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "outer": "FULL JOIN",
    "full": "FULL JOIN",
}


def concat(rows: Sequence[Any]) -> Any:
    """Put datasets, views and results one behind the other: ``lakebed.concat([a, b])``, and ``a + b``.

    Nothing is copied: what comes out reads from them. ``.materialize(dest)`` stores it.

    Parameters
    ----------
    rows
        At least one. A column that one of them lacks is missing there.

    Returns
    -------
    A result; a single one as it is; a view, where all are views of one dataset.

    Raises
    ------
    InvalidInputError
        If there is nothing to put together.
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
"""As Hugging Face calls it."""


def joined(left: Any, right: Any, on: str | Sequence[str] | Mapping[str, str] | None, how: str) -> Any:
    """Pair rows that have the same values; see ``RowVerbs.join``."""
    if not hasattr(right, "tensors"):
        raise InvalidInputError(
            f"rows are joined with those of a dataset or a result, not of {type(right).__name__}: "
            "lakebed.from_pandas(frame) makes one of a frame"
        )
    mine, its = list(left.tensors), list(right.tensors)
    if on is None:
        on = [name for name in mine if name in its]
    keys = (
        {on: on}
        if isinstance(on, str)
        else dict(on)
        if isinstance(on, Mapping)
        else {name: name for name in on}
    )
    if how not in (*_JOINS, "cross") or (not keys and how != "cross"):
        told = (
            f"how is one of {', '.join(_JOINS)}, cross" if keys else "the two sides share no column: say on="
        )
        raise InvalidInputError(f"join: {told}")
    columns = []
    for name in mine:
        key = f"l.{quoted(name)}"
        if name in keys and how in ("right", "outer", "full"):
            key = f"COALESCE({key}, r.{quoted(keys[name])})"
        columns.append(f"{key} AS {quoted(name)}")
    taken = set(mine)
    for name in its:
        if keys.get(name) == name or name in keys.values():
            continue
        shown = f"{name}_right" if name in taken else name
        columns.append(f"r.{quoted(name)} AS {quoted(shown)}")
    meets = " AND ".join(f"l.{quoted(a)} = r.{quoted(b)}" for a, b in keys.items())
    source = (
        f'"left" AS l {_JOINS[how]} "right" AS r ON {meets}'
        if how != "cross"
        else '"left" AS l CROSS JOIN "right" AS r'
    )
    text = f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608 - of our own language
    return left.query(text, named={"left": left, "right": right})


class Groups:
    """Rows grouped by the values of columns: what ``groupby`` returns.

    Parameters
    ----------
    rows
        A dataset, a view or a result.
    by
        Names of the columns.
    columns
        What is reduced by ``mean()`` and its kin: ``groupby("kind")["age"].mean()``.

    Raises
    ------
    InvalidInputError
        If something else than names is given.
    """

    def __init__(self, rows: Any, by: str | Sequence[str], columns: Sequence[str] = ()) -> None:
        self._rows = rows
        given: Any = by
        self._by = [by] if isinstance(by, str) else list(given) if isinstance(given, Iterable) else []
        if not self._by or not all(isinstance(name, str) for name in self._by):
            raise InvalidInputError(
                "rows are grouped by names of columns: store what they are grouped by, as in ds['old'] = ds['age'] > 30"
            )
        self._columns = list(columns)

    def agg(
        self, columns: Mapping[str, str | Sequence[str]] | None = None, **named: str | tuple[str, str]
    ) -> Any:
        """Reduce each group to a row, in the order of the keys.

        Parameters
        ----------
        columns
            {column: reduction}, or several reductions of it, which are then called ``column_reduction``: ``mean``,
            ``sum``, ``min``, ``max``, ``median``, ``std``, ``var``, ``count`` (values), ``nunique``, ``first``,
            ``last``, ``list``, ``size`` (rows).
        named
            ``name=(column, reduction)``; ``name="size"`` counts rows.

        Returns
        -------
        A result with the keys and a column for each reduction.

        Raises
        ------
        InvalidInputError
            If there is no such reduction.
        """
        wanted: dict[str, tuple[str, str]] = {}
        asked: Any = columns or {}
        if not isinstance(asked, Mapping):
            raise InvalidInputError(
                f"agg takes {{column: reduction}}, such as {{'age': 'mean'}}, not {columns!r}"
            )
        for column, given in asked.items():
            for how in [given] if isinstance(given, str) or callable(given) else given:
                if callable(how):
                    raise InvalidInputError(
                        f"{column!r} is reduced by a name, one of {', '.join(_REDUCTIONS)}; a function is called with "
                        "each group by: for key, rows in ds.groupby(...)"
                    )
                wanted[column if isinstance(given, str) else f"{column}_{how}"] = (column, how)
        for name, told in named.items():
            wanted[name] = ("", told) if isinstance(told, str) else (told[0], told[1])
        parts = list(map(quoted, self._by))
        for name, (column, how) in wanted.items():
            if how not in _REDUCTIONS or (not column and how != "size"):
                raise InvalidInputError(
                    f"{name!r} is no reduction of a column, {how!r}: write (column, {'|'.join(_REDUCTIONS)})"
                )
            parts.append(f"{self._reduction(column, how)} AS {quoted(name)}")
        keys = ", ".join(map(quoted, self._by))
        return self._rows.query(f"SELECT {', '.join(parts)} GROUP BY {keys} ORDER BY {keys}")

    def _reduction(self, column: str, how: str) -> str:
        """Return how queries say it of this column."""
        said = _REDUCTIONS[how].format(quoted(column) if column else "")
        if column in self._rows and how in ("mean", "avg", "median", "sum", "std", "var"):
            info = self._rows[column].info
            if getattr(info, "logical", "") or getattr(info, "logical_type", ""):
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
                f"groups have no {name!r}: agg({{column: reduction}}), size() or one of {', '.join(_REDUCTIONS)}"
            )

        def reduce(columns: str | Sequence[str] = ()) -> Any:
            wanted = [columns] if isinstance(columns, str) else list(columns) or self._columns
            if not wanted:
                raise InvalidInputError(f"say of which columns: ds.groupby(...).{name}('age')")
            return self.agg(dict.fromkeys(wanted, name))

        return reduce

    def __getitem__(self, columns: str | Sequence[str]) -> Groups:
        """Say which columns ``mean()`` and its kin are of."""
        return Groups(self._rows, self._by, [columns] if isinstance(columns, str) else columns)

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

    Missing values equal each other, and so do NaN. Numbers follow from the order in which values come first.
    """
    found: NDArray[np.int64] | None = None
    table = rows.to_arrow(list(names))
    for name in names:
        column = table.column(name).combine_chunks()
        try:
            encoded = column if hasattr(column, "indices") else column.dictionary_encode()
            numbers = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        except (NotImplementedError, TypeError):  # lists and structs
            seen: dict[str, int] = {}
            numbers = np.array([seen.setdefault(repr(value), len(seen)) for value in column.to_pylist()])
        numbers = numbers.astype(np.int64)
        if found is not None:
            numbers = found * (numbers.max(initial=0) + 1) + numbers
        found = _numbered(numbers)
    return np.zeros(len(rows), np.int64) if found is None else found


def _numbered(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number values by the order in which they come first."""
    _, firsts, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    ranks = np.empty(len(firsts), np.int64)
    ranks[np.argsort(firsts, kind="stable")] = np.arange(len(firsts))
    return ranks[inverse]
