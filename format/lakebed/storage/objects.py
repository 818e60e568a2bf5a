"""Objects in a bucket: S3 and compatible stores, Google Cloud Storage, Azure, web servers (read-only)."""

from __future__ import annotations

import contextlib
import logging
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakebed import config
from lakebed.errors import (
    BucketNotFoundError,
    InvalidInputError,
    InvalidKeyError,
    KeyNotFound,
    PreconditionFailed,
    StorageError,
    StoragePermissionError,
    StorageReadOnlyError,
    StorageUnavailableError,
    TruncatedReadError,
)
from lakebed.runtime import process_hooks
from lakebed.storage.base import (
    Stat,
    Storage,
    StorageTraits,
    Tail,
    check_key,
    check_room,
    check_spans,
    existing,
    pieces,
)
from lakebed.storage.concurrently import concurrently
from lakebed.storage.stores.batches import put_in_parallel
from lakebed.storage.stores.conditional_put import ConditionalPuts, conditional_puts, put_weakly, warn_of
from lakebed.storage.stores.error_mapping import NoPartError, SilentError
from lakebed.storage.stores.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import BucketStorage, Data
    from lakebed.storage.credentials import Creds, Given
    from lakebed.storage.stores.traffic import Traffic

_log = logging.getLogger(__name__)

# Largest offset that is requested.
_LARGEST = 1 << 62

# Ranges of one object with a smaller gap than this are fetched by one request.
_GAP = 64 * 1024

# Bodies below this size arrive quickly on any connection, so a pause means that the connection is lost.
_SMALL = 64 * 1024

_LIST_PAGE = 1000

# Number of bytes of a stream that are copied at a time.
_PIECE = 256 * 1024


