"""Small files that several processes change: read, edit, and put if nobody else did meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakebed.errors import CommitFailed, CommitStateUnknown, PreconditionFailed, StorageError
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
    look: str,
    holds: Callable[[T], bool] | None = None,
) -> tuple[T, T]:
    """Replace a file by an edited one, durably; what others write at the same time stays.

    Parameters
    ----------
    read
        Returns what the file holds, or what stands for none.
    edit
        Returns the new content, or the one that it was given if there is nothing to do; it may refuse by an error, and
        is called again for each try.
    dump
        Returns the bytes of a content.
    look
        What a user looks at where nobody knows whether it was done: ``the tags``.
    holds
        Whether a content is as it should be afterwards, as a put may work although its answer was lost; None where it
        must be the one that was put.

    Returns
    -------
    What the file held before the change, and what it holds after it.

    Raises
    ------
    CommitFailed, CommitStateUnknown
        If the file could not be replaced, or that is not known.
    """
    for attempt in range(_TRIES):
        stat = storage.stat(key)
        before = read()
        after = edit(before)
        if after == before:
            return before, before
        try:
            storage.put_if(key, dump(after), None if stat is None else stat.etag)
        except PreconditionFailed:
            # By another process, or by this one: a client that gets no answer sends the request again.
            found = read()
        except StorageError as error:
            try:
                found = read()
            except StorageError as again:
                raise CommitStateUnknown(
                    f"the answer to a change of {key} of {storage.url} was lost ({error}) and reading again failed "
                    f"({again}); look at {look} before repeating the change"
                ) from error
            if not (found == after if holds is None else holds(found)):
                raise
            return before, found
        else:
            return before, after
        if found == after if holds is None else holds(found):
            return before, found
        clock.sleep(0.001 * attempt)
    raise CommitFailed(f"{key} of {storage.url} is rewritten all the time by others; nothing was changed")
