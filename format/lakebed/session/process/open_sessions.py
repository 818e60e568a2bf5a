"""Register of this process's open datasets by address: datasets at one address write in turns and see all changes."""

from __future__ import annotations

import warnings
import weakref
from typing import Protocol

from lakebed.errors import StorageError
from lakebed.runtime import process_hooks
from lakebed.storage.base import Storage, place_of


class OpenSession(Protocol):
    """Members of a session that this package uses; each one is documented in `lakebed.session.session`."""

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

    If the storage refuses the changes, for example because the disk is full, this raises an error; with ``to_read`` it
    only warns, and the dataset opened next shows the published state. The changes stay in the dataset that made them,
    whose own flush raises the error again.
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
    """Drop unpublished changes of this process's datasets at an address where another program deleted them.

    A new dataset will be made at this address, and the changes do not belong to it. A warning reports each dataset
    whose changes are dropped.
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
    """Publish and unlock the idle sessions of this process that hold the branch; return whether any was unlocked."""
    others = [s for s in sessions_at(storage) if s is not session and s.branch == branch]
    return sum(other.yield_lock() for other in others) > 0


def _after_fork() -> None:
    for sessions in list(_sessions.values()):
        for session in list(sessions):
            session.begin_in_child()


process_hooks.after_fork(_after_fork)
