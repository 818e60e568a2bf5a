"""A folder of a storage as a storage, such as a dataset within another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakebed.storage.base import Storage, StorageTraits, check_key, is_conditional, place_of, traits_of
from lakebed.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakebed.storage.base import Data, Stat, Tail


def below(storage: Storage, folder: str) -> Storage:
    """Return the storage of the objects whose keys begin with ``folder`` and ``/``."""
    if type(storage) is LocalStorage:
        return LocalStorage(f"{storage.url}/{folder}")
    return Below(storage, folder)


@dataclass(frozen=True)
class Below(Storage):
    """Objects below a folder of another storage.

    Parameters
    ----------
    outer
        The storage that contains the folder.
    folder
        Key of the folder without a ``/`` at the end.
    """

    outer: Storage
    folder: str

    @property
    def url(self) -> str:
        """Address of the folder."""
        return f"{self.outer.url.rstrip('/')}/{self.folder}"

    @property
    def place(self) -> str:
        """Name of the folder that is unique among all storages."""
        return f"{place_of(self.outer)}/{self.folder}"

    @property
    def traits(self) -> StorageTraits:
        """Traits of the outer storage that also hold for a folder of it; reader leases do not."""
        outer = traits_of(self.outer)
        folder = f"{outer.folder.rstrip('/')}/{self.folder}" if outer.folder else ""
        return outer.of_wrapper(folder=folder, reader_leases=False)

    @property
    def conditional(self) -> bool:
        """True if the store enforces the conditions of `put_if`."""
        return is_conditional(self.outer)

    def _key(self, key: str) -> str:
        return f"{self.folder}/{check_key(key)}"

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        return self.outer.get(self._key(key))

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a buffer."""
        return self.outer.get_into(self._key(key), buffer)

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several ranges of one object."""
        return self.outer.get_ranges(self._key(key), spans)

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the end of an object."""
        return self.outer.get_tail(self._key(key), length)

    def put(self, key: str, data: Data) -> str:
        """Write an object durably."""
        return self.outer.put(self._key(key), data)

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects."""
        self.outer.put_many([(self._key(key), data) for key, data in items], durable=durable)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Create an object with the content of another."""
        self.outer.copy(self._key(source), self._key(target), durable=durable)

    def sync(self, keys: Iterable[str]) -> None:
        """Make written objects survive a power cut."""
        self.outer.sync([self._key(key) for key in keys])

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object only if the present one has this etag."""
        return self.outer.put_if(self._key(key), data, etag)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self.outer.delete(self._key(key))

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key starts with a prefix."""
        self.outer.delete_prefix(f"{self.folder}/{prefix}")

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with a prefix."""
        begin = len(self.folder) + 1
        for key, stat in self.outer.list(f"{self.folder}/{prefix}"):
            yield key[begin:], stat

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        return self.outer.stat(self._key(key))

    def __getattr__(self, name: str) -> Any:
        if name in ("endpoint", "traffic", "scheme"):
            return getattr(self.outer, name)
        raise AttributeError(name)
