"""The list of a dataset's saved views, changed beside other writers: `queries.json`, guarded as Deep Lake 3.x does it.

3.9.52 reads the list, edits it and writes it back without a condition while it holds `queries.lock`. So that lock is
taken, in its layout and for its time, before the list is read; and the list is replaced on condition that it is still
the one that was read, which guards against writers whose lock has run out.
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

# For how long 3.9.52 takes a lock of the list to be valid.
_VALID_SECONDS = 10.0
# A lock of a process that was killed runs out in time; one that is taken again and again is waited for no longer.
_PATIENCE = 60.0
_PAUSE = 0.05
# How long 3.9.52 waits, on disks and on stores, before it looks whether a lock that it wrote is still its own.
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
            f"the list of saved views of {storage.url} can not be read: {error}. Rows and commits are not affected; "
            f"move {FILE} away to go on without views",
            dataset=storage.url,
        ) from error


def change_views(
    storage: Storage, edit: Callable[[SavedViews], SavedViews], holds: Callable[[SavedViews], bool]
) -> None:
    """Replace the list by an edited one, durably; what others write at the same time stays.

    Parameters
    ----------
    edit
        Returns the new list; it may refuse, and may be called more than once.
    holds
        Whether a list is as it should be afterwards: a put may work although its answer was lost.

    Raises
    ------
    LockedException
        If another process changes the list all the time.
    DatasetCorruptError
        If the list is damaged.
    CommitFailed, CommitStateUnknown
        If the list could not be replaced, or that is not known.
    """
    with _mutex, _locked(storage):
        change_file(
            storage,
            FILE,
            read=lambda: read_views(storage),
            edit=edit,
            dump=SavedViews.to_bytes,
            holds=holds,
            look="ds.get_views()",
        )


@contextmanager
def _locked(storage: Storage) -> Iterator[None]:
    """Hold the lock of the list, which nobody else has meanwhile."""
    if storage.url.startswith("mem://"):
        yield  # no other process is there
        return
    _take(storage)
    try:
        yield
    finally:
        try:
            storage.delete(LOCK)
        except StorageError as error:  # it runs out by itself
            _log.warning("%s of %s stays: %s", LOCK, storage.url, error)


def _take(storage: Storage) -> None:
    give_up = clock.monotonic() + _PATIENCE
    pause = _CONFIRM_LOCAL if traits_of(storage).local else _CONFIRM_REMOTE
    while True:
        stat, found = storage.stat(LOCK), _content(storage)
        if not is_live_foreign(found, clock.now()):
            mine = DatasetLock.own(clock.now(), _VALID_SECONDS).to_bytes()
            with suppress(
                PreconditionFailed
            ):  # another one was faster, or this one, unheard: the content tells
                storage.put_if(LOCK, mine, None if stat is None else stat.etag)
            clock.sleep(pause)
            if _content(storage) == mine:
                return
        if clock.monotonic() > give_up:
            raise LockedException(
                f"another process changes the list of saved views of {storage.url} all the time ({LOCK}); try again"
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
