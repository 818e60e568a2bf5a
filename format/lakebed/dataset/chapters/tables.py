"""Conversion of datasets and tensors to Arrow, pandas, polars and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.base import DatasetBase, TensorBase
from lakebed.errors import InvalidInputError
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as pads

    from lakebed.engines.arrow_dataset import LakeDataset, Scanner
    from lakebed.session.columns import ArrowRows
    from lakebed.session.table import Table

Labels = Literal["names", "numbers"]
Files = Literal["bytes", "arrays"]


def _rows(table: Table, labels: str, files: str, *, row_ids: bool = False) -> ArrowRows:
    from lakebed.session.columns import ROW_ID, ArrowRows

    if labels not in ("names", "numbers"):
        raise InvalidInputError(f"labels is 'names' or 'numbers', not {labels!r}")
    if files not in ("bytes", "arrays"):
        raise InvalidInputError(f"files is 'bytes' or 'arrays', not {files!r}")
    if row_ids and ROW_ID in table.names:
        raise InvalidInputError(
            f"the column of row numbers and a tensor are both called {ROW_ID!r}: leave the tensor out by tensors="
        )
    return ArrowRows(table, labels == "names", files == "bytes", row_ids)


def _narrow(table: Table) -> list[str]:
    """Return the tensors whose rows are single numbers, texts, labels or JSON."""
    found = []
    for name, state in table.states().items():
        meta = state.meta
        is_one = not meta.sample_compression and not meta.is_link and all(size < 2 for size in meta.max_shape)
        is_value = is_one and len(meta.max_shape) < 2 and not meta.is_sequence
        if is_value or meta.htype in ("text", "json", "list", "tag", "class_label"):
            found.append(name)
    return found


def _read(rows: ArrowRows) -> pa.Table:
    from lakebed.session.columns import arrow_stream

    return arrow_stream(rows.table, labels=rows.labels, files=rows.files).read_all()


def _relation(rows: ArrowRows, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """Return a relation of DuckDB over rows; a column of row numbers lets DuckDB count rows without other columns."""
    from lakebed.engines.arrow_dataset import LakeDataset, Shown
    from lakebed.reading.columns import frames
    from lakebed.session.columns import ROW_ID

    names = list(rows.table.names)
    shown = Shown(rows.labels, rows.files, row_ids=ROW_ID not in names)
    wanted = [*names, ROW_ID] if rows.row_ids else names
    return frames.to_duckdb(LakeDataset(rows.table, shown), wanted, connection)


class TableMethods(DatasetBase):
    """Conversion of all selected rows to a table."""

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pads.Expression] | None = None,
        filter: pads.Expression | None = None,  # noqa: A002
        *,
        batch_size: int = 1 << 16,
        labels: Labels = "names",
        files: Files = "bytes",
    ) -> Scanner:
        """Return a scanner of Arrow, which reads the requested columns of the rows that pass a filter.

        Rows that cannot match, by the statistics of their chunks, are not read.

        Parameters
        ----------
        columns
            Names of the columns, or {name: expression} to compute them; None is all.
        filter
            An expression such as ``pyarrow.dataset.field("age") > 3``; None is all rows.
        batch_size
            Maximum number of rows of a record batch.
        labels, files
            As for :meth:`to_arrow`.

        Returns
        -------
        A scanner with ``to_reader``, ``to_batches``, ``to_table``, ``head`` and ``count_rows``; each call reads the
        rows again.

        Raises
        ------
        InvalidInputError
            If the dataset has no such column, or the expression does not fit the columns.
        """
        from lakebed.engines.arrow_dataset import Scanner, Shown

        rows = _rows(self._table(), labels, files)
        shown = Shown(rows.labels, rows.files)
        return Scanner(rows.table, shown, columns, filter, batch_size, is_narrow=True)

    def to_arrow_dataset(
        self,
        tensors: Sequence[str] | None = None,
        *,
        labels: Labels = "names",
        files: Files = "bytes",
        row_ids: bool = False,
    ) -> LakeDataset:
        """Return the rows as a ``pyarrow.dataset.Dataset``, of which DuckDB and polars read only what a query needs.

        Parameters
        ----------
        tensors, labels, files
            As for :meth:`to_arrow`.
        row_ids
            Put the column ``row_id`` first: the number of each row in the whole dataset, int64.

        Returns
        -------
        A dataset of Arrow, for ``polars.scan_pyarrow_dataset(rows)`` and ``duckdb.sql("from rows")``. It can be pickled
        as the dataset can.
        """
        from lakebed.engines.arrow_dataset import LakeDataset, Shown

        rows = _rows(self._table(tensors), labels, files, row_ids=row_ids)
        return LakeDataset(rows.table, Shown(rows.labels, rows.files, rows.row_ids))

    def to_arrow(
        self, tensors: Sequence[str] | None = None, *, labels: Labels = "names", files: Files = "bytes"
    ) -> pa.Table:
        """Read the rows as a table of Arrow; ``ds[a:b].to_arrow()`` reads a range of rows.

        Parameters
        ----------
        tensors
            Names of the tensors to read; None reads all.
        labels
            ``names`` returns class labels as dictionary columns with their names, ``numbers`` as they are stored.
        files
            ``bytes`` returns images, sound and so on as the stored files, and links as their addresses; ``arrays``
            returns nested lists of all values.

        Returns
        -------
        A table with the nulls of the dataset: dates and times have their types, text and JSON are strings.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist.
        InvalidOperationError
            If a sample is not one file, or Arrow has no type for a tensor; leave that tensor out.
        """
        return _read(_rows(self._table(tensors), labels, files))

    def to_pandas(
        self, tensors: Sequence[str] | None = None, *, labels: Labels = "names", files: Files = "bytes"
    ) -> pd.DataFrame:
        """Read the rows as a data frame of pandas.

        Parameters
        ----------
        tensors, labels, files
            As for :meth:`to_arrow`.

        Returns
        -------
        A data frame: class labels are Categorical, integers and booleans with nulls pandas' nullable types.

        Raises
        ------
        ModuleNotInstalledException
            If pandas is not installed.
        """
        from lakebed.reading.columns import frames

        frames.needed("pandas", "to_pandas")
        found = self.to_arrow(tensors, labels=labels, files=files)
        return frames.to_pandas(found, _arrays(self._table(tensors)))

    def to_polars(
        self, tensors: Sequence[str] | None = None, *, labels: Labels = "names", files: Files = "bytes"
    ) -> pl.DataFrame:
        """Read the rows as a data frame of polars.

        Parameters
        ----------
        tensors, labels, files
            As for :meth:`to_arrow`.

        Returns
        -------
        A data frame: class labels are Categorical.

        Raises
        ------
        ModuleNotInstalledException
            If polars is not installed.
        """
        from lakebed.reading.columns import frames

        frames.needed("polars", "to_polars")
        return frames.to_polars(self.to_arrow(tensors, labels=labels, files=files))

    def to_duckdb(
        self,
        tensors: Sequence[str] | None = None,
        *,
        labels: Labels = "names",
        files: Files = "bytes",
        connection: duckdb.DuckDBPyConnection | None = None,
        row_ids: bool = False,
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of DuckDB, which reads the columns and rows that a query needs, batch by batch.

        Parameters
        ----------
        tensors, labels, files
            As for :meth:`to_arrow`.
        connection
            Connection of the relation; None is DuckDB's default connection.
        row_ids
            Add the column ``row_id``, the number of each row in the whole dataset, from which ``ds.view_of`` makes a
            view of the result. Without ``tensors``, the relation has only the tensors whose rows are single numbers,
            texts, labels or JSON.

        Returns
        -------
        A relation: ``.filter(...)``, ``.aggregate(...)``, ``.query("rows", "select ... from rows")``.

        Raises
        ------
        ModuleNotInstalledException
            If DuckDB is not installed.
        """
        if row_ids and tensors is None:
            tensors = _narrow(self._table())
        return _relation(_rows(self._table(tensors), labels, files, row_ids=row_ids), connection)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return an array of one dictionary per row, shape (rows,), for ``pandas.DataFrame(ds)``.

        Raises
        ------
        TypeError
            If the dtype is not object: rows of several tensors do not make an array of numbers.
        """
        if dtype is None or np.dtype(dtype) == object:
            from lakebed.reading.columns.frames import array_of_rows

            return array_of_rows(self._names(), self._rows_of())  # type: ignore[attr-defined]
        raise TypeError(
            "a dataset has several tensors and is not an array of numbers; for a data frame write ds.to_pandas() or "
            "ds.to_polars(), for one tensor ds.name.numpy(), for arrays of many rows ds.batches(n)"
        )


class TensorTableMethods(TensorBase):
    """Conversion of all selected samples to a column."""

    def _column(self, labels: str, files: str) -> ArrowRows:
        from lakebed.session.table import Table

        name = self._name.rpartition("/")[2]
        return _rows(Table(self._session, {name: self._name}, self._index), labels, files)

    def __dlpack__(self, **how: Any) -> Any:
        """Pass the array to another framework, for example to ``torch.as_tensor(ds["age"])``."""
        array = np.asarray(self)
        # DLPack does not support read-only arrays
        exported = array if array.flags.writeable else array.copy()
        return exported.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of the array, which is the CPU."""
        return np.empty(0).__dlpack_device__()

    def to_arrow(self, *, labels: Labels = "names", files: Files = "bytes") -> pa.ChunkedArray:
        """Read the samples as a column of Arrow.

        Parameters
        ----------
        labels, files
            As for ``Dataset.to_arrow``.

        Returns
        -------
        A chunked array with the nulls of the tensor.
        """
        return _read(self._column(labels, files)).column(0)

    def to_pandas(self, *, labels: Labels = "names", files: Files = "bytes") -> pd.Series:
        """Read the samples as a pandas Series.

        Parameters
        ----------
        labels, files
            As for ``Dataset.to_arrow``.

        Returns
        -------
        A series with the name of the tensor.

        Raises
        ------
        ModuleNotInstalledException
            If pandas is not installed.
        """
        from lakebed.reading.columns import frames

        frames.needed("pandas", "to_pandas")
        column = self._column(labels, files)
        return frames.to_pandas(_read(column), _arrays(column.table)).iloc[:, 0]

    def to_polars(self, *, labels: Labels = "names", files: Files = "bytes") -> pl.Series:
        """Read the samples as a polars Series.

        Parameters
        ----------
        labels, files
            As for ``Dataset.to_arrow``.

        Returns
        -------
        A series with the name of the tensor.

        Raises
        ------
        ModuleNotInstalledException
            If polars is not installed.
        """
        from lakebed.reading.columns import frames

        frames.needed("polars", "to_polars")
        return frames.to_polars(_read(self._column(labels, files))).to_series(0)

    def to_duckdb(
        self,
        *,
        labels: Labels = "names",
        files: Files = "bytes",
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return the samples as a relation of DuckDB with one column.

        Parameters
        ----------
        labels, files, connection
            As for ``Dataset.to_duckdb``.

        Returns
        -------
        A relation.

        Raises
        ------
        ModuleNotInstalledException
            If DuckDB is not installed.
        """
        return _relation(self._column(labels, files), connection)


def _arrays(table: Table) -> list[str]:
    """Return the columns whose samples are arrays."""
    return [
        name
        for name, state in table.states().items()
        if state.sequence is None and table.reader(name).storing is Storing.ARRAY
    ]
