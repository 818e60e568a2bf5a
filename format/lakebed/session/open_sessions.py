"""Every open dataset of this process by address: they take turns as writers, and a new one sees what others have."""

from __future__ import annotations

import warnings
import weakref
from typing import TYPE_CHECKING

from lakebed.errors import StorageError
from lakebed.runtime import process_hooks
from lakebed.storage.base import place_of

if TYPE_CHECKING:
    from lakebed.session.checkout import Checkout
    from lakebed.session.session import Session
    from lakebed.storage.base import Storage
_sessions: dict[str, weakref.WeakSet[Session]] = {}


def enter(session: Session) -> None:
    """Count a session among the open ones for as long as it lives."""
    _sessions.setdefault(place_of(session.storage), weakref.WeakSet()).add(session)


def sessions_at(storage: Storage) -> list[Session]:
    """Return the open sessions where a storage lies."""
    return list(_sessions.get(place_of(storage), ()))


def flush_open(storage: Storage, *, to_read: bool = False) -> None:
    """Publish what other datasets of this process have unpublished in a storage, so that a new one sees it.

    Where the storage does not take it, as when the disk is full, one that is opened ``to_read`` shows what is
    published. The rows stay with the dataset that has them, whose own flush meets the error again.
    """
    for session in sessions_at(storage):
        if session.has_unpublished:
            try:
                session.flush()
            except StorageError as error:
                if not to_read:
                    raise
                import logging

                logging.getLogger(__name__).warning(
                    "%s is read without rows that wait to be published: %s", storage.url, error
                )


def drop_deleted(storage: Storage) -> None:
    """Let go of what datasets of this process have unpublished where another program deleted the dataset itself.

    There is nothing left that it could be added to, and a new dataset takes the place. Each is told by a warning.
    """
    for session in sessions_at(storage):
        if session.has_unpublished:
            session.drop_unpublished()
            warnings.warn(
                f"the dataset {storage.url} was deleted while it was written here; what was not "
                "published of it is dropped, as a new dataset is made in its place",
                stacklevel=2,
            )


def flush_other_sessions(session: Checkout) -> bool:
    """Publish and unlock idle holders of the same branch in this process; return whether there was one."""
    others = [s for s in sessions_at(session.storage) if s is not session and s.branch == session.branch]
    return sum(other.yield_lock() for other in others) > 0


def _after_fork() -> None:
    for sessions in list(_sessions.values()):
        for session in list(sessions):
            session.begin_in_child()


process_hooks.after_fork(_after_fork)
