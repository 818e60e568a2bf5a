"""A dataset's facade: rows added, replaced and removed, and published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lakebed.dataset.base import DatasetBase
from lakebed.dataset.chapters.schema import SchemaMethods
from lakebed.errors import InvalidInputError, InvalidOperationError


class RowMethods(DatasetBase):
    """Changes of rows, in all tensors at once or in none."""

    def append(
        self, sample: Mapping[str, Any] | SchemaMethods, skip_ok: bool = False, append_empty: bool = False
    ) -> None:
        """Add one row to all tensors, or to none if anything does not fit.

        Parameters
        ----------
        sample
            {tensor: sample}, or one row of a dataset.
        skip_ok
            Tensors that the row does not name stay as they are.
        append_empty
            Tensors that the row does not name get an empty sample.

        Raises
        ------
        SampleAppendingError, KeyError, TensorDoesNotExistError, ValueError, SampleAppendError
            If the row is no dictionary, leaves out or invents tensors, or a sample does not fit.
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
        """Add many rows given as columns or as a table, all or nothing.

        Parameters
        ----------
        samples
            Column by tensor name: arrays, lists, Arrow data or tensors, all of one length. Or a table whose columns
            have the names of tensors: a data frame of pandas or polars, a table, batch or reader of Arrow, a relation
            of DuckDB, a dataset. Or rows: dictionaries with the same keys.
        skip_ok, append_empty
            As for :meth:`append`.
        ignore_errors
            Leave out rows that do not fit instead of failing.
        progressbar
            Show how far it is.

        Raises
        ------
        SampleExtendingError, KeyError, TensorDoesNotExistError, ValueError, SampleExtendError
            If the columns leave out or invent tensors, differ in length, or a sample does not fit.
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
        """Replace the samples of the selected row in the tensors that are named: all of them, or none.

        Parameters
        ----------
        sample
            Value by tensor name: one for a single row, else as many as rows are selected.

        Raises
        ------
        TensorDoesNotExistError
            If there is no such tensor.
        SampleUpdateError
            If a sample does not fit; the cause says why.
        """
        if not isinstance(sample, Mapping):
            raise TypeError(
                f"update takes a dictionary from tensor names to samples, not {type(sample).__name__}"
            )
        from lakebed.session.changes.assign import assign_all

        names = self._table_of(sample).names
        assign_all(self._session, [(names[name], self._index, value) for name, value in sample.items()])

    def pop(self, index: int | Sequence[int] | slice | DatasetBase | None = None) -> None:
        """Remove rows from all tensors that have them: one, several, or (None) the last of the longest tensor.

        Parameters
        ----------
        index
            Row, slice or list of rows, or a view of this dataset; None is the last row.

        Raises
        ------
        IndexError
            If no tensor has such a row, or a row number is negative.
        ValueError
            If a row is named twice.
        InvalidInputError
            If it is a view of another dataset.
        """
        from lakebed.session.changes.append import pop_rows

        self._check_changeable("pop")
        if isinstance(index, DatasetBase):
            if index._handle is not self._handle:  # noqa: SLF001 - of this class
                raise InvalidInputError(
                    "the rows to remove are a view of another dataset, or of another handle on it"
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
        """Put the samples of chunks that became small together again.

        Parameters
        ----------
        tensors
            Names of tensors; None takes all.
        num_workers, scheduler, progressbar
            Accepted for compatibility.

        Raises
        ------
        TensorDoesNotExistError
            If there is no such tensor.
        """
        self._check_changeable("rechunk")
        table = self._table([tensors] if isinstance(tensors, str) else tensors)
        with self._session.mutex, self._session.writing() as draft:
            for state in table.states().values():
                draft.rows.rechunk(state.key)

    # -- publishing ------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Publish all changes: durable and visible to every reader when this returns."""
        self._session.flush()

    def discard(self) -> None:
        """Forget all changes that are not published: rows, values, tensors and info are as the last `flush` left them.

        A ``with`` block keeps the writer's lock.
        """
        self._session.discard()
        self._session.epoch += 1

    def maybe_flush(self) -> None:
        """Publish all changes unless a ``with`` block is open, which does so at its end."""
        if not self._session.is_held:
            self._session.flush()

    def clear_cache(self) -> None:
        """Publish all changes and drop the chunks that are kept in memory."""
        self._session.flush()
        self._session.source.clear()

    def close(self) -> None:
        """Publish all changes and release the writer's lock; the dataset stays usable."""
        self._session.close()

    @property
    def read_only(self) -> bool:
        """Whether changes are refused."""
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
