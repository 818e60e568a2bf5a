"""Opening of saved views: rows of a commit, or a copy of such rows (format.md 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.saved_views import SavedView
from lakebed.errors import (
    CheckoutError,
    DatasetCorruptError,
    DatasetNotFoundError,
    FormatError,
    InvalidInputError,
    KeyNotFound,
)
from lakebed.reading.subscripts import Index
from lakebed.session.credentials import LinkCredentials
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.storage.base import Storage
from lakebed.storage.below import below
from lakebed.storage.url import Location, open_storage, parse
from lakebed.views.files import INDEX
from lakebed.views.save import named
from lakebed.views.selectors import index_of


@dataclass(frozen=True, slots=True)
class Opened:
    """An opened view.

    Parameters
    ----------
    session
        Session of the commit, or of the copy.
    rows
        Row numbers in the commit, shape (rows,).
    index
        Index that selects the view's rows in the session.
    pad
        True if shorter tensors have empty samples for these rows.
    """

    entry: SavedView
    session: Session
    rows: NDArray[np.uint64]
    index: Index
    pad: bool = False


def load(storage: Storage, name: str, credentials: LinkCredentials) -> Opened:
    """Open a view of a dataset by id.

    Parameters
    ----------
    storage
        Storage of the dataset.
    credentials
        Credentials for the dataset's links.

    Raises
    ------
    KeyError
        If the view does not exist.
    CheckoutError
        If the commit of the view does not exist any more.
    DatasetCorruptError
        If the view's data is damaged or missing.
    """
    entry = named(storage, name)
    while True:
        try:
            return _opened(storage, entry, credentials)
        except (DatasetNotFoundError, KeyNotFound) as error:
            again = named(storage, name)
            if again.doc == entry.doc:
                raise DatasetCorruptError(
                    f"the data of view {name!r} are missing at {storage.url}/{entry.folder}: {error}; delete the view",
                    dataset=storage.url,
                ) from error
            entry = again  # another process has replaced the view in the meantime


def _opened(storage: Storage, entry: SavedView, credentials: LinkCredentials) -> Opened:
    data = Session(below(storage, entry.folder.rstrip("/")), read_only=True)
    rows = _unmasked(rows_of(data), entry)
    if not entry.is_virtual:
        return Opened(entry, data, rows, Index((0,)) if entry.is_single else Index())
    return _of_source(storage, entry, rows, credentials)


def _unmasked(rows: NDArray[np.uint64], entry: SavedView) -> NDArray[np.uint64]:
    """Return the numbers of the selected rows: 3.9.52 stores a mask's zeros and ones in place of row numbers."""
    axes = entry.doc.get("source-dataset-index")
    mask = axes[0] if isinstance(axes, list) and axes else None
    if not isinstance(mask, list) or not mask or not all(type(one) is bool for one in mask):
        return rows
    found = np.array(mask, np.bool_)
    return np.flatnonzero(found).astype(np.uint64) if np.array_equal(rows, found) else rows


def rows_of(data: Session) -> NDArray[np.uint64]:
    """Return the row numbers that the data of a view holds, shape (rows,).

    Raises
    ------
    DatasetCorruptError
        If the row numbers are missing, or are not numbers.
    """
    schema = data.schema()
    if schema.key_of(INDEX) is None:
        raise DatasetCorruptError(
            f"{data.storage.url} has no rows of a view: the tensor {INDEX} is missing",
            dataset=data.storage.url,
        )
    table = Table(data, {INDEX: INDEX})
    found = np.asarray(table.scan(INDEX).column(0, table.length)).reshape(-1)
    if len(found) and (found.dtype.kind not in "iu" or int(found.max()) >= 1 << 63):
        raise DatasetCorruptError(
            f"{INDEX} of {data.storage.url} holds no row numbers", dataset=data.storage.url
        )
    return found.astype(np.uint64)


def _of_source(
    storage: Storage, entry: SavedView, rows: NDArray[np.uint64], credentials: LinkCredentials
) -> Opened:
    try:
        session = Session(storage, entry.version, read_only=True, credentials=credentials)
    except CheckoutError as error:
        raise CheckoutError(
            f"view {entry.id!r} of {storage.url} shows commit {entry.version}, which is no longer part of the history"
        ) from error
    whole = Table(session, {name: name for name in session.schema().names()})
    last = int(rows.max()) if len(rows) else -1
    if last >= whole.longest:
        raise DatasetCorruptError(
            f"view {entry.id!r} of {storage.url} has row {last}, but its commit has {whole.longest} rows",
            dataset=storage.url,
        )
    pad = last >= whole.length
    try:
        index = index_of(rows, is_single=entry.is_single, inside=entry.inside, pad=pad)
    except FormatError as error:
        raise DatasetCorruptError(
            f"view {entry.id!r} of {storage.url}: {error}", dataset=storage.url
        ) from error
    return Opened(entry, session, rows, index, pad)


# -- views at a place of their own -------------------------------------------------------------------------------------


def entry_in(session: Session) -> SavedView | None:
    """Return the entry in a dataset that is a view; None for other datasets, and for copies of rows."""
    if session.structure().key_of(INDEX) is None:
        return None
    info: Any = dict(session.schema().info)
    if info.get("virtual-datasource") is not True:
        return None
    return SavedView.from_json(info, "dataset_info.json")


def follow(data: Session, entry: SavedView, location: Location) -> Opened:
    """Open a view that is stored at a separate address.

    The dataset that the view shows must be on the same machine or in the same bucket as the view: a view from an
    untrusted source must not make the program read other places.

    Raises
    ------
    InvalidInputError
        If the dataset is elsewhere.
    DatasetNotFoundError
        If the dataset does not exist.
    """
    if entry.source is None:
        raise DatasetCorruptError(
            f"the view at {location.shown} does not name its dataset", dataset=location.shown
        )
    source = parse(entry.source, existing=True, creds=location.creds)
    if (source.scheme, _root(source)) != (location.scheme, _root(location)):
        raise InvalidInputError(
            f"the view at {location.shown} shows {source.shown}, which is elsewhere: a view does not open it. "
            "Open that dataset, and save the view there"
        )
    storage = open_storage(source)
    return _of_source(storage, entry, _unmasked(rows_of(data), entry), LinkCredentials(storage))


def _root(location: Location) -> str:
    """Return the bucket of an address, or an empty text for a path on this machine."""
    return "" if location.scheme in ("file", "mem") else location.path.partition("/")[0]
