"""Verbs that put rows together: one behind the other, side by side, in groups; all of them queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    """

    def __init__(self, rows: Any, by: Sequence[str]) -> None:
        self._rows = rows
        self._by = list(by)

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
        for column, given in (columns or {}).items():
            for how in [given] if isinstance(given, str) else given:
                wanted[column if isinstance(given, str) else f"{column}_{how}"] = (column, how)
        for name, told in named.items():
            wanted[name] = ("", told) if isinstance(told, str) else (told[0], told[1])
        parts = list(map(quoted, self._by))
        for name, (column, how) in wanted.items():
            if how not in _REDUCTIONS or (not column and how != "size"):
                raise InvalidInputError(
                    f"{name!r} is no reduction of a column, {how!r}: write (column, {'|'.join(_REDUCTIONS)})"
                )
            parts.append(f"{_REDUCTIONS[how].format(quoted(column) if column else '')} AS {quoted(name)}")
        keys = ", ".join(map(quoted, self._by))
        return self._rows.query(f"SELECT {', '.join(parts)} GROUP BY {keys} ORDER BY {keys}")

    def size(self) -> Any:
        """Count the rows of each group, in the column ``count``."""
        return self.agg(count="size")

    count = size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in _REDUCTIONS:
            raise AttributeError(
                f"groups have no {name!r}: agg({{column: reduction}}), size() or one of {', '.join(_REDUCTIONS)}"
            )

        def reduce(columns: str | Sequence[str]) -> Any:
            return self.agg(dict.fromkeys([columns] if isinstance(columns, str) else columns, name))

        return reduce

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
