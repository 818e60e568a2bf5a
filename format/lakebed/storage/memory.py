"""Objects in the memory of this process."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from lakebed.errors import InvalidInputError, KeyNotFound, PreconditionFailed
from lakebed.runtime import process_hooks
from lakebed.storage.base import Stat, Storage, StorageTraits, Tail, check_key, check_spans, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakebed.storage.base import Data

_named: weakref.WeakValueDictionary[str, MemoryStorage] = weakref.WeakValueDictionary()
_named_lock = threading.Lock()

let_go: list[Callable[[str], None]] = []
"""Functions called with a storage's address before it is opened again, so that background threads release it."""


class MemoryStorage(Storage):
    """A thread-safe dictionary of bytes.

    Parameters
    ----------
    name
        Part of the url after `mem://`; random if not given.
    """

    traits = StorageTraits(local=True, system_locks=True, reader_leases=True)

    def __init__(self, name: str | None = None) -> None:
        process_hooks.start()
        self._name = name or f"anonymous-{os.urandom(16).hex()}"
        self._objects: dict[str, tuple[bytes, str, int]] = {}
        self._lock = threading.Lock()
        self._versions = itertools.count(1)

    @property
    def url(self) -> str:
        """Address: `mem://` and the name."""
        return f"mem://{self._name}"

    def __repr__(self) -> str:
        return f"MemoryStorage({self._name!r})"

    def __reduce__(self) -> str:
        raise InvalidInputError(f"{self.url} exists in this process only: pickle a dataset with a local path")

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        return self._found(key)[0]

    def _found(self, key: str) -> tuple[bytes, str, int]:
        try:
            return self._objects[check_key(key)]
        except KeyError:
            raise KeyNotFound(f"{key!r} does not exist in {self.url}") from None

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or all of it if it is shorter."""
        check_spans(key, ((0, length),))
        data, etag, modified = self._found(key)
        return Tail(data[max(0, len(data) - length) :], Stat(len(data), etag, modified))

    def put(self, key: str, data: Data) -> str:
        """Write an object, replacing an existing one, and return its etag."""
        check_key(key)
        content = b"".join(pieces(data))
        with self._lock:
            return self._set(key, content)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object only if the existing object has this etag (None: only if no object exists)."""
        check_key(key)
        content = b"".join(pieces(data))
        with self._lock:
            present = self._objects.get(key)
            if (present[1] if present else None) != etag:
                raise PreconditionFailed(
                    f"{key!r} in {self.url} changed since it was read; read it again and repeat the change"
                )
            return self._set(key, content)

    def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""
        with self._lock:
            self._objects.pop(check_key(key), None)

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key starts with `prefix`."""
        with self._lock:
            for key in [key for key in self._objects if key.startswith(prefix)]:
                del self._objects[key]

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`."""
        with self._lock:
            found = [(key, value) for key, value in self._objects.items() if key.startswith(prefix)]
        for key, (data, etag, modified) in found:
            yield key, Stat(len(data), etag, modified)

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        found = self._objects.get(check_key(key))
        return Stat(len(found[0]), found[1], found[2]) if found else None

    def _set(self, key: str, content: bytes) -> str:
        etag = f"{next(self._versions):x}"
        self._objects[key] = (content, etag, time.time_ns())
        return etag


def open_memory(name: str) -> MemoryStorage:
    """Return the storage of this name: the same object as long as this process refers to it anywhere.

    Without a name, the storage is new, as in 3.x; it can be opened again only by its url, which has a name.
    """
    if name in _named:
        for wait in let_go:
            wait(f"mem://{name}")
    with _named_lock:
        found = _named.get(name)
        if found is None:
            found = MemoryStorage(name)
            _named[found.url.removeprefix("mem://")] = found
        return found
