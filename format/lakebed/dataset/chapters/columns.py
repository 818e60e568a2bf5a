"""A dataset's facade: many rows at a time, as columns."""

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
    """Reads and changes many rows of a dataset, without a Python object for each."""

    def batches(
        self, batch_size: int, tensors: Sequence[str] | None = None, *, datetimes: bool = False
    ) -> Batches:
        """Iterate over the rows as dictionaries of columns, ``batch_size`` rows each, the last one shorter.

        Parameters
        ----------
        batch_size
            Rows per batch.
        tensors
            Names of the tensors to read; None reads all.
        datetimes
            Dates and times are datetime64 or timedelta64, with NaT for nulls, in place of the integers that are stored.

        Returns
        -------
        Iterable of {name: column}. A column is an ndarray of shape (rows, ...) for samples of one shape, a
        MaskedArray of shape (rows, 1) for numbers of which some are null, a sequence of str for text, else a list.
        Arrays may be views of one chunk and are the caller's; drop a batch before taking the next to reuse its memory.
        """
        from lakebed.session.columns import Batches

        return Batches(self._table(tensors), batch_size, datetimes=datetimes)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream: pyarrow, pandas, polars and DuckDB read a dataset; labels have names."""
        from lakebed.session.columns import arrow_stream

        return arrow_stream(self._table(), labels=True).__arrow_c_stream__(requested_schema)

    def read_columns(self, start: int, stop: int, tensors: Sequence[str] | None = None) -> dict[str, Any]:
        """Read consecutive rows as Arrow arrays.

        Parameters
        ----------
        start, stop
            The first row and the one after the last, counted in the whole dataset.
        tensors
            Names of the tensors to read; None reads all.

        Returns
        -------
        {name: pyarrow.Array}: numbers (with the logical type that the tensor's info names), strings for text and JSON
        text for json, lists for arrays; null rows are nulls. Numbers and text inside one chunk share its memory.

        Raises
        ------
        IndexError
            If there are no such rows.
        TensorDoesNotExistError
            If there is no such tensor.
        """
        from lakebed.session.columns import read_columns

        self._check_all_rows("read_columns")
        return read_columns(self._table(tensors), start, stop)

    def take_rows(
        self, rows: NDArray[np.integer] | Sequence[int], tensors: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Read rows as Arrow arrays, in the order given; each chunk that they lie in is read once.

        Parameters
        ----------
        rows
            Row numbers.
        tensors
            Names of the tensors to read; None reads all.

        Returns
        -------
        {name: pyarrow.Array}, as :meth:`read_columns` gives them.

        Raises
        ------
        IndexError
            If there is no such row.
        InvalidInputError
            If they are no row numbers.
        TensorDoesNotExistError
            If there is no such tensor.
        """
        from lakebed.session.columns import take_rows

        self._check_all_rows("take_rows")
        return take_rows(self._table(tensors), np.asarray(rows))

    def _check_all_rows(self, what: str) -> None:
        if not self._index.is_trivial:
            raise InvalidOperationError(
                f"{what} counts the rows of the whole dataset; call it on that, not on a view"
            )

    def update_rows(self, rows: NDArray[np.integer] | Sequence[int], columns: Mapping[str, Any]) -> None:
        """Replace many rows, given as columns: {tensor: ndarray, list or Arrow array}, all or nothing.

        Every chunk that the rows lie in is rewritten once, the others stay; what is as it was is not rewritten. Memory
        holds the columns, encoded, and a few chunks.

        Parameters
        ----------
        rows
            Row numbers, ascending, each once.
        columns
            As many samples as rows for each tensor that changes; nulls as ``extend`` takes them.

        Raises
        ------
        IndexError
            If there is no such row.
        InvalidInputError
            If the rows do not ascend, or a column has another length.
        TensorDoesNotExistError
            If there is no such tensor.
        SampleUpdateError
            If a sample does not fit; the cause says why.
        """
        from lakebed.session.changes.assign import update_rows

        self._check_changeable("update_rows")
        if not isinstance(columns, Mapping):
            raise TypeError(f"update_rows takes a dictionary of columns, not {type(columns).__name__}")
        update_rows(self._table_of(columns), rows, columns)
        self._session.epoch += 1

    def change_type(self, tensor: str, htype: str | None = None, dtype: Any = None) -> None:
        """Give a tensor a wider type; the rows, their nulls and ids, and the order of the tensors stay.

        Integers become floats (those that lose no digits), numbers wider numbers; numbers, booleans, dates and times
        become text; everything becomes JSON. All samples are written anew, chunk by chunk; earlier commits keep theirs.

        Parameters
        ----------
        tensor
            Its name.
        htype, dtype
            What it is to hold; left out, they stay, or are the htype's own.

        Raises
        ------
        TensorDoesNotExistError
            If there is no such tensor.
        InvalidOperationError
            If the type is not wider, an integer would lose digits as a float, or the tensor holds links, files,
            sequences or tiles; then nothing is changed.
        """
        from lakebed.session.changes.retype import change_type

        self._check_changeable("change_type")
        change_type(self._session, self._table_of([tensor]).names[tensor], htype, dtype)
        self._session.epoch += 1

    def pop_rows(self, rows: NDArray[np.integer] | Sequence[int]) -> None:
        """Remove many rows from all tensors that have them; each chunk that they lie in is rewritten once.

        Parameters
        ----------
        rows
            Row numbers, ascending, each once, as they are before the call.

        Raises
        ------
        IndexError
            If no tensor has such a row.
        InvalidInputError
            If the rows do not ascend.
        """
        from lakebed.session.changes.append import pop_many

        self._check_changeable("pop_rows")
        pop_many(self._table(), rows)


class RowValueMethods(DatasetBase):
    """Values of whole rows."""

    @strict
    def to_dict(self, *, labels: Literal["names", "numbers"] = "names") -> dict[str, Any]:
        """Read one row, ``ds[i].to_dict()`` and ``dict(ds[i])``; or the columns of all rows, as lists.

        Numbers, text and JSON are values of Python, dates and times those of ``datetime``, class labels their names;
        all others arrays; nulls None.

        Parameters
        ----------
        labels
            ``numbers``: class labels as they are stored.

        Returns
        -------
        {tensor: value}; of several rows {tensor: [value, ...]}.
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
        """Iterate over the rows as dictionaries, as :meth:`to_dict` gives them; chunks are read once.

        Parameters
        ----------
        tensors
            Names of the tensors to read; None reads all.
        labels
            ``names``, or ``numbers`` as they are stored.

        Returns
        -------
        Iterator of {tensor: value}.
        """
        from lakebed.session.row_values import row_values

        return row_values(self._table(tensors), labels=labels == "names")

    def _data_of(self) -> dict[str, Any]:
        """Read what ``data()`` of each tensor gives: {tensor: {"value": ...}}.

        Returns
        -------
        A dictionary by tensor, of the selected row or rows.
        """
        return {name: self[name].data() for name in self._names()}  # type: ignore[index]
