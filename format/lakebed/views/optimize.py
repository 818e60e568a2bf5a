"""Copies of the rows of views: tensors in the order of the view, and the row numbers (format.md 12).

A copy is published in parts; if the process is killed, the same call continues the copy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lakebed.copying.materialize import KEY, Copying, Job, add_tensors, fill
from lakebed.documents.saved_views import SavedView, SavedViews
from lakebed.errors import DatasetViewSavingError, InvalidOperationError
from lakebed.session import credentials
from lakebed.session.places import Path, make
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.storage.base import Storage
from lakebed.storage.below import below
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY
from lakebed.views.catalog import change_views, read_views
from lakebed.views.files import INDEX, index_block, index_meta
from lakebed.views.load import Opened
from lakebed.views.save import Kept, Wish, elsewhere, is_free, remove_data, save
from lakebed.views.selectors import index_of
from lakebed.writing.encode.encoded import Column, Encoded

_SUFFIX = "_OPTIMIZED"


def save_copy(table: Table, view: Kept, wish: Wish, how: Copying) -> SavedView:
    """Store a view with copies of its samples in the dataset, and return its entry. See :func:`views.save.save`.

    Raises
    ------
    DatasetViewSavingError
        If the view shows a part of each sample, or another view has the id.
    LockedException
        If another process is copying the view.
    GetDataFromLinkError, SampleAppendError
        If a linked file cannot be read or stored; the same call continues with this file.
    """
    storage = table.session.storage
    table = _listed(table, view)
    found = save(view, table.session, wish, partial(_stored, storage, table, view.rows, view.entry, how))
    storage.delete(f"{found.folder}{KEY}")
    return found


def save_copy_at(table: Table, view: Kept, dest: Path, how: Copying, *, overwrite: bool) -> str:
    """Store a view with copies of its samples as a separate dataset, and return its address."""
    _check_whole(table)
    table = _listed(table, view)
    handle = make(dest, overwrite=overwrite)
    target = handle.session
    target.storage.put(KEY, Job.of(table).to_bytes())
    _fill(table, target, Job.of(table), view.rows, view.entry, how)
    target.storage.delete(KEY)
    target.close()
    return handle.path


def optimize(storage: Storage, opened: Opened, table: Table, how: Copying) -> SavedView:
    """Copy the samples of a view that was saved without copies, and return its new entry.

    Parameters
    ----------
    storage
        Storage of the dataset.
    table
        Rows of the view, and the tensors to copy.

    Raises
    ------
    InvalidOperationError
        If the view was deleted or replaced meanwhile.
    """
    old = opened.entry
    wanted = old.changed({"virtual-datasource": False, "path": f"{old.id}{_SUFFIX}"})
    new = _stored(storage, table, opened.rows, wanted, how)

    def edit(views: SavedViews) -> SavedViews:
        found = views.find(old.id)
        if found is None or found.doc not in (old.doc, new.doc):
            raise InvalidOperationError(
                f"view {old.id!r} of {storage.url} was deleted or replaced while it was copied"
            )
        return views.with_entry(new)

    try:
        change_views(storage, edit, lambda views: any(view.doc == new.doc for view in views))
    except InvalidOperationError:
        remove_data(storage, new)
        raise
    remove_data(storage, old)
    storage.delete(f"{new.folder}{KEY}")
    return new


def _listed(table: Table, view: Kept) -> Table:
    """Return a padded table with an index that lists its rows, so that all tensors of the copy get as many rows."""
    if not table.pad:
        return table
    return replace(table, index=index_of(view.rows, is_single=view.entry.is_single, inside=[], pad=True))


def _check_whole(table: Table) -> None:
    if table.index.inside:
        raise DatasetViewSavingError(
            "the view shows a part of each sample, and a saved copy has whole samples: optimize a view of "
            "the rows, and index the samples when they are read; or copy the parts to a place of their own by "
            "view.copy(dest)"
        )


def _stored(
    storage: Storage, table: Table, rows: NDArray[np.uint64], entry: SavedView, how: Copying
) -> SavedView:
    """Copy the rows into a separate folder, or continue a copy, and return the entry with the folder."""
    _check_whole(table)
    job = Job.of(table)
    begun = _begun(storage, entry, job)
    if begun is None:
        entry = entry if is_free(storage, entry) else elsewhere(entry)
        data = below(storage, entry.folder.rstrip("/"))
        create(data)
        data.put(KEY, job.to_bytes())
    else:
        data, job = below(storage, entry.folder.rstrip("/")), begun
    _fill(table, Session(data), job, rows, entry, how)
    return entry


def _begun(storage: Storage, entry: SavedView, job: Job) -> Job | None:
    """Return the unfinished job of the same copy in the folder of an entry; None if no such job exists."""
    if any(other.folder == entry.folder for other in read_views(storage)):
        return None
    data = below(storage, entry.folder.rstrip("/"))
    found = None if data.stat(TREE_KEY) is None else Job.at(data)
    return found if found is not None and found.is_same(job) else None


def _fill(
    table: Table, target: Session, job: Job, rows: NDArray[np.uint64], entry: SavedView, how: Copying
) -> None:
    source = table.session
    target.hold()
    try:
        if source.storage.stat(credentials.KEY) is not None:
            target.storage.put(credentials.KEY, source.storage.get(credentials.KEY))
        add_tensors(source, target, job, unlink=how.unlink)
        fill(table, target, job, how)
        with target.mutex, target.writing() as draft:
            if target.schema().key_of(INDEX) is None:
                draft.schema.add_tensor(INDEX, index_meta(hidden=True), {}, ())
                if len(rows):
                    meta = draft.tensors[INDEX].meta
                    draft.rows.extend({INDEX: Column([Encoded(index_block(rows), meta)])})
            draft.schema.set_info(dict(entry.doc))
            if entry.is_single:
                draft.schema.set_default_index((0,))
    finally:
        target.release()
