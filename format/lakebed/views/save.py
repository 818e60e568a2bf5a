"""Saving of views: the data is written first, then the entry in the list of views (format.md 12).

If the process is killed, the list is the old one or the new one. Data without an entry is not a view: the next save
uses another folder, and garbage collection removes the data later.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.saved_views import FOLDER, SavedView, SavedViews
from lakebed.errors import (
    DatasetExistsError,
    DatasetViewSavingError,
    InvalidKeyError,
    PathNotEmptyException,
    PreconditionFailed,
    ReadOnlyModeError,
)
from lakebed.runtime import clock
from lakebed.session import branches
from lakebed.session.places import Path, vacate
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.storage.base import Storage, check_key, traits_of
from lakebed.storage.files import orphan_files
from lakebed.views.catalog import change_views, read_views
from lakebed.views.files import TREE, files_of
from lakebed.views.selectors import axes_of, inside_of

READ_ONLY = "Cannot save view in read only dataset. Specify a path to save the view in a different location."
UNCOMMITTED = (
    "The dataset's HEAD node has uncommitted changes. Please create a commit on the dataset object "
    "[ds.commit(<insert optional message>)] prior to saving the view."
)


@dataclass(frozen=True, slots=True)
class Wish:
    """Options for saving a view.

    Parameters
    ----------
    id
        Name of the view; None for a hash of its content.
    overwrite
        Replace an existing view of this name.
    query, tql_query
        Text of the query or filter that chose the rows.
    """

    id: str | None = None
    message: str | None = None
    overwrite: bool = False
    query: str | None = None
    tql_query: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A view that is being saved.

    Parameters
    ----------
    rows
        Row numbers in the commit, shape (rows,).
    entry
        Entry of the view for the list.
    """

    rows: NDArray[np.uint64]
    entry: SavedView


def commit_of(session: Session) -> str:
    """Return the commit whose rows a session shows.

    Raises
    ------
    DatasetViewSavingError
        If the rows are not committed.
    """
    with session.mutex:
        version = session.snapshot.version_id
        if session.is_head:
            if branches.is_changed(session, session.schema()):
                raise DatasetViewSavingError(UNCOMMITTED)
            version = session.tree.commits[version].parent or version
        if not session.tree.commits[version].is_committed:
            raise DatasetViewSavingError(UNCOMMITTED)
        return version


def kept(table: Table, wish: Wish, *, pad: bool, is_virtual: bool) -> Kept:
    """Return the rows and the entry of a view.

    Parameters
    ----------
    pad
        True if the view includes rows after the end of shorter tensors.

    Raises
    ------
    DatasetViewSavingError
        If the rows are not committed, or the index cannot be stored.
    """
    version = commit_of(table.session)
    length = table.longest if pad else table.length
    rows = np.asarray(table.index.rows(length), dtype=np.uint64)
    inside = inside_of(table.index)
    source = table.session.storage.url
    doc: dict[str, Any] = {
        "id": "",
        "virtual-datasource": is_virtual,
        "source-dataset": source,
        "source-dataset-version": version,
        "created_at": clock.now(),
    }
    for name in ("message", "query", "tql_query"):
        value = getattr(wish, name)
        if value is not None:
            doc[name] = str(value)
    doc["source-dataset-index"] = axes_of(table.index, rows)
    if is_virtual:
        doc["first-index-subscriptable"] = not table.index.is_single
        if inside:
            doc["sub-sample-index"] = inside
    doc["id"] = _checked(wish.id) if wish.id is not None else _told(rows, doc, table.names)
    return Kept(rows, SavedView(doc))


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"id {name!r} is of type {type(name)}, expected `str`.")
    try:
        check_key(f"{FOLDER}{name}")
    except InvalidKeyError as error:
        message = f"{name!r} cannot be the id of a view: {error}; it is the name of a folder"
        raise DatasetViewSavingError(message) from error
    return name


