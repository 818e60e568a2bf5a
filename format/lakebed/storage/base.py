"""What every storage can do: whole objects and byte ranges under keys.

A key is a relative path with `/` between its parts.  An object appears, and is replaced, as a whole or not at
all: no reader sees half of a put.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, TypeGuard, runtime_checkable

from lakebed.errors import InvalidInputError, InvalidKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.credentials import Creds
    from lakebed.storage.early_files import EarlyFile

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Data: TypeAlias = "Buffer | Sequence[Buffer]"
"""Content of an object: one buffer, or a list of buffers that are written back to back without a copy."""


class Summed(tuple["bytes | memoryview", ...]):  # noqa: SLOT001 - what is of varying size has none
    """Pieces of content whose checksums its writer has taken, so that a storage need not read all of it for its own.

    Parameters
    ----------
    pieces
        The content.
    is_same
        Tells whether a buffer holds the same.
    """

    is_same: Callable[[Buffer], bool]

    def __new__(cls, pieces: Iterable[bytes | memoryview], is_same: Callable[[Buffer], bool]) -> Self:
        found = super().__new__(cls, pieces)
        found.is_same = is_same
        return found


class Early(Summed):
    """Content that a storage has already, all of it, in a file without a name: see `EarlyStorage`.

    Its pieces are the same bytes once more, for storages that do not take the file.

    Parameters
    ----------
    pieces, is_same
        As of `Summed`.
    file
        Holds the content.
    """

    file: EarlyFile | None

    def __new__(
        cls,
        pieces: Iterable[bytes | memoryview],
        is_same: Callable[[Buffer], bool],
        file: EarlyFile | None = None,
    ) -> Self:
        found = super().__new__(cls, pieces, is_same)
        found.file = file
        return found


@dataclass(frozen=True, slots=True)
class Stat:
    """Size in bytes and identity of one stored object; the etag differs whenever the object was replaced."""

    size: int
    etag: str
    modified: int = field(default=0, compare=False)
    """Nanoseconds since 1970, by the clock of this machine; 0 where the store has another clock."""
    stored: int = field(default=0, compare=False)
    """Nanoseconds since 1970 by the clock of the store, where that is another one: to be compared only with its own."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The last bytes of an object, and the identity of the object that they are of."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class StorageTraits:
    """What a storage can do beside the methods of :class:`Storage`, as data: the attribute ``traits`` of a storage.

    The defaults are those of an unknown store behind a network.

    Parameters
    ----------
    local
        A request costs no round trip over a network.
    folder
        Path of the folder whose files the objects are, by the same names; empty where objects are no files.
    system_locks
        The writer's lock of :mod:`lakebed.storage.lock` ends with the process that holds it. Without, writers keep
        lock files in the dataset, which expire.
    reader_leases
        Readers can be told from the outside, see :mod:`lakebed.storage.reader_locks`.
    conditional
        `put_if` holds against writers on all machines; None where only the store itself can tell, by its attribute
        ``conditional``.
    read_only
        Objects cannot be written.
    mappable, bulk_delete, uncached_writes, early_files, views, cache, bucket
        It is a :class:`MappableStorage`, :class:`BulkStorage`, :class:`UncachedStorage`, :class:`EarlyStorage`,
        :class:`ViewedStorage`, :class:`CachingStorage`, :class:`BucketStorage`.
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


@runtime_checkable
class Storage(Protocol):
    """Objects under keys.

    `url` names the storage for people and for locks: two storages with the same url hold the same objects. A storage
    should have an attribute ``traits`` (:class:`StorageTraits`); of one without, :func:`traits_of` infers them. A
    wrapper names the storage that it wraps ``inner``.
    """

    @property
    def url(self) -> str:
        """Address of the root."""

    def get(self, key: str) -> bytes:
        """Read a whole object.

        Raises
        ------
        KeyNotFound
            If there is no such object.
        """

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a writable byte buffer and return its length.

        Raises
        ------
        KeyNotFound
            If there is no such object.
        InvalidInputError
            If the buffer is smaller than the object.
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly `length` bytes from offset `start`.

        Raises
        ------
        KeyNotFound
            If there is no such object.
        TruncatedReadError
            If the object ends before `start + length`.
        """

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the order given; errors as in `get_range`."""

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or all of it if it is shorter.

        Raises
        ------
        KeyNotFound
            If there is no such object.
        """

    def put(self, key: str, data: Data) -> str:
        """Write an object durably, replacing any before it, and return its etag."""

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects.

        With `durable` they survive a power cut once this returns; without, only after `sync` of their keys.
        A crash in the middle leaves any subset of the batch. What replaced another object is whole; what is new may
        be cut short, so nothing may refer to it before this has returned.
        """

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Let a new object hold what another holds, without moving the bytes through this process if that can be.

        The objects are apart from then on: what changes one leaves the other alone. `durable` as in `put_many`; like
        there, a target that is new may be cut short by a crash.

        Raises
        ------
        KeyNotFound
            If there is no object to copy.
        """

    def sync(self, keys: Iterable[str]) -> None:
        """Make what `put_many` or `copy` wrote without `durable` survive a power cut; missing objects are skipped."""

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object durably only if the present one has this etag (None: only if there is none).

        Raises
        ------
        PreconditionFailed
            If the present object is another; nothing was written.
        """

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key starts with `prefix`, crash leftovers included; "" removes all."""

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`, in no particular order."""

    def stat(self, key: str) -> Stat | None:
        """Size and etag of an object, None if there is none."""


@runtime_checkable
class BulkStorage(Storage, Protocol):
    """A storage that removes many objects at the price of one."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are no error. A failure leaves any of them."""


@runtime_checkable
class UncachedStorage(Storage, Protocol):
    """A storage below a cache of the operating system that writes need not go through."""

    def put_uncached(self, items: Iterable[tuple[str, Data]]) -> None:
        """Write a batch of objects that are not read soon, as `put_many` does without `durable`."""


@runtime_checkable
class EarlyStorage(Storage, Protocol):
    """A storage that takes content before it is known under which key it goes."""

    def early_file(self, size: int) -> EarlyFile | None:
        """Make a file for about so many bytes, which `put_many` takes as `Early` content; None if that cannot be."""


@runtime_checkable
class MappableStorage(Storage, Protocol):
    """A storage whose objects can be read without a copy."""

    def map(self, key: str) -> memoryview:
        """Map a whole object that is never rewritten in place; the bytes are writable, writes stay private.

        Raises
        ------
        KeyNotFound
            If there is no such object.
        """


@runtime_checkable
class ViewedStorage(Storage, Protocol):
    """A storage that returns the memory of its client: a copy less."""

    def view(self, key: str) -> memoryview:
        """Read a whole object, as `get` does."""

    def view_range(self, key: str, start: int, length: int) -> memoryview:
        """Read exactly `length` bytes from offset `start`, as `get_range` does."""


@runtime_checkable
class BucketStorage(Storage, Protocol):
    """Objects of a bucket of some server, which asks for credentials."""

    @property
    def endpoint(self) -> str:
        """Address of the server if it is not that of the cloud, else empty."""

    @property
    def authenticated_by(self) -> str:
        """Name of what supplied the credentials in use: never a secret."""

    def use(self, creds: Creds) -> None:
        """Do the next requests with other credentials."""

    def around(self, other: BucketStorage) -> tuple[Storage, str, str] | None:
        """Return a storage of the bucket that both lie in, the prefix of the other and ours; None if there is none."""


@runtime_checkable
class CachingStorage(Storage, Protocol):
    """A storage that keeps on this machine what it has read of another, for as long as it decides.

    Reads as from any storage return what the origin holds: of objects that may be other ones by now it asks the origin.
    A reader that knows checksums avoids that request with `trusted`::

        data = storage.trusted.get_range(key, start, length)
        if is_wrong(data):
            storage.forget(key)
            data = storage.origin.get_range(key, start, length)
    """

    @property
    def origin(self) -> Storage:
        """The storage that is cached: reads and writes past the cache."""

    @property
    def trusted(self) -> Storage:
        """The same objects, for reading only and without a question to the origin: they may be outdated."""

    def forget(self, key: str) -> None:
        """Drop what is kept of an object."""


def innermost(storage: Storage) -> Storage:
    """Return the storage that does the work below wrappers, which name what they wrap `inner`."""
    while (inner := getattr(storage, "inner", None)) is not None:
        storage = inner
    return storage


def traits_of(storage: Storage) -> StorageTraits:
    """Return what a storage can do: its ``traits``, or what its url, its methods and what it wraps tell."""
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
    """Whether a store replaces an object only if it is the one that is meant; the store may be asked."""
    found = traits_of(storage).conditional
    return bool(getattr(innermost(storage), "conditional", True)) if found is None else found


def is_mappable(storage: Storage) -> TypeGuard[MappableStorage]:
    """Whether objects can be read without a copy."""
    return traits_of(storage).mappable


def is_bulk(storage: Storage) -> TypeGuard[BulkStorage]:
    """Whether many objects are removed at the price of one."""
    return traits_of(storage).bulk_delete


def is_uncached(storage: Storage) -> TypeGuard[UncachedStorage]:
    """Whether writes can go past the cache of the operating system."""
    return traits_of(storage).uncached_writes


def is_early(storage: Storage) -> TypeGuard[EarlyStorage]:
    """Whether content can be written before it has a key."""
    return traits_of(storage).early_files


def is_viewed(storage: Storage) -> TypeGuard[ViewedStorage]:
    """Whether objects can be had in the memory of the client."""
    return traits_of(storage).views


def is_cache(storage: Storage) -> TypeGuard[CachingStorage]:
    """Whether what is read may come from a cache on this machine."""
    return traits_of(storage).cache


def is_bucket(storage: Storage) -> TypeGuard[BucketStorage]:
    """Whether the objects are those of a bucket."""
    return traits_of(storage).bucket


def without_cache(storage: Storage) -> Storage:
    """Return the storage without a cache before it: what is read once need not be kept."""
    return storage.origin if is_cache(storage) else storage


def place_of(storage: Storage) -> str:
    """Return what tells where the objects of a storage are from all other places: its url, and the server's address."""
    place: str = getattr(storage, "place", "") or storage.url
    return place


def pieces(data: Data) -> list[memoryview]:
    """Flat byte views of the content, empty pieces left out.

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


def fill(buffer: memoryview, key: str, data: bytes) -> int:
    """Put an object into the start of a writable byte buffer and return its length.

    Raises
    ------
    InvalidInputError
        If the buffer is smaller than the object.
    """
    if len(data) > buffer.nbytes:
        raise InvalidInputError(f"buffer of {buffer.nbytes} bytes cannot hold {key!r} of {len(data)} bytes")
    buffer[: len(data)] = data
    return len(data)


def check_key(key: str) -> str:
    """Return the key if it is a relative path that stays below the root.

    Raises
    ------
    InvalidKeyError
        If a part is empty, `.` or `..`, or the key holds a NUL, a backslash, a drive or invalid Unicode.
    """
    if not key or key[0] == "/" or "\0" in key or "\\" in key or (key[1:3] == ":/" and key[0].isalpha()):
        raise InvalidKeyError(f"storage key {key!r} is no relative path; use names joined by '/'")
    for part in key.split("/"):
        if part in ("", ".", ".."):
            raise InvalidKeyError(f"storage key {key!r} has a part {part!r}; use plain names joined by '/'")
    if not key.isascii():
        try:
            key.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidKeyError(f"storage key {key!r} is no valid Unicode text") from error
    return key


def check_spans(key: str, spans: Iterable[tuple[int, int]]) -> None:
    """Refuse byte ranges that no object can have.

    Raises
    ------
    InvalidInputError
        If a start or a length is negative.
    """
    for start, length in spans:
        if start < 0 or length < 0:
            raise InvalidInputError(f"byte range ({start}, {length}) of {key!r} is negative")
