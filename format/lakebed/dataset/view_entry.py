"""Entries of the list of saved views, as users are given them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from lakebed.runtime.printable import printable
from lakebed.session.handle import FromView, Handle

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset
    from lakebed.documents.saved_views import SavedView
    from lakebed.storage.url import Location
    from lakebed.views.load import Opened


class ViewEntry:
    """A view that is saved in a dataset; :meth:`load` opens it.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://entry-example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> _ = ds.commit()
    >>> _ = ds[[2, 0]].save_view(message="the outer ones", id="outer", verbose=False)
    >>> entry = ds.get_view("outer")
    >>> entry.message, entry.load(verbose=False).x.numpy().ravel().tolist()
    ('the outer ones', [3, 1])
    """

    def __init__(self, dataset: Dataset, entry: SavedView) -> None:
        self._dataset = dataset
        self._entry = entry

    @property
    def id(self) -> str:
        """Its name."""
        return self._entry.id

    @property
    def message(self) -> str:
        """What was said when it was saved; empty if nothing was."""
        return self._entry.doc.get("message") or ""

    @property
    def commit_id(self) -> str:
        """The commit whose rows it shows."""
        return self._entry.version

    @property
    def query(self) -> str | None:
        """The expression or function that chose the rows, if one did."""
        return self._entry.doc.get("query")

    @property
    def tql_query(self) -> str | None:
        """The query that chose the rows, if one did."""
        return self._entry.doc.get("tql_query")

    @property
    def virtual(self) -> bool:
        """Whether only the numbers of the rows are stored; else the samples were copied."""
        return self._entry.is_virtual

    @property
    def source_dataset_path(self) -> str | None:
        """Address that the dataset had when the view was saved."""
        return self._entry.source

    @property
    def source_dataset(self) -> Dataset:
        """The dataset that it is of."""
        return self._dataset

    @property
    def info(self) -> dict[str, Any]:
        """Everything that is stored of it."""
        return dict(self._entry.doc)

    def __getitem__(self, name: str) -> Any:
        """Return a member of :attr:`info`.

        Raises
        ------
        KeyError
            If there is no such member.
        """
        return self._entry.doc[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a member of :attr:`info`, or a default if there is no such member.

        Parameters
        ----------
        name
            Name of the member.
        default
            Returned without it.
        """
        return self._entry.doc.get(name, default)

    def load(self, verbose: bool = True) -> Dataset:
        """Open it: a dataset for reading, at the commit that it is of, or its copy.

        Parameters
        ----------
        verbose
            Accepted for compatibility.

        Raises
        ------
        KeyError
            If it was deleted meanwhile.
        CheckoutError
            If its commit is no longer part of the history.
        """
        return opened_as(self._dataset, self._open())

    def optimize(
        self,
        tensors: Sequence[str] | None = None,
        unlink: bool = True,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
    ) -> Self:
        """Copy its samples, in its order, so that they are read one after the other; do nothing if that was done.

        A copy that was cut off goes on by the same call.

        Parameters
        ----------
        tensors
            Names of the tensors and groups to copy; None copies all.
        unlink
            Fetch what links lead to.
        num_workers
            Threads that copy tensors side by side.
        scheduler
            Accepted for compatibility.
        progressbar
            Show a bar.

        Returns
        -------
        This entry.

        Raises
        ------
        ReadOnlyModeError
            If the dataset was opened read-only.
        DatasetViewSavingError
            If it shows a part of each sample.
        """
        if not self.virtual:
            return self
        from lakebed.copying.copy import chosen
        from lakebed.copying.materialize import Copying
        from lakebed.session.table import Table
        from lakebed.views.optimize import optimize

        self._dataset._check_views_changeable()  # noqa: SLF001
        opened = self._open()
        if not opened.entry.is_virtual:  # by somebody else, since this entry was read
            self._entry = opened.entry
            return self
        table = Table(opened.session, chosen(opened.session.schema(), "", tensors), opened.index)
        how = Copying(unlink=unlink, progressbar=progressbar, workers=num_workers)
        self._entry = optimize(self._dataset.storage, opened, table, how)
        return self

    def delete(self) -> None:
        """Remove it, with its copies; the rows of the dataset stay.

        Raises
        ------
        KeyError
            If it is gone already.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        self._dataset.delete_view(self.id)

    def _open(self) -> Opened:
        from lakebed.views.load import load

        session = self._dataset._session  # noqa: SLF001
        return load(session.storage, self.id, session.credentials)

    def __repr__(self) -> str:
        return printable(
            f"View(id={self.id!r}, message={self.message!r}, virtual={self.virtual}, commit_id={self.commit_id}, "
            f"query={self.query!r}, tql_query={self.tql_query!r})"
        )


def opened_as(dataset: Dataset, opened: Opened) -> Dataset:
    """Return a view that was opened as a dataset of the class of another."""
    source = dataset._handle  # noqa: SLF001
    entry = opened.entry
    handle = Handle(opened.session, source.path if entry.is_virtual else f"{source.path}/{entry.folder[:-1]}")
    handle.view = FromView(entry, opened.rows, is_writable=not source.session.read_only)
    return type(dataset)(handle, "", opened.index, pad=opened.pad)


def followed(dataset: Dataset, location: Location) -> Dataset:
    """Return the view that a dataset is, if it is one that was saved at a place of its own; else the dataset.

    Parameters
    ----------
    location
        Where the dataset was opened.
    """
    from lakebed.views.load import entry_in, follow

    session = dataset._session  # noqa: SLF001
    entry = entry_in(session)
    if entry is None:
        return dataset
    opened = follow(session, entry, location)
    handle = Handle(opened.session, opened.session.storage.url)
    handle.view = FromView(entry, opened.rows, is_writable=False)
    return type(dataset)(handle, "", opened.index, pad=opened.pad)