class ObjectStorage(Storage):
    """Objects below a prefix of a bucket.

    Parameters
    ----------
    scheme
        ``s3``, ``gs``, ``az``, ``http`` or ``https``.
    bucket
        Name of the bucket or container; host and port for web servers.
    prefix
        Beginning of all keys, without the ``/`` at its end.
    creds
        Credentials in the form of the 3.x dictionary, or a source of them; None takes those of the environment.
    query
        Part after the ``?`` of a web server's addresses; it may be a signature, and is never shown.

    Raises
    ------
    InvalidInputError
        If a part of the prefix is empty, ``.`` or ``..``.
    """

    def __init__(
        self, scheme: str, bucket: str, prefix: str = "", creds: Creds | None = None, *, query: str = ""
    ) -> None:
        process_hooks.start()
        self._scheme, self._bucket, self._prefix, self._query = scheme, bucket, prefix.strip("/"), query
        self._is_web = scheme in ("http", "https")
        # For a web server, the prefix is part of the address of the client, before the query.
        self._root = f"{self._prefix}/" if self._prefix and not self._is_web else ""
        if self._root and not {"", ".", ".."}.isdisjoint(self._prefix.split("/")):
            raise InvalidInputError(
                f"{self.url} has a part that is empty, '.' or '..', which have no meaning in a bucket: leave it out"
            )
        tail = ""
        if self._is_web:
            tail = (f"/{self._prefix}" if self._prefix else "") + (f"?{query}" if query else "")
        self._requests = Requests(scheme, bucket, creds, tail, self.url)
        self.traits = StorageTraits(
            conditional=False if self._is_web else None,
            read_only=self._is_web,
            bulk_delete=True,
            views=True,
            bucket=True,
        )

    @property
    def url(self) -> str:
        """Address of the root, without credentials."""
        return f"{self._scheme}://{self._bucket}" + (f"/{self._prefix}" if self._prefix else "")

    @property
    def scheme(self) -> str:
        """The scheme of its addresses."""
        return self._scheme

    @property
    def endpoint(self) -> str:
        """Address of the server; empty for the cloud's own."""
        return self._requests.client().endpoint

    @property
    def place(self) -> str:
        """The url, and the server's address: buckets of two servers may have one name."""
        return f"{self.url} at {self.endpoint}" if self.endpoint else self.url

    @property
    def authenticated_by(self) -> str:
        """Source of the credentials in use; never a secret."""
        return self._requests.client().access.name

    @property
    def creds(self) -> Given | None:
        """Credentials that were given."""
        return self._requests.creds

    @property
    def traffic(self) -> Traffic:
        """Read requests of this process to this storage."""
        return self._requests.traffic

    @property
    def conditional(self) -> bool:
        """True if the store enforces the conditions of `put_if`; the first call asks it with a small object."""
        return not self._is_web and self._conditional_puts().hold

    def __repr__(self) -> str:
        return f"ObjectStorage({self.url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._query:
            raise InvalidInputError(
                f"the address of {self.url} holds a query, which may be a secret and is not passed to other processes"
            )
        return type(self), (self._scheme, self._bucket, self._prefix, self._requests.creds)

    def use(self, creds: Creds) -> None:
        """Make the next requests with other credentials."""
        self._requests.use(creds)

    def around(self, other: BucketStorage) -> tuple[Storage, str, str] | None:
        """Return a storage of the common bucket, the other storage's prefix, and the prefix of this storage.

        Returns None if the two storages have different buckets.
        """
        if not isinstance(other, ObjectStorage) or self._is_web or self._server != other._server:  # noqa: SLF001
            return None
        return type(self)(self._scheme, self._bucket, "", self._requests.creds), other._root, self._root  # noqa: SLF001

    @property
    def _server(self) -> tuple[str, str, str]:
        return self._scheme, self._bucket, self.endpoint

    def _path(self, key: str) -> str:
        return self._root + check_key(key)

    def _refuse_on_web(self, doing: str, key: str) -> None:
        if self._is_web:
            raise StorageReadOnlyError(
                f"cannot {doing} {key!r} in {self.url}: web servers are read-only. Write to a bucket, or to the "
                "folder that the server shows"
            )

    def _change(self, doing: str, key: str, ask: Callable[[Any, Any], Any], **how: bool) -> Any:
        self._refuse_on_web(doing, key)
        return self._requests.ask(doing, key, ask, **how)

    # -- reading --------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        return bytes(self.view(key))

    def view(self, key: str) -> memoryview:
        """Read a whole object into memory of the client, which saves a copy."""
        path = self._path(key)

        def ask(obs: Any, store: Any) -> memoryview:
            result = obs.get(store, path)
            data = memoryview(result.bytes())
            self._check_length(key, len(data), result.meta["size"])
            return data

        return self._requests.read("read", key, ask)

    def get_into(self, key: str, buffer: memoryview) -> int:
        """Read a whole object into the start of a writable byte buffer and return its length."""
        path = self._path(key)

        def ask(obs: Any, store: Any) -> int:
            result = obs.get(store, path)
            size: int = result.meta["size"]
            check_room(buffer, key, size)
            position = 0
            for piece in result.stream(min_chunk_size=_PIECE):
                end = position + len(piece)
                self._check_length(key, min(end, size), end)
                buffer[position:end] = piece
                position = end
            self._check_length(key, position, size)
            return size

        return self._requests.read("read", key, ask)

    def view_range(self, key: str, start: int, length: int) -> memoryview:
        """Read exactly `length` bytes from offset `start` into memory of the client, which saves a copy."""
        return self._ranges(key, ((start, length),))[0]

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the order given.

        Ranges that are close together are read by one request; the requests are made at the same time.
        """
        return [bytes(view) for view in self._ranges(key, spans)]

    def _ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[memoryview]:
        check_spans(key, spans)
        path = self._path(key)
        full = [(start, length) for start, length in spans if length]
        end = max((start + length for start, length in full), default=0)
        if end > _LARGEST or any(start > end for start, _ in spans):
            check_spans(key, spans, existing(self, key).size, self.url)
        if not full:
            return [memoryview(b"")] * len(spans)
        starts, lengths = [s for s, _ in full], [n for _, n in full]

        def ask(obs: Any, store: Any) -> list[Any]:
            if len(full) == 1:
                return [obs.get_range(store, path, start=starts[0], length=lengths[0])]
            found: list[Any] = obs.get_ranges(store, path, starts=starts, lengths=lengths, coalesce=_GAP)
            return found

        try:
            found = self._requests.read("read", key, ask)
        except NoPartError:
            check_spans(key, spans, existing(self, key).size, self.url)
            whole = memoryview(self._whole(key))
            return [whole[start : start + length] for start, length in spans]
        for data, (start, length) in zip(found, full, strict=True):
            self._check_length(key, start + len(data), start + length)
        parts = iter(found)
        return [memoryview(next(parts) if length else b"") for _, length in spans]

    def get_part(self, key: str, start: int, length: int) -> Tail:
        """Read at most `length` bytes from offset `start`, with the identity of the object, by one request."""
        check_spans(key, ((start, length),))
        path = self._path(key)
        end = min(start + length, _LARGEST)

        def ask(obs: Any, store: Any) -> Tail:
            result = obs.get(store, path, options={"range": (start, end)})
            data = result.bytes().to_bytes()
            self._check_length(key, start + len(data), min(end, result.meta["size"]))
            return Tail(data, self._stat(result.meta))

        if length:
            with contextlib.suppress(NoPartError):
                return self._requests.read("read", key, ask)
        found = existing(self, key)
        if length and start < found.size:
            return Tail(self._whole(key)[start:end], found)
        return Tail(b"", found)

    def _whole(self, key: str) -> bytes:
        """Read a whole object when the server returns no part of it, as some servers do if the part is the whole."""
        _log.info("%s returned no part of %r: the object is read as a whole", self.url, key)
        return self.get(key)

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or the whole object if it is shorter.

        Azure has no ranges from the end: an object longer than `length` costs two requests there.
        """
        check_spans(key, ((0, length),))
        path = self._path(key)
        if not length:
            return Tail(b"", existing(self, key))
        if self._scheme == "az":
            head = self.get_part(key, 0, length)
            return head if head.stat.size <= length else self._exact_tail(key, length, head.stat)

        def ask(obs: Any, store: Any) -> Tail:
            result = obs.get(store, path, options={"range": {"suffix": min(length, _LARGEST)}})
            data = result.bytes().to_bytes()
            self._check_length(key, len(data), min(length, result.meta["size"]))
            return Tail(data, self._stat(result.meta))

        try:
            return self._requests.read("read", key, ask)
        except (
            NoPartError,
            TruncatedReadError,
        ):  # an empty object has no parts; some stores do not support reading from the end
            found = existing(self, key)
        return self._exact_tail(key, length, found)

    def _exact_tail(self, key: str, length: int, found: Stat) -> Tail:
        length = min(length, found.size)
        tail = self.get_part(key, found.size - length, length)
        if tail.stat.size != found.size:  # another process replaced the object between the two requests
            return self._exact_tail(key, length, tail.stat)
        return tail

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        path = self._path(key)
        try:
            return self._stat(self._requests.read("look at", key, lambda obs, store: obs.head(store, path)))
        except KeyNotFound:
            return None
        except SilentError:
            # An answer to HEAD does not contain the reason of a refusal; an answer to GET does.
            try:
                return self.get_part(key, 0, 1).stat
            except KeyNotFound:
                return None

    def _check_length(self, key: str, found: int, wanted: int) -> None:
        if found != wanted:
            raise TruncatedReadError(f"{key!r} in {self.url} ends at byte {found}, before byte {wanted}")

    def _stat(self, meta: Any) -> Stat:
        """Return size and identity of an object, the identity in the form that `put_if` needs on this store."""
        tag = meta["version"] if self._scheme == "gs" and meta["version"] else meta["e_tag"]
        if not tag:
            tag = f"{meta['last_modified'].timestamp():.6f}-{meta['size']}"
        stored = round(meta["last_modified"].timestamp() * 1e9)
        return Stat(meta["size"], str(tag).strip('"'), stored=stored)

    # -- writing --------------------------------------------------------------------------------------------

    def put(self, key: str, data: Data) -> str:
        """Write an object, replacing an existing one, and return its etag."""
        etag, size = self._write(key, data)
        if etag and size <= config.PART_BYTES:
            return etag
        # After an upload in parts, some stores return a wrong etag, or none: ask for the etag of the object.
        return existing(self, key).etag

    def _write(self, key: str, data: Data, mode: Any = "overwrite") -> tuple[str, int]:
        path, parts = self._path(key), pieces(data)
        content = parts[0] if len(parts) == 1 else b"".join(parts)
        size = len(content)

        def ask(obs: Any, store: Any) -> Any:
            large = mode == "overwrite" and size > config.PART_BYTES
            return obs.put(store, path, content, mode=mode, use_multipart=large, chunk_size=config.PART_BYTES)

        try:
            result = self._change("write", key, ask, slow=size > _SMALL, once=mode != "overwrite")
        # The object to be replaced does not exist any more, or the bucket does not exist.
        except KeyNotFound as error:
            if mode != "overwrite":
                raise PreconditionFailed(f"{key!r} in {self.url} was deleted since it was read") from error
            raise BucketNotFoundError(f"the bucket {self._bucket!r} of {self.url} does not exist") from error
        tag = result["version"] if self._scheme == "gs" else result["e_tag"]
        return str(tag or "").strip('"'), size

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:  # noqa: ARG002
        """Write a batch of objects at the same time."""
        put_in_parallel(self._write, items)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:  # noqa: ARG002
        """Let the store create an object with the content of another."""
        here, there = self._path(source), self._path(target)
        self._change("copy", source, lambda obs, store: obs.copy(store, here, there), slow=True)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object only if the existing object has this etag (None: only if no object exists).

        A lost answer is a `StorageUnavailableError`: the object may have been written. If the store enforces no
        conditions, this reads before and after the write instead.
        """
        self._refuse_on_web("write", key)
        check_key(key)
        found = self._conditional_puts()
        if not (found.creates if etag is None else found.replaces):
            warn_of(self.endpoint, self.url)
            return put_weakly(self, key, data, etag)
        return self._put_under(key, data, etag, found.is_quoted)

    def _put_under(self, key: str, data: Data, etag: str | None, is_quoted: bool) -> str:
        if etag is None:
            return self._write(key, data, "create")[0]
        if self._scheme != "gs":
            return self._write(key, data, {"e_tag": f'"{etag}"' if is_quoted else etag})[0]
        if not etag.isdigit():
            raise PreconditionFailed(
                f"{key!r} in {self.url} changed since it was read: etag {etag!r} is not a generation number of Google "
                "Cloud"
            )
        return self._write(key, data, {"version": etag})[0]

    def _conditional_puts(self) -> ConditionalPuts:
        return conditional_puts(
            self._scheme,
            self.endpoint,
            self._bucket,
            self._put_under,
            lambda key, data: self._write(key, data)[0],
            self.delete,
        )

    def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""
        path = self._path(key)
        with contextlib.suppress(KeyNotFound):
            self._change("delete", key, lambda obs, store: obs.delete(store, path))

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key starts with `prefix`."""
        self._refuse_on_web("delete", prefix)
        found = (key for key, _ in self.list(prefix))
        while batch := list(islice(found, _LIST_PAGE)):
            self._delete_page(batch)

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects; missing objects are no error. A failure leaves any subset."""
        for at in range(0, len(keys), _LIST_PAGE):
            self._delete_page(list(map(check_key, keys[at : at + _LIST_PAGE])))

    def _delete_page(self, keys: Sequence[str]) -> None:
        """Remove objects by one request, or one by one if the store does not support that."""
        paths = [self._root + key for key in keys]
        try:
            self._change("delete", keys[0], lambda obs, store: obs.delete(store, paths), slow=True)
        except (StorageUnavailableError, StoragePermissionError, BucketNotFoundError):
            raise
        except (StorageError, KeyNotFound):
            concurrently([lambda key=key: self.delete(key) for key in keys])  # type: ignore[misc]

    # -- listing --------------------------------------------------------------------------------------------

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`."""
        if self._is_web:
            raise StorageReadOnlyError(
                f"{self.url} cannot be listed: web servers do not list their files. Name the dataset itself"
            )
        folder = self._root + prefix.rpartition("/")[0]
        try:
            check_key(folder.strip("/") or "a")
        except InvalidKeyError:
            return  # no key can have this prefix
        found = self._requests.ask(
            "list", prefix, lambda obs, store: obs.list(store, prefix=folder, chunk_size=_LIST_PAGE)
        )
        while True:
            batch = self._page(prefix, found)
            if batch is None:
                return
            for meta in batch:
                key = meta["path"][len(self._root) :]
                if key.startswith(prefix) and meta["path"].startswith(self._root):
                    yield key, self._stat(meta)

    def _page(self, prefix: str, found: Iterator[Any]) -> Any:
        try:
            return self._requests.ask("list", prefix, lambda *_: next(found, None), once=True)
        except KeyNotFound as error:
            raise BucketNotFoundError(f"the bucket {self._bucket!r} of {self.url} does not exist") from error