def _told(rows: NDArray[np.uint64], doc: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the id of an unnamed view, a hash of its content."""
    what = {**doc, "created_at": 0, "message": "", "tensors": sorted(names.values())}
    found = hashlib.sha3_256(json.dumps(what, sort_keys=True).encode())
    found.update(np.ascontiguousarray(rows, "<u8").tobytes())
    return found.hexdigest()


# -- in the dataset ----------------------------------------------------------------------------------------------------


def save(view: Kept, session: Session, wish: Wish, store: Callable[[], SavedView] | None = None) -> SavedView:
    """Store a view in its dataset, and return its entry.

    Parameters
    ----------
    store
        Stores the data and returns the entry with the data's folder; if None, the row numbers are stored.

    Raises
    ------
    ReadOnlyModeError
        If the dataset cannot be written.
    DatasetViewSavingError
        If a view with the requested id exists, and ``overwrite`` is false.
    CommitFailed, CommitStateUnknown, LockedException
        If the list of views could not be changed.
    """
    storage = session.storage
    if traits_of(storage).read_only:
        raise ReadOnlyModeError(READ_ONLY)
    is_taken = wish.id is not None and not wish.overwrite
    _refuse_taken(read_views(storage), view.entry.id, is_taken=is_taken)
    entry = _claimed(storage, view) if store is None else store()
    replaced: list[SavedView] = []

    def edit(views: SavedViews) -> SavedViews:
        mine = views.find(entry.id)
        # If the entries are equal, an earlier put has succeeded, and only its answer was lost.
        if mine is None or mine.doc != entry.doc:
            _refuse_taken(views, entry.id, is_taken=is_taken)
        replaced[:] = [] if mine is None or mine.folder == entry.folder else [mine]
        return views.with_entry(entry)

    try:
        change_views(storage, edit, lambda views: _holds(views, entry))
    except DatasetViewSavingError:
        remove_data(storage, entry)
        raise
    for old in replaced:
        remove_data(storage, old)
    return entry


def _holds(views: SavedViews, entry: SavedView) -> bool:
    found = views.find(entry.id)
    return found is not None and found.doc == entry.doc


def _refuse_taken(views: SavedViews, name: str, *, is_taken: bool) -> None:
    if is_taken and views.find(name) is not None:
        raise DatasetViewSavingError(
            f"View with id {name} already exists. Use a different id or delete the existing view, or pass "
            "overwrite=True."
        )


def _claimed(storage: Storage, view: Kept) -> SavedView:
    """Store the row numbers in a folder that no other process uses."""
    entry = view.entry if is_free(storage, view.entry) else elsewhere(view.entry)
    while True:
        files = files_of(view.rows, entry.doc)
        folder = entry.folder
        try:
            storage.put_if(f"{folder}{TREE}", files.pop(TREE), None)
        except PreconditionFailed:
            # Another process took the folder; or the put succeeded, its answer was lost, and the folder becomes
            # garbage.
            entry = elsewhere(view.entry)
            continue
        storage.put_many([(f"{folder}{key}", data) for key, data in files.items()])
        return entry


def is_free(storage: Storage, entry: SavedView) -> bool:
    """Return whether the folder of a view is empty."""
    return next(iter(storage.list(entry.folder)), None) is None


def elsewhere(entry: SavedView) -> SavedView:
    """Return the entry with a folder of a random name."""
    return entry.changed({"path": f"{entry.id}_{os.urandom(4).hex()}"})


# -- at a place of its own ---------------------------------------------------------------------------------------------


def save_at(view: Kept, dest: Path, *, overwrite: bool) -> str:
    """Store a view at a separate address, where it can be opened like a dataset.

    Raises
    ------
    DatasetViewSavingError
        If a dataset or other files exist at ``dest``, and ``overwrite`` is false.
    """
    try:
        storage, location = vacate(dest, overwrite=overwrite)
    except (DatasetExistsError, PathNotEmptyException) as error:
        raise DatasetViewSavingError(str(error)) from error
    files = files_of(view.rows, view.entry.doc)
    tree = files.pop(TREE)
    storage.put_many(files.items())
    try:
        storage.put_if(TREE, tree, None)  # write the tree last, so that an incomplete view cannot be opened
    except PreconditionFailed as error:
        message = f"another process has just made a dataset at {location.shown}"
        raise DatasetViewSavingError(message) from error
    return location.shown


# -- removal -----------------------------------------------------------------------------------------------------------


def delete(storage: Storage, name: str) -> None:
    """Remove a view: its entry, then its data.

    Raises
    ------
    KeyError
        If the view does not exist.
    ReadOnlyModeError
        If the dataset cannot be written.
    CommitFailed, CommitStateUnknown, LockedException
        If the list of views could not be changed.
    """
    if traits_of(storage).read_only:
        raise ReadOnlyModeError("Cannot delete view in read only dataset.")
    entry = named(storage, name)
    change_views(storage, lambda views: views.without(name), lambda views: views.find(name) is None)
    remove_data(storage, entry)


def named(storage: Storage, name: str) -> SavedView:
    """Return the entry of the view with an id.

    Raises
    ------
    KeyError
        If the view does not exist.
    """
    found = read_views(storage).find(name)
    if found is None:
        raise KeyError(f"No view with id {name} found in the dataset.")
    return found


def remove_data(storage: Storage, entry: SavedView) -> None:
    """Remove the data of a view that is no longer in the list, and never data of other views."""
    views = read_views(storage)
    # 3.9.52 allows an empty id. Such a view is stored directly in the folder that holds all views: remove only its own
    # files.
    if entry.folder == FOLDER:
        keys = [key for key, _ in storage.list(FOLDER)]
        mine = [key for key in keys if key.removeprefix(FOLDER).partition("/")[0] in _OF_DATA]
        orphan_files.remove(storage, mine)
        return
    # Remove lock files first, because they are not listed. As long as other files exist, the folder counts as used,
    # and no process writes into it.
    storage.delete_prefix(f"{entry.folder}.lakebed/")
    listed = [key for key, _ in storage.list(entry.folder)]
    orphan_files.remove(storage, [key for key in listed if not _is_of_another(views, key, entry)])


def _is_of_another(views: SavedViews, key: str, entry: SavedView) -> bool:
    owner = views.owner(key)
    return owner is not None and len(owner.folder) >= len(entry.folder)


_OF_DATA = ("VDS_INDEX", "dataset_info.json", "dataset_meta.json", "dataset_diff", TREE)
