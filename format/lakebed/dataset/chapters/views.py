"""Saved views: rows that are stored beside the dataset under a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from lakebed.dataset.base import DatasetBase
from lakebed.errors import InvalidOperationError, ReadOnlyModeError, UnsupportedParameterException
from lakebed.runtime.printable import printable
from lakebed.session.handle import FromView, Handle

if TYPE_CHECKING:
    from lakebed.documents.saved_views import SavedView
    from lakebed.session.places import Path
    from lakebed.session.table import Table
    from lakebed.storage.url import Location
    from lakebed.views.load import Opened

_OF_PLACES = frozenset("access_method creds memory_cache_size org_id public token verbose".split())
D = TypeVar("D", bound="ViewMethods")


class ViewMethods(DatasetBase):
    """Views that are stored beside the dataset."""

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
        """Save the numbers of these rows, together with the commit to which the rows belong.

        The view is stored as a whole or, after an error, not at all. Deep Lake 3.x opens it, too.

        Parameters
        ----------
        message
            Text that is stored with the view.
        path
            Separate address at which ``lakebed.load`` opens the view; None stores it with the dataset.
        id
            Name of the view; None derives a name from its content, so that saving the same rows again replaces the
            view.
        optimize
            Copy the samples in this order, so that they are read sequentially. The same call continues an interrupted
            copy.
        tensors
            Names of the tensors and groups to copy; None copies all.
        num_workers
            Threads that copy tensors side by side.
        scheduler
            Accepted for compatibility.
        verbose
            Show a bar while samples are copied.
        ignore_errors
            Store an empty sample in the copy in place of a broken link.
        overwrite
            Replace a view of this id, or a dataset at ``path``.
        ds_args
            ``creds`` for ``path``; other arguments of 3.x have no meaning here.

        Returns
        -------
        Address of the view's data.

        Raises
        ------
        DatasetViewSavingError
            If the dataset has uncommitted changes, another view has the id, or ``path`` is not empty.
        ReadOnlyModeError
            If the dataset was opened read-only, and ``path`` is None.
        InvalidOperationError
            If this is the copied form of a saved view.
        LockedException, CommitFailed, CommitStateUnknown
            If other processes change the list of views, or the storage fails.
        """
        from lakebed.copying.materialize import Copying
        from lakebed.views import optimize as copies
        from lakebed.views.save import READ_ONLY, Wish, kept, save, save_at

        if unknown := ds_args.keys() - _OF_PLACES:
            raise UnsupportedParameterException(f"unexpected argument {min(unknown)!r} of save_view")
        creds = ds_args.get("creds")
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
                "a saved view shows tensors by their stored names: ds.rename_tensor changes these, and ds.copy "
                "stores the rows under the new ones"
            )
        wanted = tensors if tensors is not None else self._columns
        return Table(
            self._session, chosen(self._session.schema(), self._group, wanted), self._index, self._pad
        )

    def _may_save(self) -> bool:
        view = self._handle.view
        return not self._session.read_only if view is None else view.is_writable

    def _check_views_changeable(self) -> None:
        if not self._may_save():
            raise ReadOnlyModeError(
                f"{self._handle.path} was opened read-only: open it with read_only=False to change its views"
            )

    def get_views(self, commit_id: str | None = None) -> list[ViewEntry[Self]]:
        """Return the saved views in the order in which they were saved.

        Parameters
        ----------
        commit_id
            Return only the views of this commit.

        Raises
        ------
        DatasetCorruptError
            If the list is damaged.
        """
        from lakebed.views.catalog import read_views

        found = read_views(self._session.storage)
        return [ViewEntry(self, view) for view in found if commit_id in (None, view.version)]

    def get_view(self, id: str) -> ViewEntry[Self]:  # noqa: A002 - the name of 3.x
        """Return a saved view.

        Parameters
        ----------
        id
            Name of the view.

        Raises
        ------
        KeyError
            If no view has this name.
        """
        from lakebed.views.save import named

        return ViewEntry(self, named(self._session.storage, id))

    def load_view(
        self,
        id: str,  # noqa: A002 - the name of 3.x
        optimize: bool = False,
        tensors: Sequence[str] | None = None,
        num_workers: int = 0,
        scheduler: str = "threaded",
        progressbar: bool = True,
    ) -> Self:
        """Open a saved view, for reading.

        Parameters
        ----------
        id
            Name of the view.
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
        The rows of the view's commit, or the copy of these rows.

        Raises
        ------
        KeyError
            If no view has this name.
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
            Name of the view.

        Raises
        ------
        KeyError
            If no view has this name.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        from lakebed.views.save import delete

        self._check_views_changeable()
        delete(self._session.storage, id)


