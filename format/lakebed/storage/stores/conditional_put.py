"""Conditional puts: whether a store enforces them, and a substitute for stores that do not.

Publishing relies on puts that succeed only if no other writer has changed the object. Some stores accept such a put and
ignore its condition. A probe finds that out once per endpoint, bucket and process: it puts a small object under
conditions that hold and conditions that do not. If conditions are ignored, `put_weakly` reads before and after it
writes: this protects writers that hold the lease, but not two writers that collide within one round trip.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import uuid
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakebed.errors import (
    BucketNotFoundError,
    PreconditionFailed,
    StorageError,
    StorageUnavailableError,
    WeakStoreWarning,
)
from lakebed.runtime import process_hooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakebed.storage.base import Data, Storage

# Hosts of clouds that certainly enforce conditions, by the end of the name.
_ENFORCING = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True, slots=True)
class ConditionalPuts:
    """Conditions that a store enforces.

    Parameters
    ----------
    creates
        A put fails if an object exists.
    replaces
        A put fails if another object than the expected one exists.
    is_quoted
        The store expects etags in quotes, as in the standard.
    """

    creates: bool = True
    replaces: bool = True
    is_quoted: bool = True

    @property
    def hold(self) -> bool:
        """True if publishing can rely on these conditions."""
        return self.creates and self.replaces


ENFORCED = ConditionalPuts()

_known: dict[tuple[str, str], ConditionalPuts] = {}
_warned: set[str] = set()
_mutex = threading.Lock()
_weak_puts = threading.Lock()


def conditional_puts(
    scheme: str, endpoint: str, bucket: str, put: Callable[[str, bytes, str | None, bool], str],
    write: Callable[[str, bytes], str], delete: Callable[[str], object],
) -> ConditionalPuts:  # fmt: skip
    """Return the conditions that a store enforces; the first call asks it.

    Parameters
    ----------
    scheme, endpoint, bucket
        The store; an empty endpoint is the cloud's own.
    put
        Puts on a condition: key, content, etag or None, whether the etag is quoted. Returns the new etag.
    write, delete
        Put without a condition, and remove.

    Raises
    ------
    StorageError
        If the store accepts no writes.
    """
    host = urlsplit(endpoint).hostname or ""
    if scheme != "s3" or not host or host.endswith(_ENFORCING):
        return ENFORCED
    place = (endpoint, bucket)
    with _mutex:
        found = _known.get(place)
        if found is None:
            found = _known[place] = _probe(put, write, delete)
    return found


def warn_of(endpoint: str, url: str) -> None:
    """Warn once per endpoint that the store protects writers less well."""
    with _mutex:
        if endpoint in _warned:
            return
        _warned.add(endpoint)
    warnings.warn(
        f"{endpoint or url} takes conditional writes and does not enforce them: two writers that open the same branch "
        "of a dataset there within a second may overwrite each other. Write from one process at a time; "
        "see `lakebed doctor`",
        WeakStoreWarning,
        stacklevel=4,
    )


def _probe(
    put: Callable[[str, bytes, str | None, bool], str],
    write: Callable[[str, bytes], str],
    delete: Callable[[str], object],
) -> ConditionalPuts:
    key = f".lakebed/probe-{uuid.uuid4().hex}"
    try:
        etag = _attempt(lambda: put(key, b"first", None, True))
        creates = etag is not None and _attempt(lambda: put(key, b"second", None, True)) is None
        if not creates:
            etag = write(key, b"second")
        if _attempt(lambda: put(key, b"wrong", "0" * 32, True)) is not None:
            return ConditionalPuts(creates, replaces=False)
        for is_quoted in (True, False):
            if _attempt(partial(put, key, b"third", etag, is_quoted)) is not None:
                return ConditionalPuts(creates, is_quoted=is_quoted)
        return ConditionalPuts(creates, replaces=False)
    finally:
        with contextlib.suppress(StorageError):  # if the deletion fails, an object of a few bytes stays
            delete(key)


def _attempt(put: Callable[[], str]) -> str | None:
    """Return the etag of a put, None if the store refused it; stores refuse unknown conditions in various ways."""
    try:
        return put()
    except (StorageUnavailableError, PermissionError, BucketNotFoundError):
        raise
    except (PreconditionFailed, StorageError):
        return None


def put_weakly(storage: Storage, key: str, data: Data, etag: str | None) -> str:
    """Imitate a conditional put by reading before and after the write.

    Raises
    ------
    PreconditionFailed
        If another object is present, or another writer wrote it at the same time.
    """
    with _weak_puts:
        present = storage.stat(key)
        if (present.etag if present else None) != etag:
            raise PreconditionFailed(
                f"{key!r} in {storage.url} changed since it was read; read it again and repeat the change"
            )
        written = storage.put(key, data)
        found = storage.stat(key)
    if found is None or found.etag != written:
        raise PreconditionFailed(
            f"{key!r} in {storage.url} was written by another writer at the same time; read it again"
        )
    return written


process_hooks.new_lock_after_fork(sys.modules[__name__], "_mutex")
process_hooks.new_lock_after_fork(sys.modules[__name__], "_weak_puts")
