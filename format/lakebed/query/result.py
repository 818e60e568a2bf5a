"""The result of a query that computes columns: read like a dataset, each value computed when it is asked for."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.errors import (
    InvalidInputError,
    InvalidKeyTypeError,
    LakebedError,
    TensorDoesNotExistError,
)
from lakebed.errors.root import instead, strict
from lakebed.query.relations.relation import Relation
from lakebed.query.result_column import ResultColumn, picked, read_rows
from lakebed.query.values.columns import Column, Numbers, Objects, rows
from lakebed.runtime.printable import aligned, printable, shortened
from lakebed.storage.credentials import Creds, kept
from lakebed.storage.url import parse
from lakebed.verbs.condition import Compared, Condition, quoted
from lakebed.verbs.output import OutputVerbs
from lakebed.verbs.rows import RowVerbs, verb

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from PIL.Image import Image

_SHOWN = 10
_MOST_VALUES = 1000


class ResultVerbs(RowVerbs, OutputVerbs):
    """Verbs of a result, which a column of their name hides."""

    def plot(self, image: str | None = None, tensors: Sequence[str] | None = None, **options: int) -> Image:
        """Draw the rows of the dataset that these come from; see ``lakebed.show``.

        Parameters
        ----------
        options
            Those of ``lakebed.show``, by their names.

        Raises
        ------
        InvalidInputError
            If they come from several datasets, or are groups.
        """
        rows = self.sample_indices
        found: Image = self.queried.opened[0].no_view_dataset[rows]._plot(image, tensors, **options)  # noqa: SLF001
        return found


class Result(ResultVerbs if TYPE_CHECKING else object):  # type: ignore[misc]
    """Rows and computed columns of a query.

    ``result[i]`` is a row, ``result[a:b]`` and ``result[[...]]`` some of them, ``result["name"]`` and ``result.name`` a
    column. Nothing is computed before it is read; a row that cannot be computed raises when it is read.

    Parameters
    ----------
    text
        The query.
    single
        The one row that is meant; None for all.
    queried
        What it was asked of, and is asked again by: `dataset.queries.Queried`, which is above this.
    """

    def __init__(self, relation: Relation, text: str, queried: Any, single: int | None = None) -> None:
        self.relation = relation
        self.query_text = text
        self.queried = queried
        self._single = single

    # -- which rows and columns --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return 1 if self._single is not None else len(self.relation)

    def __bool__(self) -> bool:
        return True

    @property
    def names(self) -> list[str]:
        """The columns in order."""
        return self.relation.names

    @property
    def tensors(self) -> dict[str, ResultColumn]:
        """The columns by name."""
        return {name: self.column(name) for name in self.names}

    @property
    def is_view(self) -> bool:
        """Whether this is no whole dataset: always."""
        return True

    @property
    def sample_indices(self) -> list[int]:
        """Numbers of the rows in the dataset that they come from.

        Raises
        ------
        InvalidInputError
            If they come from several, as those of joins and groups do.
        """
        found = self.relation.base_rows()
        if found is None:
            raise InvalidInputError("the rows of joins and groups are no rows of one dataset")
        return [
            int(row) for row in (found if self._single is None else found[self._single : self._single + 1])
        ]

    def column(self, name: str) -> ResultColumn:
        """Return a column.

        Parameters
        ----------
        name
            Its name.

        Returns
        -------
        The column, of which nothing is read yet.

        Raises
        ------
        TensorDoesNotExistError
            If there is none of this name.
        """
        if name not in self.relation.infos:
            raise TensorDoesNotExistError(f"Column {name!r} does not exist{instead(name, self.names)}")
        return ResultColumn(self.relation, name, self._single)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            if name in self.__dict__["relation"].infos:
                return self.column(name)
            if (found := verb(self, ResultVerbs, name)) is not None:
                return found
            from lakebed.runtime.absent import explained

            if (told := explained("Result", name)) is not None:
                raise AttributeError(told)
        raise AttributeError(f"the result of the query has no column {name!r}{instead(name, self.names)}")

    def __contains__(self, name: object) -> bool:
        return name in self.relation.infos

    def __getitem__(self, item: Any) -> Any:
        """Select a column by name, a row, or some rows.

        Raises
        ------
        IndexError
            If there is no such row.
        InvalidKeyTypeError
            If the item selects nothing.
        """
        if isinstance(item, str):
            return self.column(item)
        if isinstance(item, Condition | Compared):
            return self.filter(item)
        if isinstance(item, list) and item and all(isinstance(name, str) for name in item):
            return self.query("SELECT " + ", ".join(map(quoted, item)))
        if self._single is not None:
            raise InvalidKeyTypeError("this is one row: say which column by its name")
        chosen = picked(item, len(self))
        if isinstance(chosen, int):
            return Result(self.relation, self.query_text, self.queried, chosen)
        return Result(self.relation.select(chosen), self.query_text, self.queried)

    def __add__(self, other: Any) -> Any:
        """Put the rows of another result or dataset behind these; see ``lakebed.concat``."""
        from lakebed.verbs.together import concat

        return concat([self, other]) if hasattr(other, "tensors") else NotImplemented

    def __iter__(self) -> Iterator[Result]:
        for i in range(len(self)):
            yield self[i]

    # -- asking again ------------------------------------------------------------------------------------------------

    def query(
        self,
        query_string: str,
        *,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answer a query of these rows.

        Parameters
        ----------
        query_string
            The query.
        parameters
            Values for the ``?`` in it, or for each ``$name``.
        named
            Datasets and results that FROM may name: {name: dataset}.

        Returns
        -------
        A result.

        Raises
        ------
        QueryError
            If it does not fit the data.
        """
        return self.queried.again(self, query_string, parameters, named or {})

    def filter(self, condition: str | Condition | Compared) -> Any:
        """Choose rows.

        Parameters
        ----------
        condition
            An expression, ``"n > 3"``, a condition, ``result["n"] > 3``, or a column of bools.

        Returns
        -------
        A result.

        Raises
        ------
        InvalidInputError
            If it is something else.
        """
        if isinstance(condition, str):
            return self.query(f"SELECT * WHERE {condition}")
        if not isinstance(condition, Condition | Compared):
            raise InvalidInputError(
                "a result is filtered by an expression or a condition, result['n'] > 3, not by "
                f"{type(condition).__name__}; functions are called with rows of datasets: result.materialize('mem://')"
            )
        text, parameters = condition.asked().asked_of(self.relation)
        return self.query(f"SELECT * WHERE {text}", parameters=parameters)

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return some rows, as ``torch.utils.data.DataLoader(result)`` asks for them."""
        columns = [self.column(name)[list(rows)].once() for name in self.names]
        plain = (
            [v[0] if isinstance(v, np.ndarray) and v.shape == (1,) else v for v in column]
            for column in columns
        )
        return [dict(zip(self.names, row, strict=True)) for row in zip(*plain, strict=True)]

    # -- values ------------------------------------------------------------------------------------------------------

    @strict
    def to_dict(self) -> dict[str, Any]:
        """Read one row, as ``result[i].to_dict()``, or all rows as columns.

        Returns
        -------
        {column: value}, as of a row of a dataset, None where one is missing; of several rows {column: list of values}.
        """
        if self._single is None:
            found: dict[str, Any] = self.to_arrow().to_pydict()
            return found
        return {name: self.column(name).plain() for name in self.names}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries.

        Yields
        ------
        {column: value}; None where one is missing.
        """
        for window in _windows(self):
            columns = {name: rows(read_rows(self.relation, name, window)) for name in self.names}
            for i in range(len(window)):
                yield {name: column[i] for name, column in columns.items()}

    def batches(self, batch_size: int, tensors: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries of columns, the last batch shorter.

        Parameters
        ----------
        batch_size
            Rows per batch.
        tensors
            Names of the columns to read; None reads all.

        Yields
        ------
        {name: column}: arrays of shape (rows, ...) where samples have one shape, else lists.

        Raises
        ------
        InvalidInputError
            If the size is not positive.
        """
        if batch_size < 1:
            raise InvalidInputError(f"a batch has at least one row, not {batch_size}")
        names = self.names if tensors is None else list(tensors)
        for start in range(0, len(self), batch_size):
            window = range(start, min(start + batch_size, len(self)))
            yield {name: _batch(read_rows(self.relation, self.column(name).name, window)) for name in names}

    def to_arrow(self, tensors: Sequence[str] | None = None) -> pa.Table:
        """Read the rows as a table of Arrow.

        Parameters
        ----------
        tensors
            Names of the columns to read; None reads all.

        Returns
        -------
        A table: arrays are nested lists, JSON values are text.
        """
        import pyarrow as pa

        names = self.names if tensors is None else list(tensors)
        return pa.table({name: self.column(name).to_arrow() for name in names})

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the rows as dictionaries, shape (rows,), of which ``pandas.DataFrame(result)`` makes columns."""
        from lakebed.reading.frames import array_of_rows

        return array_of_rows(self.names, self.to_arrow().to_pylist())

    def to_pandas(self, tensors: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the rows as a data frame of pandas.

        Parameters
        ----------
        tensors
            Names of the columns to read; None reads all.

        Returns
        -------
        A data frame.

        Raises
        ------
        ModuleNotInstalledException
            If pandas is not installed.
        """
        from lakebed.reading import frames

        frames.needed("pandas", "to_pandas")
        return frames.to_pandas(self.to_arrow(tensors))

    def to_polars(self, tensors: Sequence[str] | None = None) -> pl.DataFrame:
        """Read the rows as a data frame of polars.

        Parameters
        ----------
        tensors
            Names of the columns to read; None reads all.

        Returns
        -------
        A data frame.

        Raises
        ------
        ModuleNotInstalledException
            If polars is not installed.
        """
        from lakebed.reading import frames

        frames.needed("polars", "to_polars")
        return frames.to_polars(self.to_arrow(tensors))

    def materialize(self, dest: Any, *, overwrite: bool = False, creds: Creds | None = None) -> Any:
        """Store the rows as a dataset: columns that are tensors keep their settings and their stored samples.

        Parameters
        ----------
        dest
            Address of the new dataset.
        overwrite
            Replace a dataset that is there.
        creds
            Credentials of the object store that is written; None asks the environment for them.

        Returns
        -------
        The new dataset, committed.

        Raises
        ------
        DatasetHandlerError
            If there is a dataset and ``overwrite`` is false.
        """
        return self.queried.stored(self, parse(dest, creds=kept(creds)), overwrite=overwrite)

    def __repr__(self) -> str:
        head = f"Result({len(self)} rows, columns: {', '.join(self.names)})"
        return printable("\n".join([head, *aligned(self._first())]), lines=True)

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(printable(cell))}</td>" for cell in line) + "</tr>"
            for line in self._first()
        )
        return f"<p>Result, {len(self)} rows</p><table>{cells}</table>"

    def _first(self) -> list[list[str]]:
        """Return names and values of the first rows as short texts; of a row that cannot be computed, why."""
        start = self._single or 0
        lines = [list(self.names)]
        for place in range(start, start + min(_SHOWN, len(self))):
            try:
                found = [
                    self.column(name).shown(range(place, place + 1), _MOST_VALUES)[0] for name in self.names
                ]
            except LakebedError as error:
                found = [f"{type(error).__name__}: {error}"]
            lines.append([shortened(value) for value in found])
        return lines

    def shown_rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as people and programs read them.

        Yields
        ------
        {column: value}: single numbers, lists, labels as the names of their classes; None where one is missing.
        """
        for window in _windows(self):
            columns = {name: self.column(name).shown(window) for name in self.names}
            for i in range(len(window)):
                yield {name: column[i] for name, column in columns.items()}


def _windows(result: Result) -> Iterator[range]:
    single = result._single  # noqa: SLF001
    if single is not None:
        yield range(single, single + 1)
    else:
        yield from result.relation.windows(result.names)


def _batch(column: Column) -> Any:
    if isinstance(column, Numbers) and column.missing is not None:
        mask = column.missing.reshape(-1, *(1,) * (column.values.ndim - 1))
        return np.ma.MaskedArray(column.values, mask=np.broadcast_to(mask, column.values.shape))
    if isinstance(column, Numbers):
        return column.values
    if isinstance(column, Objects):
        return column.items
    return rows(column)