class ViewEntry(Generic[D]):
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

    def __init__(self, dataset: D, entry: SavedView) -> None:
        self._dataset = dataset
        self._entry = entry

    @property
    def id(self) -> str:
        """Name of the view."""
        return self._entry.id

    @property
    def message(self) -> str:
        """Text that was stored with the view; may be empty."""
        return self._entry.doc.get("message") or ""

    @property
    def commit_id(self) -> str:
        """Commit whose rows the view shows."""
        return self._entry.version

    @property
    def query(self) -> str | None:
        """Expression or function that chose the rows, if any."""
        return self._entry.doc.get("query")

    @property
    def tql_query(self) -> str | None:
        """Query that chose the rows, if any."""
        return self._entry.doc.get("tql_query")

    @property
    def virtual(self) -> bool:
        """True if only row numbers are stored; otherwise the samples were copied."""
        return self._entry.is_virtual

    @property
    def source_dataset_path(self) -> str | None:
        """Address that the dataset had when the view was saved."""
        return self._entry.source

    @property
    def source_dataset(self) -> D:
        """The dataset to which the view belongs."""
        return self._dataset

    @property
    def info(self) -> dict[str, Any]:
        """All members that the list of views stores about the view."""
        return dict(self._entry.doc)

    def __getitem__(self, name: str) -> Any:
        """Return a member of :attr:`info`.

        Raises
        ------
        KeyError
            If the member does not exist.
        """
        return self._entry.doc[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a member of :attr:`info`, or a default if it does not exist.

        Parameters
        ----------
        name
            Name of the member.
        default
            Value to return if the member does not exist.
        """
        return self._entry.doc.get(name, default)

    def load(self, verbose: bool = True) -> D:
        """Open the view for reading: the rows at its commit, or the copy of the rows.

        Parameters
        ----------
        verbose
            Accepted for compatibility.

        Raises
        ------
        KeyError
            If the view was deleted meanwhile.
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
        """Copy the samples in the order of the view, so that they are read sequentially; do nothing if they are copies.

        The same call continues an interrupted copy.

        Parameters
        ----------
        tensors
            Names of the tensors and groups to copy; None copies all.
        unlink
            Copy the data to which links refer, instead of links.
        num_workers
            Threads that copy tensors side by side.
        scheduler
            Accepted for compatibility.
        progressbar
            Show a progress bar.

        Returns
        -------
        This entry.

        Raises
        ------
        ReadOnlyModeError
            If the dataset was opened read-only.
        DatasetViewSavingError
            If the view shows a part of each sample.
        """
        if not self.virtual:
            return self
        from lakebed.copying.copy import chosen
        from lakebed.copying.materialize import Copying
        from lakebed.session.table import Table
        from lakebed.views.optimize import optimize

        self._dataset._check_views_changeable()  # noqa: SLF001
        opened = self._open()
        if not opened.entry.is_virtual:  # another process has copied the view since this entry was read
            self._entry = opened.entry
            return self
        names = chosen(opened.session.schema(), "", tensors)
        table = Table(opened.session, names, opened.index, opened.pad)
        how = Copying(unlink=unlink, progressbar=progressbar, workers=num_workers)
        self._entry = optimize(self._dataset._session.storage, opened, table, how)  # noqa: SLF001
        return self

    def delete(self) -> None:
        """Remove the view and its copied samples; the rows of the dataset stay.

        Raises
        ------
        KeyError
            If the view was already deleted.
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


def opened_as(dataset: D, opened: Opened) -> D:
    """Return an opened view as a dataset of the same class as its source."""
    source = dataset._handle  # noqa: SLF001
    entry = opened.entry
    handle = Handle(opened.session, source.path if entry.is_virtual else f"{source.path}/{entry.folder[:-1]}")
    handle.view = FromView(entry, opened.rows, is_writable=not source.session.read_only)
    return type(dataset)(handle, "", opened.index, pad=opened.pad)


def followed(dataset: D, location: Location) -> D:
    """Return a dataset opened as a view if it is a view saved at a separate address; return other datasets unchanged.

    Parameters
    ----------
    location
        Place of the dataset.
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
