"""Objects behind any protocol that fsspec knows: FTP, SFTP, HDFS, Samba, WebDAV, ...

fsspec exposes no conditional writes, so `put_if` reads before and after it writes. The etag of a small object is a
hash of its content; the etag of a larger object consists of its size and times.
"""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import xxhash

from lakebed.errors import (
    KeyNotFound,
    LakebedError,
    ModuleNotInstalledException,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
    TruncatedReadError,
)
from lakebed.runtime import process_hooks
from lakebed.runtime.failures import outcome
from lakebed.storage.base import Stat, Storage, StorageTraits, Tail, check_key, check_spans, existing, pieces
from lakebed.storage.credentials import NAMED, Given, kept, named
from lakebed.storage.secret import Secret
from lakebed.storage.stores.conditional_put import put_weakly, warn_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType

    from lakebed.storage.base import Data
    from lakebed.storage.credentials import Creds

T = TypeVar("T")

# Objects up to this size are read as a whole to compute their etag.
_SMALL = 64 * 1024

_LARGEST = 1 << 62


def is_known(scheme: str) -> bool:
    """Tell whether fsspec is installed and supports this protocol."""
    try:
        _fsspec()
    except ModuleNotInstalledException:
        return False
    from fsspec.registry import known_implementations, registry

    return scheme in known_implementations or scheme in registry


def _fsspec() -> ModuleType:
    try:
        import fsspec
    except ImportError as error:
        raise ModuleNotInstalledException(
            "other protocols need fsspec, and the packages that it needs for each protocol: pip install fsspec"
        ) from error
    module: ModuleType = fsspec
    return module


