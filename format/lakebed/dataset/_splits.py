"""A dataset's facade: named splits, which a tensor of class labels tells row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset._base import DatasetBase
from lakebed.errors import InvalidInputError

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset

TENSOR = "split"
_NONE = -1


class SplitMethods(DatasetBase):
    """Rows for training, validation, testing."""

    @property
    def splits(self) -> dict[str, Self]:
        """A view of the rows of each split, by name; of a view, those rows that it has.

        The tensor ``split`` of htype ``class_label`` tells them; importers make it, and :meth:`save_split`. Splits
        without rows are left out.
        """
        whole = self._whole_dataset()
        if TENSOR not in whole.tensors or whole[TENSOR].htype != "class_label":
            return {}
        labels = _labels(whole, whole.max_len)[self._index.rows(whole.max_len)]
        names = list(whole[TENSOR].info.get("class_names") or ())
        found = {name: np.flatnonzero(labels == number) for number, name in enumerate(names)}
        return {name: self[_selection(rows)] for name, rows in found.items() if len(rows)}  # type: ignore[index]

    def save_split(
        self, name: str, rows: Sequence[int] | NDArray[Any] | slice | Self, *, move: bool = False
    ) -> None:
        """Give rows the name of a split, in place of the rows that had it before.

        The names stay with their rows, whatever is removed or inserted, and go with them into copies and exports. They
        are stored in the tensor ``split``, which is made if there is none: rows that are appended later name it, too,
        or are appended with ``append_empty=True``.

        Parameters
        ----------
        name
            Name of the split.
        rows
            Numbers of rows, a mask, a slice, or a view of this dataset, such as one of :meth:`random_split`.
        move
            Take rows out of other splits, in place of an error.

        Raises
        ------
        InvalidInputError
            If the name is empty, rows belong to another split, or the view is one of another dataset.
        IndexError
            If there is no such row.
        """
        self._check_changeable("save_split")
        whole = self._whole_dataset()
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
        """Take the rows of a split out of it; they stay where they are.

        Parameters
        ----------
        name
            Name of the split.

        Raises
        ------
        InvalidInputError
            If there is no such split.
        """
        self._check_changeable("delete_split")
        there = self.splits
        if name not in there:
            raise InvalidInputError(f"there is no split {name!r}; splits: {', '.join(there) or 'none'}")
        whole = self._whole_dataset()
        labels = _labels(whole, whole.max_len)
        labels[labels == list(whole[TENSOR].info["class_names"]).index(name)] = _NONE
        with whole:
            _store(whole, labels)

    def _whole_dataset(self) -> Dataset:
        found: Dataset = type(self)(self._handle)  # type: ignore[assignment]
        return found

    def _numbers(
        self, rows: Sequence[int] | NDArray[Any] | slice | DatasetBase, count: int
    ) -> NDArray[np.int64]:
        """Return the numbers of rows, each once."""
        if isinstance(rows, DatasetBase):
            if rows._session is not self._session:  # noqa: SLF001 - of this class
                raise InvalidInputError("the view is one of another dataset, or of another version")
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
            raise IndexError(f"there is no row {wrong[0]}: the dataset has {count:,}")
        return np.unique(found.astype(np.int64) % max(count, 1))


def _selection(rows: NDArray[np.int64]) -> slice | list[int]:
    """Return rows as what selects them fastest."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows.tolist()


def _labels(whole: Dataset, count: int) -> NDArray[np.int64]:
    """Return the number of the split of each row, -1 for none."""
    labels = np.full(count, _NONE, np.int64)
    there = len(whole[TENSOR])
    if there:
        column = whole.read_columns(0, there, [TENSOR])[TENSOR]
        found = column.cast("int64").fill_null(_NONE).to_numpy(zero_copy_only=False)
        labels[:there] = found
    return labels


def _prepare(whole: Dataset, name: str) -> list[str]:
    """Make the tensor if there is none, with this name among others, and return the names."""
    if TENSOR not in whole.tensors:
        whole.create_tensor(TENSOR, htype="class_label", class_names=[name])
    elif whole[TENSOR].htype != "class_label":
        raise InvalidInputError(
            f"the tensor {TENSOR!r} is one of htype {whole[TENSOR].htype}, not of class labels: rename it first"
        )
    names = list(whole[TENSOR].info.get("class_names") or ())
    if name not in names:
        names.append(name)
        whole[TENSOR].info["class_names"] = names
    return names


def _store(whole: Dataset, labels: NDArray[np.int64]) -> None:
    import pyarrow as pa

    tensor, session = whole[TENSOR], whole._session  # noqa: SLF001 - of this class
    with session.mutex:
        epoch = session.epoch
        tensor.clear()
        tensor.extend(pa.array(labels, mask=labels == _NONE))
        session.epoch = epoch  # no row has moved: views that are there, the other splits, stay what they are
