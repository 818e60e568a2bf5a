"""Methods that add, replace, remove and publish rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lakebed.dataset.base import DatasetBase
from lakebed.dataset.chapters.schema import SchemaMethods
from lakebed.errors import InvalidInputError, InvalidOperationError


class RowMethods(DatasetBase):
    """Changes of rows in all tensors at once, or in none."""

    def append(self, sample: Any, skip_ok: bool = False, append_empty: bool = False) -> None:
        """Add one row to all tensors, or to none if a sample does not fit.

        Parameters
        ----------
        sample
            {tensor: sample}, one row of a dataset, or an instance of a dataclass or a model of Pydantic.
        skip_ok
            Leave tensors unchanged that the row does not name.
        append_empty
            Append an empty sample to tensors that the row does not name.

        Raises
        ------
        SampleAppendingError, KeyError, TensorDoesNotExistError, ValueError, SampleAppendError
            If the row is not a dictionary, lacks tensors or names unknown tensors, or a sample does not fit.
        """
        whole = self._columns is None and self._index.is_trivial
        if whole and isinstance(sample, dict) and self._session.try_append_row(self._group, sample):
            self._session.epoch += 1
            return
        from lakebed.session.changes.append import append_row

        self._check_changeable("append")
        row = sample.tensors if isinstance(sample, SchemaMethods) else sample
        append_row(self._table(), self._group, row, skip_ok=skip_ok, append_empty=append_empty)
        self._session.epoch += 1

    def extend(
        self,
        samples: Any,
        skip_ok: bool = False,
        append_empty: bool = False,
        ignore_errors: bool = False,
        progressbar: bool = False,
    ) -> None:
        """Add many rows, passed as columns or as a table: all of them, or none after an error.

        Parameters
        ----------
        samples
            Columns by tensor name: arrays, lists, Arrow data or tensors of one length. Or a table whose columns have
            the names of tensors: a data frame of pandas or polars, a table, batch or reader of Arrow, a relation of
            DuckDB, a dataset. Or rows: dictionaries with the same keys, or instances of one class.
        skip_ok, append_empty
            As for :meth:`append`.
        ignore_errors
            Leave out rows that do not fit instead of failing.
        progressbar
            Show a progress bar.

        Raises
        ------
        SampleExtendingError, KeyError, TensorDoesNotExistError, ValueError, SampleExtendError
            If the columns lack tensors, name unknown tensors or differ in length, or a sample does not fit.
        """
        from lakebed.session.changes.append import extend_rows

        self._check_changeable("extend")
        columns = samples.tensors if isinstance(samples, SchemaMethods) else samples
        extend_rows(
            self._table(),
            self._group,
            columns,
            skip_ok=skip_ok,
            append_empty=append_empty,
            ignore_errors=ignore_errors,
            progressbar=progressbar,
        )
        self._session.epoch += 1

    def update(self, sample: Mapping[str, Any]) -> None:
        """Replace the samples of the selected rows in some tensors: all of them, or none after an error.

        Parameters
        ----------
        sample
            Value by tensor name for a single row; for several rows, a sequence with one value per row.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist.
        SampleUpdateError
            If a sample does not fit; the cause gives the reason.
        """
        if not isinstance(sample, Mapping):
            raise TypeError(
                f"update takes a dictionary from tensor names to samples, not {type(sample).__name__}"
            )
        from lakebed.session.changes.assign import assign_all

        names = self._table_of(sample).names
        assign_all(self._session, [(names[name], self._index, value) for name, value in sample.items()])

    def pop(self, index: int | Sequence[int] | slice | DatasetBase | None = None) -> None:
        """Remove rows from all tensors that have them: one, several, or (None) the last row of the longest tensor.

        Parameters
        ----------
        index
            Row, slice or list of rows, or a view of this dataset; None is the last row.

        Raises
        ------
        IndexError
            If no tensor has the row, or a row number is negative.
        ValueError
            If a row is named twice.
        InvalidInputError
            If the view belongs to another dataset.
        """
        from lakebed.session.changes.append import pop_rows

        self._check_changeable("pop")
        if isinstance(index, DatasetBase):
            if index._handle is not self._handle:  # noqa: SLF001 - of this class
                raise InvalidInputError(
                    "the rows to remove are a view of another dataset, or of this one opened again"
                )
            rows = index._index.padded_rows(self._table().longest)  # noqa: SLF001
            index = np.unique(np.asarray(rows, np.int64)).tolist()
        pop_rows(self._table(), index)

    def rechunk(
        self,
        tensors: str | Sequence[str] | None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
    ) -> None:
        """Join small chunks, which many changes can leave.

        Parameters
        ----------
        tensors
            Names of tensors; None is all.
        num_workers, scheduler, progressbar
            Accepted for compatibility.

        Raises
        ------
        TensorDoesNotExistError
            If the tensor does not exist.
        """
        self._check_changeable("rechunk")
        table = self._table([tensors] if isinstance(tensors, str) else tensors)
        with self._session.mutex, self._session.writing() as draft:
            for state in table.states().values():
                draft.rows.rechunk(state.key)

    # -- publishing ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Publish all changes: they are durable and visible to every reader when this returns."""
        self._session.flush()

    def discard(self) -> None:
        """Drop all unpublished changes: rows, values, tensors and info are as after the last `flush`.

        Inside a ``with`` block, the writer's lock is kept.
        """
        self._session.discard()
        self._session.epoch += 1

    def maybe_flush(self) -> None:
        """Publish all changes, unless inside a ``with`` block, which publishes them at its end."""
        if not self._session.is_held:
            self._session.flush()

    def clear_cache(self) -> None:
        """Publish all changes and empty the cache of chunks in memory."""
        self._session.flush()
        self._session.source.clear()

    def close(self) -> None:
        """Publish all changes and release the writer's lock; the dataset stays usable."""
        self._session.close()

    @property
    def read_only(self) -> bool:
        """True if changes are refused."""
        return self._session.read_only

    @read_only.setter
    def read_only(self, value: bool) -> None:
        if not self._index.is_trivial:
            raise InvalidOperationError(
                "read_only property cannot be toggled for a dataset view; use the whole dataset"
            )
        if value:
            self._session.flush()
        self._session.read_only = bool(value)
