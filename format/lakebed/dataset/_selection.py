"""A dataset's facade: how many rows there are, and which of them are selected."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Self

from lakebed.dataset._base import DatasetBase
from lakebed.reading.index import Index


class SelectionMethods(DatasetBase):
    """Lengths, and views of rows."""

    @property
    def index(self) -> Index:
        """Which rows are selected."""
        return self._index

    @property
    def is_view(self) -> bool:
        """Whether rows are selected, or this is the copy that a saved view was optimized to."""
        view = self._handle.view
        return not self._index.is_trivial or (view is not None and not view.entry.is_virtual)

    def _lengths(self) -> list[int]:
        rows = self._index.padded_rows if self._pad else self._index.rows
        states = self._table().states().values()
        return [1 if self._index.is_single else len(rows(state.length)) for state in states]

    def __len__(self) -> int:
        if self._pad:
            return self.max_len
        lengths = self._lengths()
        if len(set(lengths)) > 1:
            warnings.warn(
                "The tensors differ in length; len(ds) is that of the shortest, ds.max_len of the longest.",
                stacklevel=2,
            )
        return min(lengths, default=0)

    def __bool__(self) -> bool:
        return True

    @property
    def max_len(self) -> int:
        """Length of the longest tensor."""
        if self._pad and not self._index.is_single:
            return len(self._index.rows(self._whole().max_len))
        return max(self._lengths(), default=0)

    @property
    def min_len(self) -> int:
        """Length of the shortest tensor."""
        return min(self._lengths(), default=0)

    def _whole(self) -> Self:
        return type(self)(self._handle, self._group, None, self._columns)

    @property
    def num_samples(self) -> int:
        """Rows of the whole dataset, whatever is selected: the length of the shortest tensor."""
        return self._whole().min_len

    @property
    def sample_indices(self) -> Sequence[int]:
        """Row numbers that this selection keeps, against the whole dataset."""
        rows = self._index.rows(self._whole().max_len if self._pad else self.num_samples)
        view = self._handle.view
        if view is not None and not view.entry.is_virtual:
            return [int(view.rows[row]) for row in rows]
        return rows if isinstance(rows, range) else [int(row) for row in rows]

    @property
    def max_view(self) -> Self:
        """View as long as the longest tensor; samples that the others lack read as empty ones."""
        return type(self)(self._handle, self._group, self._index, self._columns, pad=True)

    @property
    def min_view(self) -> Self:
        """View of the rows that every tensor has."""
        return type(self)(self._handle, self._group, self._index[: self.min_len], self._columns)

    @property
    def no_view_dataset(self) -> Self:
        """The dataset without a selection of rows."""
        return type(self)(self._handle, self._group) if self.is_view else self
