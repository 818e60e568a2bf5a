"""Register of this process's open datasets by address: they take turns as writers, and see all changes."""

from __future__ import annotations

import warnings
import weakref
from typing import Protocol

from lakebed.errors import StorageError
from lakebed.runtime import process_hooks
from lakebed.storage.base import Storage, place_of


class OpenSession(Protocol):
    """Part of a session that its process needs; each member is documented in `lakebed.session.session`."""

    storage: Storage

    @property
    def branch(self) -> str: ...

    @property
    def has_unpublished(self) -> bool: ...

    def flush(self) -> None: ...

    def flush_waiting(self) -> None: ...

    def seconds_left(self) -> float | None: ...

    def drop_unpublished(self) -> None: ...

    def yield_lock(self) -> bool: ...

    def begin_in_child(self) -> None: ...

    def abandon(self) -> None: ...


_sessions: dict[str, weakref.WeakSet[OpenSession]] = {}


def enter(session: OpenSession) -> None:
    """Register a session for as long as it lives."""
    _sessions.setdefault(place_of(session.storage), weakref.WeakSet()).add(session)


def sessions_at(storage: Storage) -> list[OpenSession]:
    """Return the open sessions at the address of a storage."""
    return list(_sessions.get(place_of(storage), ()))


def flush_open(storage: Storage, *, to_read: bool = False) -> None:
    """Publish changes of this process's open datasets at an address, so that a dataset opened next sees them.

    If the storage refuses them, for example because the disk is full, a dataset opened ``to_read`` shows the published
    state. The rows stay unpublished in the dataset that holds them, whose own flush raises the error again.
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
    """Drop unpublished changes of this process's datasets at a place from which another program deleted the dataset.

    A new dataset takes the place, and nothing is left to add the changes to. A warning tells of each.
    """
    for session in sessions_at(storage):
        if session.has_unpublished:
            session.drop_unpublished()
            warnings.warn(
                f"the dataset {storage.url} was deleted while it was written here; its unpublished changes are "
                "dropped, as a new dataset is made in its place",
                stacklevel=2,
            )


def flush_other_sessions(session: object, storage: Storage, branch: str) -> bool:
    """Publish and unlock the idle sessions of this process that hold the branch; return whether one was found."""
    others = [s for s in sessions_at(storage) if s is not session and s.branch == branch]
    return sum(other.yield_lock() for other in others) > 0


def _after_fork() -> None:
    for sessions in list(_sessions.values()):
        for session in list(sessions):
            session.begin_in_child()


process_hooks.after_fork(_after_fork)
