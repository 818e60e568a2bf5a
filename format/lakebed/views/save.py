"""Save a view: its data first, complete, then its entry in the list, which makes it one (FORMAT.md 12).

A kill leaves the old list or the new one. What it leaves of data without an entry is nobody's view: another save takes
another folder, and a collector removes it in time.
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
    """What is to be saved of a view beside its rows.

    Parameters
    ----------
    id
        Its name; None is one that its content tells.
    overwrite
        Take the place of a view of this name.
    query, tql_query
        What chose the rows.
    """

    id: str | None = None
    message: str | None = None
    overwrite: bool = False
    query: str | None = None
    tql_query: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A view on its way into storage.

    Parameters
    ----------
    rows
        Numbers of the rows in the commit, shape (rows,).
    entry
        What the list will say of it.
    """

    rows: NDArray[np.uint64]
    entry: SavedView


def commit_of(session: Session) -> str:
    """Return the commit whose rows a session shows.

    Raises
    ------
    DatasetViewSavingError
        If what it shows is not committed.
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
    """Describe a view.

    Parameters
    ----------
    pad
        Whether rows behind the last one of a tensor belong to it.

    Raises
    ------
    DatasetViewSavingError
        If what it shows is not committed, or its index cannot be stored.
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
        raise DatasetViewSavingError(
            f"{name!r} can be no id of a view: {error}; its data lie in a folder of this name"
        ) from error
    return name


def _told(rows: NDArray[np.uint64], doc: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the id of a view without one: the same for the same content."""
    what = {**doc, "created_at": 0, "message": "", "tensors": sorted(names.values())}
    found = hashlib.sha3_256(json.dumps(what, sort_keys=True).encode())
    found.update(np.ascontiguousarray(rows, "<u8").tobytes())
    return found.hexdigest()


# -- beside the dataset ------------------------------------------------------------------------------------------------


def save(view: Kept, session: Session, wish: Wish, store: Callable[[], SavedView] | None = None) -> SavedView:
    """Store a view in the dataset that it is of; return its entry.

    Parameters
    ----------
    store
        Makes the data, and returns the entry with the folder that they are in; None stores the numbers of the rows.

    Raises
    ------
    ReadOnlyModeError
        If nothing can be written there.
    DatasetViewSavingError
        If there is a view of this id, which was given and is not to be overwritten.
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
        if mine is None or mine.doc != entry.doc:  # else it is there: the answer was lost
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
    """Store the numbers of the rows in a folder that nobody else has."""
    entry = view.entry if is_free(storage, view.entry) else elsewhere(view.entry)
    while True:
        files = files_of(view.rows, entry.doc)
        folder = entry.folder
        try:
            storage.put_if(f"{folder}{TREE}", files.pop(TREE), None)
        except PreconditionFailed:
            # Another saver's; or ours, and its answer was lost: then it stays to collectors.
            entry = elsewhere(view.entry)
            continue
        storage.put_many([(f"{folder}{key}", data) for key, data in files.items()])
        return entry


def is_free(storage: Storage, entry: SavedView) -> bool:
    """Whether the folder of a view holds nothing."""
    return next(iter(storage.list(entry.folder)), None) is None


def elsewhere(entry: SavedView) -> SavedView:
    """Return an entry whose data lie in a folder that nobody else thinks of."""
    return entry.changed({"path": f"{entry.id}_{os.urandom(4).hex()}"})


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def save_at(view: Kept, dest: Path, *, overwrite: bool) -> str:
    """Store a view at a place of its own; opening that opens the view.

    Raises
    ------
    DatasetViewSavingError
        If there is something, and ``overwrite`` is false.
    """
    try:
        storage, location = vacate(dest, overwrite=overwrite)
    except (DatasetExistsError, PathNotEmptyException) as error:
        raise DatasetViewSavingError(str(error)) from error
    files = files_of(view.rows, view.entry.doc)
    tree = files.pop(TREE)
    storage.put_many(files.items())
    try:
        storage.put_if(TREE, tree, None)  # last: half a view does not open
    except PreconditionFailed as error:
        raise DatasetViewSavingError(
            f"another process has just made a dataset at {location.shown}"
        ) from error
    return location.shown


# -- the end -----------------------------------------------------------------------------------------------------------


def delete(storage: Storage, name: str) -> None:
    """Remove a view: its entry, then its data.

    Raises
    ------
    KeyError
        If there is none of this id.
    ReadOnlyModeError
        If nothing can be written there.
    CommitFailed, CommitStateUnknown, LockedException
        If the list of views could not be changed.
    """
    if traits_of(storage).read_only:
        raise ReadOnlyModeError("Cannot delete view in read only dataset.")
    entry = named(storage, name)
    change_views(storage, lambda views: views.without(name), lambda views: views.find(name) is None)
    remove_data(storage, entry)


def named(storage: Storage, name: str) -> SavedView:
    """Return a view by its id.

    Raises
    ------
    KeyError
        If there is none.
    """
    found = read_views(storage).find(name)
    if found is None:
        raise KeyError(f"No view with id {name} found in the dataset.")
    return found


def remove_data(storage: Storage, entry: SavedView) -> None:
    """Remove the data of a view that is in the list no more; those of other views stay, whatever their ids."""
    views = read_views(storage)
    if entry.folder == FOLDER:  # of an empty id, as 3.9.52 takes it: only what such a view consists of
        mine = [
            key for key, _ in storage.list(FOLDER) if key.removeprefix(FOLDER).partition("/")[0] in _OF_DATA
        ]
        orphan_files.remove(storage, mine)
        return
    # Files of locks are not listed; they go first. The rest goes one by one: until the last is gone, the folder is not
    # free, and nobody puts anything into it.
    storage.delete_prefix(f"{entry.folder}.lakebed/")
    listed = [key for key, _ in storage.list(entry.folder)]
    orphan_files.remove(storage, [key for key in listed if not _is_of_another(views, key, entry)])


def _is_of_another(views: SavedViews, key: str, entry: SavedView) -> bool:
    owner = views.owner(key)
    return owner is not None and len(owner.folder) >= len(entry.folder)


_OF_DATA = ("VDS_INDEX", "dataset_info.json", "dataset_meta.json", "dataset_diff", TREE)
