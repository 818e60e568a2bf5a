"""The result of a query that computes columns: it is read like a dataset; values are computed when they are read."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from lakebed.query.values.columns import Column, Numbers, rows
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
    """Methods of a result as in pandas; a column hides the method of the same name."""

    def plot(self, image: str | None = None, tensors: Sequence[str] | None = None, **options: int) -> Image:
        """Draw the rows of the dataset from which these rows come; see ``lakebed.show``.

        Parameters
        ----------
        image
            Name of the tensor of images; None chooses one.
        tensors
            Names of the tensors to draw; None for all.
        options
            Options of ``lakebed.show``.

        Raises
        ------
        InvalidInputError
            If the rows come from several datasets, or are groups.
        """
        dataset = self.queried.opened[0].no_view_dataset
        found: Image = dataset[self.sample_indices]._plot(image, tensors, **options)  # noqa: SLF001
        return found


class Result(ResultVerbs if TYPE_CHECKING else object):  # type: ignore[misc]
    """Rows and computed columns of a query.

    ``result[i]`` is a row, ``result[a:b]`` and ``result[[...]]`` are several, ``result["name"]`` and ``result.name`` a
    column. Values are computed on reading; reading a row that cannot be computed raises an error.

    Parameters
    ----------
    text
        The query.
    single
        Number of the selected row, for a result of one row; None for all rows.
    queried
        Datasets that the query named, so that queries of the result can name them too: a `dataset.queries.Queried`.
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
        """Always True: a result is not a whole dataset."""
        return True

    @property
    def sample_indices(self) -> list[int]:
        """Numbers of the dataset's rows from which these rows come.

        Raises
        ------
        InvalidInputError
            If each row comes from several rows, as in joins and groups.
        """
        found = self.relation.base_rows()
        if found is None:
            raise InvalidInputError("the rows of joins and groups are not rows of one dataset")
        return [int(row) for row in (found if self._single is None else found[[self._single]])]

    def column(self, name: str) -> ResultColumn:
        """Return a column.

        Parameters
        ----------
        name
            Name of the column.

        Returns
        -------
        The column, whose values are computed on reading.

        Raises
        ------
        TensorDoesNotExistError
            If the result has no column of this name.
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
            If a row number is out of range.
        InvalidKeyTypeError
            If the item is not a name, a number, a slice or a list of these.
        """
        if isinstance(item, str):
            return self.column(item)
        if isinstance(item, Condition | Compared):
            return self.filter(item)
        if isinstance(item, list) and item and all(isinstance(name, str) for name in item):
            return self.query("SELECT " + ", ".join(map(quoted, item)))
        if self._single is not None:
            raise InvalidKeyTypeError("this is one row: choose a column by its name")
        chosen = picked(item, len(self))
        if isinstance(chosen, int):
            return Result(self.relation, self.query_text, self.queried, chosen)
        return Result(self.relation.select(chosen), self.query_text, self.queried)

    def __add__(self, other: Any) -> Any:
        """Append the rows of another result or dataset; see ``lakebed.concat``."""
        from lakebed.verbs.together import concat

        return concat([self, other]) if hasattr(other, "tensors") else NotImplemented

    def __iter__(self) -> Iterator[Result]:
        for i in range(len(self)):
            yield self[i]

    # -- queries of the result ---------------------------------------------------------------------------------------

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
            Values for the ``?`` in the query in order, or for each ``$name``.
        named
            Datasets and results that FROM may name: {name: dataset}.

        Returns
        -------
        A result.

        Raises
        ------
        QueryError
            If the query does not fit the data.
        """
        return self.queried.again(self, query_string, parameters, named or {})

    def filter(self, condition: str | Condition | Compared) -> Any:
        """Choose rows.

        Parameters
        ----------
        condition
            An expression such as ``"n > 3"``, a condition such as ``result["n"] > 3``, or a column of booleans.

        Returns
        -------
        A result.

        Raises
        ------
        InvalidInputError
            If the condition has another type.
        """
        if isinstance(condition, str):
            return self.query(f"SELECT * WHERE {condition}")
        if not isinstance(condition, Condition | Compared):
            raise InvalidInputError(
                "a result is filtered by an expression or a condition such as result['n'] > 3, not by "
                f"{type(condition).__name__}; functions are called with rows of datasets: result.materialize('mem://')"
            )
        text, parameters = condition.asked().asked_of(self.relation)
        return self.query(f"SELECT * WHERE {text}", parameters=parameters)

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return some rows for ``torch.utils.data.DataLoader(result)``."""
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
        {column: value} of one row, None for missing values; {column: list of values} of all rows.
        """
        if self._single is None:
            return {name: self.column(name).tolist() for name in self.names}
        return {name: self.column(name).plain() for name in self.names}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries.

        Yields
        ------
        {column: value}, None for missing values.
        """
        return self._each_row(lambda name, window: rows(read_rows(self.relation, name, window)))

    def _each_row(self, read: Callable[[str, range], Sequence[Any]]) -> Iterator[dict[str, Any]]:
        single = self._single
        windows = self.relation.windows(self.names) if single is None else [range(single, single + 1)]
        for window in windows:
            columns = [read(name, window) for name in self.names]
            for values in zip(*columns, strict=True):
                yield dict(zip(self.names, values, strict=True))

    def batches(self, batch_size: int, tensors: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries of columns; the last batch may be shorter.

        Parameters
        ----------
        batch_size
            Rows per batch.
        tensors
            Names of the columns to read; None reads all.

        Yields
        ------
        {name: column}: arrays of shape (rows, ...) if samples have one shape, else lists.

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
        """Return the rows as dictionaries, shape (rows,), which ``pandas.DataFrame(result)`` turns into columns."""
        from lakebed.reading.columns.frames import array_of_rows

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
        from lakebed.reading.columns import frames

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
        from lakebed.reading.columns import frames

        frames.needed("polars", "to_polars")
        return frames.to_polars(self.to_arrow(tensors))

    def materialize(self, dest: Any, *, overwrite: bool = False, creds: Creds | None = None) -> Any:
        """Store the rows as a dataset; columns that are unchanged tensors keep their settings and stored samples.

        Parameters
        ----------
        dest
            Address of the new dataset.
        overwrite
            Replace an existing dataset.
        creds
            Credentials of the object store; None takes them from the environment.

        Returns
        -------
        The new dataset, committed.

        Raises
        ------
        DatasetHandlerError
            If a dataset exists and ``overwrite`` is false.
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
        """Return the column names, then the values of each of the first rows, as short texts.

        If a row cannot be computed, return the text of the error instead.
        """
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
        """Iterate over the rows with values that can be printed or written as JSON.

        Yields
        ------
        {column: value}: single numbers, lists, labels by class name; None for missing values.
        """
        return self._each_row(lambda name, window: self.column(name).shown(window))


def _batch(column: Column) -> Any:
    if not isinstance(column, Numbers):
        return rows(column)
    if column.missing is None:
        return column.values
    mask = column.missing.reshape(-1, *(1,) * (column.values.ndim - 1))
    return np.ma.MaskedArray(column.values, mask=np.broadcast_to(mask, column.values.shape))
