"""The interface of storages: whole objects and byte ranges under keys.

A key is a relative path with `/` between its parts. An object appears, and is replaced, as a whole or not at all: no
reader sees half of a put.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

from lakebed.errors import InvalidInputError, InvalidKeyError, KeyNotFound, TruncatedReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.credentials import Creds
    from lakebed.storage.files.early_files import EarlyFile

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Data: TypeAlias = "Buffer | Sequence[Buffer]"
"""Content of an object: one buffer, or a list of buffers that are written back to back without a copy."""


class Summed(tuple["bytes | memoryview", ...]):  # noqa: SLOT001 - a tuple of varying size cannot have slots
    """Pieces of content with known checksums, so that a storage need not read the content to compute them.

    Parameters
    ----------
    pieces
        The content.
    is_same
        Tells whether a buffer holds the same content.
    file
        File without a name that already holds the content (see `EarlyStorage`). The pieces are the same bytes, for
        storages that do not take the file.
    """

    is_same: Callable[[Buffer], bool]
    file: EarlyFile | None

    def __new__(
        cls,
        pieces: Iterable[bytes | memoryview],
        is_same: Callable[[Buffer], bool],
        *,
        file: EarlyFile | None = None,
    ) -> Self:
        found = super().__new__(cls, pieces)
        found.is_same, found.file = is_same, file
        return found


@dataclass(frozen=True, slots=True)
class Stat:
    """Size in bytes and identity of a stored object; the etag changes whenever the object is replaced."""

    size: int
    etag: str
    modified: int = field(default=0, compare=False)
    """Nanoseconds since 1970 by the clock of this machine; 0 if the store has another clock."""
    stored: int = field(default=0, compare=False)
    """Nanoseconds since 1970 by the store's own clock, comparable only with other times of that store."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Last bytes of an object, and the identity of that object."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class StorageTraits:
    """Abilities of a storage beyond the methods of :class:`Storage`, as data: the attribute ``traits`` of a storage.

    The defaults describe an unknown store behind a network.

    Parameters
    ----------
    local
        Whether a request costs no round trip over a network.
    folder
        Path of the folder whose files are the objects, by the same names; empty if objects are not files.
    system_locks
        Whether the writer's lock of :mod:`lakebed.storage.lock` ends with the process that holds it. If False, writers
        keep lock files in the dataset, which expire.
    reader_leases
        Whether other processes can see readers, see :mod:`lakebed.storage.reader_locks`.
    conditional
        Whether the condition of `put_if` is enforced against writers on all machines; None if only the store knows, see
        its attribute ``conditional``.
    read_only
        Whether objects cannot be written.
    mappable, bulk_delete, uncached_writes, early_files, views, cache, bucket
        Whether the storage is a :class:`MappableStorage`, :class:`BulkStorage`, :class:`UncachedStorage`,
        :class:`EarlyStorage`, :class:`ViewedStorage`, :class:`CachingStorage`, :class:`BucketStorage`.
    """

    local: bool = False
    folder: str = ""
    system_locks: bool = False
    reader_leases: bool = False
    conditional: bool | None = True
    read_only: bool = False
    mappable: bool = False
    bulk_delete: bool = False
    uncached_writes: bool = False
    early_files: bool = False
    views: bool = False
    cache: bool = False
    bucket: bool = False

    def of_wrapper(self, **own: Any) -> StorageTraits:
        """Return the traits of a wrapper that passes on the methods of `Storage`, with the given traits of its own."""
        names = ("mappable", "bulk_delete", "uncached_writes", "early_files", "views", "cache", "bucket")
        return replace(self, **{**dict.fromkeys(names, False), **own})


