"""Verbs of rows, of datasets and of results: looking at them, and choosing some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import quoted

if TYPE_CHECKING:
    import pyarrow as pa


class Split(NamedTuple):
    """What ``train_test_split`` returns: ``train, test = ...``, and ``split["train"]``."""

    train: Any
    test: Any

    def __getitem__(self, item: Any) -> Any:
        return self._asdict()[item] if isinstance(item, str) else tuple.__getitem__(self, item)

    def keys(self) -> list[str]:
        """Return the names of the parts."""
        return ["train", "test"]

    def items(self) -> list[tuple[str, Any]]:
        """Return names and parts."""
        return list(self._asdict().items())


class RowVerbs:
    """Looks at rows, and chooses some: what is chosen is a view, or a result where columns are computed."""

    if TYPE_CHECKING:

        def __len__(self) -> int: ...
        def __getitem__(self, item: Any) -> Any: ...
        def query(self, query_string: str, *, parameters: Any = ()) -> Any: ...
        def to_arrow(self, tensors: Sequence[str] | None = None) -> pa.Table: ...
        @property
        def tensors(self) -> Mapping[str, Any]: ...

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.tensors)

    columns = column_names

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self)

    @property
    def num_columns(self) -> int:
        """Number of columns."""
        return len(self.tensors)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.tensors)

    @property
    def dtypes(self) -> dict[str, Any]:
        """Dtype of each column: {name: dtype}."""
        return {name: column.dtype for name, column in self.tensors.items()}

    def head(self, n: int = 5) -> Self:
        """Return the first rows; of a negative number, all but that many at the end."""
        return self[:n]  # type: ignore[no-any-return]

    def tail(self, n: int = 5) -> Self:
        """Return the last rows; of a negative number, all but that many at the beginning."""
        return self[max(len(self) - n, 0) if n >= 0 else -n :]  # type: ignore[no-any-return]

    # -- which rows --------------------------------------------------------------------------------------------------

    def select(self, rows: Any) -> Self:
        """Choose rows by their numbers, or columns by their names."""
        return self[rows if isinstance(rows, np.ndarray | slice | range) else list(rows)]  # type: ignore[no-any-return]

    def sort(self, by: str | Sequence[str], descending: bool | Sequence[bool] = False) -> Self:
        """Order the rows by columns; missing values come last.

        Parameters
        ----------
        by
            One column, or several, the first one first.
        descending
            Largest first: for all, or one for each.

        Returns
        -------
        A view of the rows.
        """
        names = [by] if isinstance(by, str) else list(by)
        flags = [descending] * len(names) if isinstance(descending, bool) else list(descending)
        if len(flags) != len(names) or not names:
            raise InvalidInputError(f"descending has {len(flags)} values for {len(names)} columns")
        keys = ", ".join(quoted(name) + " DESC" * flag for name, flag in zip(names, flags, strict=True))
        return self.query(f"SELECT * ORDER BY {keys}")  # type: ignore[no-any-return]
