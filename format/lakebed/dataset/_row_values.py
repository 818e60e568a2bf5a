"""A dataset's facade: rows as dictionaries of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from lakebed.dataset._base import DatasetBase
from lakebed.errors.root import strict


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
