"""What the facades of one dataset share."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakebed.session.finalizer import close_finally, close_session
from lakebed.session.session import Session

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lakebed.documents.saved_views import SavedView


@dataclass(frozen=True, slots=True)
class FromView:
    """The saved view that a dataset was opened as.

    Parameters
    ----------
    entry
        What the list of views says of it.
    rows
        Numbers of its rows in the commit that it is of, shape (rows,).
    is_writable
        Whether views may be saved beside the dataset that it is of.
    """

    entry: SavedView
    rows: NDArray[np.uint64]
    is_writable: bool


class Handle:
    """What every facade of one dataset holds; when the last is gone, or the interpreter exits, the session closes.

    Parameters
    ----------
    path
        The address as it was given, to be shown; None shows the storage's own.

    Attributes
    ----------
    view
        The saved view that this was opened as.
    """

    def __init__(self, session: Session, path: str | None = None) -> None:
        self.session = session
        self.path = session.storage.url if path is None else path
        self.view: FromView | None = None
        self._last_left = -1  # the epoch in which another version was checked out last
        self._left: dict[int, str] = {}  # commits that were left by a checkout, by epoch
        self._older: weakref.WeakValueDictionary[str, Handle] = weakref.WeakValueDictionary()
        weakref.finalize(self, close_finally, partial(close_session, session))

    def leave(self, epoch: int, commit: str | None) -> None:
        """Note that another version was checked out in this epoch; ``commit`` is what was there, if it was one."""
        self._last_left = epoch
        if commit is not None:
            self._left[epoch] = commit

    def was_left_in(self, epoch: int | None) -> bool:
        """Whether another version was checked out in this epoch, or in a later one."""
        return epoch is not None and epoch <= self._last_left

    def left_at(self, epoch: int | None) -> Handle | None:
        """Return a handle for reading the commit that was left in an epoch; None if it was no commit."""
        version = None if epoch is None else self._left.get(epoch)
        if version is None:
            return None
        found = self._older.get(version)
        if found is None:
            session = Session(self.session.storage, version, read_only=True)
            session.credentials = self.session.credentials
            found = self._older[version] = Handle(session, self.path)
        return found
