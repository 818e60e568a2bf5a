"""Changes of small files by several processes: read, edit, and put, repeated if another process changed the file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import eq
from typing import TypeVar

from lakebed.errors import CommitFailed, CommitStateUnknown, CorruptError, PreconditionFailed, StorageError
from lakebed.runtime import clock
from lakebed.storage.base import Storage

T = TypeVar("T")

_TRIES = 50


def change_file(
    storage: Storage,
    key: str,
    *,
    read: Callable[[], T],
    edit: Callable[[T], T],
    dump: Callable[[T], bytes],
    advice: str,
    holds: Callable[[T], bool] | None = None,
) -> tuple[T, T]:
    """Replace a file by an edited one, durably, without losing concurrent changes of other processes.

    Parameters
    ----------
    read
        Returns the content of the file, or a default if it does not exist.
    edit
        Returns the new content, or the same content if it needs no change; it may raise an error to refuse, and is
        called again for each attempt.
    dump
        Returns the bytes of a content.
    advice
        Advice to the user if the outcome is unknown: ``look at the tags before repeating the change``.
    holds
        Tells whether a content includes the change, since a put may succeed although its answer was lost; None if the
        content must equal the new one.

    Returns
    -------
    The content before the change, and the one after it.

    Raises
    ------
    CommitFailed, CommitStateUnknown
        If the file could not be replaced, or the outcome is unknown.
    """
    for attempt in range(_TRIES):
        stat = storage.stat(key)
        before = read()
        after = edit(before)
        if after == before:
            return before, before
        is_made = partial(eq, after) if holds is None else holds
        try:
            storage.put_if(key, dump(after), None if stat is None else stat.etag)
        except PreconditionFailed:
            # Another process was faster, or the client of this process repeated a request that had succeeded without
            # an answer.
            found = read()
        except StorageError as error:
            try:
                found = read()
                if is_made(found):
                    storage.sync([key])  # the disk may have failed after the new file replaced the old one
            except (StorageError, CorruptError) as again:
                raise CommitStateUnknown(
                    f"the answer to a change of {key} of {storage.url} was lost ({error}) and reading again failed "
                    f"({again}); {advice}"
                ) from error
            if not is_made(found):
                raise
            return before, found
        else:
            return before, after
        if is_made(found):
            return before, found
        clock.sleep(0.001 * attempt)
    raise CommitFailed(
        f"{key} of {storage.url} is rewritten again and again by other processes; nothing was changed"
    )