class FsspecStorage(Storage):
    """Objects below a folder of a file system of fsspec.

    Parameters
    ----------
    scheme
        The protocol.
    path
        Host and folder: the address after ``://``.
    creds
        Arguments of the file system: ``host``, ``username``, ``password``, ...
    """

    conditional = False
    traits = StorageTraits(conditional=False)

    def __init__(self, scheme: str, path: str, creds: Creds | None = None) -> None:
        process_hooks.start()
        self._scheme, self._place = scheme, path.rstrip("/")
        self._creds = kept(creds)
        fsspec = _fsspec()
        options = _arguments(self._creds)
        try:
            self._fs, root = fsspec.core.url_to_fs(self.url, skip_instance_cache=True, **options)
        except ImportError as error:
            raise ModuleNotInstalledException(
                f"{scheme}:// addresses need another package: {error}"
            ) from error
        except OSError as error:
            raise StorageUnavailableError(f"cannot reach {self.url}: {error}", errno=error.errno) from error
        self._root = str(root).rstrip("/")
        # Use one thread at a time, because few of these file systems support several threads.
        self._turn = threading.RLock()

    @property
    def url(self) -> str:
        """Address of the root, without credentials."""
        return f"{self._scheme}://{self._place}"

    def __repr__(self) -> str:
        return f"FsspecStorage({self.url!r})"

    @property
    def creds(self) -> Given | None:
        """Credentials that were given."""
        return self._creds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._scheme, self._place, self._creds)

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _ask(self, doing: str, key: str, ask: Callable[[], T]) -> T:
        with self._turn:
            found = outcome(ask, kind=Exception)  # each protocol raises its own kinds of errors
        error = found.error
        if error is None or isinstance(error, LakebedError):
            return found.result()
        if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
            raise KeyNotFound(f"{key!r} does not exist in {self.url}")
        kind = StorageError
        if isinstance(error, PermissionError):
            kind = StoragePermissionError
        elif isinstance(error, ConnectionError | TimeoutError | EOFError):
            kind = StorageUnavailableError
        raise kind(f"cannot {doing} {key!r} in {self.url}: {_said(error)}")

    # -- reading --------------------------------------------------------------------------------------------

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        path = self._path(key)
        return self._ask("read", key, lambda: bytes(self._fs.cat_file(path)))

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read several (start, length) ranges of one object, in the given order."""
        check_spans(key, spans)
        path = self._path(key)
        end = max((start + length for start, length in spans), default=0)
        if end > _LARGEST or any(not length for _, length in spans):
            check_spans(key, spans, existing(self, key).size, self.url)
        result = []
        for start, length in spans:
            data = b""
            if length:
                data = self._ask("read", key, partial(self._fs.cat_file, path, start, start + length))
            if len(data) != length:
                raise TruncatedReadError(f"{key!r} in {self.url} ends before byte {start + length}")
            result.append(bytes(data))
        return result

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the last `length` bytes of an object, or the whole object if it is shorter."""
        check_spans(key, ((0, length),))
        path = self._path(key)
        with self._turn:
            info = self._info(key)
            if info["size"] <= _SMALL:
                data = self.get(key)
                return Tail(data[max(0, len(data) - length) :], _stat(info, data))
            start = max(0, info["size"] - length)
            part = self._ask("read", key, lambda: bytes(self._fs.cat_file(path, start, info["size"])))
        return Tail(part, _stat(info, b""))

    def stat(self, key: str) -> Stat | None:
        """Return size and etag of an object, None if it does not exist."""
        self._path(key)
        try:
            with self._turn:
                info = self._info(key)
                return _stat(info, self.get(key) if info["size"] <= _SMALL else b"")
        except KeyNotFound:
            return None

    def _info(self, key: str) -> dict[str, Any]:
        path = self._path(key)
        self._fs.invalidate_cache()
        found: dict[str, Any] = self._ask("look at", key, lambda: self._fs.info(path))
        if found.get("type") != "file":
            raise KeyNotFound(f"{key!r} does not exist in {self.url}")
        return found

    # -- writing --------------------------------------------------------------------------------------------

    def put(self, key: str, data: Data) -> str:
        """Write an object, replacing an existing one, and return its etag."""
        path, parts = self._path(key), pieces(data)

        def write() -> None:
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            # autocommit=False: the file gets its name only when it is complete.
            with self._fs.open(path, "wb", autocommit=False) as file:
                for part in parts:
                    file.write(part)
            file.commit()

        self._ask("write", key, write)
        return existing(self, key).etag

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object only if the existing one has this etag (None: only if no object exists); see `put_weakly`."""
        check_key(key)
        warn_of(self.url, self.url)
        return put_weakly(self, key, data, etag)

    def delete(self, key: str) -> None:
        """Remove an object; a missing object is no error."""
        path = self._path(key)
        with contextlib.suppress(KeyNotFound), self._turn:
            self._info(key)
            self._ask("delete", key, lambda: self._fs.rm_file(path))

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """Iterate over the objects whose keys start with `prefix`."""
        for key, _ in list(self._files(prefix)):
            found = self.stat(key)
            if found is not None:
                yield key, found

    def _files(self, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
        folder = "/".join(part for part in (self._root, prefix.rpartition("/")[0]) if part)
        self._fs.invalidate_cache()
        try:
            found = self._ask("list", prefix, lambda: self._fs.find(folder or "/", detail=True))
        except KeyNotFound:
            return
        for path, info in found.items():
            key = str(path)[len(self._root) :].lstrip("/")
            if key.startswith(prefix) and info.get("type") == "file":
                yield key, info


def _arguments(creds: Given | None) -> dict[str, Any]:
    """Return arguments for a file system."""
    if creds is None:
        return {}
    source = creds.source
    if source is None and creds.get(NAMED) is not None:
        source = named(str(creds[NAMED]))
    given = {**(source.grant().values if source is not None else {}), **creds}
    given.pop(NAMED, None)
    return {key: value.reveal() if isinstance(value, Secret) else value for key, value in given.items()}


def _stat(info: dict[str, Any], data: bytes) -> Stat:
    if info["size"] <= _SMALL:
        return Stat(len(data), xxhash.xxh3_128_hexdigest(data))
    names = "ETag etag checksum md5 ino mtime modify modified last_modified LastModified created".split()
    parts = [str(info[name]) for name in names if info.get(name) is not None]
    return Stat(info["size"], "-".join([str(info["size"]), *parts]))


def _said(error: BaseException) -> str:
    line = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {line[:160]}"