@runtime_checkable
class Storage(Protocol):
    """Objects under keys.

    `url` names the storage for people and for locks: two storages with the same url hold the same objects. A storage
    should have an attribute ``traits`` (:class:`StorageTraits`); if it has none, :func:`traits_of` infers them. A
    wrapper names the storage that it wraps ``inner``. A subclass may leave out the methods that have a body here.
    """

    @property
    def url(self) -> str:
        """Address of the root."""

    def get(self, key: str) -> bytes:
        """Read a whole object.

        Raises
        ------
        KeyNotFound
            If the object does not exist.
        """

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a writable byte buffer and return its length.

        Raises
        ------
        KeyNotFound
            If the object does not exist.
        InvalidInputError
            If the buffer is smaller than the object.
        """
        data = self.get(key)
        check_room(buffer, key, len(data))
        buffer[: len(data)] = data
        return len(data)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from offset `start`.

        Raises
        ------
        KeyNotFound
            If the object does not exist.
        TruncatedReadError
            If the object ends before `start + length`.
        """
        return self.get_ranges(key, ((start, length),))[0]

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the given order; errors as in `get_range`."""
        check_spans(key, spans)
        data = self.get(key)
        check_spans(key, spans, len(data), self.url)
        return [data[start : start + length] for start, length in spans]

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or the whole object if it is shorter.

        Raises
        ------
        KeyNotFound
            If the object does not exist.
        """

    def put(self, key: str, data: Data) -> str:
        """Write an object durably, replacing an existing one, and return its etag."""

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:  # noqa: ARG002
        """Write a batch of objects.

        With `durable`, the objects survive a power cut once this method returns; otherwise only after `sync` of their
        keys. A crash in the middle leaves any subset of the batch. An object that replaces another is whole; a new
        object may be cut short, so nothing may refer to it before this method has returned.
        """
        for key, data in items:
            self.put(key, data)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:  # noqa: ARG002
        """Create an object with the content of another, without moving the bytes through this process if possible.

        Later changes of one object do not change the other. `durable` has the same meaning as in `put_many`, and a
        crash may cut a new target short, too.

        Raises
        ------
        KeyNotFound
            If the source does not exist.
        """
        check_key(target)
        self.put(target, self.get(source))

    def sync(self, keys: Iterable[str]) -> None:  # noqa: ARG002
        """Make objects that `put_many` or `copy` wrote without `durable` survive a power cut; skip missing objects."""
        return

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object durably only if the existing object has this etag (None: only if no object exists).

        Raises
        ------
        PreconditionFailed
            If another object is present; nothing was written.
        """

    def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key starts with `prefix`, and remains of crashes there; "" removes all objects."""
        for key in [key for key, _ in self.list(prefix)]:
            self.delete(key)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`, in no particular order."""

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""


@runtime_checkable
class BulkStorage(Storage, Protocol):
    """A storage that removes many objects by one request."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects; missing objects are no error. A failure leaves any subset."""


@runtime_checkable
class UncachedStorage(Storage, Protocol):
    """A storage whose writes can bypass the cache of the operating system."""

    def put_uncached(self, items: Iterable[tuple[str, Data]]) -> None:
        """Write objects that are not read soon, like `put_many` without `durable`."""


@runtime_checkable
class EarlyStorage(Storage, Protocol):
    """A storage that takes content before its key is known."""

    def early_file(self, size: int) -> EarlyFile | None:
        """Create a file for about `size` bytes, which `put_many` takes as `Summed.file`; None if not supported."""


@runtime_checkable
class MappableStorage(Storage, Protocol):
    """A storage whose objects can be read without a copy."""

    def map(self, key: str) -> memoryview:
        """Map a whole object that is never rewritten in place; the bytes are writable, writes stay private.

        Raises
        ------
        KeyNotFound
            If the object does not exist.
        """


@runtime_checkable
class ViewedStorage(Storage, Protocol):
    """A storage that returns the memory of its client, which saves a copy."""

    def view(self, key: str) -> memoryview:
        """Read a whole object, as `get` does."""

    def view_range(self, key: str, start: int, length: int) -> memoryview:
        """Read exactly `length` bytes from offset `start`, as `get_range` does."""


@runtime_checkable
class BucketStorage(Storage, Protocol):
    """Objects in a bucket of a server that asks for credentials."""

    @property
    def endpoint(self) -> str:
        """Address of the server; empty for the cloud's own."""

    @property
    def authenticated_by(self) -> str:
        """Name of the source of the credentials in use; never a secret."""

    def use(self, creds: Creds) -> None:
        """Use other credentials for the next requests."""

    def around(self, other: BucketStorage) -> tuple[Storage, str, str] | None:
        """Return a storage of the common bucket, the other storage's prefix, and the prefix of this storage.

        Returns None if the two storages have different buckets.
        """


@runtime_checkable
class CachingStorage(Storage, Protocol):
    """A storage that keeps a local copy of data read from another storage, for as long as it decides.

    Ordinary reads return what the origin holds: the storage asks the origin whether an object was replaced. A reader
    that knows checksums avoids that request with `trusted`::

        data = storage.trusted.get_range(key, start, length)
        if is_wrong(data):
            storage.forget(key)
            data = storage.origin.get_range(key, start, length)
    """

    @property
    def origin(self) -> Storage:
        """The cached storage, for reads and writes that bypass the cache."""

    @property
    def trusted(self) -> Storage:
        """The same objects, read without asking the origin: they may be outdated."""

    def forget(self, key: str) -> None:
        """Drop the copy of an object."""


def innermost(storage: Storage) -> Storage:
    """Return the storage below all wrappers, which name the wrapped storage `inner`."""
    while (inner := getattr(storage, "inner", None)) is not None:
        storage = inner
    return storage


def traits_of(storage: Storage) -> StorageTraits:
    """Return the ``traits`` of a storage, or infer them from its url, its methods and the storage that it wraps."""
    found: StorageTraits | None = getattr(storage, "traits", None)
    return _inferred(storage) if found is None else found


def _inferred(storage: Storage) -> StorageTraits:
    inner: Storage | None = getattr(storage, "inner", None)
    below = StorageTraits() if inner is None else traits_of(inner)
    is_folder = os.path.isabs(storage.url)  # noqa: PTH117 - paths are strings here
    is_local = is_folder or storage.url.startswith("mem://")
    return StorageTraits(
        local=is_local,
        folder=below.folder or (storage.url if is_folder else ""),
        system_locks=is_local,
        reader_leases=below.reader_leases,
        conditional=None if hasattr(type(storage), "conditional") else below.conditional,
        read_only=below.read_only,
        mappable=isinstance(storage, MappableStorage),
        bulk_delete=isinstance(storage, BulkStorage),
        uncached_writes=isinstance(storage, UncachedStorage),
        early_files=isinstance(storage, EarlyStorage),
        views=isinstance(storage, ViewedStorage),
        cache=isinstance(storage, CachingStorage),
        bucket=isinstance(storage, BucketStorage),
    )


def is_conditional(storage: Storage) -> bool:
    """Tell whether the condition of `put_if` is enforced against other machines; this may send a request."""
    found = traits_of(storage).conditional
    return bool(getattr(innermost(storage), "conditional", True)) if found is None else found


def is_mappable(storage: Storage) -> TypeGuard[MappableStorage]:
    """Tell whether objects can be read without a copy."""
    return traits_of(storage).mappable


def is_bulk(storage: Storage) -> TypeGuard[BulkStorage]:
    """Tell whether one request removes many objects."""
    return traits_of(storage).bulk_delete


def is_uncached(storage: Storage) -> TypeGuard[UncachedStorage]:
    """Tell whether writes can bypass the cache of the operating system."""
    return traits_of(storage).uncached_writes


def is_early(storage: Storage) -> TypeGuard[EarlyStorage]:
    """Tell whether content can be written before its key is known."""
    return traits_of(storage).early_files


def is_viewed(storage: Storage) -> TypeGuard[ViewedStorage]:
    """Tell whether reads can return the memory of the client."""
    return traits_of(storage).views


def is_cache(storage: Storage) -> TypeGuard[CachingStorage]:
    """Tell whether reads may come from a cache on this machine."""
    return traits_of(storage).cache


def is_bucket(storage: Storage) -> TypeGuard[BucketStorage]:
    """Tell whether the objects are in a bucket."""
    return traits_of(storage).bucket


def without_cache(storage: Storage) -> Storage:
    """Return the storage without its cache, for data that is read once."""
    return storage.origin if is_cache(storage) else storage


def place_of(storage: Storage) -> str:
    """Return a name that is unique among all storages: the url and, for a bucket, also the address of the server."""
    return str(getattr(storage, "place", "") or storage.url)


def existing(storage: Storage, key: str) -> Stat:
    """Return size and etag of an object.

    Raises
    ------
    KeyNotFound
        If the object does not exist.
    """
    found = storage.stat(key)
    if found is None:
        raise KeyNotFound(f"{key!r} does not exist in {storage.url}")
    return found


def pieces(data: Data) -> list[memoryview]:
    """Return flat byte views of the content without empty pieces.

    Raises
    ------
    InvalidInputError
        If a piece is not one contiguous run of bytes.
    """
    parts = data if isinstance(data, (list, tuple)) else (data,)
    views = []
    for part in parts:
        view = memoryview(part)
        if not view.c_contiguous:
            raise InvalidInputError("cannot store a buffer that is not contiguous; copy it first")
        if view.nbytes:
            views.append(view if view.format == "B" and view.ndim == 1 else view.cast("B"))
    return views


def check_room(buffer: memoryview, key: str, size: int) -> None:
    """Refuse a buffer that is smaller than an object.

    Raises
    ------
    InvalidInputError
        If the buffer is smaller than the object.
    """
    if size > buffer.nbytes:
        raise InvalidInputError(f"buffer of {buffer.nbytes} bytes cannot hold {key!r} of {size} bytes")


def check_key(key: str) -> str:
    """Return the key if it is a relative path that stays below the root.

    Raises
    ------
    InvalidKeyError
        If a part is empty, `.` or `..`, or the key holds a NUL, a backslash, a drive or invalid Unicode.
    """
    if not key or key[0] == "/" or "\0" in key or "\\" in key or (key[1:3] == ":/" and key[0].isalpha()):
        raise InvalidKeyError(f"storage key {key!r} is not a relative path; use names joined by '/'")
    for part in key.split("/"):
        if part in ("", ".", ".."):
            raise InvalidKeyError(f"storage key {key!r} has a part {part!r}; use plain names joined by '/'")
    if not key.isascii():
        try:
            key.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidKeyError(f"storage key {key!r} is not valid Unicode text") from error
    return key


def check_spans(key: str, spans: Iterable[tuple[int, int]], size: int | None = None, url: str = "") -> None:
    """Refuse byte ranges that no object, or no object of the given size, can have.

    Raises
    ------
    InvalidInputError
        If a start or a length is negative.
    TruncatedReadError
        If a range ends beyond the object.
    """
    for start, length in spans:
        if start < 0 or length < 0:
            raise InvalidInputError(f"byte range ({start}, {length}) of {key!r} is negative")
        if size is not None and start + length > size:
            raise TruncatedReadError(
                f"{key!r} in {url} has {size} bytes, not bytes {start} to {start + length}; it is truncated, or its "
                "index belongs to another object"
            )
