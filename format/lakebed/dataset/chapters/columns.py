"""Many rows at a time: batches, Arrow columns, changes of columns, and rows as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.base import DatasetBase
from lakebed.errors import InvalidOperationError
from lakebed.errors.root import strict

if TYPE_CHECKING:
    from lakebed.session.columns import Batches


class ColumnMethods(DatasetBase):
    """Reading and changing of many rows without a Python object for each."""

    def batches(
        self, batch_size: int, tensors: Sequence[str] | None = None, *, datetimes: bool = False
    ) -> Batches:
        """Iterate over the rows as dictionaries of columns, ``batch_size`` rows each; the last batch may be smaller.

        Parameters
        ----------
        batch_size
            Rows per batch.
        tensors
            Names of the tensors to read; None reads all.
        datetimes
            Return dates and times as datetime64 or timedelta64, with NaT for nulls, instead of the stored integers.

        Returns
        -------
        Iterable of {name: column}. A column is an ndarray of shape (rows, ...) for samples of one shape, a
        MaskedArray of shape (rows, 1) for numbers with nulls, a sequence of str for text, else a list. Arrays belong to
        the caller; if a batch is dropped before the next is read, its memory is reused.
        """
        from lakebed.session.columns import Batches

        return Batches(self._table(tensors), batch_size, datetimes=datetimes)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream for pyarrow, pandas, polars and DuckDB; labels have their names."""
        from lakebed.session.columns import arrow_stream

        return arrow_stream(self._table(), labels=True).__arrow_c_stream__(requested_schema)

    def read_columns(self, start: int, stop: int, tensors: Sequence[str] | None = None) -> dict[str, Any]:
        """Read consecutive rows as Arrow arrays.

        Parameters
        ----------
        start, stop
            Number of the first row, and of the row after the last row, in the whole dataset.
        tensors
            Names of the tensors to read; None reads all.

        Returns
        -------
        {name: pyarrow.Array}: numbers, with the logical type in the info of the tensor; strings for text, JSON text for
        json, lists for arrays; nulls for null rows. Numbers and text inside one chunk share its memory.

        Raises
        ------
        IndexError
            If the rows do not exist.
        TensorDoesNotExistError
            If the tensor does not exist.
        """
        from lakebed.session.columns import read_columns

        self._check_all_rows("read_columns")
        return read_columns(self._table(tensors), start, stop)

    def take_rows(
        self, rows: NDArray[np.integer] | Sequence[int], tensors: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Read rows as Arrow arrays in the given order; each chunk is read once.

        Parameters
        ----------
        rows
            Row numbers.
        tensors
            Names of the tensors to read; None reads all.

        Returns
        -------
        {name: pyarrow.Array}, as :meth:`read_columns` returns them.

        Raises
        ------
        IndexError
            If the row does not exist.
        InvalidInputError
            If the values are not row numbers.
        TensorDoesNotExistError
            If the tensor does not exist.
        """
        from lakebed.session.columns import take_rows

        self._check_all_rows("take_rows")
        return take_rows(self._table(tensors), np.asarray(rows))

    def _check_all_rows(self, what: str) -> None:
        if not self._index.is_trivial:
            raise InvalidOperationError(
                f"{what} takes row numbers of the whole dataset; call it on the dataset, not on a view"
            )

    def update_rows(self, rows: NDArray[np.integer] | Sequence[int], columns: Mapping[str, Any]) -> None:
        """Replace many rows, given as columns: {tensor: ndarray, list or Arrow array}, all or nothing.

        Each chunk with changed rows is rewritten once. Memory holds the encoded columns and a few chunks.

        Parameters
        ----------
        rows
            Row numbers, ascending, each once.
        columns
            For each tensor to change, one sample per row; nulls as for ``extend``.

        Raises
        ------
        IndexError
            If the row does not exist.
        InvalidInputError
            If the rows do not ascend, or a column has another length.
        TensorDoesNotExistError
            If the tensor does not exist.
        SampleUpdateError
            If a sample does not fit; the cause gives the reason.
        """
        from lakebed.session.changes.assign import update_rows

        self._check_changeable("update_rows")
        if not isinstance(columns, Mapping):
            raise TypeError(f"update_rows takes a dictionary of columns, not {type(columns).__name__}")
        update_rows(self._table_of(columns), rows, columns)
        self._session.epoch += 1

    def change_type(self, tensor: str, htype: str | None = None, dtype: Any = None) -> None:
        """Widen the type of a tensor; the rows, their nulls and ids, and the order of the tensors are kept.

        Numbers become wider numbers; integers become floats if no digit is lost; numbers, booleans, dates and times
        become text; everything becomes JSON. All samples are rewritten chunk by chunk; earlier commits keep their
        samples.

        Parameters
        ----------
        tensor
            Name of the tensor.
        htype, dtype
            New type. If htype is left out, it stays the same; if dtype is left out, it stays the same too, or is the
            dtype of the new htype.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist.
        InvalidOperationError
            If the type is not wider, an integer would lose digits as a float, or the tensor holds links, files,
            sequences or tiles; nothing is changed then.
        """
        from lakebed.session.changes.retype import change_type

        self._check_changeable("change_type")
        change_type(self._session, self._table_of([tensor]).names[tensor], htype, dtype)
        self._session.epoch += 1

    def pop_rows(self, rows: NDArray[np.integer] | Sequence[int]) -> None:
        """Remove many rows from all tensors that have them; each chunk is rewritten once.

        Parameters
        ----------
        rows
            Row numbers before the call, ascending, each once.

        Raises
        ------
        IndexError
            If no tensor has a row.
        InvalidInputError
            If the rows do not ascend.
        """
        from lakebed.session.changes.append import pop_rows
        from lakebed.session.columns import ascending

        self._check_changeable("pop_rows")
        pop_rows(self._table(), ascending(rows))


class RowValueMethods(DatasetBase):
    """Values of whole rows."""

    @strict
    def to_dict(self, *, labels: Literal["names", "numbers"] = "names") -> dict[str, Any]:
        """Read one row, ``ds[i].to_dict()`` and ``dict(ds[i])``; or the columns of several rows, as lists.

        Numbers, text and JSON become values of Python, dates and times become values of ``datetime``, class labels
        become their names, nulls become None, and all other samples become arrays.

        Parameters
        ----------
        labels
            ``numbers`` returns class labels as they are stored.

        Returns
        -------
        {tensor: value}; for several rows {tensor: [value, ...]}.
        """
        rows = self._rows_of(labels=labels)
        if self._index.is_single:
            return next(iter(rows), {})
        columns: dict[str, list[Any]] = {name: [] for name in self._names()}
        for row in rows:
            for name, value in row.items():
                columns[name].append(value)
        return columns

    def _rows_of(
        self, tensors: Sequence[str] | None = None, *, labels: Literal["names", "numbers"] = "names"
    ) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries, as :meth:`to_dict` returns them; each chunk is read once.

        Parameters
        ----------
        tensors
            Names of the tensors to read; None reads all.
        labels
            ``names`` returns the names of class labels; ``numbers`` returns class labels as they are stored.

        Returns
        -------
        Iterator of {tensor: value}.
        """
        from lakebed.session.row_values import row_values

        return row_values(self._table(tensors), labels=labels == "names")

    def _data_of(self) -> dict[str, Any]:
        """Read the selected rows of each tensor by its ``data()``.

        Returns
        -------
        {tensor: {"value": ...}}.
        """
        return {name: self[name].data() for name in self._names()}  # type: ignore[index]
