"""The result of a query that computes columns: read like a dataset, each value computed when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import (
    DynamicTensorNumpyError,
    InvalidInputError,
    InvalidKeyTypeError,
    QueryError,
    TensorDoesNotExistError,
)
from lakebed.errors.root import instead
from lakebed.query.columns import Column, Numbers, Objects, Ragged, Texts, concatenated, rows
from lakebed.query.relation import Relation

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Materialize = Callable[["Result", Any, bool], Any]


class Result:
    """Rows and computed columns of a query.

    ``result[i]`` is a row, ``result[a:b]`` and ``result[[...]]`` some of them, ``result["name"]`` and ``result.name`` a
    column. Nothing is computed before it is read; a row that cannot be computed raises when it is read.

    Parameters
    ----------
    text
        The query.
    single
        The one row that is meant; None for all.
    materialize
        Stores it as a dataset.
    """

    def __init__(
        self, relation: Relation, text: str, materialize: Materialize, single: int | None = None
    ) -> None:
        self.relation = relation
        self.query_text = text
        self._materialize = materialize
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

    def __getattr__(self, name: str) -> ResultColumn:
        if name.startswith("_") or name not in self.__dict__["relation"].infos:
            raise AttributeError(f"the result of the query has no column {name!r}")
        return self.column(name)

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
        if self._single is not None:
            raise InvalidKeyTypeError("this is one row: say which column by its name")
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            length = len(self)
            if not -length <= item < length:
                raise IndexError(f"there is no row {item} among {length}")
            return Result(self.relation, self.query_text, self._materialize, int(item) % length)
        if isinstance(item, slice):
            places = np.arange(*item.indices(len(self)), dtype=np.int64)
        else:
            wanted = np.asarray(item)
            if wanted.ndim != 1 or wanted.dtype.kind not in "ib":
                raise InvalidKeyTypeError(f"{item!r} selects no rows")
            places = np.flatnonzero(wanted) if wanted.dtype == np.bool_ else wanted.astype(np.int64)
            if len(places) and not (-len(self) <= places.min() and places.max() < len(self)):
                raise IndexError(f"there are {len(self)} rows, and another one is asked for")
            places = np.where(places < 0, places + len(self), places)
        return Result(self.relation.select(places), self.query_text, self._materialize)

    def __iter__(self) -> Iterator[Result]:
        for i in range(len(self)):
            yield self[i]

    # -- values ------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Read one row, as ``result[i].to_dict()``.

        Returns
        -------
        {column: value}; None where one is missing.

        Raises
        ------
        InvalidInputError
            If several rows are selected.
        """
        if self._single is None:
            raise InvalidInputError("to_dict() is of one row: result[0].to_dict()")
        return {name: self.column(name).value() for name in self.names}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries.

        Yields
        ------
        {column: value}; None where one is missing.
        """
        for window in _windows(self):
            columns = {name: rows(_read(self.relation, name, window)) for name in self.names}
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
            yield {name: _batch(_read(self.relation, self.column(name).name, window)) for name in names}

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

    def materialize(self, dest: Any, *, overwrite: bool = False) -> Any:
        """Store the rows as a dataset: columns that are tensors keep their settings and their stored samples.

        Parameters
        ----------
        dest
            Address of the new dataset.
        overwrite
            Replace a dataset that is there.

        Returns
        -------
        The new dataset, committed.

        Raises
        ------
        DatasetHandlerError
            If there is a dataset and ``overwrite`` is false.
        """
        return self._materialize(self, dest, overwrite)

    def __repr__(self) -> str:
        columns = ", ".join(self.names)
        return f"Result({len(self)} rows, columns: {columns})"


class ResultColumn:
    """One column of a result, or one value of it."""

    def __init__(self, relation: Relation, name: str, single: int | None = None) -> None:
        self.relation = relation
        self.name = name
        self.info = relation.infos[name]
        self._single = single

    def __len__(self) -> int:
        return 1 if self._single is not None else len(self.relation)

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    @property
    def htype(self) -> str:
        """What the values mean."""
        if self.info.htype:
            return self.info.htype
        return {"text": "text", "json": "json"}.get(self.info.kind, "generic")

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Dtype of the arrays; None where only the values tell."""
        return self.info.dtype

    @property
    def class_names(self) -> list[str] | None:
        """Names of the classes, if the values are labels."""
        return None if self.info.class_names is None else list(self.info.class_names)

    def __getitem__(self, item: Any) -> Any:
        """Select a row, or some rows.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        if self._single is not None:
            return self.numpy()[item]
        chosen = Result(self.relation, "", _refuse)[item]
        return chosen.column(self.name)

    def __iter__(self) -> Iterator[ResultColumn]:
        for i in range(len(self)):
            yield self[i]

    def read(self) -> Column:
        """Compute all rows."""
        if self._single is not None:
            return _read(self.relation, self.name, range(self._single, self._single + 1))
        parts = [_read(self.relation, self.name, window) for window in self.relation.windows([self.name])]
        return concatenated(parts) if parts else _read(self.relation, self.name, range(0))

    def values(self) -> list[Any]:
        """Return the values of all rows, None where one is missing."""
        return rows(self.read())

    def value(self) -> Any:
        """Return the value of the one row that is selected, None if it is missing."""
        return self.values()[0]

    def numpy(self, aslist: bool = False) -> Any:
        """Read as an array: shape (rows, ...), or that of the sample for a single one.

        Parameters
        ----------
        aslist
            Return a list of arrays, one per row.

        Returns
        -------
        An array or a list; an empty array stands for a missing sample.

        Raises
        ------
        DynamicTensorNumpyError
            If shapes differ and ``aslist`` is false.
        """
        column = self.read()
        if self._single is not None:
            return _array(rows(column)[0], column)
        if aslist:
            return [_array(value, column) for value in rows(column)]
        if isinstance(column, Numbers) and column.missing is None:
            return column.values
        found = [_array(value, column) for value in rows(column)]
        if len({array.shape for array in found}) > 1:
            raise DynamicTensorNumpyError(
                f"column {self.name!r} has samples of different shapes and can not become one array; "
                "pass aslist=True to get a list of arrays"
            )
        return np.stack(found) if found else np.empty(0)

    def text(self) -> Any:
        """Return texts: of one row, or a list."""
        return self._plain(str, "")

    def list(self) -> Any:
        """Return lists: of one row, or a list of them."""
        return self._plain(list, [])

    def dict(self) -> Any:
        """Return JSON values: of one row, or a list of them."""
        return self._plain(object, {})

    def tolist(self) -> Any:
        """Return values as lists and numbers of Python; None where one is missing."""
        found = [value.tolist() if isinstance(value, np.ndarray) else value for value in self.values()]
        return found[0] if self._single is not None else found

    def data(self) -> Mapping[str, Any]:
        """Return ``{"value": ...}``, for one row or all; of labels also ``text``, their names."""
        found = self.values() if self._single is None else self.value()
        if self.info.class_names is None:
            return {"value": found}
        from lakebed.query.functions.casts import label_names

        return {"value": found, "text": label_names(found, self.info.class_names)}

    def _plain(self, kind: type, empty: Any) -> Any:
        found = [empty if value is None else value for value in self.values()]
        if not all(isinstance(value, kind) for value in found):
            raise InvalidInputError(
                f"column {self.name!r} holds other values; read it with numpy() or data()"
            )
        return found[0] if self._single is not None else found

    def to_arrow(self) -> pa.Array:
        """Read as a column of Arrow: arrays are nested lists, JSON values are text."""
        import pyarrow as pa

        column = self.read()
        if isinstance(column, Texts):
            return column.array
        if isinstance(column, Numbers) and column.values[:1].size == 1 and column.values.ndim <= 2:
            return pa.array(column.values.reshape(-1), mask=column.missing)
        if isinstance(column, Numbers | Ragged):
            return pa.array([None if v is None else v.tolist() for v in rows(column)])
        found = rows(column)
        if (
            any(isinstance(value, dict) for value in found)
            or len({_kind(v) for v in found if v is not None}) > 1
        ):
            return pa.array(
                [None if v is None else json.dumps(_jsonable(v), ensure_ascii=False) for v in found],
                pa.string(),
            )
        return pa.array([_jsonable(value) for value in found])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        found: NDArray[Any] = np.asarray(self.numpy())
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return f"ResultColumn({self.name!r}, {len(self)} rows, htype={self.htype!r})"


def _kind(value: Any) -> str:
    return "array" if isinstance(value, list | np.ndarray) else type(value).__name__


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_jsonable(item) for item in value] if isinstance(value, list) else value


def _array(value: Any, column: Column) -> NDArray[Any]:
    if value is None:
        dtype = column.values.dtype if isinstance(column, Numbers) else np.dtype(np.float64)
        return np.empty(0, column.flat.dtype if isinstance(column, Ragged) else dtype)
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, list):
        try:
            array = np.asarray(value)
        except ValueError:
            array = np.empty(0, object)
        if array.dtype.kind in "biuf" and array.size:
            return array
        found = np.empty(len(value), object)
        found[:] = value
        return found
    if isinstance(value, str | dict):
        found = np.empty(1, object)
        found[0] = value
        return found
    return np.asarray(value)


def _windows(result: Result) -> Iterator[range]:
    single = result._single  # noqa: SLF001
    if single is not None:
        yield range(single, single + 1)
    else:
        yield from result.relation.windows(result.names)


def _read(relation: Relation, name: str, window: range) -> Column:
    """Compute rows of a column; an error names the row."""
    try:
        return relation.read(name, window)
    except QueryError as error:
        if len(window) > 1:
            for place in window:
                _read(relation, name, range(place, place + 1))
        place = window.start + (error.row or 0) if len(window) > 1 else window.start
        raise QueryError(
            f"column {name!r}, row {place} of the result: {error.message}", kind=error.kind, row=place
        ) from error


def _batch(column: Column) -> Any:
    if isinstance(column, Numbers) and column.missing is not None:
        mask = column.missing.reshape(-1, *(1,) * (column.values.ndim - 1))
        return np.ma.MaskedArray(column.values, mask=np.broadcast_to(mask, column.values.shape))
    if isinstance(column, Numbers):
        return column.values
    if isinstance(column, Objects):
        return column.items
    return rows(column)


def _refuse(*_: Any) -> Any:
    raise InvalidInputError("materialize the whole result")
