"""A dataset's facade: rows that are kept, as named splits, which a tensor tells, and as saved views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset._base import DatasetBase
from lakebed.errors import (
    InvalidInputError,
    InvalidOperationError,
    ReadOnlyModeError,
    UnsupportedParameterException,
)
from lakebed.runtime.printable import printable

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.dataset.view_entry import ViewEntry
    from lakebed.session.places import Path
    from lakebed.session.table import Table

TENSOR = "split"
_NONE = -1


class _Splits(dict[str, Any]):
    """Views by name, which print as how many rows each has: a view prints all tensors."""

    def __repr__(self) -> str:
        told = (f"{printable(repr(name))}: {len(view):,} rows" for name, view in self.items())
        return f"{{{', '.join(told)}}}"


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
        views = {name: self[_selection(rows)] for name, rows in found.items() if len(rows)}  # type: ignore[index]
        return _Splits(views)

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


class ViewMethods(DatasetBase):
    """Views that are saved beside the dataset."""

    def save_view(
        self,
        message: str | None = None,
        path: Path | None = None,
        id: str | None = None,  # noqa: A002 - the name of 3.x
        optimize: bool = False,
        tensors: Sequence[str] | None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        verbose: bool = True,
        ignore_errors: bool = False,
        overwrite: bool = False,
        **ds_args: Any,
    ) -> str:
        """Save which rows these are, of the commit that they are of.

        The view is there with the return of this call, complete, or not at all. Deep Lake 3.x opens it, too.

        Parameters
        ----------
        message
            What to remember of it.
        path
            Place of its own, where ``lakebed.load`` opens it; None is beside the dataset.
        id
            Its name; None is one that its content tells: to save the same again replaces it.
        optimize
            Copy the samples, in this order, so that they are read one after the other. A copy that was cut off goes
            on by the same call.
        tensors
            Names of the tensors and groups to copy; None copies all.
        num_workers
            Threads that copy tensors side by side.
        scheduler
            Accepted for compatibility.
        verbose
            Show a bar while samples are copied.
        ignore_errors
            Leave an empty sample in the copy where a link leads nowhere.
        overwrite
            Take the place of a view of this id, or of a dataset at ``path``.
        ds_args
            ``creds`` for ``path``; others of 3.x have no meaning here.

        Returns
        -------
        Where its data are.

        Raises
        ------
        DatasetViewSavingError
            If there are changes that are not committed, the id is taken, or ``path`` holds something.
        ReadOnlyModeError
            If the dataset was opened read-only, and there is no ``path``.
        InvalidOperationError
            If this is a copy that a view was optimized to.
        LockedException, CommitFailed, CommitStateUnknown
            If other processes are at the list of views, or its storage fails.
        """
        from lakebed.copying.materialize import Copying
        from lakebed.views import optimize as copies
        from lakebed.views.save import READ_ONLY, Wish, kept, save, save_at

        creds = _checked_arguments(ds_args)
        wish = Wish(id, message, overwrite, self._filter_text, self._query_text)
        if path is None and not self._may_save():
            raise ReadOnlyModeError(READ_ONLY)
        table = self._view_table(tensors)
        view = kept(table, wish, pad=self._pad, is_virtual=not optimize)
        how = Copying(ignore_errors=ignore_errors, progressbar=verbose, workers=num_workers)
        if path is None:
            entry = copies.save_copy(table, view, wish, how) if optimize else save(view, table.session, wish)
            return f"{self._handle.path}/{entry.folder[:-1]}"
        if creds is not None:
            from lakebed.storage.url import parse

            path = parse(path, creds=creds)
        if optimize:
            return copies.save_copy_at(table, view, path, how, overwrite=overwrite)
        return save_at(view, path, overwrite=overwrite)

    def _view_table(self, tensors: Sequence[str] | None) -> Table:
        from lakebed.copying.copy import chosen
        from lakebed.session.table import Table

        view = self._handle.view
        if view is not None and not view.entry.is_virtual:
            raise InvalidOperationError(
                f"this is the copy of view {view.entry.id!r}: select the rows in the dataset itself, "
                "ds[view.sample_indices], and save that"
            )
        if isinstance(self._columns, dict):
            raise InvalidOperationError(
                "a saved view shows tensors by the names that they have: ds.rename_tensor changes these, and ds.copy "
                "stores the rows under the new ones"
            )
        wanted = tensors if tensors is not None else self._columns
        return Table(self._session, chosen(self._session.schema(), self._group, wanted), self._index)

    def _may_save(self) -> bool:
        view = self._handle.view
        return not self._session.read_only if view is None else view.is_writable

    def _check_views_changeable(self) -> None:
        if not self._may_save():
            raise ReadOnlyModeError(
                f"{self._handle.path} was opened read-only: open it with read_only=False to change its views"
            )

    def get_views(self, commit_id: str | None = None) -> list[ViewEntry]:
        """Return the saved views in the order in which they were saved.

        Parameters
        ----------
        commit_id
            Only those of this commit.

        Raises
        ------
        DatasetCorruptError
            If the list is damaged.
        """
        from lakebed.dataset.view_entry import ViewEntry
        from lakebed.views.catalog import read_views

        found = read_views(self._session.storage)
        return [ViewEntry(self, view) for view in found if commit_id in (None, view.version)]  # type: ignore[arg-type]

    def get_view(self, id: str) -> ViewEntry:  # noqa: A002 - the name of 3.x
        """Return a saved view.

        Parameters
        ----------
        id
            Its name.

        Raises
        ------
        KeyError
            If there is none of this name.
        """
        from lakebed.dataset.view_entry import ViewEntry
        from lakebed.views.save import named

        return ViewEntry(self, named(self._session.storage, id))  # type: ignore[arg-type]

    def load_view(
        self,
        id: str,  # noqa: A002 - the name of 3.x
        optimize: bool = False,
        tensors: Sequence[str] | None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
    ) -> Dataset:
        """Open a saved view, for reading.

        Parameters
        ----------
        id
            Its name.
        optimize
            Copy its samples first, see :meth:`ViewEntry.optimize`.
        tensors
            Names of the tensors and groups to copy; None copies all.
        num_workers
            Threads that copy tensors side by side.
        scheduler
            Accepted for compatibility.
        progressbar
            Show a bar while samples are copied.

        Returns
        -------
        The rows of its commit, or the copy of them.

        Raises
        ------
        KeyError
            If there is none of this name.
        CheckoutError
            If its commit is no longer part of the history.
        """
        entry = self.get_view(id)
        if optimize:
            entry.optimize(tensors, num_workers=num_workers, scheduler=scheduler, progressbar=progressbar)
        return entry.load()

    def delete_view(self, id: str) -> None:  # noqa: A002 - the name of 3.x
        """Remove a saved view; the rows of the dataset stay.

        Parameters
        ----------
        id
            Its name.

        Raises
        ------
        KeyError
            If there is none of this name.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        from lakebed.views.save import delete

        self._check_views_changeable()
        delete(self._session.storage, id)


_OF_PLACES = frozenset("access_method memory_cache_size org_id public token verbose".split())


def _checked_arguments(given: dict[str, Any]) -> Any:
    """Return the credentials among the arguments for a place of 3.x."""
    unknown = given.keys() - _OF_PLACES - {"creds"}
    if unknown:
        raise UnsupportedParameterException(f"unexpected argument {min(unknown)!r} of save_view")
    return given.get("creds")


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
