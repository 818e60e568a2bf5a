"""Named splits of the rows, which the tensor ``split`` stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.base import DatasetBase
from lakebed.errors import InvalidInputError
from lakebed.runtime.printable import printable

TENSOR = "split"
_NONE = -1


class _Splits(dict[str, Any]):
    """Views by name; printed with only the number of rows of each view, because a printed view shows all tensors."""

    def __repr__(self) -> str:
        told = (f"{printable(repr(name))}: {len(view):,} rows" for name, view in self.items())
        return f"{{{', '.join(told)}}}"


class SplitMethods(DatasetBase):
    """Rows for training, validation, testing."""

    @property
    def splits(self) -> dict[str, Self]:
        """Views of the selected rows of each split, by name; splits without rows are left out.

        The tensor ``split`` of htype ``class_label`` stores the splits. Importers and :meth:`save_split` create it.
        """
        whole: Any = type(self)(self._handle)
        if TENSOR not in whole.tensors or whole[TENSOR].htype != "class_label":
            return {}
        labels = _labels(whole, whole.max_len)[self._index.rows(whole.max_len)]
        names = list(whole[TENSOR].info.get("class_names") or ())
        found = {name: np.flatnonzero(labels == number) for number, name in enumerate(names)}
        views = {name: self[_selection(rows)] for name, rows in found.items() if len(rows)}  # type: ignore[index]
        return _Splits(views)

    def save_split(
        self, name: str, rows: Sequence[int] | NDArray[Any] | slice | Self, *, move: bool = False
    ) -> None:
        """Save rows as a split with a name; they replace the previous rows of this split.

        Each row keeps the name of its split when other rows are removed or inserted, and in copies and exports. The
        tensor ``split`` stores the names, and is created if it does not exist. Rows that are appended later must then
        have a value for ``split``, or be appended with ``append_empty=True``.

        Parameters
        ----------
        name
            Name of the split.
        rows
            Row numbers, a mask, a slice, or a view of this dataset, such as one of :meth:`random_split`.
        move
            Take rows out of other splits instead of raising an error.

        Raises
        ------
        InvalidInputError
            If the name is empty, rows belong to another split, or the view belongs to another dataset.
        IndexError
            If the row does not exist.
        """
        self._check_changeable("save_split")
        whole: Any = type(self)(self._handle)
        if not name:
            raise InvalidInputError(f"a split has a name, such as 'train', not {name!r}")
        chosen = self._numbers(rows, whole.max_len)
        with whole:
            names = _prepare(whole, name)
            labels, number = _labels(whole, whole.max_len), names.index(name)
            taken = chosen[(labels[chosen] != _NONE) & (labels[chosen] != number)]
            if len(taken) and not move:
                other = names[labels[taken[0]]]
                raise InvalidInputError(
                    f"{len(taken):,} of the rows are in another split, such as row {taken[0]} in {other!r}: a row "
                    "belongs to one split; leave them out, or pass move=True"
                )
            labels[labels == number] = _NONE
            labels[chosen] = number
            _store(whole, labels)

    def delete_split(self, name: str) -> None:
        """Remove a split; its rows stay.

        Parameters
        ----------
        name
            Name of the split.

        Raises
        ------
        InvalidInputError
            If the split does not exist.
        """
        self._check_changeable("delete_split")
        there = self.splits
        if name not in there:
            raise InvalidInputError(f"there is no split {name!r}; splits: {', '.join(there) or 'none'}")
        whole: Any = type(self)(self._handle)
        labels = _labels(whole, whole.max_len)
        labels[labels == list(whole[TENSOR].info["class_names"]).index(name)] = _NONE
        with whole:
            _store(whole, labels)

    def _numbers(
        self, rows: Sequence[int] | NDArray[Any] | slice | DatasetBase, count: int
    ) -> NDArray[np.int64]:
        """Return distinct row numbers in ascending order."""
        if isinstance(rows, DatasetBase):
            if rows._session is not self._session:  # noqa: SLF001 - of this class
                raise InvalidInputError("the view belongs to another dataset, or to another version")
            return np.unique(np.asarray(rows._index.rows(count), np.int64))  # noqa: SLF001
        if isinstance(rows, slice):
            return np.arange(*rows.indices(count), dtype=np.int64)
        found = np.asarray(rows)
        if found.dtype == np.bool_:
            if len(found) != count:
                raise InvalidInputError(f"the mask has {len(found):,} values for {count:,} rows")
            return np.flatnonzero(found)
        if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
            raise InvalidInputError("rows are numbers, a mask, a slice or a view of this dataset")
        wrong = found[(found < -count) | (found >= count)]
        if len(wrong):
            raise IndexError(f"there is no row {wrong[0]}: the dataset has {count:,} rows")
        return np.unique(found.astype(np.int64) % max(count, 1))


def _selection(rows: NDArray[np.int64]) -> slice | list[int]:
    """Return the subscript that selects rows fastest: a slice if possible, else a list."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows.tolist()


def _labels(whole: Any, count: int) -> NDArray[np.int64]:
    """Return the number of each row's split; -1 for rows without a split."""
    labels = np.full(count, _NONE, np.int64)
    there = len(whole[TENSOR])
    if there:
        column = whole.read_columns(0, there, [TENSOR])[TENSOR]
        found = column.cast("int64").fill_null(_NONE).to_numpy(zero_copy_only=False)
        labels[:there] = found
    return labels


def _prepare(whole: Any, name: str) -> list[str]:
    """Create the tensor ``split`` if it does not exist, add a class name to it, and return all its class names."""
    if TENSOR not in whole.tensors:
        whole.create_tensor(TENSOR, htype="class_label", class_names=[name])
    elif whole[TENSOR].htype != "class_label":
        raise InvalidInputError(
            f"the tensor {TENSOR!r} has htype {whole[TENSOR].htype}, and splits need class_label: rename it first"
        )
    names = list(whole[TENSOR].info.get("class_names") or ())
    if name not in names:
        names.append(name)
        whole[TENSOR].info["class_names"] = names
    return names


def _store(whole: Any, labels: NDArray[np.int64]) -> None:
    import pyarrow as pa

    tensor, session = whole[TENSOR], whole._session  # noqa: SLF001 - of this class
    with session.mutex:
        epoch = session.epoch
        tensor.clear()
        tensor.extend(pa.array(labels, mask=labels == _NONE))
        session.epoch = epoch  # no row has moved, so existing views (such as the other splits) stay valid
