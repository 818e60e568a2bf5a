"""The list of a dataset's saved views, `queries.json`, and its changes, which are safe beside other writers.

Deep Lake 3.9.52 reads the list, edits it and writes it back unconditionally while it holds `queries.lock`. So a change
here takes that lock too, with the same file layout and the same lifetime, and then replaces the list by a conditional
put, which fails if a writer whose lock has expired changes the list.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lakebed.documents.lock import DatasetLock, is_live_foreign
from lakebed.documents.saved_views import FILE, SavedViews
from lakebed.errors import (
    DatasetCorruptError,
    FormatError,
    KeyNotFound,
    LimitError,
    LockedException,
    PreconditionFailed,
    StorageError,
)
from lakebed.runtime import clock, process_hooks
from lakebed.storage.base import Storage, traits_of
from lakebed.storage.shared_files import change_file

LOCK = "queries.lock"

_log = logging.getLogger(__name__)

# Seconds after which 3.9.52 considers a lock of the list of views as expired.
_VALID_SECONDS = 10.0
# Maximum number of seconds to wait for a lock that other processes take again and again; the lock of a killed process
# expires earlier.
_PATIENCE = 60.0
_PAUSE = 0.05
# Seconds after which 3.9.52 checks whether a lock that it wrote is still its own: on disks, and on object stores.
_CONFIRM_LOCAL, _CONFIRM_REMOTE = 0.01, 0.5

_mutex = threading.Lock()


def read_views(storage: Storage) -> SavedViews:
    """Return the saved views of a dataset.

    Raises
    ------
    DatasetCorruptError
        If the list is damaged.
    """
    try:
        return SavedViews.from_bytes(storage.get(FILE))
    except KeyNotFound:
        return SavedViews()
    except (FormatError, LimitError) as error:
        raise DatasetCorruptError(
            f"the list of saved views of {storage.url} cannot be read: {error}. Rows and commits are not affected; "
            f"move {FILE} away to continue without views",
            dataset=storage.url,
        ) from error


def change_views(
    storage: Storage, edit: Callable[[SavedViews], SavedViews], holds: Callable[[SavedViews], bool]
) -> None:
    """Replace the list by an edited list, durably, without losing concurrent changes of other programs.

    Parameters
    ----------
    edit
        Returns the new list; it may raise an error, and may be called more than once.
    holds
        Returns whether a list contains the change already: a put may succeed although its answer was lost.

    Raises
    ------
    LockedException
        If other processes hold the lock for too long.
    DatasetCorruptError
        If the list is damaged.
    CommitFailed, CommitStateUnknown
        If the list could not be replaced, or if it is unknown whether it was replaced.
    """
    with _mutex, _locked(storage):
        change_file(
            storage,
            FILE,
            read=lambda: read_views(storage),
            edit=edit,
            dump=SavedViews.to_bytes,
            holds=holds,
            advice="look at ds.get_views() before repeating the change",
        )


@contextmanager
def _locked(storage: Storage) -> Iterator[None]:
    """Hold the lock of the list inside a ``with``."""
    if storage.url.startswith("mem://"):
        yield  # no other process can see the dataset
        return
    _take(storage)
    try:
        yield
    finally:
        try:
            storage.delete(LOCK)
        except StorageError as error:  # if the lock cannot be removed, it expires
            _log.warning("%s of %s could not be removed: %s", LOCK, storage.url, error)


def _take(storage: Storage) -> None:
    give_up = clock.monotonic() + _PATIENCE
    pause = _CONFIRM_LOCAL if traits_of(storage).local else _CONFIRM_REMOTE
    while True:
        stat, found = storage.stat(LOCK), _content(storage)
        if not is_live_foreign(found, clock.now()):
            mine = DatasetLock.own(clock.now(), _VALID_SECONDS).to_bytes()
            # If the write fails, the content tells whether another process was faster, or only the answer was lost.
            with suppress(PreconditionFailed):
                storage.put_if(LOCK, mine, None if stat is None else stat.etag)
            clock.sleep(pause)
            if _content(storage) == mine:
                return
        if clock.monotonic() > give_up:
            raise LockedException(
                f"other processes change the list of saved views of {storage.url} again and again ({LOCK}); try "
                "again"
            )
        clock.sleep(_PAUSE)


def _content(storage: Storage) -> bytes:
    try:
        return storage.get(LOCK)
    except KeyNotFound:
        return b""


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603
    _mutex = threading.Lock()


process_hooks.after_fork(_after_fork)
