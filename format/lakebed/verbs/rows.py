"""Verbs of datasets and results that describe and choose rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import CO_VARKEYWORDS, isfunction
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lakebed import random
from lakebed.errors import InvalidInputError
from lakebed.errors.root import strict
from lakebed.runtime.printable import aligned, printable, shortened
from lakebed.verbs.condition import listed, quoted
from lakebed.verbs.output import Owner
from lakebed.verbs.together import Groups, codes
from lakebed.verbs.values import ColumnVerbs, is_file, reduced

if TYPE_CHECKING:
    import pyarrow as pa


_JOINS = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "outer": "FULL JOIN", "full": "FULL JOIN",
    "cross": "CROSS JOIN",
}  # fmt: skip


class Split(NamedTuple):
    """The result of ``train_test_split``: ``train, test = ...``, or ``split["train"]``."""

    train: Any
    test: Any

    def __getitem__(self, item: Any) -> Any:
        return self._asdict()[item] if isinstance(item, str) else tuple.__getitem__(self, item)

    def keys(self) -> list[str]:
        """Return the names of the parts."""
        return ["train", "test"]

    def items(self) -> list[tuple[str, Any]]:
        """Return names and parts."""
        return list(self._asdict().items())


class RowVerbs(Owner):
    """Verbs that describe and choose rows; a choice is a view, or a result if columns are computed."""

    # -- description -------------------------------------------------------------------------------------------------

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.tensors)

    columns = column_names

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.tensors)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self)

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self.tensors)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.tensors)

    @property
    def dtypes(self) -> dict[str, Any]:
        """Dtype of each column: {name: dtype}."""
        return {name: column.dtype for name, column in self.tensors.items()}

    def head(self, n: int = 5) -> Self:
        """Return the first rows.

        Parameters
        ----------
        n
            Number of rows; a negative number leaves out that many rows at the end.
        """
        return self[:n]  # type: ignore[no-any-return]

    limit = head

    def tail(self, n: int = 5) -> Self:
        """Return the last rows.

        Parameters
        ----------
        n
            Number of rows; a negative number leaves out that many rows at the beginning.
        """
        return self[max(len(self) - n, 0) if n >= 0 else -n :]  # type: ignore[no-any-return]

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types of the columns, with the htype of each in its metadata."""
        found = _types(_as_rows(self))
        for at, (name, column) in enumerate(self.tensors.items()):
            found = found.set(at, found.field(name).with_metadata({"htype": str(column.htype)}))
        return found

    features = schema

    @property
    def is_empty(self) -> bool:
        """True if no rows exist or are selected."""
        return len(self) == 0

    def unique(self, name: str) -> list[Any]:
        """Return the different values of a column, in the order of their first rows.

        Parameters
        ----------
        name
            Name of the column.
        """
        return ColumnVerbs.unique(self[name])

    def describe(self) -> Description:
        """Describe each column: its type, rows and nulls, and the minimum, maximum and mean of its values.

        Returns
        -------
        {column: {fact: value}}, which prints as a table. Values of media and of long arrays are not read.
        """
        rows = _as_rows(self)
        types = _types(rows)
        return Description({name: _described(rows[name], types.field(name).type) for name in self.tensors})

    # -- choice of rows ----------------------------------------------------------------------------------------------

    def select(self, rows: Any) -> Self:
        """Choose rows by their numbers, or columns by their names.

        Parameters
        ----------
        rows
            Numbers, a range, a slice, a mask of bools; or names.

        Returns
        -------
        A view.
        """
        return self[rows if isinstance(rows, np.ndarray | slice | range) else list(rows)]  # type: ignore[no-any-return]

    def sort(self, by: str | Sequence[str], descending: bool | Sequence[bool] = False) -> Self:
        """Order the rows by columns; missing values come last.

        Parameters
        ----------
        by
            One column, or several, the first one first.
        descending
            Largest first: for all columns, or one value for each.

        Returns
        -------
        A view of the rows.
        """
        given: Any = by
        if callable(given) or hasattr(given, "to_arrow"):
            raise InvalidInputError(
                "sort takes names of columns, ds.sort('age'); to sort by a function, use sorted(ds, key=...)"
            )
        names = listed(by)
        flags = [descending] * len(names) if isinstance(descending, bool) else list(descending)
        if len(flags) != len(names) or not names:
            raise InvalidInputError(f"descending has {len(flags)} values for {len(names)} columns")
        keys = ", ".join(quoted(name) + " DESC" * flag for name, flag in zip(names, flags, strict=True))
        return self.query(f"SELECT * ORDER BY {keys}")  # type: ignore[no-any-return]

    def sort_values(self, by: str | Sequence[str], *, ascending: bool | Sequence[bool] = True) -> Self:
        """Order the rows by columns, as the method of pandas with this name does; missing values come last.

        Parameters
        ----------
        by
            One column, or several, the first one first.
        ascending
            Smallest first: for all columns, or one value for each.

        Returns
        -------
        A view of the rows; see :meth:`sort`.
        """
        flags = not ascending if isinstance(ascending, bool) else [not flag for flag in ascending]
        return RowVerbs.sort(self, by, flags)

    def where(self, condition: Any) -> Self:
        """Choose rows, as ``ds.filter`` does: ``ds.where("age > 3")``.

        Parameters
        ----------
        condition
            An expression, a condition, or a function of a row.

        Returns
        -------
        A view of the rows.
        """
        return self.filter(condition)  # type: ignore[no-any-return]

    def take(self, rows: int | Sequence[int]) -> Self:
        """Return the first ``rows`` rows; or, if ``rows`` is a list of numbers, the rows with these numbers.

        Parameters
        ----------
        rows
            Number of rows, or row numbers.
        """
        return self[:rows] if isinstance(rows, int) else RowVerbs.select(self, rows)

    def skip(self, n: int) -> Self:
        """Return the rows without the first ones.

        Parameters
        ----------
        n
            Number of rows to leave out.
        """
        return self[n:]  # type: ignore[no-any-return]

    def shuffle(self, seed: int | None = None) -> Self:
        """Return the rows in random order.

        Parameters
        ----------
        seed
            Seed of the order; None for that of ``lakebed.random.seed``, or a random one.
        """
        return self[_chance(seed).permutation(len(self))]  # type: ignore[no-any-return]

    def sample(
        self,
        n: int | None = None,
        *,
        frac: float | None = None,
        replace: bool = False,
        seed: int | None = None,
    ) -> Self:
        """Draw rows; ``sample_by`` draws by weights.

        Parameters
        ----------
        n, frac
            Number of rows, or share of them; one row by default.
        replace
            True if a row can be drawn more than once.
        seed
            Seed of the choice; None for that of ``lakebed.random.seed``, or a random one.

        Returns
        -------
        A view of the rows, in the order in which they were drawn.

        Raises
        ------
        InvalidInputError
            If more rows are requested than exist, and ``replace`` is false.
        """
        count = round(frac * len(self)) if frac is not None else 1 if n is None else n
        if (n is not None and frac is not None) or count < 0 or (count > len(self) and not replace):
            raise InvalidInputError(
                f"sample draws n of the {len(self):,} rows, or the share frac= of them, not n={n}, frac={frac}"
            )
        return self[_chance(seed).choice(len(self), count, replace=replace)]  # type: ignore[no-any-return]

    def shard(self, num_shards: int, index: int) -> Self:
        """Return one of several consecutive parts, whose sizes differ by at most one row.

        Parameters
        ----------
        num_shards
            Number of parts.
        index
            Number of the part, from 0.

        Raises
        ------
        InvalidInputError
            If no part has this number.
        """
        if not 0 <= index < num_shards:
            raise InvalidInputError(
                f"no part {index} of {num_shards}: parts have the numbers 0 to {num_shards - 1}"
            )
        return self[len(self) * index // num_shards : len(self) * (index + 1) // num_shards]  # type: ignore[no-any-return]

    def train_test_split(
        self,
        test_size: float | None = None,
        train_size: float | None = None,
        *,
        seed: int | None = None,
        shuffle: bool = True,
        stratify: str | None = None,
        group: str | None = None,
    ) -> Split:
        """Split the rows in two: ``train, test = ds.train_test_split(0.2, seed=1)``.

        Parameters
        ----------
        test_size, train_size
            Number of rows, or a share below 1; by default, a quarter of the rows are for testing.
        seed
            Seed of the choice; None for that of ``lakebed.random.seed``, or a random one.
        shuffle
            Choose at random; otherwise the last rows are for testing.
        stratify
            Column whose values have the same shares in both parts.
        group
            Column, such as patients, whose equal values all go into the same part; sizes are then approximate.

        Returns
        -------
        The views ``train`` and ``test``: as a pair, by name and as attributes.

        Raises
        ------
        InvalidInputError
            If a part would have no rows, or options contradict each other.
        """
        count = len(self)
        tests, trains = (
            s if isinstance(s, int | None) else round(s * count) for s in (test_size, train_size)
        )
        tests = (count - trains if trains is not None else -(-count // 4)) if tests is None else tests
        trains = count - tests if trains is None else trains
        if stratify and group:
            raise InvalidInputError("pass stratify= or group=, not both")
        if tests < 1 or trains < 1 or tests + trains > count:
            raise InvalidInputError(f"{count:,} rows cannot be split into {trains:,} and {tests:,} rows")
        if (stratify or group) and not shuffle:
            raise InvalidInputError("stratify and group choose at random: omit shuffle=False")
        chance = _chance(seed)
        order = chance.permutation(count) if shuffle else np.arange(count)[::-1]
        if stratify:
            order = _evenly(codes(self, [stratify])[order], order)
        if group:
            numbers = codes(self, [group])
            order = order[np.argsort(chance.permutation(numbers.max() + 1)[numbers[order]], kind="stable")]
            ends = np.flatnonzero(np.diff(numbers[order], append=-1)) + 1
            tests = int(ends[np.abs(ends - tests).argmin()])
            trains = min(trains, count - tests)
            if not trains:
                raise InvalidInputError(
                    f"one value of {group} has nearly all rows: no rows are left for training"
                )
        test, train = order[:tests], order[tests : tests + trains]
        return Split(self[train if shuffle else np.sort(train)], self[test if shuffle else np.sort(test)])

    def drop_duplicates(self, by: str | Sequence[str] | None = None) -> Self:
        """Return the rows without duplicates of earlier rows; rows are compared by the named columns, or by all.

        Parameters
        ----------
        by
            One column, or several; None for all.
        """
        names = list(self.tensors) if by is None else listed(by)
        return self[np.sort(np.unique(codes(self, names), return_index=True)[1])]  # type: ignore[no-any-return]

    def dropna(self, by: str | Sequence[str] | None = None) -> Self:
        """Return the rows without missing values in the named columns, or in any column.

        Parameters
        ----------
        by
            One column, or several; None for all.
        """
        names = list(self.tensors) if by is None else listed(by)
        return self.query("SELECT * WHERE " + " AND ".join(f"{quoted(n)} IS NOT NULL" for n in names))  # type: ignore[no-any-return]

    # -- with others -------------------------------------------------------------------------------------------------

    def join(
        self, other: Any, on: str | Sequence[str] | Mapping[str, str] | None = None, how: str = "inner"
    ) -> Any:
        """Pair the rows with the rows of another dataset or result that have the same values.

        Parameters
        ----------
        other
            The other rows. A column of theirs that is not a key is called ``name_right`` in the result if a column here
            has the same name.
        on
            Key columns of both, or ``{mine: theirs}`` if their names differ; None takes all columns of the same name.
        how
            ``inner``, ``left``, ``right``, ``outer`` or ``cross``.

        Returns
        -------
        A result.

        Raises
        ------
        InvalidInputError
            If the two share no column, or `how` is unknown.
        """
        if not hasattr(other, "tensors"):
            raise InvalidInputError(
                f"rows can be joined with rows of a dataset or a result, not of {type(other).__name__}: "
                "lakebed.from_pandas(frame) makes a dataset of a frame"
            )
        mine, its = self.tensors, other.tensors
        if on is None:
            on = [name for name in mine if name in its]
        keys = dict(on) if isinstance(on, Mapping) else {name: name for name in listed(on)}
        if how not in _JOINS or (not keys and how != "cross"):
            told = f"how is one of {', '.join(_JOINS)}" if keys else "the two sides share no column: pass on="
            raise InvalidInputError(f"join: {told}")
        ours = {name: f"l.{quoted(name)}" for name in mine}
        if how in ("right", "outer", "full"):
            ours |= {a: f"COALESCE(l.{quoted(a)}, r.{quoted(b)})" for a, b in keys.items()}
        columns = [f"{value} AS {quoted(name)}" for name, value in ours.items()]
        theirs = {
            name: f"{name}_right" if name in mine else name for name in its if name not in keys.values()
        }
        columns += [f"r.{quoted(name)} AS {quoted(shown)}" for name, shown in theirs.items()]
        meets = " AND ".join(f"l.{quoted(a)} = r.{quoted(b)}" for a, b in keys.items())
        source = f'"left" AS l {_JOINS[how]} "right" AS r' + f" ON {meets}" * (how != "cross")
        text = f"SELECT {', '.join(columns)} FROM {source}"  # noqa: S608 - of our own language
        return self.query(text, named={"left": self, "right": other})

    def groupby(self, by: str | Sequence[str]) -> Groups:
        """Group the rows by the values of columns: ``ds.groupby("kind").agg({"age": "mean"})``.

        Parameters
        ----------
        by
            One column, or several.

        Returns
        -------
        Groups, which can be reduced to a row each, or iterated over.
        """
        return Groups(self, by)

    group_by = groupby


def _as_rows(rows: Any) -> Any:
    """Return a single row as a view of one row, whose subscripts select rows; return other rows unchanged."""
    return rows.query("SELECT *") if not hasattr(rows, "relation") and rows.index.is_single else rows


def _types(rows: Any) -> pa.Schema:
    """Return the Arrow types of the columns; the types of a result are those of its first rows."""
    return rows[: 100 if hasattr(rows, "relation") else 0].to_arrow().schema


class Description(dict[str, dict[str, Any]]):
    """The result of ``describe`` by column, which prints as a table."""

    def __repr__(self) -> str:
        facts = list(dict.fromkeys(fact for told in self.values() for fact in told))
        lines = [[name, *(_short(told.get(fact)) for fact in facts)] for name, told in self.items()]
        return printable("\n".join(aligned([["", *facts], *lines])), lines=True)


def _short(value: Any) -> str:
    return shortened("" if value is None else f"{value:.6g}" if isinstance(value, float) else value)


def _described(column: Any, kind: pa.DataType) -> dict[str, Any]:
    import pyarrow as pa

    from lakebed.htypes.arrow import is_text

    told = {"htype": column.htype, "dtype": str(column.dtype)}
    told |= {"rows": len(column), "nulls": column.isna().sum()}
    if pa.types.is_dictionary(kind):
        counts = ColumnVerbs.value_counts(column)
        return {**told, "different": len(counts), "most": next(iter(counts), None)}
    if pa.types.is_nested(kind) or is_file(kind):
        return {**told, "shape": getattr(column, "shape", (None,))[1:]}
    found = column.to_arrow()  # read the column once for all facts, because it may be remote
    facts = ("min", "max") if is_text(kind) else ("min", "max", "mean")
    return {**told, **{fact: reduced(found, fact) for fact in facts}}


def _chance(seed: int | None) -> np.random.Generator:
    return np.random.default_rng(random.get_seed() if seed is None else seed)


def _evenly(labels: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return rows in an order in which the first n rows, for any n, have about the same shares of labels."""
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return order[np.argsort(place, kind="stable")]


def verb(owner: Any, verbs: type, name: str) -> Any:
    """Return a verb of a class, bound to its owner; None if the class has no such verb."""
    found = None if name.startswith("_") else getattr(verbs, name, None)
    if isfunction(found) and not found.__code__.co_flags & CO_VARKEYWORDS:
        found = strict(found)
    return None if found is None else found.__get__(owner, type(owner))
