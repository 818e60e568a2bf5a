"""Open a saved view: the commit that it is of and the rows, or the copy that was made of them (FORMAT.md 12)."""

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
from lakebed.reading.index import Index
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
    """A view that was opened.

    Parameters
    ----------
    session
        Reads the commit, or the copy.
    rows
        Numbers of the rows in the commit, shape (rows,).
    index
        What selects them in the session.
    pad
        Whether tensors that are shorter have empty samples there.
    """

    entry: SavedView
    session: Session
    rows: NDArray[np.uint64]
    index: Index
    pad: bool = False


def load(storage: Storage, name: str, credentials: LinkCredentials) -> Opened:
    """Open a view of a dataset by its id.

    Parameters
    ----------
    storage
        Where the dataset lies.
    credentials
        What its links go by.

    Raises
    ------
    KeyError
        If there is none.
    CheckoutError
        If the commit that it is of is gone.
    DatasetCorruptError
        If its data are damaged or missing.
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
            entry = again  # it was replaced meanwhile


def _opened(storage: Storage, entry: SavedView, credentials: LinkCredentials) -> Opened:
    data = Session(below(storage, entry.folder.rstrip("/")), read_only=True)
    rows = _unmasked(rows_of(data), entry)
    if not entry.is_virtual:
        return Opened(entry, data, rows, Index((0,)) if entry.is_single else Index())
    return _of_source(storage, entry, rows, credentials)


def _unmasked(rows: NDArray[np.uint64], entry: SavedView) -> NDArray[np.uint64]:
    """Return the rows that were meant: of a mask, 3.9.52 stores the zeros and ones as the numbers of rows."""
    axes = entry.doc.get("source-dataset-index")
    mask = axes[0] if isinstance(axes, list) and axes else None
    if not isinstance(mask, list) or not mask or not all(type(one) is bool for one in mask):
        return rows
    found = np.array(mask, np.bool_)
    return np.flatnonzero(found).astype(np.uint64) if np.array_equal(rows, found) else rows


def rows_of(data: Session) -> NDArray[np.uint64]:
    """Return the numbers of the rows that the data of a view have, shape (rows,).

    Raises
    ------
    DatasetCorruptError
        If they have none, or they are no numbers.
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
            f"{INDEX} of {data.storage.url} holds no numbers of rows", dataset=data.storage.url
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
            f"view {entry.id!r} of {storage.url} has row {last}, and its commit {whole.longest} rows",
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


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def entry_in(session: Session) -> SavedView | None:
    """Return what a dataset says of the view that it is; None if it is none, or a copy of the rows."""
    if session.structure().key_of(INDEX) is None:
        return None
    info: Any = dict(session.schema().info)
    if info.get("virtual-datasource") is not True:
        return None
    return SavedView.from_json(info, "dataset_info.json")


def follow(data: Session, entry: SavedView, location: Location) -> Opened:
    """Open the view that lies at a place of its own.

    The dataset that it is of is opened on the same machine, or in the same bucket: a view from elsewhere leads nowhere
    else.

    Raises
    ------
    InvalidInputError
        If that dataset lies elsewhere.
    DatasetNotFoundError
        If it is not there.
    """
    if entry.source is None:
        raise DatasetCorruptError(
            f"the view at {location.shown} does not say which dataset it is of", dataset=location.shown
        )
    source = parse(entry.source, existing=True, creds=location.creds)
    if (source.scheme, _root(source)) != (location.scheme, _root(location)):
        raise InvalidInputError(
            f"the view at {location.shown} is of {source.shown}, which lies elsewhere: it is not opened by a view. "
            "Open that dataset, and save the view there"
        )
    storage = open_storage(source)
    return _of_source(storage, entry, _unmasked(rows_of(data), entry), LinkCredentials(storage))


def _root(location: Location) -> str:
    """Return the bucket; all of this machine is one place."""
    return "" if location.scheme in ("file", "mem") else location.path.partition("/")[0]
