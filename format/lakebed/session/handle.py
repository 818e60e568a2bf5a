"""Handles: the object that all facades of one open dataset share; the session closes when its handle is dropped."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakebed.errors import LakebedError
from lakebed.session.process.finalizer import close_finally
from lakebed.session.session import Session

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lakebed.documents.saved_views import SavedView
    from lakebed.versions.state import Snapshot


@dataclass(frozen=True, slots=True)
class FromView:
    """The saved view from which a dataset was opened.

    Parameters
    ----------
    entry
        Entry of the view in the list of views.
    rows
        Numbers of the view's rows in the commit that the view shows, shape (rows,).
    is_writable
        True if views may be saved in the view's source dataset.
    """

    entry: SavedView
    rows: NDArray[np.uint64]
    is_writable: bool


class Handle:
    """Object shared by all facades of one dataset; the session closes with the last facade, or when Python exits.

    Parameters
    ----------
    path
        Address to show, as the user wrote it; None shows the storage's address.

    Attributes
    ----------
    view
        The saved view from which the dataset was opened; None for other datasets.
    """

    def __init__(self, session: Session, path: str | None = None) -> None:
        self.session = session
        self.path = session.storage.url if path is None else path
        self.view: FromView | None = None
        self._last_left = -1  # epoch of the last checkout
        self._left: dict[int, str] = {}  # epoch -> commit that was open before the checkout
        self._older: weakref.WeakValueDictionary[str, Handle] = weakref.WeakValueDictionary()
        weakref.finalize(self, close_finally, partial(_close, session))

    def leave(self, epoch: int, commit: str | None) -> None:
        """Record a checkout in this epoch; ``commit`` is the id of the version open before it, if that was a commit."""
        self._last_left = epoch
        if commit is not None:
            self._left[epoch] = commit

    def was_left_in(self, epoch: int | None) -> bool:
        """Return whether a checkout happened in this epoch or a later one."""
        return epoch is not None and epoch <= self._last_left

    def left_at(self, epoch: int | None) -> Handle | None:
        """Return a handle of the commit that was open before the checkout in an epoch; None if that was no commit."""
        version = None if epoch is None else self._left.get(epoch)
        if version is None:
            return None
        found = self._older.get(version)
        if found is None:
            session = Session(
                self.session.storage, version, read_only=True, credentials=self.session.credentials
            )
            found = self._older[version] = Handle(session, self.path)
        return found


def _close(session: Session) -> None:
    """Close a session that nothing refers to; no caller could handle an error of the library, so it is logged.

    An error of any other type is a bug: it is raised, and Python prints its traceback.
    """
    waiting = ""
    try:
        with session.mutex:
            if session.has_unpublished:
                waiting = _added(session.snapshot, session.schema())
            session.close()
    except LakebedError as error:
        import logging

        logging.getLogger(__name__).error(  # noqa: TRY400 - the message says everything, a traceback adds nothing
            "%s of %s, branch %r, could not be stored: %s",
            waiting or "changes",
            session.storage.url,
            session.branch,
            error,
        )


def _added(before: Snapshot, after: Snapshot) -> str:
    """Describe the rows and tensors that a version has in addition to an earlier one."""
    lengths = {name: after.tensor(name).length for name in after.names()}
    known = {name: state.length for name in lengths if (state := before.find(name)) is not None}
    new = [name for name in lengths if name not in known]
    rows = max((length - known.get(name, 0) for name, length in lengths.items()), default=0)
    told = [f"{rows:,} new row{'s' if rows > 1 else ''}"] if rows > 0 else []
    if new:
        listed = ", ".join(map(repr, new[:5])) + (f" and {len(new) - 5:,} more" if len(new) > 5 else "")
        told.append(f"new tensor{'s' if len(new) > 1 else ''} {listed}")
    return " and ".join(told) or "changes"
