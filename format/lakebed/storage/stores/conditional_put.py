"""Whether a store keeps its word about conditional puts, and what to do where it does not.

A put that is to succeed only if no other writer has changed the object is what publishing stands on. Some stores take
such a put and ignore its condition. That is found out once per endpoint, bucket and process, by one small object that
is put under conditions which must, and must not, hold. Where they are ignored, `put_weakly` looks before and after it
writes: enough for writers that hold the lease, not for two that collide within one round trip.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
import warnings
from dataclasses import dataclass
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

# Clouds that enforce conditions, by the end of the host's name.
_ENFORCING = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True, slots=True)
class ConditionalPuts:
    """What a store enforces.

    Parameters
    ----------
    creates
        A put that must not replace anything.
    replaces
        A put that must replace one particular object.
    is_quoted
        Whether etags are to be sent in quotes, as the standard has it.
    """

    creates: bool = True
    replaces: bool = True
    is_quoted: bool = True

    @property
    def hold(self) -> bool:
        """Whether publishing can stand on them."""
        return self.creates and self.replaces


ENFORCED = ConditionalPuts()

_known: dict[tuple[str, str], ConditionalPuts] = {}
_warned: set[str] = set()
_mutex = threading.Lock()
_weak_puts = threading.RLock()


def conditional_puts(
    scheme: str, endpoint: str, bucket: str, put: Callable[[str, bytes, str | None, bool], str],
    write: Callable[[str, bytes], str], delete: Callable[[str], object],
) -> ConditionalPuts:  # fmt: skip
    """Return what a store enforces; ask it, the first time.

    Parameters
    ----------
    scheme, endpoint, bucket
        Which store; an empty endpoint is the cloud's own.
    put
        Puts under a condition: key, content, etag or None, whether the etag is quoted. Returns the new etag.
    write, delete
        Puts without any, and removes.

    Raises
    ------
    StorageError
        If nothing can be written there.
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
    """Say once per endpoint that writers are guarded less well there."""
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
            if _attempt(lambda is_quoted=is_quoted: put(key, b"third", etag, is_quoted)) is not None:  # type: ignore[misc]
                return ConditionalPuts(creates, is_quoted=is_quoted)
        return ConditionalPuts(creates, replaces=False)
    finally:
        with contextlib.suppress(StorageError):  # what stays is a few bytes
            delete(key)


def _attempt(put: Callable[[], str]) -> str | None:
    """Return the etag of a put that was taken; stores refuse conditions that they do not know in various ways."""
    try:
        return put()
    except (StorageUnavailableError, PermissionError, BucketNotFoundError):
        raise
    except (PreconditionFailed, StorageError):
        return None


def put_weakly(storage: Storage, key: str, data: Data, etag: str | None) -> str:
    """Do what a conditional put would, as well as reading before and after can.

    Raises
    ------
    PreconditionFailed
        If the object is another, or another writer wrote it at the same time.
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
            f"{key!r} in {storage.url} was written by somebody else at the same time; read it again"
        )
    return written


def _after_fork() -> None:
    global _mutex, _weak_puts
    _mutex, _weak_puts = threading.Lock(), threading.RLock()


process_hooks.after_fork(_after_fork)
